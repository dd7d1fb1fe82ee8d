"""Logical nodes become written ops: dimensions stored, attributes and weights rearranged to match."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from straightway.domains.atoms import Atoms, Order
from straightway.domains.axes import is_pointwise, named_dims, neutral, variable, weights_dims
from straightway.domains.forms import Form, flat, merged, natural, runs, shape_of, whole_dims
from straightway.domains.orders import (
    CARRIERS,
    Orders,
    covers,
    parse,
    spatial_prefix,
)
from straightway.domains.problem import Mode
from straightway.domains.store import Store, Stored
from straightway.ir import Node, Op, Value, edit
from straightway.tflite.rows import ROWS, Attr

# XNNPACK's tensors have at most six (XNN_MAX_TENSOR_DIMS, include/xnnpack.h)
MOST_DIMENSIONS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One stored dimension of a node: the symbols in it, and the model's dimension it works along."""

    symbols: tuple[Any, ...] = ()
    name: int | None = None


class Realizer:
    """Writes one logical node after the other, each in its chosen mode."""

    def __init__(self, orders: Orders, store: Store) -> None:
        self.orders = orders
        self.atoms: Atoms = orders.atoms
        self.store = store

    def realize(self, node: Node, mode: Mode) -> None:
        """Write one node."""
        self.store.user = node
        kind = self.orders.kind(node)
        if kind == "rename":
            self.rename(node, mode)
        elif kind in CARRIERS:
            self.carrier(node, mode)
        elif kind == "window":
            self.window(node, mode)
        elif kind == "matrix":
            self.matrix(node, mode)
        elif kind == "batch_matrix":
            self.batch_matrix(node, mode)
        else:
            self.fixed(node)

    def write(
        self, node: Node, operands: list[Value | None], forms: list[Form], attrs: dict[str, Any]
    ) -> None:
        """Append the written op; `attrs` are stored values of the logical attributes."""
        row = ROWS[node.op.name]
        options: dict[str, Any] = {}
        inputs = list(operands)
        placed = []
        for name, attr in row.attrs.items():
            if name in attrs and attr.operand is not None:
                placed.append((attr.operand, np.array(attrs[name], np.int32)))
            elif name in attrs:
                options |= written_fields(attr, attrs[name])
        for position, array in sorted(placed, key=lambda item: item[0]):
            inputs.insert(position, edit.constant(self.store.target, array, "operand"))
        results = [
            self.store.tensor(v.name, v, form) for v, form in zip(node.outputs, forms, strict=True)
        ]
        made = Node(
            Op(dialect="tflite", name=node.op.name),
            inputs,
            results,
            options,
            name=node.name,
            origins=node.origins,
        )
        self.store.emit(made)
        for value, form, tensor in zip(node.outputs, forms, results, strict=True):
            self.store.put(value, form, tensor)

    # -- kinds

    def fixed(self, node: Node) -> None:
        """The model's own order: attributes stand as they are."""
        operands = [None if v is None else self.store.get(v, self.own(v)) for v in node.inputs]
        self.write(node, operands, [self.own(v) for v in node.outputs], self.store.attrs(node))

    def own(self, value: Value) -> Form:
        """The model's own dimensions."""
        return whole_dims(self.atoms, value, range(value.rank))

    def rename(self, node: Node, mode: Mode) -> None:
        """Reshape and Transpose: the same tensors, told in the atoms of the result."""
        x, y = variable(node.inputs[0]), node.output
        sequences = self.orders.sequences[node]
        atoms_of = dict(sequences[y])
        names = {a: b for s, atoms in sequences[x] for a, b in zip(atoms, atoms_of[s], strict=True)}
        if x.const is not None:
            order = tuple(a for a in self.atoms.order(x))
            form = natural(self.atoms, x, order)
            source = Stored(order=order, forms={form: self.store.get(x, form)})
        else:
            source = self.store.stored(x, _order(mode, x))
        forms = {tuple(tuple(names[a] for a in d) for d in f): t for f, t in source.forms.items()}
        self.store.values[y] = Stored(
            order=tuple(names[atom] for atom in source.order), forms=forms
        )

    def carrier(self, node: Node, mode: Mode) -> None:
        """Ops that take any order: lay the node's axes out, then every tensor by them."""
        sequences = self.orders.sequences[node]
        full = next(v for v in sequences if v.const is None and covers(sequences, v))
        symbols = parse(sequences[full], _order(mode, full))
        if symbols is None:
            raise ValueError(f"{node} can't run in {mode}")
        axes = self.axes(node, mode, symbols)
        # a constant alone gives the result its dimensions
        variable_ones = any(v.const is None for v in node.operands())
        elementwise = ROWS[node.op.name].layout == "elementwise" and variable_ones
        operands: list[Value | None] = []
        for value in node.inputs:
            if value is None or value not in sequences:
                operands.append(None if value is None else self.store.get(value, self.own(value)))
                continue
            form = self.form(sequences[value], axes)
            operands.append(
                self.store.get(value, self.trimmed(value, form) if elementwise else form)
            )
        forms = [self.result_form(node, value, axes) for value in node.outputs]
        self.write(node, operands, forms, self.carried_attrs(node, axes, operands, forms))

    def form(self, sequence: list[tuple[Any, Order]], axes: list[Axis]) -> Form:
        """How a tensor lies in the node's axes."""
        atoms = dict(sequence)
        return tuple(
            tuple(a for symbol in axis.symbols for a in atoms.get(symbol, ())) for axis in axes
        )

    def trimmed(self, value: Value, form: Form) -> Form:
        """Leave out leading dimensions of size 1 where that saves a RESHAPE."""
        least = next((k for k, dim in enumerate(form) if dim), len(form))
        if value.const is not None:
            return form[least:]
        own = self.store.values[value]
        if own.order != flat(form):
            return form
        return next((form[k:] for k in range(least + 1) if form[k:] in own.forms), form)

    def axes(self, node: Node, mode: Mode, symbols: tuple[Any, ...]) -> list[Axis]:
        """Lay the node's axes out as stored dimensions.

        They are cut where its tensors differ, where it works along one, and as its main operand is
        stored, so that this one needs no RESHAPE.
        """
        sequences = self.orders.sequences[node]
        row = ROWS[node.op.name]
        names = self.names(node)
        owners = {
            s: frozenset(v for v, seq in sequences.items() if dict(seq).get(s)) for s in symbols
        }
        base, form = self.base(node, mode)
        axes: list[Axis] = []
        place = {atom: s for s, atoms in sequences[base] for atom in atoms}
        cuts = _cuts(form, place)
        for symbol in symbols:
            name = names.get(symbol)
            before = axes[-1] if axes else None
            joined = (
                before is not None
                and before.name == name
                and owners[before.symbols[-1]] == owners[symbol]
                and (symbol not in cuts or name is not None)
            )
            if joined and before is not None:
                axes[-1] = Axis(symbols=(*before.symbols, symbol), name=name)
            else:
                axes.append(Axis(symbols=(symbol,), name=name))
        axes = self.with_units(axes, form, place)
        axes = _with_missing_names(axes, self.named(node))
        if row.layout == "last":
            axes.sort(key=lambda axis: axis.name is not None)
        most = min(row.max_rank, MOST_DIMENSIONS)
        if len(axes) > most:  # dimensions of size 1 hold nothing
            axes = [axis for axis in axes if axis.symbols or axis.name is not None]
        kinds = [self.join_kind(node, axis, owners) for axis in axes]
        groups = merged(kinds, most)
        return [_join([axes[k] for k in group]) for group in groups]

    def join_kind(
        self, node: Node, axis: Axis, owners: dict[Any, frozenset[Value]]
    ) -> tuple[bool, frozenset[Value]] | None:
        """Axes of one kind may share a stored dimension: reduced ones, or those of equal tensors."""
        reduces = ROWS[node.op.name].layout == "reduce"
        if axis.name is not None and not reduces:
            return None
        return axis.name is not None, owners[axis.symbols[0]] if axis.symbols else frozenset()

    def named(self, node: Node) -> set[int]:
        """Dimensions that the node's attributes speak of, even where they have size 1."""
        if ROWS[node.op.name].layout in ("elementwise", "rename"):
            return set()
        return named_dims(node)

    def names(self, node: Node) -> dict[Any, int]:
        """Symbols of the dimensions that the node works along."""
        found: dict[Any, int] = {}
        named = self.named(node)
        for sequence in self.orders.sequences[node].values():
            for symbol, _ in sequence:
                dim = symbol[0] if isinstance(symbol, tuple) else symbol
                if dim in named:
                    found[symbol] = dim
        return found

    def base(self, node: Node, mode: Mode) -> tuple[Value, Form]:
        """The operand whose stored form the node takes over, and that form."""
        sequences = self.orders.sequences[node]
        ready, others = [], []
        for value in node.operands():
            if value.const is not None or value not in sequences:
                continue
            own = self.store.values[value]
            wanted = _order(mode, value)
            if own.order == wanted:
                ready.append((value, own.latest))
            elif (value, wanted) in self.store.converted:
                ready.append((value, self.store.converted[value, wanted].latest))
            else:
                others.append((value, natural(self.atoms, value, wanted)))
        found = ready + others
        if not found:
            y = node.outputs[0]
            return y, natural(self.atoms, y, _order(mode, y))
        return max(found, key=lambda item: len(flat(item[1])))

    def with_units(self, axes: list[Axis], form: Form, place: dict[Any, Any]) -> list[Axis]:
        """Keep the dimensions of size 1 that the main operand has."""
        found: list[Axis] = []
        left = list(axes)
        for dim in form:
            if not dim:
                own = left and not set(left[0].symbols) & set(place.values())
                found.append(left.pop(0) if own else Axis())
                continue
            last = place[dim[-1]]
            while left and last in {s for axis in left for s in axis.symbols}:
                found.append(left.pop(0))
        return found + left

    def result_form(self, node: Node, value: Value, axes: list[Axis]) -> Form:
        """How a result lies in the node's axes."""
        layout = ROWS[node.op.name].layout
        sequence = self.orders.sequences[node][value]
        kept = axes
        if layout == "arg" or (layout == "reduce" and not node.attrs["keep_dims"]):
            kept = [axis for axis in axes if axis.name is None]
        if layout != "gather":
            return self.form(sequence, kept)
        indices = variable(node.inputs[1])
        axis_dims = range(node.attrs["axis"], node.attrs["axis"] + indices.rank)
        form: list[Order] = []
        for axis, dim in zip(axes, self.form(sequence, axes), strict=True):
            if axis.name is None:
                form.append(dim)
            else:
                form += whole_dims(self.atoms, value, axis_dims)
        return tuple(form)

    def carried_attrs(
        self, node: Node, axes: list[Axis], operands: list[Value | None], forms: list[Form]
    ) -> dict[str, Any]:
        """Tell the attributes in stored dimensions."""
        place: dict[int | None, int] = {a.name: k for k, a in enumerate(axes) if a.name is not None}
        attrs = dict(node.attrs)
        for name, attr in ROWS[node.op.name].attrs.items():
            value = node.attrs.get(name)
            if attr.role == "axis":
                attrs[name] = place[value]
            elif attr.role == "axes":
                # a reduced dimension may lie in several pieces
                attrs[name] = [k for k, axis in enumerate(axes) if axis.name is not None]
            elif attr.role == "dims":
                before = variable(operands[0]).shape
                before = (1,) * (len(axes) - len(before)) + before
                after = shape_of(self.atoms, node.outputs[0], forms[0])
                attrs[name] = [
                    neutral(name, before[k], after[k]) if axis.name is None else value[axis.name]  # type: ignore[index]
                    for k, axis in enumerate(axes)
                ]
        return attrs

    def window(self, node: Node, mode: Mode) -> None:
        """N, spatial, channels; one spatial dimension becomes two with a height of 1."""
        x, y = variable(node.inputs[0]), node.output
        forms = {}
        for value in (x, y):
            order = _order(mode, value)
            cut = len(order) - len(self.atoms.of(value, 1))
            prefix = self.prefix(node, value, order[:cut])
            forms[value] = (*prefix, order[cut:])
        operands: list[Value | None] = [self.store.get(x, forms[x])]
        if len(node.inputs) > 1:
            operands += self.window_weights(node, forms[x][-1], forms[y][-1])
        if "TRANSPOSE" in node.op.name:
            operands[:2] = [operands[1], operands[0]]
        attrs = self.window_attrs(node, shape_of(self.atoms, y, forms[y]))
        self.write(node, operands, [forms[y]], attrs)

    def prefix(self, node: Node, value: Value, order: Order) -> Form:
        """Stored dimensions before the channels: three of them."""
        usual = spatial_prefix(self.atoms, value)
        if order == usual:
            dims = whole_dims(self.atoms, value, [0, *range(2, value.rank)])
            return (dims[0], (), dims[1]) if len(dims) == 2 else dims
        if not is_pointwise(node):
            raise ValueError(f"{node} can't run in {order}")
        form = runs(order)
        return (*form, *((),) * (3 - len(form))) if len(form) <= 3 else (order, (), ())

    def window_weights(self, node: Node, ins: Order, outs: Order) -> list[Value | None]:
        """Weights as TFLite stores them, channels in the order of the tensors around."""
        x, y = variable(node.inputs[0]), node.output
        weights, dims = variable(node.inputs[1]), weights_dims(node)
        one_dimensional = weights.rank == 3
        if weights.const is None:
            form = whole_dims(self.atoms, weights, dims)
            form = (form[0], (), *form[1:]) if one_dimensional else form
            return [self.store.get(weights, form), self.bias(node, outs)]
        ends = [(y, outs), (x, ins)]
        if "TRANSPOSE" in node.op.name:
            ends.reverse()
        elif node.op.name == "DEPTHWISE_CONV_2D":
            ends.pop()
        indices = [self.channel_index(value, tail) for value, tail in ends]

        def arrange(array: np.ndarray) -> np.ndarray:
            for axis, index in enumerate(indices):
                array = array if index is None else array.take(index, axis)
            array = array.transpose(dims)
            return array[:, None] if one_dimensional else array

        key = (tuple(dims), one_dimensional, *_keys(indices))
        return [self.store.arranged(weights, key, arrange), self.bias(node, outs)]

    def bias(self, node: Node, outs: Order) -> Value | None:
        """The bias, in the order of the result's channels."""
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        if bias is None or bias.const is None:
            return None if bias is None else self.store.get(bias, self.own(bias))
        index = self.channel_index(node.output, outs)
        if index is None:
            return self.store.arranged(bias, (), lambda array: array)
        return self.store.arranged(bias, _keys([index]), lambda array: array.take(index))

    def channel_index(self, value: Value, tail: Order) -> np.ndarray | None:
        """Which channel stands where in the stored order; None where they stand in order."""
        if not tail or tail == self.atoms.of(value, tail[0][0]):
            return None
        dim = tail[0][0]
        count, sizes = value.shape[dim], self.atoms.sizes(value, dim)
        return np.arange(count).reshape(sizes).transpose([part for _, part in tail]).ravel()

    def window_attrs(self, node: Node, stored: tuple[int, ...]) -> dict[str, Any]:
        """Spatial attributes as (height, width); the result's shape as stored."""
        attrs = dict(node.attrs)
        for name, attr in ROWS[node.op.name].attrs.items():
            value = node.attrs.get(name)
            if attr.role == "spatial" and value is not None:
                pair = tuple(value) if len(value) == 2 else (1, *value)
                # a stride along a dimension of size 1 would hit whatever is stored there instead
                attrs[name] = (1, 1) if name == "strides" and is_pointwise(node) else pair
            elif attr.role == "dims":
                attrs[name] = stored
        return attrs

    def matrix(self, node: Node, mode: Mode) -> None:
        """Features last; the dimensions before them as they are stored."""
        x, y, axis = variable(node.inputs[0]), node.output, node.attrs["axis"]
        order, result = _order(mode, x), _order(mode, y)
        cut = len(order) - len(self.atoms.of(x, axis))
        tail, outs = order[cut:], result[cut:]
        own = self.store.values[x]
        latest = own.latest if own.order == order else natural(self.atoms, x, order)
        prefix = latest[:-1] if latest and latest[-1] == tail else runs(order[:cut]) or ((),)
        prefix = prefix or ((),)
        weights = variable(node.inputs[1])
        operands: list[Value | None] = [self.store.get(x, (*prefix, tail))]
        if weights.const is None:
            operands.append(self.store.get(weights, self.own(weights)))
        else:
            rows, columns = self.channel_index(y, outs), self.channel_index(x, tail)

            def arrange(array: np.ndarray) -> np.ndarray:
                array = array if rows is None else array.take(rows, 0)
                return array if columns is None else array.take(columns, 1)

            operands.append(self.store.arranged(weights, _keys([rows, columns]), arrange))
        operands.append(self.bias(node, outs))
        attrs = {**node.attrs, "keep_num_dims": len(prefix) > 1}
        self.write(node, operands, [(*prefix, outs)], attrs)

    def batch_matrix(self, node: Node, mode: Mode) -> None:
        """Batch, rows, columns; a transposed operand second, or the product of the transposes."""
        a, b, y = variable(node.inputs[0]), variable(node.inputs[1]), node.output
        sides = self.orders.matched(node, {**mode.needs, **mode.gives})
        plain = sides[y].plain and sides[a].plain
        first, second = (a, b) if plain else (b, a)
        adj_y = not sides[b].plain if plain else not sides[a].swapped
        swaps = (False, adj_y, False) if plain else (not adj_y, True, True)
        transposed = dict(zip((a, b, y), swaps, strict=True))
        operands: list[Value | None] = [
            self.store.get(v, self.matrix_form(v, y, sides, transposed[v])) for v in (first, second)
        ]
        form = self.matrix_form(y, y, sides, transposed[y])
        self.write(node, operands, [form], {"adj_x": False, "adj_y": adj_y})

    def matrix_form(self, value: Value, y: Value, sides: dict[Value, Any], swap: bool) -> Form:
        """Batch dimensions cut alike for all operands, then the matrix."""
        order = sides[value].order
        rows, columns = len(sides[value].rows), len(sides[value].columns)
        cut = len(order) - rows - columns
        have = set(sides[value].batch)
        shift = value.rank - y.rank
        batch = [
            tuple((dim + shift, part) for dim, part in group if (dim, part) in have)
            for group in _batch_groups(sides, y)
        ]
        head = order[cut : cut + (columns if swap else rows)]
        return (*batch, head, order[cut + len(head) :])


