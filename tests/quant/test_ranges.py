"""Ranges from observed values: extremes, percentiles, least error, least divergence."""

import numpy as np
import pytest

from straightway.errors import InvalidRequest
from straightway.quant.ranges import LEVELS, METHODS, range_of
from straightway.run.observe import Observed
from straightway.run.observe_engine import Seen


def observed(*arrays) -> Observed:
    seen = Seen()
    for sample, array in enumerate(arrays):
        seen.add(np.asarray(array, np.float32), sample)
    fields = (name for name in Observed.__dataclass_fields__)
    return Observed(**{name: getattr(seen, name) for name in fields})


def rounding_error(values, low, high):
    step = (high - low) / (LEVELS - 1)
    stored = np.clip(np.round((values - low) / step), 0, LEVELS - 1)
    return float(((stored * step + low - values) ** 2).mean())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(6))
def test_ranges_lie_within_what_was_seen_and_hold_zero(method, seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(5000) * rng.choice([1e-6, 1, 1e6]) + rng.choice([0, 3, -3])
    low, high = range_of(observed(values), method)
    values = values.astype(np.float32)
    assert min(values.min(), 0) <= low <= 0 <= high <= max(values.max(), 0)
    assert high > low


def test_extremes_are_exact_and_know_their_samples():
    seen = observed([1, 2], [-7.25, 0], [3, 9.5], [9.5, -7.25])
    assert range_of(seen) == (-7.25, 9.5)
    assert (seen.low_sample, seen.high_sample) == (1, 2)
    assert seen.elements == seen.histogram.sum() == 8


def test_a_percentile_leaves_out_its_share():
    values = np.linspace(-1, 1, 100_001)
    low, high = range_of(observed(values), "percentile", percentile=90)
    assert (low, high) == (pytest.approx(-0.8, abs=1e-3), pytest.approx(0.8, abs=1e-3))


@pytest.mark.parametrize("seed", range(4))
def test_least_error_beats_the_extremes_where_there_are_outliers(seed):
    rng = np.random.default_rng(seed)
    values = np.concatenate([rng.laplace(size=200_000), [25, -20]]).astype(np.float32)
    seen = observed(values)
    best = rounding_error(values, *range_of(seen, "mse"))
    assert best < 0.8 * rounding_error(values, *range_of(seen))
    shares = np.linspace(0.1, 1, 25)
    tried = [rounding_error(values, a * seen.low, b * seen.high) for a in shares for b in shares]
    assert best < 1.1 * min(tried)


def test_entropy_cuts_long_tails_and_keeps_even_distributions():
    rng = np.random.default_rng(0)
    tails = observed(rng.standard_t(2, 200_000))
    assert range_of(tails, "entropy")[1] < 0.5 * tails.high
    even = observed(rng.uniform(0, 6, 200_000))
    assert range_of(even, "entropy")[1] > 5.5


@pytest.mark.parametrize("method", METHODS)
def test_the_zeros_of_a_relu_do_not_narrow_the_range(method):
    values = np.maximum(np.random.default_rng(0).standard_normal(100_000), 0)
    low, high = range_of(observed(values), method)
    assert low == 0
    assert high > 2.5


def test_the_histogram_widens_without_losing_elements():
    seen = observed([0.1, -0.2], [0.9], [40.0], [-1000.0])
    assert seen.histogram.sum() == 5
    assert seen.span == 1024
    middles = (seen.edges()[1:] + seen.edges()[:-1]) / 2
    assert (np.sort(middles.repeat(seen.histogram)) // 1 == [-1000, -1, 0, 0, 39]).sum() >= 3


def test_large_tensors_are_counted_in_part_but_extremes_are_exact():
    values = np.zeros(1_000_000, np.float32)
    values[777_777] = 5
    seen = observed(values, values)
    assert seen.high == 5
    assert seen.elements == 2_000_000
    assert seen.histogram.sum() == pytest.approx(2_000_000, rel=0.01)
    assert seen.histogram[len(seen.histogram) // 2 + 1 :].sum() >= 2


def test_what_is_not_finite_is_told_and_left_out():
    seen = observed([1, 2], [np.nan, np.inf, 3], [np.nan])
    assert (seen.low, seen.high, seen.not_finite, seen.not_finite_sample) == (1, 3, 3, 1)
    assert range_of(observed([np.nan])) == (0, 0)


@pytest.mark.parametrize("wrong", [{"method": "best"}, {"method": "percentile", "percentile": 5}])
def test_unknown_methods_are_refused(wrong):
    with pytest.raises(InvalidRequest, match="got"):
        range_of(observed([1.0]), **wrong)


def test_what_makes_no_difference_takes_no_bits():
    """Half of the values lie far below what an activation tells apart."""
    rng = np.random.default_rng(8)
    far = np.concatenate([rng.normal(-200, 20, 5000), rng.uniform(-3, 2, 5000)])
    low, high = range_of(observed(far), "mse", within=(-3.0, np.inf))
    assert -3 <= low < -2.8
    assert 1.8 < high <= 2
    assert range_of(observed(far), "mse")[0] < -100
    assert range_of(observed(far), "minmax", within=(-3.0, np.inf))[0] == -3


@pytest.mark.parametrize("method", METHODS)
def test_nothing_but_zeros_has_a_range(method):
    low, high = range_of(observed(np.zeros(100)), method)
    assert low <= 0 <= high
