"""Which dimensions of a node's operands and results are the same axis.

This is what the rows' column `layout` means, op by op: `groups_of` names the dimensions of every
tensor of a logical node by symbols; equal symbols are the same axis.
"""

from dataclasses import dataclass
from typing import Any

from straightway.ir import Node, Value
from straightway.tflite.rows import ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Dimensions of one tensor that are one axis of the node; `whole`: they must stay together."""

    symbol: object
    dims: tuple[int, ...]
    whole: bool = False


Groups = dict[Value, list[Group]]


def neutral(attr: str, before: int, after: int) -> Any:
    """Entry of a per-dimension attribute that leaves a dimension of these sizes as it is."""
    fixed: dict[str, Any] = {"paddings": (0, 0), "begin": 0, "strides": 1, "multiples": 1}
    fixed |= {"end_mask": 0, "size": after, "shape": after, "end": before}
    return fixed[attr]


def named_dims(node: Node) -> set[int]:
    """Dimensions that a node of the kinds "along", "reduce", "arg", "gather", "last" works along."""
    found: set[int] = set()
    x, y = variable(node.inputs[0]), node.outputs[0]
    for name, attr in ROWS[node.op.name].attrs.items():
        value = node.attrs.get(name)
        if attr.role == "axis" or (attr.role == "logical" and name == "axis"):
            found.add(int(value))  # type: ignore[arg-type]
        elif attr.role == "axes":
            found.update(int(v) for v in value)  # type: ignore[union-attr]
        elif attr.role == "dims":
            sizes = zip(value, x.shape, y.shape, strict=True)  # type: ignore[arg-type]
            found.update(
                d for d, (v, a, b) in enumerate(sizes) if _differs(v, neutral(name, a, b)) or a != b
            )
    return found


def _differs(value: Any, other: Any) -> bool:
    return bool(tuple(value) != other) if isinstance(other, tuple) else bool(value != other)


def variable(value: Value | None) -> Value:
    """An operand that must be there."""
    if value is None:
        raise ValueError("an operand is missing")
    return value


def _aligned(node: Node) -> Groups:
    """Elementwise: dimensions are counted from the last."""
    rank = node.outputs[0].rank
    return {
        v: [Group(symbol=d + rank - v.rank, dims=(d,)) for d in range(v.rank)]
        for v in (*node.operands(), *node.outputs)
    }


def _transposed(node: Node) -> Groups:
    x, y = variable(node.inputs[0]), node.output
    perm = node.attrs["perm"]
    return {
        x: [Group(symbol=d, dims=(d,)) for d in range(x.rank)],
        y: [Group(symbol=p, dims=(k,)) for k, p in enumerate(perm)],
    }


def _along(node: Node) -> Groups:
    rank = node.outputs[0].rank
    named = named_dims(node)
    return {
        v: [Group(symbol=d, dims=(d,), whole=d in named) for d in range(rank)]
        for v in (*node.operands(), *node.outputs)
        if v.rank == rank
    }


def _last(node: Node) -> Groups:
    """Normalised along an axis whose atoms may come in any order, as long as they come last."""
    values = (*node.operands(), *node.outputs)
    return {v: [Group(symbol=d, dims=(d,)) for d in range(v.rank)] for v in values}


def _reduced(node: Node) -> Groups:
    x, y = variable(node.inputs[0]), node.output
    axes = named_dims(node)
    whole = axes if ROWS[node.op.name].layout == "arg" else set()
    kept = [d for d in range(x.rank) if d not in axes]
    place = {d: d for d in kept} if x.rank == y.rank else {d: k for k, d in enumerate(kept)}
    return {
        x: [Group(symbol=d, dims=(d,), whole=d in whole) for d in range(x.rank)],
        y: [Group(symbol=d, dims=(place[d],)) for d in kept],
    }


def _gathered(node: Node) -> Groups:
    x, indices, y = variable(node.inputs[0]), variable(node.inputs[1]), node.output
    axis, extra = node.attrs["axis"], indices.rank
    after = [
        Group(symbol=d, dims=(d if d < axis else d - 1 + extra,))
        for d in range(x.rank)
        if d != axis
    ]
    block = Group(symbol=axis, dims=tuple(range(axis, axis + extra)), whole=True)
    return {
        x: [Group(symbol=d, dims=(d,), whole=d == axis) for d in range(x.rank)],
        y: [*after[:axis], block, *after[axis:]],
    }


def _window(node: Node) -> Groups:
    x, y = window_input(node), node.output
    whole = not is_pointwise(node)
    spatial = [Group(symbol=("spatial", d), dims=(d,), whole=whole) for d in range(2, x.rank)]
    batch = Group(symbol=0, dims=(0,))
    keeps = channels(node) == "keep"
    return {
        v: [batch, Group(symbol=1 if keeps else (v.name, "channels"), dims=(1,)), *spatial]
        for v in (x, y)
    }


def _matrix(node: Node) -> Groups:
    x, y = variable(node.inputs[0]), node.output
    axis = node.attrs["axis"]
    return {
        v: [
            Group(symbol=d if d != axis else (v.name, "features"), dims=(d,)) for d in range(v.rank)
        ]
        for v in (x, y)
    }


def _batch_matrix(node: Node) -> Groups:
    a, b, y = variable(node.inputs[0]), variable(node.inputs[1]), node.output
    groups: Groups = {}
    ends = ((a, "rows", "inner"), (b, "inner", "columns"), (y, "rows", "columns"))
    for value, row, column in ends:
        batch = [Group(symbol=d + y.rank - value.rank, dims=(d,)) for d in range(value.rank - 2)]
        row_group = Group(symbol=row, dims=(value.rank - 2,))
        groups[value] = [*batch, row_group, Group(symbol=column, dims=(value.rank - 1,))]
    return groups if a is not b else {}


_KINDS = {
    "elementwise": _aligned,
    "along": _along,
    "last": _last,
    "reduce": _reduced,
    "arg": _reduced,
    "gather": _gathered,
    "window": _window,
    "matrix": _matrix,
    "batch_matrix": _batch_matrix,
}


def groups_of(node: Node) -> Groups:
    """Name the dimensions of a node's tensors; {} where it runs in the model's own order only."""
    if node.op.name == "TRANSPOSE":
        return _transposed(node)
    kind = _KINDS.get(ROWS[node.op.name].layout)
    return kind(node) if kind else {}


def window_input(node: Node) -> Value:
    """The tensor that a window op slides over."""
    return variable(node.inputs[0])


def channels(node: Node) -> str:
    """What a window op does with the order of its channels.

    "free": weights absorb any order on both sides; "keep": whatever comes in goes out; "fixed".
    """
    x, y = window_input(node), node.output
    column = ROWS[node.op.name].channels
    if column == "fixed" or any(v.const is None for v in node.operands()[1:]):
        return "fixed"
    if column == "kept":
        return "keep" if x.shape[1] == y.shape[1] else "fixed"
    grouped = column == "mixed" and variable(node.inputs[1]).shape[_taken(node)] != x.shape[1]
    return "fixed" if grouped else "free"


def _taken(node: Node) -> int:
    """Which dimension of the model's weights runs over the channels that come in."""
    return 0 if "TRANSPOSE" in node.op.name else 1


def weights_dims(node: Node) -> list[int]:
    """How TFLite stores the model's weights, by the row: OIHW to OHWI, and so on."""
    spatial = range(2, variable(node.inputs[1]).rank)
    found: list[int] = []
    for dim in ROWS[node.op.name].weights:
        found += spatial if dim == "spatial" else [dim]
    return found


def is_pointwise(node: Node) -> bool:
    """Whether a convolution looks at one position at a time, in whatever order they come."""
    if node.op.name != "CONV_2D" or channels(node) != "free":
        return False
    weights, x, y = variable(node.inputs[1]), window_input(node), node.output
    return all(k == 1 for k in weights.shape[2:]) and x.shape[2:] == y.shape[2:]
