"""What no op needs to say of itself: the sizes and element types that a TFLite file can have."""

from pathlib import Path

from straightway.errors import InvalidRequest
from straightway.ingest.shapes import MOST_ELEMENTS, is_oversized
from straightway.ir import Graph, Value
from straightway.lower.builder import MOST_DIMENSIONS
from straightway.remark import Remark
from straightway.tflite import write
from straightway.tflite.write import ELEMENT_TYPES, Written

STEP = "flow.limits"
# LiteRT's Python interpreter neither takes nor hands out 4-bit arrays, onnxruntime complex ones.
CALLERS_TYPES = ELEMENT_TYPES.keys() - {"int4", "complex64"}


def _called(value: Value) -> str:
    return "texts" if value.dtype == object else value.dtype.name


def _instead(value: Value) -> str:
    """What can be handed over in the place of elements."""
    if value.dtype == object:
        return "work on texts outside of the model, and feed it numbers"
    if value.dtype.kind == "c":
        return "give real and imaginary parts tensors, or a dimension, of their own"
    return "cast it where it goes in or out, to a type of 8 bits or more"


def oversized(graph: Graph) -> list[Remark]:
    """Name each node that makes a tensor of more elements than kernels count."""
    return [
        Remark(
            kind="missed",
            step=STEP,
            node=node.name,
            op=str(node.op),
            text=f"a tensor has at most {MOST_ELEMENTS:,} elements; '{v.name}' is {v.type}",
            source=str(min(node.origins, default="")),
        )
        for node in graph.nodes
        for v in node.outputs
        if v.type is not None and v.type.is_static and is_oversized(v.type.dims)
    ]


def foreign(graph: Graph) -> list[Remark]:
    """Name each input and output that a caller can't hand over, for its elements or its dimensions."""
    return [
        Remark(
            kind="missed",
            step=STEP,
            node=value.name,
            text=f"TFLite's callers hand over no {_called(value)}; '{value.name}' is {value.type}",
            remedy=_instead(value),
        )
        for value in _ends(graph)
        if value.type is not None and value.dtype.name not in CALLERS_TYPES
    ] + [
        Remark(
            kind="missed",
            step=STEP,
            node=value.name,
            text=f"TFLite's shapes have at most {MOST_DIMENSIONS} dimensions; '{value.name}' is {value.type}",
            remedy="merge dimensions of the model that stay side by side",
        )
        for value in _ends(graph)
        if value.type is not None and value.rank > MOST_DIMENSIONS
    ]


def _ends(graph: Graph) -> list[Value]:
    return list(dict.fromkeys((*graph.inputs, *graph.outputs)))


def unverified(written: Written, model: Path, output: Path | None) -> list[Remark]:
    """Say so where a file is larger than a flatbuffer: such are compared on request only."""
    if written.size_bytes <= write.LARGEST_FLATBUFFER_BYTES:
        return []
    text = (
        f"each engine would hold the {written.size_bytes:,} bytes once more; to compare, type: "
        f"straightway verify {model} {output or 'MODEL.tflite'}"
    )
    return [Remark(kind="missed", step=STEP, text=text, numbers={"bytes": written.size_bytes})]


def check_floats(path: Path, source: Graph) -> None:
    """Refuse a model whose activations are rounded: it has its scales, and would be rounded twice."""
    rounds = [
        node
        for node in source.nodes
        if node.op.name == "QuantizeLinear" and node.operands()[0].const is None
    ]
    if rounds:
        raise InvalidRequest(
            f"{path}: is quantized already ({len(rounds)} values are rounded, the first is "
            f"'{rounds[0].operands()[0].name}'). Type straightway convert {path}, which keeps its scales; "
            "for others, quantize the float model that it was made of"
        )
