"""Pads, flips, rolls and gathers of known places as slices that are joined, which XNNPACK takes.

pad(x, (1, 1), "reflect")   →   cat(x[.., 1:2], x, x[.., -2:-1])          x[:, [0, 1, 4]]   →   cat(x[:, 0:2], x[:, 4:5])
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from straightway.executorch.rewrites.join import joined
from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, Writer, aten

_NAME = "rearrangements"
# Each is a copy of its own: beyond, one gather is as fast.
_MOST_SLICES = 16
_PADS = {
    aten.reflection_pad1d.default: "reflect",
    aten.reflection_pad2d.default: "reflect",
    aten.replication_pad1d.default: "replicate",
    aten.replication_pad2d.default: "replicate",
}
_TARGETS = (
    *_PADS,
    aten.pad.default,
    aten.flip.default,
    aten.roll.default,
    aten.index_select.default,
    aten.index.Tensor,
)
# By dimension: which place of the operand each place of the result is.
Places = Mapping[int, Sequence[int]]


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(*_TARGETS):
        x: Any = node.args[0]
        shape = scene.shape(x)
        if shape is None or not shape or not scene.dtype(x).is_floating_point:
            continue
        places = _places(scene, node, shape)
        if places is None or sum(len(_runs(one)) for one in places.values()) > _MOST_SLICES:
            continue
        yield scene.changed(_NAME, node, "slices that are joined")
        write = scene.writer(node)
        for dim, wanted in places.items():
            x = _rearranged(write, x, dim, wanted, shape[dim])
        scene.replace(node, x if x is not node.args[0] else write(aten.alias.default, x))


def _places(scene: Scene, node: torch.fx.Node, shape: Sequence[int]) -> Places | None:
    """None where they are not known, or the operator is none of moves alone."""
    rest: Any = [*node.args[1:], None, None]
    if node.target in _PADS:
        return _padded(shape, rest[0], _PADS[node.target])
    if node.target is aten.pad.default:
        return _padded(shape, rest[0], rest[1] or "constant")
    if node.target is aten.flip.default:
        return {dim % len(shape): range(shape[dim])[::-1] for dim in rest[0]}
    if node.target is aten.roll.default:
        return _rolled(shape, rest[0], rest[1])
    if node.target is aten.index_select.default:
        return _indexed(scene, shape, rest[0], rest[1])
    given = [(dim, one) for dim, one in enumerate(rest[0]) if one is not None]
    return _indexed(scene, shape, *given[0]) if len(given) == 1 else None


def _padded(shape: Sequence[int], pads: Sequence[int], mode: str) -> Places | None:
    if mode not in {"reflect", "replicate", "circular"} or min(pads) < 0:
        return None
    found = {}
    for k in range(0, len(pads), 2):
        dim, before, after = len(shape) - 1 - k // 2, pads[k], pads[k + 1]
        size, places = shape[dim], range(-before, shape[dim] + after)
        if mode == "replicate":
            found[dim] = [min(max(one, 0), size - 1) for one in places]
        elif mode == "circular":
            found[dim] = [one % size for one in places]
        else:
            found[dim] = [size - 1 - abs(size - 1 - abs(one)) for one in places]
    return found


def _rolled(shape: Sequence[int], shifts: Any, dims: Any) -> Places | None:
    shifts, dims = ([one] if isinstance(one, int) else list(one or ()) for one in (shifts, dims))
    if not dims:
        return None  # of all values in a row
    whole = [dim % len(shape) for dim in dims]
    if len(set(whole)) != len(whole):
        return None
    return {
        dim: [(place - shift) % shape[dim] for place in range(shape[dim])]
        for dim, shift in zip(whole, shifts, strict=True)
    }


def _indexed(scene: Scene, shape: Sequence[int], dim: int, index: Any) -> Places | None:
    known = scene.constant(index)
    if known is None or known.dim() != 1 or known.numel() == 0 or known.dtype is torch.bool:
        return None
    return {dim % len(shape): [int(one) % shape[dim] for one in known.tolist()]}


def _runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """Places in a row, as (start, stop)."""
    found: list[tuple[int, int]] = []
    for place in places:
        if found and found[-1][1] == place:
            found[-1] = found[-1][0], place + 1
        else:
            found.append((place, place + 1))
    return found


def _rearranged(
    write: Writer, x: torch.fx.Node, dim: int, places: Sequence[int], size: int
) -> torch.fx.Node:
    parts = [
        x if one == (0, size) else write(aten.slice.Tensor, x, dim, *one) for one in _runs(places)
    ]
    return joined(write, parts, dim)


REWRITE = Rewrite(
    name=_NAME,
    title="pads, flips, rolls and gathers of known places as slices",
    advice=(
        "write what moves alone as slices that torch.cat joins: for x.roll(1, -1) torch.cat([x[..., -1:], "
        "x[..., :-1]], -1), for a reflecting pad of 1 torch.cat([x[..., 1:2], x, x[..., -2:-1]], -1), for an "
        "index by a list a slice for each run"
    ),
    safety="exact",
    apply=_apply,
)
