"""Dimensions split into atoms, so that Reshape and Transpose only rename.

Where some Reshape splits a dimension, so do all dimensions that are the same one elsewhere in the
graph: `[N, 8·15]` next to `[N, 8, 15]` has the atoms (N) (8 15). Then a Reshape names the same atoms
anew and moves nothing. A Reshape without a common refinement is a barrier.

An atom is (dimension, part) of a value; parts are numbered from the outermost. Dimensions of size 1
have no atoms: an order that differs by them only is the same order in memory.
"""

import math
from collections.abc import Iterable
from itertools import pairwise

from straightway.domains.axes import Group, groups_of
from straightway.ir import Graph, Node, Value

Atom = tuple[int, int]
Order = tuple[Atom, ...]
Axis = tuple[Value, int]


class Atoms:
    """The atoms of every value of a logical graph."""

    def __init__(self, graph: Graph) -> None:
        self.parents: dict[Axis, Axis] = {}
        self.cuts: dict[Axis, frozenset[int]] = {}
        self.barriers: set[Node] = set()
        self._sizes: dict[Axis, tuple[int, ...]] = {}
        self._orders: dict[tuple[Value, tuple[int, ...] | None], Order] = {}
        reshapes = []
        for node in graph.nodes:
            if node.op.name == "RESHAPE":
                reshapes.append(node)
            else:
                self._link(node)
        self._refine(reshapes)

    def root(self, axis: Axis) -> Axis:
        """The representative of all dimensions that are this one."""
        path = []
        while (parent := self.parents.get(axis, axis)) != axis:
            path.append(axis)
            axis = parent
        for passed in path:
            self.parents[passed] = axis
        return axis

    def sizes(self, value: Value, dim: int) -> tuple[int, ...]:
        """Sizes of the parts of a dimension, outermost first; () for a dimension of size 1."""
        key = (value, dim)
        found = self._sizes.get(key)
        if found is None:
            size = value.shape[dim]
            bounds = [*sorted(self.cuts.get(self.root(key), ())), size]
            parts = [outer // inner for inner, outer in zip([1, *bounds], bounds, strict=False)]
            found = tuple(reversed(parts)) if size != 1 else ()
            self._sizes[key] = found
        return found

    def of(self, value: Value, dim: int) -> Order:
        """The atoms of one dimension."""
        return tuple((dim, part) for part in range(len(self.sizes(value, dim))))

    def size(self, value: Value, atom: Atom) -> int:
        """Number of elements of one atom."""
        return self.sizes(value, atom[0])[atom[1]]

    def order(self, value: Value, dims: Iterable[int] | None = None) -> Order:
        """The order that stores the dimensions as given; the model's own where none are."""
        key = (value, None if dims is None else tuple(dims))
        found = self._orders.get(key)
        if found is None:
            chosen = range(value.rank) if key[1] is None else key[1]
            found = tuple(atom for dim in chosen for atom in self.of(value, dim))
            self._orders[key] = found
        return found

    def channels_last(self, value: Value) -> Order:
        """N, spatial dimensions, channels."""
        return self.order(value, last_dims(value.rank))

    def _link(self, node: Node) -> None:
        first: dict[object, Axis] = {}
        for value, groups in groups_of(node).items():
            for group in groups:
                if group.whole or len(group.dims) != 1 or value.shape[group.dims[0]] == 1:
                    continue
                axis = (value, group.dims[0])
                other = first.setdefault(group.symbol, axis)
                if _size(other) == _size(axis):
                    self.parents[self.root(axis)] = self.root(other)

    def _refine(self, reshapes: list[Node]) -> None:
        blocks = {
            node: common_blocks(node.inputs[0].shape, node.output.shape)
            for node in reshapes
            if node.inputs[0] is not None
        }
        touching: dict[Axis, list[Node]] = {}
        for node in blocks:
            for value in (*node.operands(), node.output):
                for dim in range(value.rank):
                    touching.setdefault(self.root((value, dim)), []).append(node)
        waiting = dict.fromkeys(blocks)
        while waiting:
            node = next(iter(waiting))
            del waiting[node]
            for root in self._refine_one(node, blocks[node]):
                waiting.update(dict.fromkeys(touching.get(root, ())))
        self.barriers = {node for node in blocks if not self._agrees(node, blocks[node])}

    def _refine_one(self, node: Node, blocks: "Blocks | None") -> list[Axis]:
        """Spread the cuts of both sides to both sides; return the dimensions that got new ones."""
        changed: list[Axis] = []
        if blocks is None:
            return changed
        (x,), y = node.operands(), node.output
        for left, right in blocks:
            points = self._points(x, left) | self._points(y, right)
            total = math.prod(x.shape[d] for d in left)
            if not is_chain([*sorted(points), total]):
                continue
            for value, dims in ((x, left), (y, right)):
                changed += self._cut(value, dims, points)
        return changed

    def _cut(self, value: Value, dims: tuple[int, ...], points: frozenset[int]) -> list[Axis]:
        changed = []
        base = 1
        for dim in reversed(dims):
            size = value.shape[dim]
            inner = frozenset(p // base for p in points if base < p < base * size)
            root = self.root((value, dim))
            known = self.cuts.get(root, frozenset())
            if not inner <= known and is_chain([*sorted(inner | known), size]):
                self.cuts[root] = known | inner
                changed.append(root)
            base *= size
        return changed

    def _points(self, value: Value, dims: tuple[int, ...]) -> frozenset[int]:
        """Products of the innermost atoms, at each boundary inside these dimensions."""
        points: set[int] = set()
        base = 1
        for dim in reversed(dims):
            points.update(base * cut for cut in self.cuts.get(self.root((value, dim)), ()))
            base *= value.shape[dim]
            points.add(base)
        return frozenset(points - {base})

    def _agrees(self, node: Node, blocks: "Blocks | None") -> bool:
        (x,), y = node.operands(), node.output
        return blocks is not None and all(
            self._points(x, left) == self._points(y, right) for left, right in blocks
        )


Blocks = list[tuple[tuple[int, ...], tuple[int, ...]]]


def common_blocks(before: tuple[int, ...], after: tuple[int, ...]) -> Blocks | None:
    """Split a Reshape into the smallest runs of dimensions with equal products.

    [2, 12, 5] → [2, 3, 4, 5] gives ((0), (0)), ((1), (1, 2)), ((2), (3)). None for empty tensors.
    """
    if 0 in before:
        return None
    left = [d for d, size in enumerate(before) if size != 1]
    right = [d for d, size in enumerate(after) if size != 1]
    blocks: Blocks = []
    i = j = 0
    while i < len(left):
        start_i, start_j = i, j
        product_i, product_j = before[left[i]], after[right[j]]
        i, j = i + 1, j + 1
        while product_i != product_j:
            if product_i < product_j:
                product_i *= before[left[i]]
                i += 1
            else:
                product_j *= after[right[j]]
                j += 1
        blocks.append((tuple(left[start_i:i]), tuple(right[start_j:j])))
    return blocks


def is_chain(bounds: list[int]) -> bool:
    """Whether each bound divides the next."""
    return all(b % a == 0 for a, b in pairwise(bounds))


def last_dims(rank: int) -> list[int]:
    """Dimensions in the order N, spatial, channels."""
    return list(range(rank)) if rank < 3 else [0, *range(2, rank), 1]


def _size(axis: Axis) -> int:
    return axis[0].shape[axis[1]]


__all__ = ["Atom", "Atoms", "Axis", "Group", "Order", "common_blocks", "is_chain", "last_dims"]
