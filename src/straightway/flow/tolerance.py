"""The one table of tolerances: `verify`, tests and benchmarks compare by it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

# |Δ| relative to the larger of range and greatest magnitude
RELATIVE = {"float64": 1e-4, "float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
# the reference's own uncertainty: onnxruntime with and without its optimisations
TIMES_REFERENCE_SPREAD = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One compared tensor: the greatest difference, the bound, and where the difference is greatest.

    `want` and `got` are the values there. `reason` says why the tensors differ, "" where they don't.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    max_error: float
    bound: float
    scale: float
    place: tuple[int, ...] = ()
    want: float = 0.0
    got: float = 0.0
    reason: str = ""

    @property
    def equal(self) -> bool:
        """Whether the tensors are equal by the table."""
        return not self.reason

    @property
    def relative_error(self) -> float:
        """The greatest difference relative to the measure that the bound is relative to."""
        return self.max_error / self.scale if self.scale else self.max_error


def compare(name: str, want: np.ndarray, got: np.ndarray, other: np.ndarray | None = None) -> Check:
    """Compare `got` with the reference `want`; `other` is the reference computed another way.

    Floats: |Δ| ≤ max(relative · max(range, max|y|), 4 · |want - other|), the patterns of NaN and
    infinity equal. Integers and truth values: exact.
    """
    plain: dict[str, Any] = {"name": name, "shape": tuple(want.shape), "dtype": want.dtype.name}
    if got.shape != want.shape or got.dtype != want.dtype:
        reason = f"is {got.dtype.name}{list(got.shape)}, not {want.dtype.name}{list(want.shape)}"
        return Check(**plain, max_error=np.inf, bound=0.0, scale=1.0, reason=reason)
    relative = RELATIVE.get(want.dtype.name)
    if want.size == 0:
        return Check(**plain, max_error=0.0, bound=0.0, scale=1.0)
    if relative is None:
        return _exact(plain, want, got)
    return _close(plain, want.astype(np.float64), got.astype(np.float64), other, relative)


def _exact(plain: dict[str, Any], want: np.ndarray, got: np.ndarray) -> Check:
    wrong = want != got
    if not wrong.any():
        return Check(**plain, max_error=0.0, bound=0.0, scale=1.0)
    place = tuple(int(k) for k in np.argwhere(wrong)[0])
    error = abs(float(want[place]) - float(got[place]))
    reason = f"{int(wrong.sum()):,} of {want.size:,} elements differ"
    return Check(
        **plain,
        max_error=error,
        bound=0.0,
        scale=1.0,
        place=place,
        want=float(want[place]),
        got=float(got[place]),
        reason=reason,
    )


def _close(
    plain: dict[str, Any],
    want: np.ndarray,
    got: np.ndarray,
    other: np.ndarray | None,
    relative: float,
) -> Check:
    finite = np.isfinite(want)
    patterns = np.where(finite, 0.0, want)
    found = np.where(np.isfinite(got), 0.0, got)
    values = want[finite]
    scale = float(max(np.ptp(values), np.abs(values).max())) if values.size else 0.0
    bound = relative * scale
    if other is not None:
        apart = np.abs(want - other.astype(np.float64))[finite & np.isfinite(other)]
        bound = max(bound, TIMES_REFERENCE_SPREAD * float(apart.max(initial=0.0)))
    with np.errstate(invalid="ignore"):
        error = np.where(finite & np.isfinite(got), np.abs(want - got), 0.0)
    same_patterns = (patterns == found) | (np.isnan(patterns) & np.isnan(found))
    worst = int(np.argmax(np.where(same_patterns, error, np.inf)))
    place = tuple(int(k) for k in np.unravel_index(worst, want.shape))
    reason = ""
    if not same_patterns.all():
        reason = "NaN or infinity in other places"
    elif error.max() > bound:
        reason = f"differs by {error.max():.4g}; allowed {bound:.4g}"
    return Check(
        **plain,
        max_error=float(error.max()),
        bound=bound,
        scale=scale,
        place=place,
        want=float(want[place]),
        got=float(got[place]),
        reason=reason,
    )
