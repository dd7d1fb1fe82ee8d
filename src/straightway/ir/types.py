"""Types of values: element type and shape."""

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np

Dim = int | str
"""A dimension: a known size, or the name of a symbol ("" when it has none)."""

SHORT_NAMES = {
    np.dtype(np.float16): "f16",
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
    np.dtype(np.int8): "i8",
    np.dtype(np.int16): "i16",
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
    np.dtype(np.uint8): "u8",
    np.dtype(np.uint16): "u16",
    np.dtype(np.uint32): "u32",
    np.dtype(np.uint64): "u64",
    np.dtype(np.bool_): "bool",
    np.dtype(ml_dtypes.int4): "i4",
    np.dtype(ml_dtypes.uint4): "u4",
    np.dtype(object): "str",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorType:
    """The element type and the shape of a tensor; a symbolic dimension is a string."""

    dtype: np.dtype
    shape: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every dimension is known."""
        return all(isinstance(d, int) for d in self.shape)

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape of a static type, in elements; raises ValueError where one is symbolic."""
        for dim in self.shape:
            if isinstance(dim, str):
                raise ValueError(f"{self} has unknown dimensions")  # noqa: TRY004 - of the value
        return self.shape  # type: ignore[return-value]  # a copy would cost most of a layout's time

    @property
    def size(self) -> int:
        """Number of elements of a static type."""
        return math.prod(self.dims)

    @property
    def size_bytes(self) -> int:
        """Bytes that the tensor takes, sub-byte types counted as one byte an element."""
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        short = SHORT_NAMES.get(self.dtype, str(self.dtype))
        return f"{short}[{','.join(str(d) or '?' for d in self.shape)}]"


def tensor_type(dtype: "np.typing.DTypeLike", shape: "tuple[Dim, ...] | list[Dim]") -> TensorType:
    """Make a type from anything that numpy takes for a dtype."""
    return TensorType(dtype=np.dtype(dtype), shape=tuple(shape))
