"""Chains of operators that only move values, followed by what they do to numbered places.

Which features of a projection a head reads is told by running the chain on their numbers, whatever
mixture of reshapes, permutes, splits and selections it is spelled in.
"""

import operator
from dataclasses import dataclass
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Scene, aten

_MOVES = {
    aten.alias.default,
    aten.chunk.default,
    aten.clone.default,
    aten.contiguous.default,
    aten.expand.default,
    aten.flatten.using_ints,
    aten.movedim.int,
    aten.permute.default,
    aten.repeat_interleave.self_int,
    aten.reshape.default,
    aten.select.int,
    aten.slice.Tensor,
    aten.split.Tensor,
    aten.split_with_sizes.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.t.default,
    aten.transpose.int,
    aten.unbind.int,
    aten.unflatten.int,
    aten.unsqueeze.default,
    aten.view.default,
    operator.getitem,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Moves from `root` to where a value is read, in order."""

    root: torch.fx.Node
    moves: tuple[torch.fx.Node, ...]

    def places(self, scene: Scene) -> torch.Tensor | None:
        """Which place of the root's value, in its order, each place of the result holds."""
        shape = scene.shape(self.root)
        if shape is None:
            return None
        found: Any = torch.arange(_count(shape)).reshape(shape)
        for move in self.moves:
            target: Any = move.target
            if target is aten.view.default:  # strides are the model's own, not those of the numbers
                target = aten.reshape.default
            found = target(found, *move.args[1:], **move.kwargs)
        return found if isinstance(found, torch.Tensor) else None


def upwards(node: torch.fx.Node) -> Chain:
    """From the operator that computes a value, through all that only moves it."""
    moves: list[torch.fx.Node] = []
    while _is_move(node):
        moves.insert(0, node)
        node = node.args[0]
    return Chain(root=node, moves=tuple(moves))


def downwards(scene: Scene, node: torch.fx.Node) -> Chain:
    """From a value through the moves that are its only readers."""
    moves: list[torch.fx.Node] = []
    reader = scene.only_user(node)
    while reader is not None and _is_move(reader):
        moves.append(reader)
        reader = scene.only_user(reader)
    return Chain(root=node, moves=tuple(moves))


def _is_move(node: Any) -> bool:
    """Whether it moves one value, by numbers that are known."""
    if not isinstance(node, torch.fx.Node) or node.op != "call_function":
        return False
    return node.target in _MOVES and len(node.all_input_nodes) == 1


def _count(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())
