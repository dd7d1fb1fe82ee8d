"""What one TFLite op is: the only place where a fact about TFLite stands.

Until layouts are assigned, a node of the dialect "tflite" is *logical*: its tensors have the
dimension order of the user's model and its attributes speak of those dimensions (`axis`, `paddings`
per dimension …). `Attr` says how each attribute is written once the stored order is known.

Files and lines are those of LiteRT v2.2.0, below its folder `tflite/`; the tests hold each row
against the installed runtime.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from straightway.ir import Node, TensorType, Value
from straightway.ir.types import SHORT_NAMES

# Some ops of more dimensions are taken by XNNPACK's delegate, which then fails to build them: the
# file can't be run at all, although the kernel could.
DELEGATE_RANK = 6

Layout = Literal[
    "elementwise",  # any order, the same for all; operands broadcast, aligned at the last dimension
    "rename",  # RESHAPE and TRANSPOSE: they move no data, they name dimensions anew
    "along",  # any order that keeps the dimensions it works along whole; same rank in and out
    "reduce",  # any order; reduced dimensions vanish or become 1
    "arg",  # as reduce, but the axis must stay whole
    "gather",  # one axis is replaced by the dimensions of the indices
    "last",  # any order that ends with the named axis
    "window",  # N, spatial dimensions, channels; `channels` says what becomes of the channels
    "matrix",  # FULLY_CONNECTED: the contracted dimension last, weights follow its order
    "batch_matrix",  # BATCH_MATMUL: batch dimensions, then either matrix order
    "fixed",  # the model's own dimension order only
]
Role = Literal["plain", "axis", "axes", "dims", "spatial", "enum", "graph", "logical"]
Channels = Literal[
    "mixed",  # weights mix them: any order in, any order out, the weights follow
    "kept",  # the order that comes in goes out
    "fixed",  # they are part of the computation: the model's order only
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attr:
    """How a logical attribute is written.

    `role`: "axis" and "axes" are dimension numbers, "dims" has one entry a dimension, "spatial" one a
    spatial dimension, "enum" is a name of the schema's enum `enum`, "graph" is a graph
    that the op runs, "logical" is not written.
    `fields`: option fields (two for "spatial": height, width). `operand`: position of the constant
    int32 operand that holds it instead.
    """

    role: Role = "plain"
    fields: tuple[str, ...] = ()
    operand: int | None = None
    enum: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One thing that a delegate asks of a written node; `text` names subject and limit."""

    test: Callable[[Node], bool]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One TFLite op.

    `types`: element types that the kernel itself computes rightly, without a delegate and without
    quantization, of the operand `data` (counted among the logical operands); other tensor operands
    that are not indices have the same type. `quantized`: types that it takes with a scale and a
    zero point. `kernel`: the file and line that says so. `max_rank`: what the kernel can take.

    `quant`: the rule of TFLite's 8-bit scheme for the tensors that hold real numbers.
      "free"           each has its own scale and zero point
      "same"           operands and results share one
      "fixed:s,z"      the int8 result has the scale s and the zero point z, operands are free
      "weights"        int8 weights with a scale per output channel and zero points of 0, int32 bias
      "int"            there are no real numbers: truth values, positions
      "float"          the kernel has no 8-bit version, or a wrong one

    `xnnpack`: what the delegate asks of a written node, or, as a string, why it never takes it.
    `version`: the lowest version that holds for a written node. `fuses`: it has a fused activation.

    For windows, `channels` says what becomes of the channels, and `weights` how the filter is stored:
    dimension numbers of the logical filter, "spatial" for its spatial ones (there with any count).
    `moves`: it only moves elements, so that their bits may stand as another type (SCATTER_ND adds to 0).
    `open_size`: the runtime finds out the size of the result.
    `state`: written operands that must be variable tensors; they keep their values between runs.
    `table`: by how many numbers an int16 result may be off besides rounding, where the kernel
    interpolates in a table.
    """

    name: str
    layout: Layout
    infer: Callable[[Node], list[TensorType]]
    types: frozenset[np.dtype]
    kernel: str
    quantized: frozenset[np.dtype] = frozenset()
    data: int = 0
    options: str = ""
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    max_rank: int = 8
    quant: str = "float"
    xnnpack: tuple[Condition, ...] | str = "XNNPACK's delegate has no such op"
    version: Callable[[Node], int] = lambda _: 1
    fuses: bool = False
    channels: Channels = "kept"
    weights: tuple[int | Literal["spatial"], ...] = ()
    state: tuple[int, ...] = ()
    open_size: bool = False
    table: Callable[[Node], float] | None = None
    moves: bool = False

    def __post_init__(self) -> None:
        """Check that nothing of the row contradicts itself."""
        for name, attr in self.attrs.items():
            if (attr.role == "logical") != (not attr.fields and attr.operand is None):
                raise ValueError(f"{self.name}.{name}: where is it written?")
        if bool(self.quantized) == (self.quant in ("int", "float")):
            raise ValueError(f"{self.name}: quantized types and the rule disagree")

    def takes(self, value: Value, *, scaled: bool = False) -> bool:
        """Whether the kernel computes with this value as its data operand.

        `scaled`: an attribute says how its integers are to be read.
        """
        if value.quant is None or value.dtype.kind == "f":
            return value.dtype in self.types or (scaled and value.dtype in self.quantized)
        return value.dtype in self.quantized

    def stand_in(self, dtype: np.dtype) -> np.dtype | None:
        """Whole numbers of the same width that the kernel moves instead; floats might lose bits."""
        fitting = [d for d in self.types if d.itemsize == dtype.itemsize and d.kind in "iu"]
        return min(fitting, key=lambda d: d.name, default=None) if self.moves else None

    def is_coarse(self, node: Node, dtype: np.dtype) -> bool:
        """Whether 8 bits lose less than the kernel of 16."""
        return dtype == np.int16 and self.table is not None and self.table(node) > INT8_QUANTUM

    def refused_by_xnnpack(self, node: Node) -> str:
        """Say why the delegate leaves a written node out, or "" where it takes it."""
        if isinstance(self.xnnpack, str):
            return self.xnnpack
        return next((c.text for c in self.xnnpack if not c.test(node)), "")


# in those of int16
INT8_QUANTUM = 256
_DTYPES = {short: dtype for dtype, short in SHORT_NAMES.items()}


def types(names: str) -> frozenset[np.dtype]:
    """Read element types by their short names: "f32 i8 i64"."""
    return frozenset(_DTYPES[name] for name in names.split())


def field_(*names: str, role: Role = "plain", enum: str = "") -> Attr:
    """Write an attribute to option fields."""
    return Attr(role=role, fields=names, enum=enum)


def operand(position: int, role: Role = "plain") -> Attr:
    """Write an attribute to a constant int32 operand."""
    return Attr(role=role, operand=position)


def pointwise(
    name: str,
    names: str,
    kernel: str,
    *,
    infer: Callable[[Node], list[TensorType]],
    quantized: str = "",
    **columns: Any,
) -> Row:
    """An op that works element by element; types by their short names, other columns as in Row."""
    return Row(
        name=name,
        layout="elementwise",
        infer=infer,
        types=types(names),
        quantized=types(quantized),
        kernel=kernel,
        **columns,
    )


LOGICAL = Attr(role="logical")
ACTIVATION = Attr(role="enum", fields=("fusedActivationFunction",), enum="ActivationFunctionType")
