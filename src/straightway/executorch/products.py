"""The product of two activations, a @ bᵀ, as XNNPACK's fully connected operator takes it.

ExecuTorch's partitioner wants weights that are constants, while XNNPACK packs others as it runs
(src/subgraph/fully-connected.c, create_fully_connected_operator: a filter that is not static), and
the serializer writes either (backends/xnnpack/operators/op_linear.py). So written, b need not be
turned first, as for a batch matrix product.
"""

import torch
from executorch.backends.xnnpack.partition.config.gemm_configs import LinearConfig
from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
from executorch.backends.xnnpack.utils.utils import get_input_node, is_param_node
from torch.export import ExportedProgram

_WEIGHT = 1


class Products(LinearConfig):
    """The partitioner's rule for linear layers, without its demand of constant weights in floats."""

    def _get_weight_deps(
        self, node: torch.fx.Node, ep: ExportedProgram, precision: ConfigPrecisionType
    ) -> tuple[bool, list[torch.fx.Node]]:
        weight = get_input_node(node, _WEIGHT)
        if precision == ConfigPrecisionType.FP32 and not is_param_node(ep, weight):
            return True, []
        found: tuple[bool, list[torch.fx.Node]] = super()._get_weight_deps(node, ep, precision)
        return found
