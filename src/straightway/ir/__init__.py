"""The intermediate representation: types, graph, sources, edits, matching, text, verifier."""

from straightway.ir.graph import Graph, Node, Op, Quant, Value
from straightway.ir.source import Origins, Source
from straightway.ir.types import TensorType, tensor_type

__all__ = [
    "Graph",
    "Node",
    "Op",
    "Origins",
    "Quant",
    "Source",
    "TensorType",
    "Value",
    "tensor_type",
]
