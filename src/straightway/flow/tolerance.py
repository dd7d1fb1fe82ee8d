"""The one table of tolerances: `verify`, tests and benchmarks compare by it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

FLOAT64 = np.dtype(np.float64)
# |Δ| relative to the larger of range and greatest magnitude
RELATIVE = {"float64": 1e-4, "float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
# the reference's own uncertainty: onnxruntime with and without its optimisations
TIMES_REFERENCE_SPREAD = 4.0
PIECE_ELEMENTS = 2**16


Element = float | int | bool | str


def shown(element: Element) -> str:
    """An element as it is told: whole numbers in full, others to seven digits."""
    return f"{element:.7g}" if isinstance(element, float) else str(element)


def type_of(array: np.ndarray) -> str:
    """Element type and shape."""
    return f"{array.dtype.name}{list(array.shape)}"


def kind_of(array: np.ndarray) -> str:
    """Whether elements are floats, whole numbers, truth values: numpy's letter, also for bfloat16."""
    return "f" if array.dtype.name in RELATIVE else array.dtype.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One compared tensor: the greatest difference, the bound, and where the difference is greatest.

    `want` and `got` are the values there; where already the types differ, `got_type` is what was
    got instead of `want_type`. `reason` says why the tensors differ, "" where they don't.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    max_error: float
    bound: float
    scale: float
    place: tuple[int, ...] = ()
    want: Element = 0.0
    got: Element = 0.0
    got_type: str = ""
    reason: str = ""

    @property
    def equal(self) -> bool:
        """Whether the tensors are equal by the table."""
        return not self.reason

    @property
    def expected(self) -> str:
        """What should be: the element, or the type where already that differs."""
        return f"{self.dtype}{list(self.shape)}" if self.got_type else shown(self.want)

    @property
    def found(self) -> str:
        """What is, likewise."""
        return self.got_type or shown(self.got)

    @property
    def relative_error(self) -> float:
        """The greatest difference relative to the measure that the bound is relative to."""
        return self.max_error / self.scale if self.scale else self.max_error


def compare(
    name: str,
    want: np.ndarray,
    got: np.ndarray,
    other: np.ndarray | None = None,
    *,
    quanta: int = 0,
    computed_in: str = "",
) -> Check:
    """Compare `got` with the reference `want`; `other` is the reference computed another way.

    `computed_in` is the float type of the reference's own steps, where that is not the result's.

    Floats: |Δ| ≤ max(relative · max(range, max|y|), 4 · |want - other|), the patterns of NaN and
    infinity equal. float64 as float32 holds it, in which it is computed: what lies beyond float32
    is infinite or zero, or right for its own magnitude. Integers and truth values: exact; quantized ones
    may be `quanta` apart.
    """
    plain: dict[str, Any] = {"name": name, "shape": tuple(want.shape), "dtype": want.dtype.name}
    if got.shape != want.shape or got.dtype != want.dtype:
        given = type_of(got)
        reason = f"is {given}, not {type_of(want)}"
        return Check(**plain, max_error=np.inf, bound=0.0, scale=1.0, got_type=given, reason=reason)
    relative = RELATIVE.get(want.dtype.name)
    if relative is not None and computed_in:
        relative = max(relative, RELATIVE[computed_in])
    if relative is not None and want.dtype == FLOAT64:
        held = _held(want)
        beyond = np.isinf(held) | (held == 0)
        own = beyond & np.isclose(got, want, rtol=relative, atol=0.0)
        want, got = held, np.where(own, held, got)
        other = None if other is None else _held(other)
    if want.size == 0:
        return Check(**plain, max_error=0.0, bound=0.0, scale=1.0)
    if relative is None:
        return _exact(plain, want, got, quanta)
    return _close(plain, want, got, _bound(want, other, relative))


def _held(array: np.ndarray) -> np.ndarray:
    """The numbers as float32 has them: zero and infinity for what is beyond it."""
    with np.errstate(over="ignore", under="ignore"):
        return array.astype(np.float32).astype(FLOAT64)


def _exact(plain: dict[str, Any], want: np.ndarray, got: np.ndarray, quanta: int) -> Check:
    wrong = want != got
    most = 0
    if quanta:
        # the greater less the lesser, modulo 2**64: their difference may be beyond int64
        apart = np.maximum(want, got).astype(np.uint64) - np.minimum(want, got).astype(np.uint64)
        wrong, most = apart > quanta, int(apart.max(initial=0))
    if not wrong.any():
        return Check(**plain, max_error=float(most), bound=float(quanta), scale=1.0)
    place = tuple(int(k) for k in np.argwhere(wrong)[0])
    wanted, given = (
        array[place].item() if want.dtype != object else str(array[place]) for array in (want, got)
    )
    error = math.inf if isinstance(wanted, str) else float(abs(wanted - given))
    reason = f"{int(wrong.sum()):,} of {want.size:,} elements differ"
    if quanta:
        reason += f" by up to {most} quanta; allowed {quanta}"
    return Check(
        **plain,
        max_error=max(error, float(most)),
        bound=float(quanta),
        scale=1.0,
        place=place,
        want=wanted,
        got=given,
        reason=reason,
    )


def _pieces(*arrays: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Walk through arrays of one shape in float64, a piece at a time: they may be large."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, PIECE_ELEMENTS):
        yield tuple(f[start : start + PIECE_ELEMENTS].astype(np.float64) for f in flat)


def _bound(want: np.ndarray, other: np.ndarray | None, relative: float) -> tuple[float, float]:
    """What a difference may be, and the measure that it is relative to."""
    low, high, apart = np.inf, -np.inf, 0.0
    for piece, again in _pieces(want, want if other is None else other):
        values = piece[np.isfinite(piece)]
        low, high = min(low, values.min(initial=np.inf)), max(high, values.max(initial=-np.inf))
        both = np.isfinite(piece) & np.isfinite(again)
        apart = max(apart, float(np.abs(piece[both] - again[both]).max(initial=0.0)))
    scale = max(high - low, abs(low), abs(high)) if low <= high else 0.0
    return max(relative * scale, TIMES_REFERENCE_SPREAD * apart), float(scale)


def _close(
    plain: dict[str, Any], want: np.ndarray, got: np.ndarray, limits: tuple[float, float]
) -> Check:
    bound, scale = limits
    worst, place, errors, alike = -1.0, 0, 0.0, True
    for number, (piece, found) in enumerate(_pieces(want, got)):
        both = np.isfinite(piece) & np.isfinite(found)
        same = both | (piece == found) | (np.isnan(piece) & np.isnan(found))
        error = np.abs(np.where(both, piece, 0.0) - np.where(both, found, 0.0))
        errors = max(errors, float(error.max()))
        alike = alike and bool(same.all())
        ranked = np.where(same, error, np.inf)
        if ranked.max() > worst:
            worst = float(ranked.max())
            place = number * PIECE_ELEMENTS + int(ranked.argmax())
    index = tuple(int(k) for k in np.unravel_index(place, want.shape))
    reason = "" if errors <= bound else f"differs by {errors:.4g}; allowed {bound:.4g}"
    wanted, given = float(want[index]), float(got[index])
    if not alike:
        reason = (
            f"NaN or infinity in other places: {shown(given)} at {list(index)}, not {shown(wanted)}"
        )
    return Check(
        **plain,
        max_error=errors,
        bound=bound,
        scale=scale,
        place=index,
        want=wanted,
        got=given,
        reason=reason,
    )
