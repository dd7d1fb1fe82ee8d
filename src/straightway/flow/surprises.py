"""What is odd about observed values: never finite, the same everywhere, far out in one sample."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from straightway.flow.calibration import Sample, Samples
from straightway.quant.ranges import Range, range_of
from straightway.remark import Remark
from straightway.run.observe import Observed

STEP = "flow.surprises"


def is_constant(seen: Mapping[str, Observed], names: Sequence[str]) -> bool:
    """Whether each input of floats is one number everywhere."""
    found = [seen[name] for name in names if name in seen]
    return bool(found) and all(one.low == one.high and one.elements > 1 for one in found)


def clipped(samples: Samples, ends: Mapping[str, Range]) -> Samples:
    """The same samples, each input within its range."""

    def cut() -> Iterator[Sample]:
        for sample in samples:
            within = {name: sample.inputs[name].clip(*range_) for name, range_ in ends.items()}
            yield replace(sample, inputs={**sample.inputs, **within})

    return replace(samples, samples=cut)


def surprises(seen: Mapping[str, Observed], first: Sequence[Sample]) -> list[Remark]:
    """Values that are never finite, or the same everywhere, or far out in one sample."""
    labels = dict(enumerate(sample.label for sample in first))
    found = []
    for name, one in seen.items():
        if one.not_finite:
            where = labels.get(one.not_finite_sample, f"sample {one.not_finite_sample}")
            text = f"'{name}' has {one.not_finite:,} elements that are not finite, first in {where}"
        elif one.low == one.high and one.elements > 1:
            text = f"'{name}' is {one.low:.6g} everywhere in the calibration data"
        else:
            text = _outlier(name, one, labels)
        if text:
            found.append(Remark(kind="missed", step=STEP, text=text))
    return found


# a range ten times wider than all but one in ten thousand elements need
FAR = 10.0


def _outlier(name: str, one: Observed, labels: Mapping[int, str]) -> str:
    low, high = range_of(one, "percentile")
    whole, usual = one.high - min(one.low, 0), high - low
    if usual <= 0 or whole < FAR * usual:
        return ""
    sample = one.high_sample if abs(one.high) >= abs(one.low) else one.low_sample
    where = labels.get(sample, f"sample {sample}")
    return (
        f"'{name}' reaches from {one.low:.4g} to {one.high:.4g}, though 99.98 % of it lies from "
        f"{low:.4g} to {high:.4g}; the farthest is in {where}. --method percentile leaves it out"
    )
