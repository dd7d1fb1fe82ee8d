"""What stands in a .tflite file: operators, tensors, subgraphs, signatures; constants stay there.

Nothing here trusts the file: offsets and counts are checked, and what is read in all is bounded by
the file's size, since a vector can be shared by any number of tables.
"""

import mmap
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from straightway.errors import InvalidModel, InvalidRequest
from straightway.ir import Quant

IDENTIFIER = b"TFL3"
SMALLEST_BYTES = 12
# how often the file's own size may be read in all; honest files come to less than once
MOST_READINGS = 16
SPARE_READINGS = 1 << 16
# what the accessors of flatbuffers raise on offsets that lead nowhere
_DAMAGED = (struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorEntry:
    """A tensor: `dtype` is the schema's name in lower case; sizes of −1 in `signature` are open.

    `constant_bytes` is the size of its data in the file, 0 where it has none.
    """

    name: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    dtype: str
    quant: Quant | None
    constant_bytes: int
    is_variable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorEntry:
    """An operator: `kind` is the schema's name, or the name of a custom op; −1 is an absent operand."""

    kind: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any]
    is_custom: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Subgraph:
    """Tensors, operators in order, and the tensors that go in and come out."""

    name: str
    tensors: tuple[TensorEntry, ...]
    operators: tuple[OperatorEntry, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A named way to call a subgraph: names of its inputs and outputs, and their tensors."""

    key: str
    subgraph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a file holds; the first subgraph is the main one."""

    text: str
    size_bytes: int
    subgraphs: tuple[Subgraph, ...]
    signatures: tuple[Signature, ...] = field(default=())

    @property
    def main(self) -> Subgraph:
        """The subgraph that runs first."""
        return self.subgraphs[0]


def is_tflite(path: Path) -> bool:
    """Whether a file can be read and begins as a TFLite model does."""
    try:
        with Path(path).open("rb") as file:
            return file.read(SMALLEST_BYTES)[4:8] == IDENTIFIER
    except (OSError, ValueError):  # whoever reads it says what is wrong
        return False


def read(path: Path) -> Description:
    """Describe a file, mapped into memory.

    Raises InvalidModel for what is not a TFLite model, InvalidRequest for a directory, and
    OSError where the file can't be opened.
    """
    path = Path(path)
    if path.is_dir():
        raise InvalidRequest(f"{path}: is a directory; a TFLite model is one file")
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            raise InvalidModel(f"{path}: a TFLite model begins with a header; the file is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            return describe(mapped, str(path))


def describe(
    data: "bytes | bytearray | memoryview | mmap.mmap", subject: str = "the model"
) -> Description:
    """Describe a flatbuffer. Raises InvalidModel where it is none, or where it is damaged."""
    size = len(data)
    if size < SMALLEST_BYTES or bytes(data[4:8]) != IDENTIFIER:
        raise InvalidModel(
            f"{subject}: is not a TFLite model: one has {IDENTIFIER.decode()!r} at byte 4; this has "
            f"{bytes(data[4:8])!r}"
        )
    try:
        return _Reader(data, subject).description()
    except _DAMAGED as error:
        raise InvalidModel(
            f"{subject}: is damaged or truncated: its {size:,} bytes point at data that are not there"
        ) from error


class _Reader:
    """Walks through the tables, counting what it reads."""

    def __init__(self, data: Any, subject: str) -> None:
        self.data = data
        self.subject = subject
        self.left = MOST_READINGS * len(data) + SPARE_READINGS
        self.model = schema.Model.GetRootAs(data, 0)

    def description(self) -> Description:
        """Read everything."""
        text = self.text(self.model.Description())
        codes = [self.code(c) for c in self.each(self.model, "OperatorCodes")]
        sizes = [self.buffer_bytes(b) for b in self.each(self.model, "Buffers")]
        subgraphs = tuple(
            self.subgraph(g, codes, sizes) for g in self.each(self.model, "Subgraphs")
        )
        if not subgraphs:
            raise InvalidModel(f"{self.subject}: a model has a subgraph at least; this has none")
        signatures = tuple(
            self.signature(s, subgraphs) for s in self.each(self.model, "SignatureDefs")
        )
        return Description(
            text=text, size_bytes=len(self.data), subgraphs=subgraphs, signatures=signatures
        )

    def spend(self, count: int) -> None:
        """Count what is read; raises InvalidModel where it is more than a file can hold."""
        self.left -= count
        if self.left < 0:
            raise InvalidModel(f"{self.subject}: tables share more than the file can honestly hold")

    def each(self, owner: Any, name: str) -> Iterator[Any]:
        """The tables of a vector."""
        count = getattr(owner, f"{name}Length")()
        self.spend(count)
        for index in range(count):
            yield getattr(owner, name)(index)

    def numbers(self, owner: Any, name: str) -> np.ndarray:
        """A copy of a vector of numbers, empty where there is none."""
        found = getattr(owner, f"{name}AsNumpy")()
        if isinstance(found, int):
            return np.array([], np.int64)
        self.spend(found.size)
        return np.array(found)

    def integers(self, owner: Any, name: str) -> tuple[int, ...]:
        """A vector of whole numbers."""
        return tuple(int(v) for v in self.numbers(owner, name))

    def text(self, found: bytes | None) -> str:
        """A string; what is not UTF-8 is replaced."""
        raw = b"" if found is None else found
        self.spend(len(raw))
        return raw.decode("utf-8", "replace")

    def index(self, value: int, count: int, what: str) -> int:
        """Check that an index points at something."""
        if not 0 <= value < count:
            raise InvalidModel(f"{self.subject}: there are {count} {what}; number {value} is used")
        return value

    def code(self, code: Any) -> tuple[str, int, bool]:
        """Kind, version, whether it is a custom op."""
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        kind = OPERATORS.get(number, f"OPERATOR_{number}")
        if kind == "CUSTOM":
            return self.text(code.CustomCode()), code.Version(), True
        return kind, code.Version(), False

    def buffer_bytes(self, buffer: Any) -> int:
        """Size of the data, in the flatbuffer or behind it.

        As LiteRT reads it: v2.2.0, tflite/core/interpreter_builder.cc:755.
        """
        if not buffer.DataIsNone():
            return int(buffer.DataAsNumpy().size)
        start, size = buffer.Offset(), buffer.Size()
        if start > 1:
            if start + size > len(self.data):
                raise InvalidModel(
                    f"{self.subject}: a buffer ends at byte {start + size:,}; "
                    f"the file has {len(self.data):,}"
                )
            return int(size)
        return 0

    def subgraph(self, graph: Any, codes: list[Any], sizes: list[int]) -> Subgraph:
        """Tensors and operators, indices checked."""
        tensors = tuple(self.tensor(t, sizes) for t in self.each(graph, "Tensors"))
        count = len(tensors)
        ends = {
            name: tuple(self.index(v, count, "tensors") for v in self.integers(graph, name))
            for name in ("Inputs", "Outputs")
        }
        return Subgraph(
            name=self.text(graph.Name()),
            tensors=tensors,
            operators=tuple(self.operator(o, codes, count) for o in self.each(graph, "Operators")),
            inputs=ends["Inputs"],
            outputs=ends["Outputs"],
        )

    def tensor(self, tensor: Any, sizes: list[int]) -> TensorEntry:
        """One tensor."""
        shape = self.integers(tensor, "Shape")
        signature = self.integers(tensor, "ShapeSignature")
        buffer = self.index(tensor.Buffer(), max(len(sizes), 1), "buffers")
        return TensorEntry(
            name=self.text(tensor.Name()),
            shape=shape,
            signature=signature or shape,
            dtype=TYPES.get(tensor.Type(), f"type_{tensor.Type()}"),
            quant=self.quant(tensor.Quantization()),
            constant_bytes=sizes[buffer] if sizes else 0,
            is_variable=bool(tensor.IsVariable()),
        )

    def quant(self, found: Any) -> Quant | None:
        """Scales and zero points, None where there are none."""
        if found is None:
            return None
        scale = self.numbers(found, "Scale")
        if not scale.size:
            return None
        zero_point = self.numbers(found, "ZeroPoint")
        axis = found.QuantizedDimension() if scale.size > 1 else None
        if not zero_point.size:
            zero_point = np.zeros(scale.size, np.int64)
        return Quant(scale=scale, zero_point=zero_point, axis=axis)

    def operator(self, found: Any, codes: list[Any], tensors: int) -> OperatorEntry:
        """One operator; absent operands are −1."""
        code = self.index(found.OpcodeIndex(), len(codes), "operator codes")
        kind, version, is_custom = codes[code]
        ends = {name: self.integers(found, name) for name in ("Inputs", "Outputs")}
        for value in (*ends["Inputs"], *ends["Outputs"]):
            self.index(max(value, 0) if value == -1 else value, max(tensors, 1), "tensors")
        return OperatorEntry(
            kind=kind,
            version=version,
            inputs=ends["Inputs"],
            outputs=ends["Outputs"],
            options=self.options(found),
            is_custom=is_custom,
        )

    def options(self, found: Any) -> dict[str, Any]:
        """Option fields by their names in the schema's object API."""
        options: dict[str, Any] = {}
        for kind, table, create in (
            (found.BuiltinOptionsType(), found.BuiltinOptions, schema.BuiltinOptionsCreator),
            (found.BuiltinOptions2Type(), found.BuiltinOptions2, schema.BuiltinOptions2Creator),
        ):
            options |= self.fields(kind, table, create)
        return options

    def fields(self, kind: int, table: Callable[[], Any], create: Any) -> dict[str, Any]:
        """The fields of one table of options."""
        where = table() if kind else None
        made = None if where is None else create(kind, where)
        return {} if made is None else {name: self.field(v) for name, v in vars(made).items()}

    def field(self, value: Any) -> Any:
        """An option's value; vectors become tuples, nothing stays a view of the file."""
        if isinstance(value, np.ndarray):
            self.spend(value.size)
            return tuple(value.tolist())
        if isinstance(value, bytes):
            return self.text(value)
        return value

    def signature(self, found: Any, subgraphs: tuple[Subgraph, ...]) -> Signature:
        """One signature, its tensors checked."""
        subgraph = self.index(found.SubgraphIndex(), len(subgraphs), "subgraphs")
        count = len(subgraphs[subgraph].tensors)
        names = {
            end: {
                self.text(entry.Name()): self.index(entry.TensorIndex(), count, "tensors")
                for entry in self.each(found, end)
            }
            for end in ("Inputs", "Outputs")
        }
        return Signature(
            key=self.text(found.SignatureKey()),
            subgraph=subgraph,
            inputs=names["Inputs"],
            outputs=names["Outputs"],
        )


def _names(enum: type) -> dict[int, str]:
    return {value: name for name, value in vars(enum).items() if isinstance(value, int)}


OPERATORS = _names(schema.BuiltinOperator)
TYPES = {value: name.lower() for value, name in _names(schema.TensorType).items()}
