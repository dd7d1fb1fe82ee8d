"""A model as PyTorch's exporter writes it, with a node that XNNPACK leaves to the built-in kernels."""

import onnx

from onnx_io.small_models import model, node, tensor, weights

STACK = """File "/home/user/net.py", line 10, in forward
    return self.head(self.body(x))
File "/home/user/net.py", line {line}, in forward
    {code}
"""
SCOPES = "['', 'body', 'body.{module}', '{op}']"


def traced(proto_node: onnx.NodeProto, line: int, code: str, module: str) -> onnx.NodeProto:
    """Say where a node comes from, as `torch.onnx.export(dynamo=True)` does."""
    for key, value in (
        ("pkg.torch.onnx.stack_trace", STACK.format(line=line, code=code)),
        ("pkg.torch.onnx.name_scopes", SCOPES.format(module=module, op=proto_node.op_type)),
    ):
        proto_node.metadata_props.add(key=key, value=value)
    return proto_node


def traced_model() -> onnx.ModelProto:
    """Convolution, running sum (which cuts the delegate's partition), convolution."""
    import numpy as np

    return model(
        [
            traced(node("Conv", "x w", "c", pads=[1, 1, 1, 1]), 21, "x = self.conv(x)", "conv"),
            traced(node("Relu", "c", "r"), 22, "x = torch.relu(x)", "act"),
            traced(node("CumSum", "r axis", "s"), 23, "x = x.cumsum(2)", "sum"),
            traced(node("Conv", "s v", "y"), 24, "return self.last(x)", "last"),
        ],
        [tensor("x", [1, 3, 12, 10])],
        [tensor("y", [1, 4, 12, 10])],
        {"w": weights(6, 3, 3, 3), "v": weights(4, 6, 1, 1), "axis": np.array(2)},
    )
