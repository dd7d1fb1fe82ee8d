"""Attention head by head, where its projections can make each head's operands in place.

Heads are told apart by reshapes and permutes, which turn queries, keys and values, and the result
back: with the weights cut by head instead, each product finds its operands as they lie. The scores of
one head at a time stay in the cache, too.

    q, k, v = heads of linear(x, W); softmax(q·s @ kᵀ) @ v; heads side by side
        becomes, for each head i,   softmax(linear(linear(x, s·Wqᵢ), linear(x, Wkᵢ))) @ linear(x, Wvᵢ)

Only where the scores of all heads are many: short sequences take longer in so many products.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from straightway.executorch.rewrites import attention
from straightway.executorch.rewrites.join import joined
from straightway.executorch.rewrites.moves import downwards, upwards
from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten

_NAME = "heads"
# Of all heads together: 4 MiB of floats, beyond which all at once was slower on each shape measured.
_FEWEST_SCORES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Projection:
    """Where one operand of attention comes from: a linear layer, and the features of each head."""

    linear: torch.fx.Node
    features: tuple[tuple[int, ...], ...]
    tokens: int


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(aten.scaled_dot_product_attention.default):
        given = attention.arguments(node)
        shape, keys = scene.shape(given["query"]), scene.shape(given["key"])
        if shape is None or keys is None or len(shape) != 4 or shape[0] != 1:
            continue
        if shape[1] * shape[2] * keys[2] < _FEWEST_SCORES or not attention.applies(scene, node):
            continue
        parts = [_projection(scene, given[name]) for name in ("query", "key", "value")]
        end = _side_by_side(scene, node)
        if end is None or any(part is None for part in parts):
            continue
        text = f"{shape[1]} heads, each from weights of its own, without moving any"
        change = scene.changed(_NAME, node, text)
        known = [part for part in parts if part is not None]
        last = end.all_input_nodes[0]
        scene.replace(end, _Heads(scene, end, node, known).written(scene.shape(end) or ()))
        scene.drop(last)  # what took heads apart is no place for other rewrites
        yield change


def _projection(scene: Scene, node: torch.fx.Node) -> _Projection | None:
    """The features that each head reads, where all its tokens read the same; else None."""
    chain = upwards(node)
    linear = chain.root
    if linear.target is not aten.linear.default or scene.constant(linear.args[1]) is None:
        return None
    bias = linear.args[2] if len(linear.args) > 2 else None
    places, shape = chain.places(scene), scene.shape(linear)
    if places is None or shape is None or (bias is not None and scene.constant(bias) is None):
        return None
    width, tokens = shape[-1], places.shape[-2]
    if places.dim() != 4 or math.prod(shape[:-1]) != tokens:
        return None
    token, feature = places[0] // width, places[0] % width
    if not bool((token == torch.arange(tokens).reshape(1, -1, 1)).all()):
        return None
    if not bool((feature == feature[:, :1]).all()):
        return None
    rows = tuple(tuple(row) for row in feature[:, 0].tolist())
    return _Projection(linear=linear, features=rows, tokens=tokens)


def _side_by_side(scene: Scene, node: torch.fx.Node) -> torch.fx.Node | None:
    """The last move of attention's result that holds, token by token, the heads side by side."""
    shape = scene.shape(node) or ()
    want = torch.arange(math.prod(shape)).reshape(shape).transpose(1, 2).flatten()
    chain = downwards(scene, node)
    for count in range(len(chain.moves), 0, -1):
        moves = chain.moves[:count]
        found = type(chain)(root=node, moves=moves).places(scene)
        if found is not None and torch.equal(found.flatten(), want):
            return moves[-1]
    return None


class _Heads:
    """Writes the heads before the node that their result replaces."""

    def __init__(
        self, scene: Scene, end: torch.fx.Node, node: torch.fx.Node, parts: Sequence[_Projection]
    ) -> None:
        self._scene = scene
        self._end = end
        self._write = scene.writer(end, origin=node, in_floats=True)
        self._join = scene.writer(end)
        self._query, self._key, self._value = parts
        given = attention.arguments(node)
        size = len(self._query.features[0])
        self._scale = given.get("scale") or 1 / math.sqrt(size)
        self._mask = attention.mask_of(scene, given)
        self._made: dict[tuple[Any, ...], torch.fx.Node] = {}

    def written(self, shape: tuple[int, ...]) -> torch.fx.Node:
        """All heads, side by side, in a shape."""
        heads = [self._head(index) for index in range(len(self._query.features))]
        return self._join(aten.reshape.default, joined(self._join, heads, -1), list(shape))

    def _head(self, index: int) -> torch.fx.Node:
        write, shared = self._write, len(self._query.features) // len(self._key.features)
        query = self._projected(self._query, index, (1, self._query.tokens), self._scale)
        key = self._projected(self._key, index // shared, (self._key.tokens,))
        value = self._projected(self._value, index // shared, (1, self._value.tokens))
        scores = write(aten.linear.default, query, key)
        if self._mask is not None:
            scores = write(aten.add.Tensor, scores, self._masked(self._mask, index, query))
        return write(aten.bmm.default, write(aten.softmax.int, scores, -1), value)

    def _masked(self, mask: torch.Tensor, index: int, query: torch.fx.Node) -> torch.fx.Node:
        """What is added to one head's scores; one constant where it is the same for all."""
        own = math.prod(mask.shape[:-2]) > 1
        key = ("mask", index if own else 0)
        if key not in self._made:
            mine = mask.reshape(-1, *mask.shape[-2:])[index if own else 0].unsqueeze(0)
            self._made[key] = self._write.constant(mine.to(self._scene.dtype(query)))
        return self._made[key]

    def _projected(
        self, part: _Projection, index: int, lead: tuple[int, ...], scale: float = 1.0
    ) -> torch.fx.Node:
        """One head's operand, (*lead, features); heads that share it share the layer."""
        rows = part.features[index]
        key = (part.linear, rows, lead, scale)
        if key not in self._made:
            write = self._scene.writer(self._end, origin=part.linear)
            operands = [part.linear.args[0]]
            for given in part.linear.args[1:]:
                known = self._scene.constant(given)
                operands.append(
                    None if known is None else write.constant(known[list(rows)] * scale)
                )
            made = write(aten.linear.default, *operands)
            if self._scene.shape(made) != (*lead, len(rows)):
                made = self._write(aten.reshape.default, made, [*lead, len(rows)])
            self._made[key] = made
        return self._made[key]


REWRITE = Rewrite(
    name=_NAME,
    title="attention head by head, from weights cut by head",
    advice=(
        "give each head nn.Linear layers of its own and write softmax(F.linear(q, k[0]), -1) @ v "
        "head by head; torch.cat joins them"
    ),
    safety="exact",
    apply=_apply,
)
