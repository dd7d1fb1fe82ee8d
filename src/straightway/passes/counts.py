"""Results of which only the run tells how many elements they have: they are given an assumed size.

    before  %y: i64[?,3] = NonMaxSuppression(…)        after  %y: i64[1008,3] = NonMaxSuppression(…)

Who asks for it translates the graph with several such sizes, and keeps what is the same in all.
"""

from collections.abc import Sequence
from dataclasses import replace

from straightway.ir import Graph, Node, TensorType
from straightway.passes.arguments import is_onnx

COUNTING = (
    "BlackmanWindow",
    "Compress",
    "ConstantOfShape",
    "HammingWindow",
    "HannWindow",
    "NonMaxSuppression",
    "NonZero",
    "Range",
    "Unique",
)
# Assumed sizes of one graph differ by so much: models halve them, and split them in threes.
STEP = 12


def counts(graph: Graph) -> bool:
    """Whether a node may give a result of which only the run tells how many elements it has."""
    return any(is_onnx(node, *COUNTING) for node in graph.nodes)


def assume(graph: Graph, node: Node, kinds: Sequence[TensorType | None]) -> list[TensorType | None]:
    """Put the graph's assumed size where a node's own result leaves one open."""
    if not graph.assumed_count or not is_onnx(node, *COUNTING):
        return list(kinds)
    constant = all(value.const is not None for value in node.operands())
    if constant or all(kind is None or kind.is_static for kind in kinds):
        return list(kinds)
    size = graph.assumed_count + STEP * len(graph.assumed)
    graph.assumed[node.outputs[0].name] = None
    sizes = [size] * len(kinds)
    if is_onnx(node, "Unique") and len(kinds) > 2:
        sizes[2] = _elements(node)
    return [None if k is None else _filled(k, n) for k, n in zip(kinds, sizes, strict=True)]


def _filled(kind: TensorType, size: int) -> TensorType:
    """Give a size to each open dimension, to each another."""
    shape = list(kind.shape)
    for number, place in enumerate(k for k, d in enumerate(shape) if isinstance(d, str)):
        shape[place] = size + STEP * number
    return replace(kind, shape=tuple(shape))


def _elements(node: Node) -> int:
    """How many elements, or slices, Unique compares: so long is its third result."""
    x = node.operands()[0]
    axis = node.attrs.get("axis")
    return x.known_type.size if axis is None else x.shape[axis % x.rank]
