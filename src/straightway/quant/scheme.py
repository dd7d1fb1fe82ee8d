"""One scale and zero point of a whole tensor, and what real numbers become by it."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from straightway.ir import Quant, Value
from straightway.ir.scheme import aligned
from straightway.tflite.rows import Row

INT8 = np.dtype(np.int8)
UINT8 = np.dtype(np.uint8)
INT16 = np.dtype(np.int16)
# how far from a whole number a quotient may be that stands for one: float32 rounds scale · number
WHOLE = 1e-2


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """real = scale · (stored - zero_point), stored as `dtype`."""

    dtype: np.dtype
    scale: float
    zero_point: int

    @property
    def quant(self) -> Quant:
        """As a value carries it."""
        return Quant(
            scale=np.array(self.scale, np.float32), zero_point=np.array(self.zero_point, np.int64)
        )

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest number stored."""
        found = np.iinfo(self.dtype)
        return int(found.min), int(found.max)

    def __str__(self) -> str:
        return f"{self.dtype} of scale {self.scale:.6g} and zero point {self.zero_point}"

    def stored(self, real: np.ndarray) -> np.ndarray:
        """Round to the nearest number stored, halves to even; what lies outside is kept at the limits."""
        with np.errstate(over="ignore", invalid="ignore"):
            quotient = np.rint(np.asarray(real, np.float64) / self.scale) + self.zero_point
        low, high = self.limits
        return np.asarray(np.clip(np.nan_to_num(quotient), low, high), self.dtype)

    def real(self, stored: np.ndarray) -> np.ndarray:
        """The float32 that integers stand for."""
        less = stored.astype(np.int32) - np.int32(self.zero_point)
        return np.asarray(less.astype(np.float32) * np.float32(self.scale))

    def holds(self, real: np.ndarray) -> bool:
        """Whether each of these is a number that is stored, but for rounding to float32."""
        with np.errstate(over="ignore", invalid="ignore"):
            quotient = np.asarray(real, np.float64) / self.scale + self.zero_point
        low, high = self.limits
        return bool(
            np.all(np.isfinite(quotient))
            and np.all(np.abs(quotient - np.rint(quotient)) <= WHOLE)
            and np.all((np.rint(quotient) >= low) & (np.rint(quotient) <= high))
        )


def scheme_of(value: Value) -> Scheme:
    """The scheme of a value that is stored with one scale."""
    if value.quant is None:
        raise ValueError(f"{value} has no scale")
    return Scheme(
        dtype=value.dtype,
        scale=float(np.ravel(value.quant.scale)[0]),
        zero_point=int(np.ravel(value.quant.zero_point)[0]),
    )


def fixed_scheme(row: Row, dtype: np.dtype) -> Scheme | None:
    """What the row fixes for its result, None where it does not; int16 has zero points of 0."""
    if not row.quant.startswith("fixed:"):
        return None
    if dtype == INT16:
        return Scheme(dtype=dtype, scale=1 / 32768, zero_point=0)
    scale, zero_point = row.quant.removeprefix("fixed:").split(",")
    shift = 128 if dtype == UINT8 else 0
    return Scheme(dtype=dtype, scale=float(Fraction(scale)), zero_point=int(zero_point) + shift)


def stored_scheme(value: Value, dtype: np.dtype) -> Scheme | None:
    """How a constant of floats is stored, as `dtype`; None where it has several scales or none.

    Its own scheme where the model has one, unsigned numbers shifted; else one that holds every
    element exactly.
    """
    if value.const is None:
        return None
    if value.quant is not None and value.quant.axis is None:
        scale = float(np.ravel(value.quant.scale)[0])
        own = Scheme(dtype=dtype, scale=scale, zero_point=_shifted(value.quant, dtype))
        return own if scale > 0 and own.holds(value.const) else None
    most = float(np.abs(value.const).max(initial=0.0))
    if not np.isfinite(most):
        return None
    own = Scheme(dtype=dtype, scale=most / np.iinfo(dtype).max if most else 1.0, zero_point=0)
    return own if own.holds(value.const) else None


def _shifted(quant: Quant, dtype: np.dtype) -> int:
    """The zero point once unsigned numbers are stored as signed ones."""
    zero_point = int(np.ravel(quant.zero_point)[0])
    unsigned = np.asarray(quant.zero_point).dtype == np.uint8
    return zero_point - 128 if unsigned and dtype == INT8 else zero_point


def whole_numbers(value: Value, quant: Quant) -> np.ndarray:
    """The elements of a constant of floats over its scales, rounded."""
    scale = aligned(np.asarray(quant.scale, np.float64), quant, value.rank)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.nan_to_num(np.rint(np.asarray(value.const, np.float64) / scale)))
