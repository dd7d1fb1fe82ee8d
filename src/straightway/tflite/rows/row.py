"""What one TFLite op is: the only place where a fact about TFLite stands.

Until layouts are assigned, a node of the dialect "tflite" is *logical*: its tensors have the
dimension order of the user's model and its attributes speak of those dimensions (`axis`, `paddings`
per dimension …). `Attr` says how each attribute is written once the stored order is known.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from straightway.ir import Node, TensorType
from straightway.ir.types import SHORT_NAMES

Layout = Literal[
    "elementwise",  # any order, the same for all; operands broadcast, aligned at the last dimension
    "rename",  # RESHAPE and TRANSPOSE: they move no data, they name dimensions anew
    "along",  # any order that keeps the dimensions it works along whole; same rank in and out
    "reduce",  # any order; reduced dimensions vanish or become 1
    "arg",  # as reduce, but the axis must stay whole
    "gather",  # one axis is replaced by the dimensions of the indices
    "last",  # any order that ends with the named axis
    "window",  # N, spatial dimensions, channels; `weights` says what becomes of the channels
    "matrix",  # FULLY_CONNECTED: the contracted dimension last, weights follow its order
    "batch_matrix",  # BATCH_MATMUL: batch dimensions, then either matrix order
    "fixed",  # the model's own dimension order only
]
Role = Literal["plain", "axis", "axes", "dims", "spatial", "enum", "logical"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attr:
    """How a logical attribute is written.

    `role`: "axis" and "axes" are dimension numbers, "dims" has one entry a dimension, "spatial" one a
    spatial dimension, "enum" is a name of the schema's enum `enum`, "logical" is not written.
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

    `types`: element types of the first tensor operand that the kernel takes; `kernel`: the file and
    line that says so. `max_rank`: what the kernel can take. `quant`: its rule in TFLite's 8-bit
    scheme. `xnnpack`: what the delegate asks of a node, or, as a string, why it never takes it.
    `version`: the lowest version that holds for a written node.
    """

    name: str
    layout: Layout
    infer: Callable[[Node], list[TensorType]]
    types: frozenset[np.dtype]
    kernel: str = ""
    options: str = ""
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    max_rank: int = 8
    quant: str = "float"
    xnnpack: tuple[Condition, ...] | str = "XNNPACK's delegate has no such op"
    version: Callable[[Node], int] = lambda _: 1
    fuses: bool = False

    def __post_init__(self) -> None:
        """Check that nothing of the row contradicts itself."""
        for name, attr in self.attrs.items():
            if (attr.role == "logical") != (not attr.fields and attr.operand is None):
                raise ValueError(f"{self.name}.{name}: where is it written?")

    def refused_by_xnnpack(self, node: Node) -> str:
        """Say why the delegate leaves a written node out, or "" where it takes it."""
        if isinstance(self.xnnpack, str):
            return self.xnnpack
        return next((c.text for c in self.xnnpack if not c.test(node)), "")


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


LOGICAL = Attr(role="logical")
ACTIVATION = Attr(role="enum", fields=("fusedActivationFunction",), enum="ActivationFunctionType")
