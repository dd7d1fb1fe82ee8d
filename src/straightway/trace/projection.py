"""What a run would take if its products were faster: Amdahl's law on a trace, not a measurement."""

from dataclasses import dataclass

from straightway.trace.join import by_category
from straightway.trace.schema import Trace

_PRODUCTS = ("convolution", "matrix")


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """The run with convolutions and matrix products `factor` times faster, all else unchanged.

    `moved_share` is the share of moving and converting data in it.
    """

    factor: float
    total_ns: float
    speedup: float
    moved_share: float


def project(trace: Trace, factor: float) -> Projection:
    """Raises ValueError for a factor that is not above 0."""
    if factor <= 0:
        raise ValueError(f"products can't be {factor} times faster")
    sums = by_category(trace)
    products_ns = sum(time for name, time in sums.items() if name in _PRODUCTS)
    moved_ns = sum(sums.get(name, 0.0) for name in ("data movement", "type conversion"))
    total_ns = trace.median_ns - products_ns + products_ns / factor
    return Projection(
        factor=factor,
        total_ns=total_ns,
        speedup=trace.median_ns / total_ns if total_ns > 0 else 1.0,
        moved_share=moved_ns / total_ns if total_ns > 0 else 0.0,
    )
