"""A model of one node, made of plain parts: what the declarations' samples are as ONNX files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser

from straightway.ir import Op
from straightway.onnx_io.schema import DOMAINS

IR_VERSION = 10
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleNode:
    """One node: names of its operands ("" for an absent one) and results, what is fed, what is known."""

    op: Op
    operands: Sequence[str]
    results: Sequence[str]
    attrs: Mapping[str, Any]
    feeds: Arrays
    constants: Arrays
    opset: int

    def model(self) -> onnx.ModelProto:
        """As a file has it; the results' types are left open. `opset` is ONNX's own."""
        domain = DOMAINS.get(self.op.dialect, self.op.dialect)
        attrs = {key: _attribute(value) for key, value in self.attrs.items()}
        node = onnx.helper.make_node(
            self.op.name, self.operands, self.results, name="node", domain=domain, **attrs
        )
        graph = onnx.helper.make_graph(
            [node],
            "case",
            [value_info(name, array) for name, array in self.feeds.items()],
            [onnx.helper.make_empty_tensor_value_info(name) for name in self.results],
            [onnx.numpy_helper.from_array(a, name) for name, a in self.constants.items()],
        )
        opsets = [onnx.helper.make_opsetid("", self.opset)]
        if domain:
            opsets.insert(0, onnx.helper.make_opsetid(domain, self.op.version))
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def _attribute(value: Any) -> Any:
    """A graph in ONNX's text form has an arrow in it."""
    if isinstance(value, str) and "=>" in value:
        return onnx.parser.parse_graph(value)
    return onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value


def value_info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    """Declare a tensor like an array."""
    element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, element, array.shape)
