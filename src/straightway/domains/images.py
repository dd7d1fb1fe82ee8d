"""Which tensors of a model are images in its own sense: N, channels, spatial dimensions, in this order.

Windows (convolutions, pools, resizing) are lowered in that order, so what they take and give is one.
So is what has the same dimensions by way of ops that keep them in place: `x` of

    x f32[1,3,8,9] ─ SUB mean ─ RESHAPE [1,3,8,9,1] … ─ CONV_2D

A text [N, T, features], a sound [N, T] or an image whose channels stand last already has no way to a
window that keeps its dimensions in place.
"""

from straightway.domains.axes import groups_of
from straightway.ir import Graph, Node, Value
from straightway.remark import Remark
from straightway.tflite.rows import ROWS

STEP = "domains.images"
FEWEST_DIMS = 3


def channels_first(graph: Graph) -> set[Value]:
    """The values of a lowered graph that are N, channels, spatial dimensions."""
    waiting = [
        value
        for node in graph.nodes
        if ROWS[node.op.name].layout == "window"
        for value in (*node.operands()[:1], node.output)
    ]
    found: set[Value] = set()
    while waiting:
        value = waiting.pop()
        if value.const is not None or value in found or value.rank < FEWEST_DIMS:
            continue
        found.add(value)
        for node in (value.producer, *value.users()):
            if node is not None and node.op.name in ROWS:  # not where the graph hands it out
                waiting += alike(node, value)
    return found


def alike(node: Node, value: Value) -> list[Value]:
    """The operands and results of a node whose dimensions are those of `value`, in place."""
    others = [v for v in (*node.operands(), *node.outputs) if v is not value]
    if node.op.name == "RESHAPE":
        return [v for v in others if spread(v) == spread(value)]
    groups = groups_of(node)
    if ROWS[node.op.name].layout == "window" or value not in groups:
        return []
    own = {group.symbol: group.dims for group in groups[value]}
    return [
        v
        for v in others
        if v.rank == value.rank
        and v in groups
        and all(own.get(group.symbol, group.dims) == group.dims for group in groups[v])
    ]


def spread(value: Value) -> list[int]:
    """Sizes of batch and channels, and of the spatial dimensions that are not 1."""
    shape = list(value.shape)
    return shape[:2] + [size for size in shape[2:] if size != 1]


def remark(name: str, *, turned: bool) -> Remark:
    """Say what became of an input or output where channels last were asked for, and why."""
    if turned:
        text = f"'{name}' has its channels last: N, spatial, channels"
    else:
        text = (
            f"'{name}' keeps the model's order: no convolution, pool or resizing has it as N, "
            "channels, spatial"
        )
    return Remark(kind="done" if turned else "missed", step=STEP, node=name, text=text)
