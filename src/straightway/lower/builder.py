"""What a lowering writes with: one method per TFLite op, in the model's own dimension order."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from straightway.errors import Bug, Impossible, NotYet
from straightway.ir import Graph, Node, Op, TensorType, Value, edit
from straightway.ir.elements import converted
from straightway.ir.scheme import moved
from straightway.ir.source import Origins
from straightway.ir.types import SHORT_NAMES
from straightway.lower.constants import folded
from straightway.remark import Remark
from straightway.tflite.rows import ROWS
from straightway.tflite.rows.row import Row

# the kinds of layout whose order is that of the data
ORDERED_BY_DATA = ("reduce", "arg", "last", "window", "matrix")
# a shape is an array of eight in the interpreter's parameters (kMaxReshapeDims and the like)
MOST_DIMENSIONS = 8
# options, and the operands that say sizes and places, are int32 (schema.fbs)
MOST_WHOLE = 2**31 - 1

Operand = Value | float | int | bool | np.ndarray | np.generic | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """A graph from inside a node, lowered; what it reads of the graph around it are its last inputs."""

    graph: Graph
    captured: tuple[Value, ...]


class Builder:
    """Appends TFLite ops to a graph; `g.ADD(x, 1.0)` returns the result.

    Numbers become constants of the first tensor's type. Attributes are those of the op's row. Raises
    Impossible where the row's kernel does not take the element type.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.origins: Origins = frozenset()
        self.stem = "value"
        # of the node's first operand: the ops must hold at every size of these
        self.open_dims: frozenset[int] = frozenset()
        # the same of its first result
        self.open_results: frozenset[int] = frozenset()
        # whether the node's results are no constants, though its operands may be
        self.keeps = False
        # whether XNNPACK's delegate is to run the ops, where there are equal spellings
        self.delegate = True
        # whether the engine has FLOOR_MOD of whole numbers
        self.modulo = True
        self.node = ""
        self.derivations: dict[tuple[Value, Hashable], Value] = {}
        self.remarks: list[Remark] = []

    def inside(self, graph: Graph, given: Sequence[TensorType | np.ndarray]) -> Inner:
        """Lower a graph inside the node; `given` are its inputs' types, or constants for them."""
        kinds = ", ".join(map(str, given))
        raise Bug(f"nothing lowers the graph '{graph.name}' ({kinds}) inside '{self.node}'")

    def note(self, text: str) -> None:
        """Say how the model's node is computed."""
        self.remarks.append(Remark(kind="done", step="lower", node=self.node, text=text))

    def miss(self, text: str) -> None:
        """Say what of the model's node is left as it is, and why."""
        self.remarks.append(Remark(kind="missed", step="lower", node=self.node, text=text))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in ROWS:
            raise AttributeError(name)
        return lambda *operands, **attrs: self.emit(name, operands, attrs)

    def emit(self, name: str, operands: Sequence[Operand], attrs: dict[str, Any]) -> Any:
        """Append one op; return its result, or the list of results where it has several."""
        row = ROWS[name]
        unknown = set(attrs) - set(row.attrs)
        if unknown:
            raise Bug(f"{name} has no attribute {sorted(unknown)}")
        first = next(v for v in operands if isinstance(v, Value))
        inputs = [self.as_value(v, first.dtype) for v in operands]
        data = inputs[row.data]
        if data is None or not row.takes(data, scaled="scale" in attrs):
            if data is not None and data.quant is None and row.moves:
                return self.moved(name, inputs, attrs, data.dtype)
            raise _untaken(row, None if data is None else data.dtype)
        known = self.folded(name, inputs, attrs)
        if known is not None:
            return known
        self.check_data(name, data, inputs)
        _check_width(name, attrs)
        node = Node(
            Op(dialect="tflite", name=name),
            inputs,
            [],
            {**row.defaults, **attrs},
            name=self.node,
            origins=self.origins,
        )
        node.outputs = [self.result(name, t) for t in row.infer(node)]
        for value in (*node.operands(), *node.outputs):
            if value.rank > MOST_DIMENSIONS:
                raise Impossible(
                    f"TFLite's shapes have at most {MOST_DIMENSIONS} dimensions; got {value.type}",
                    kernel="core/api/flatbuffer_conversions.cc:94",
                    remedy="merge dimensions of the model that stay side by side",
                )
        edit.append(self.graph, node)
        return node.outputs[0] if len(node.outputs) == 1 else node.outputs

    def moved(
        self, name: str, inputs: Sequence[Value | None], attrs: dict[str, Any], kind: np.dtype
    ) -> Any:
        """Emit what moves elements of a type that its kernel lacks: as bits, or as wider whole numbers."""
        row = ROWS[name]
        bits = row.stand_in(kind)
        wider = np.dtype(np.int32)
        if bits is None and not (wider in row.types and np.can_cast(kind, wider)):
            raise _untaken(row, kind)
        convert, target = (self.cast, wider) if bits is None else (self.bits, bits)
        operands = [v if v is None or v.dtype != kind else convert(v, target) for v in inputs]
        found = self.emit(name, operands, attrs)
        if isinstance(found, list):
            return [convert(value, kind) for value in found]
        return convert(found, kind)

    def bits(self, x: Value, dtype: np.dtype) -> Value:
        """The same bits as another type of the same width."""
        if x.dtype == dtype:
            return x
        if x.const is not None:
            return self.derived(x, ("bits", dtype), lambda array: array.view(dtype))
        return self.emit("BITCAST", [x], {"dtype": dtype})

    def folded(
        self, name: str, inputs: Sequence[Value | None], attrs: dict[str, Any]
    ) -> Value | None:
        """Compute what constants alone give, in the type of the first; None where it is not known."""
        if self.keeps:
            return None
        arrays = [v.const for v in inputs if v is not None and v.const is not None]
        found = folded(name, arrays, attrs) if len(arrays) == len(inputs) else None
        return None if found is None else self.const(found)

    def need_fixed_size(self, subject: str) -> None:
        """Refuse what is another op at another size."""
        raise NotYet(
            f"{subject} depends on the sizes of its input, some of which are open",
            remedy="--dim or --shape fixes them",
        )

    def check_data(self, name: str, data: Value, inputs: Sequence[Value | None]) -> None:
        """Refuse an op that would compute a constant: only its inputs give it an order to run in."""
        if self.keeps:
            return
        layout = ROWS[name].layout
        alone = all(v is None or v.const is not None for v in inputs)
        if alone or (data.const is not None and layout in ORDERED_BY_DATA):
            raise NotYet(
                f"{name} of a constant computes nothing from the model's inputs",
                remedy="fold constants in the exporter",
            )

    def result(self, name: str, kind: TensorType) -> Value:
        """Make a value that an op will give."""
        return Value(self.graph.fresh(f"{self.stem}/{name.lower()}"), kind)

    def as_value(self, operand: Operand, dtype: np.dtype) -> Value | None:
        """Turn a number or array into a constant."""
        if operand is None or isinstance(operand, Value):
            return operand
        keeps = isinstance(operand, (np.ndarray, np.generic))
        try:
            return self.const(operand if keeps else np.array(operand, dtype))
        except OverflowError as error:
            raise Impossible(f"{operand} is no number of the type {dtype}") from error

    def const(self, array: Any, dtype: Any = None) -> Value:
        """Make a constant."""
        return edit.constant(self.graph, np.asarray(array, dtype), f"{self.stem}/const")

    def derived(self, x: Value, key: Hashable, make: Callable[[np.ndarray], np.ndarray]) -> Value:
        """Make a constant of another, once for each key: what many nodes share stays shared."""
        found = self.derivations.get((x, key))
        if found is None:
            found = self.derivations[x, key] = self.const(make(np.asarray(x.const)))
        return found

    def rearranged(
        self, x: Value, key: Hashable, move: Callable[[np.ndarray], np.ndarray]
    ) -> Value:
        """As `derived`, where `move` only moves elements and may add zeros: the scheme goes along."""
        found = self.derived(x, key, move)
        if x.quant is not None and found.quant is None:
            found.quant = moved(x.quant, x.shape, move)
        return found

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """Give `x` another shape; nothing where it has that shape."""
        target = tuple(int(d) for d in shape)
        if target == x.shape:
            return x
        if x.const is not None:
            return self.rearranged(x, ("reshape", target), lambda array: array.reshape(target))
        return self.emit("RESHAPE", [x], {"shape": target})

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """Let result dimension k be dimension perm[k] of `x`."""
        order = tuple(int(p) % x.rank for p in perm)
        if order == tuple(range(x.rank)):
            return x
        if x.const is not None:
            return self.rearranged(x, ("transpose", order), lambda array: array.transpose(order))
        return self.emit("TRANSPOSE", [x], {"perm": order})

    def pad(
        self, x: Value, paddings: Sequence[tuple[int, int]], value: float | None = 0.0
    ) -> Value:
        """Pad each dimension by (before, after) elements."""
        pairs = tuple((int(a), int(b)) for a, b in paddings)
        if not any(a or b for a, b in pairs):
            return x
        if value == 0:
            return self.emit("PAD", [x], {"paddings": pairs})
        return self.emit("PADV2", [x, value], {"paddings": pairs})

    def cast(self, x: Value, dtype: Any) -> Value:
        """Convert the element type; nothing where it has that type."""
        target = np.dtype(dtype)
        if x.dtype == target:
            return x
        if x.const is not None and not (self.keeps and target.kind == "f"):
            return self.derived(x, ("cast", target), lambda array: converted(array, target))
        return self.emit("CAST", [x], {"dtype": target})


def _check_width(name: str, attrs: Mapping[str, Any]) -> None:
    """Refuse whole numbers that the format has no room for: ONNX's are of 64 bits, TFLite's of 32."""
    for key, given in attrs.items():
        numbers = given if isinstance(given, tuple | list) else (given,)
        whole = [number for number in numbers if isinstance(number, int | np.integer)]
        if not all(-MOST_WHOLE - 1 <= number <= MOST_WHOLE for number in whole):
            raise NotYet(f"TFLite's {name} has numbers of int32; its {key} would be {given}")


def _untaken(row: Row, kind: np.dtype | None) -> Impossible:
    found = "nothing" if kind is None else SHORT_NAMES.get(kind, str(kind))
    text = f"TFLite's {row.name} takes {_names(row.types)}; got {found}"
    return Impossible(text, kernel=row.kernel)


def _names(dtypes: frozenset[np.dtype]) -> str:
    return ", ".join(sorted(SHORT_NAMES[d] for d in dtypes))