def _batch_groups(sides: dict[Value, Any], y: Value) -> list[Order]:
    """Runs of batch atoms that the same operands have and that belong to one dimension."""
    groups: list[Order] = []
    owners = None
    for atom in sides[y].batch:
        now = tuple(atom in set(side.batch) for side in sides.values())
        if groups and now == owners and groups[-1][-1][0] == atom[0]:
            groups[-1] = (*groups[-1], atom)
        else:
            groups.append((atom,))
        owners = now
    return groups or [()] * max(y.rank - 2, 0)


def _order(mode: Mode, value: Value) -> Order:
    return mode.needs.get(value, mode.gives.get(value))  # type: ignore[return-value]


def _keys(indices: list[np.ndarray | None]) -> tuple[bytes | None, ...]:
    return tuple(None if index is None else index.tobytes() for index in indices)


def _cuts(form: Form, place: dict[Any, Any]) -> set[Any]:
    """Symbols that begin a stored dimension of the main operand."""
    return {place[dim[0]] for dim in form if dim}


def _with_missing_names(axes: list[Axis], names: set[int]) -> list[Axis]:
    """Give the dimensions of size 1 that the node works along a place."""
    found = list(axes)
    for name in sorted(names - {axis.name for axis in axes}):
        place = next((k for k, a in enumerate(found) if not a.symbols and a.name is None), None)
        if place is None:
            found.insert(0, Axis(name=name))
        else:
            found[place] = Axis(name=name)
    return found


def _join(axes: list[Axis]) -> Axis:
    if len(axes) == 1:
        return axes[0]
    return Axis(symbols=tuple(s for axis in axes for s in axis.symbols), name=axes[0].name)


def written_fields(attr: Attr, value: Any) -> dict[str, Any]:
    """Option fields of the schema for one attribute."""
    if attr.role == "logical" or value is None:
        return {}
    if attr.role == "dims":
        return {attr.fields[0]: sum(1 << k for k, bit in enumerate(value) if bit)}
    if attr.role == "spatial":
        return {name: int(v) for name, v in zip(attr.fields, value, strict=True)}
    return {attr.fields[0]: value}
