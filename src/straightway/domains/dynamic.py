"""Open dimensions: one written graph that holds at every size, from graphs at three sizes.

The graphs of the three samples must be the same ops. Where a constant or a shape differs between
them, it depends on an open dimension: it becomes −1 where the op allows it, else what computes it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from straightway.domains.sizes import MASKS, POINTS, Open, Sample, Size, Writer, explain
from straightway.errors import NotYet
from straightway.ir import Graph, Node, Value, edit
from straightway.tflite.rows import ROWS

# As many numbers as one computes from sizes at most.
MOST_SIZES = 64
# The operands of SLICE and STRIDED_SLICE that say from where, and how many or up to where.
SLICE_PLACES = (1, 2)
Nodes = tuple[Node, ...]
Values = tuple[Value, ...]


def unify(graphs: Sequence[Graph], batch: Sequence[tuple[int, int]]) -> None:
    """Make the first graph hold at every size, and note the signatures of its tensors.

    `batch` are the open dimensions (input number, stored dimension) that the file shows as 1. Raises
    NotYet, with the op, where the graphs differ in a way that no size explains.
    """
    _Unifier(graphs).run(batch)


class _Unifier:
    """Walks the graphs side by side."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        if len(graphs) != POINTS:
            raise ValueError(f"{POINTS} samples are needed; got {len(graphs)}")
        self.graphs = graphs
        self.first = graphs[0]
        self.opens = [
            Open(value=values[0], dim=dim, sizes=sizes)
            for values in zip(*(g.inputs for g in graphs), strict=True)
            for dim, sizes in enumerate(zip(*(v.shape for v in values), strict=True))
            if len(set(sizes)) > 1
        ]
        # the same symbol in several inputs is one open dimension
        unique = {one.sizes: one for one in reversed(self.opens)}
        self.sources = list(reversed(unique.values()))
        # sizes of what was computed so far
        self.seen: dict[Sample, Open] = {}
        self.writer = Writer(self.first)

    def run(self, batch: Sequence[tuple[int, int]]) -> None:
        """Unify all nodes, then the tensors' shapes."""
        lists = [list(graph.nodes) for graph in self.graphs]
        for nodes in zip(*lists, strict=False):
            kinds = dict.fromkeys(node.op.name for node in nodes)
            if len(kinds) > 1:
                raise NotYet(
                    f"the size decides which ops '{nodes[0].name}' becomes: {' or '.join(kinds)}"
                )
        if len({len(nodes) for nodes in lists}) > 1:
            raise NotYet("the size decides how many ops the model becomes")
        pairs: list[Values] = list(zip(*(g.inputs for g in self.graphs), strict=True))
        for nodes in zip(*lists, strict=True):
            self.unify_node(nodes)
            for values in zip(*(node.outputs for node in nodes), strict=True):
                pairs.append(values)
                self.see(values)
        self.sign(pairs, batch)

    def see(self, values: Values) -> None:
        """Remember the open dimensions of a result."""
        for dim, sizes in enumerate(zip(*(v.shape for v in values), strict=True)):
            if len(set(sizes)) > 1:
                self.seen.setdefault(sizes, Open(value=values[0], dim=dim, sizes=sizes))

    def unify_node(self, nodes: Nodes) -> None:
        """Let one op hold at every size."""
        first = nodes[0]
        self.writer.place = first
        for graphs in zip(*(node.graphs() for node in nodes), strict=True):
            unify(graphs, [])
            self.first.signatures.update(graphs[0].signatures)
        for key, value in first.attrs.items():
            if isinstance(value, Graph) or key == "newShape":
                continue
            if any(n.attrs.get(key) != first.attrs[key] for n in nodes):
                raise NotYet(f"{first.op.name} '{first.name}': {key} depends on an open dimension")
        if len({len(node.inputs) for node in nodes}) > 1:
            raise NotYet(f"the size decides how many operands {first.op.name} '{first.name}' has")
        operands = list(enumerate(zip(*(node.inputs for node in nodes), strict=True)))
        if first.op.name in ("SLICE", "STRIDED_SLICE") and self.slice_to_the_end(nodes):
            operands = [(k, values) for k, values in operands if k not in SLICE_PLACES]
        for index, values in operands:
            arrays = [v.const for v in values if v is not None and v.const is not None]
            if len(arrays) == POINTS and not _alike(arrays):
                self.unify_constant(nodes, index, arrays)

    def unify_constant(self, nodes: Nodes, index: int, arrays: list[np.ndarray]) -> None:
        """A constant that differs between the samples."""
        first = nodes[0]
        same_shape = len({array.shape for array in arrays}) == 1
        if same_shape and arrays[0].size <= MOST_SIZES and all(map(_is_whole, arrays)):
            flat = [array.reshape(-1) for array in arrays]
            sizes = [tuple(int(v) for v in column) for column in zip(*flat, strict=True)]
            if first.op.name == "RESHAPE" and index == 1:
                edit.set_input(first, index, self.new_shape(nodes, sizes))
                return
            made = self.writer.vector(self.computed(nodes, sizes))
            edit.set_input(first, index, self.writer.like(made, arrays[0]))
            return
        edit.set_input(first, index, self.grown(nodes, index, arrays))

    def grown(self, nodes: Nodes, index: int, arrays: list[np.ndarray]) -> Value:
        """A constant whose shape differs: a number for each place, or the same all over."""
        first = nodes[0]
        series = _series(arrays)
        if series is not None:
            start, steps, places = series
            # numbers as far apart as at all sizes, or multiples of a distance that depends on them
            step = steps[0] if len(set(steps)) == 1 else 1
            limits = [start + step * array.size for array in arrays]
            (limit,) = self.computed(nodes, [(limits[0], limits[1], limits[2])])
            made = self.writer.range(start, limit, step, places)
            if step != steps[0]:
                (apart,) = self.computed(nodes, [(steps[0], steps[1], steps[2])])
                made = self.writer.op("MUL", [made, self.writer.size(apart)], made.shape, {})
            kind, same = arrays[0].dtype, made.dtype == arrays[0].dtype
            return made if same else self.writer.op("CAST", [made], made.shape, {}, kind)
        shrunk = _shrunk(arrays)
        if shrunk is None:
            raise NotYet(
                f"{first.op.name} '{first.name}': the numbers of a constant of {arrays[0].ndim} "
                "dimensions depend on an open one"
            )
        if ROWS[first.op.name].layout == "elementwise" and _still_fits(nodes, index, shrunk):
            return edit.constant(self.first, shrunk, "const")
        shape = list(zip(*(array.shape for array in arrays), strict=True))
        sizes = self.writer.vector(self.computed(nodes, shape))
        constant = edit.constant(self.first, shrunk, "const")
        return self.writer.op("BROADCAST_TO", [constant, sizes], arrays[0].shape, {}, shrunk.dtype)

    def new_shape(self, nodes: Nodes, sizes: list[Sample]) -> Value:
        """The shape that a RESHAPE gives: computed, but −1 for one that nothing else explains."""
        first = nodes[0]
        differing = [k for k, size in enumerate(sizes) if len(set(size)) > 1]
        if len(differing) == 1:
            fixed = [-1 if k in differing else size[0] for k, size in enumerate(sizes)]
            first.attrs["newShape"] = np.array(fixed, np.int32)
            return edit.constant(self.first, np.array(fixed, np.int32), "shape")
        first.attrs.pop("newShape", None)
        found = [self.explained(nodes, size) for size in sizes]
        if found.count(None) == 1:  # the elements that are left
            found = [size or Size(offset=-1) for size in found]
        known = [size for size in found if size is not None]
        return self.writer.vector(
            known if len(known) == len(found) else self.computed(nodes, sizes)
        )

    def computed(self, nodes: Nodes, sizes: Sequence[Sample]) -> list[Size]:
        """How each of these follows from open dimensions."""
        first = nodes[0]
        found = [self.explained(nodes, size) for size in sizes]
        if any(size is None for size in found):
            raise NotYet(
                f"{first.op.name} '{first.name}': its sizes are no simple function of the open "
                "dimensions"
            )
        return [size for size in found if size is not None]

    def explained(self, nodes: Nodes, size: Sample) -> Size | None:
        """What a size is: an input's, else a function of the node's operands, else of the inputs."""
        same = [one for one in self.sources if one.sizes == size]
        return explain(size, [*same, *self.local(nodes), *self.sources], self.seen.values())

    def local(self, nodes: Nodes) -> list[Open]:
        """The open dimensions of a node's own operands: they explain best what it makes of them."""
        return [
            Open(value=values[0], dim=dim, sizes=sizes)
            for values in zip(*(node.operands() for node in nodes), strict=True)
            if all(v.const is None for v in values)
            for dim, sizes in enumerate(zip(*(v.shape for v in values), strict=True))
            if len(set(sizes)) > 1
        ]

    def slice_to_the_end(self, nodes: Nodes) -> bool:
        """Count from the end where a slice leaves as much there of open dimensions, if it does.

        That is STRIDED_SLICE with masks: XNNPACK's delegate takes no SLICE of size -1
        (xnnpack_delegate.cc, VisitSliceNode).
        """
        first = nodes[0]
        operands = [[node.inputs[k] for node in nodes] for k in SLICE_PLACES]
        if any(v is None or v.const is None for values in operands for v in values):
            return False
        starts, ends = ([np.asarray(v.const) for v in values if v] for values in operands)
        if first.op.name == "SLICE":
            ends = [start + count for start, count in zip(starts, ends, strict=True)]
        opened = [k for k, end in enumerate(zip(*ends, strict=True)) if len(set(end)) > 1]
        shapes = [np.array(node.operands()[0].shape) for node in nodes]
        if not opened and _alike(starts) and first.op.name == "SLICE":
            if not _alike(shapes):  # a size that is less is all that there is: SLICE refuses it
                self.stride(first, ends[0], 0)
            return True
        if not opened or not _alike(starts):
            return False
        left = [shape - end for shape, end in zip(shapes, ends, strict=True)]
        if any((other[opened] != left[0][opened]).any() for other in left):
            return False
        found = ends[0].copy()
        found[opened] = -left[0][opened]
        self.stride(first, found, sum(1 << d for d in opened if not found[d]))
        return True

    def stride(self, node: Node, ends: np.ndarray, mask: int) -> None:
        """Make a STRIDED_SLICE with these ends."""
        edit.set_input(node, 2, edit.constant(self.first, ends.astype(np.int32), "end"))
        if node.op.name == "STRIDED_SLICE":
            node.attrs["endMask"] = node.attrs.get("endMask", 0) | mask
            return
        node.op = replace(node.op, name="STRIDED_SLICE")
        node.attrs = {**dict.fromkeys(MASKS, 0), "endMask": mask}
        node.inputs.append(None)
        edit.set_input(node, 3, edit.constant(self.first, np.ones_like(ends, np.int32), "strides"))

    def sign(self, pairs: Sequence[Values], batch: Sequence[tuple[int, int]]) -> None:
        """Note for each tensor the sizes that the file shows, and −1 for those that are open."""
        shown = {
            one: 1 if (self.first.inputs.index(one.value), one.dim) in batch else one.sizes[0]
            for one in self.sources
        }
        table: dict[Value, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        exact = True
        for values in pairs:
            samples = list(zip(*(v.shape for v in values), strict=True))
            if all(len(set(s)) == 1 for s in samples):
                continue
            found = [explain(sample, self.sources) for sample in samples]
            exact = exact and all(size is not None for size in found)
            shape = tuple(s.at(shown) if s is not None else 0 for s in found)
            exact = exact and min(shape) > 0
            table[values[0]] = (
                shape,
                tuple(-1 if len(set(s)) > 1 else s[0] for s in samples),
            )
        if not exact:
            table = {value: (value.shape, signature) for value, (_, signature) in table.items()}
        self.first.signatures.update(table)


def _alike(arrays: Sequence[np.ndarray]) -> bool:
    first = arrays[0]
    numbers = first.dtype.kind == "f"
    return all(
        a.shape == first.shape and np.array_equal(a, first, equal_nan=numbers) for a in arrays[1:]
    )


def _is_whole(array: np.ndarray) -> bool:
    """Whether these are whole numbers, of whichever type."""
    kind = array.dtype.kind
    return kind == "i" or (kind == "f" and bool((array == np.rint(array)).all()))


def _still_fits(nodes: Nodes, index: int, shrunk: np.ndarray) -> bool:
    """Whether the results keep their shapes if one operand is so much smaller."""
    return all(
        np.broadcast_shapes(
            shrunk.shape,
            *(v.shape for k, v in enumerate(node.inputs) if v is not None and k != index),
        )
        == node.outputs[0].shape
        for node in nodes
    )


def _series(arrays: Sequence[np.ndarray]) -> tuple[int, list[int], tuple[int, ...]] | None:
    """Start, steps, and the shape with −1, of whole numbers at the same distance along one axis.

    The distance is another for each array only where all start at 0.
    """
    longest = max(arrays, key=lambda array: array.size)
    if longest.dtype.kind != "i" or longest.size < 2 or max(longest.shape) != longest.size:
        return None
    axis = longest.shape.index(longest.size)
    places = tuple(-1 if k == axis else 1 for k in range(longest.ndim))
    start = int(longest.flat[0])
    several = [array if array.size > 1 else longest for array in arrays]
    steps = [int(array.flat[1] - array.flat[0]) for array in several]
    if 0 in steps or (start and len(set(steps)) > 1):
        return None
    for array, step in zip(arrays, steps, strict=True):
        wanted = np.arange(start, start + step * array.size, step)
        if not np.array_equal(array, wanted.reshape(places)):
            return None
    return start, steps, places


def _shrunk(arrays: list[np.ndarray]) -> np.ndarray | None:
    """The constant without the dimensions that differ, if its elements are equal along them."""
    if len({array.ndim for array in arrays}) != 1:
        return None
    shapes = list(zip(*(array.shape for array in arrays), strict=True))
    axes = [k for k, sizes in enumerate(shapes) if len(set(sizes)) > 1]
    found = []
    for array in arrays:
        part = array
        for axis in axes:
            one = part.take([0], axis)
            if not (part == one).all():
                return None
            part = one
        found.append(part)
    return found[0] if axes and _alike(found) else None
