"""The table of tolerances, row by row."""

import ml_dtypes
import numpy as np
import pytest

from straightway.flow import tolerance
from straightway.flow.tolerance import compare
from straightway.flow.verify import Difference

F4 = np.float32


def array(*values, dtype=F4):
    return np.array(values, dtype)


def test_floats_may_differ_by_a_share_of_the_largest():
    want = array(0.0, 50.0, 100.0)
    assert compare("y", want, want + F4(0.9e-2)).equal
    found = compare("y", want, want + array(0, 2e-2, 0))
    assert not found.equal
    assert found.place == (1,)
    assert (found.want, round(found.got, 3)) == (50.0, 50.02)
    assert found.bound == pytest.approx(1e-2)
    assert found.relative_error == pytest.approx(2e-4, rel=1e-3)
    assert found.reason == "differs by 0.02; allowed 0.01"


def test_the_range_counts_where_it_is_larger_than_the_largest():
    want = array(-100.0, 100.0)
    assert compare("y", want, want + F4(1.9e-2)).equal
    assert not compare("y", want, want + F4(2.1e-2)).equal


def test_numbers_far_from_zero_count_by_their_size():
    want = array(1000.0, 1000.5)
    assert compare("y", want, want + F4(0.09)).equal


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_floats_are_wider(dtype):
    want = array(0, 1, 100, dtype=dtype)
    near = (want.astype(F4) + array(0, 0, 0.5)).astype(dtype)
    far = (want.astype(F4) + array(0, 2, 0)).astype(dtype)
    assert compare("y", want, near).equal
    assert not compare("y", want, far).equal


def test_doubles_are_compared_as_doubles():
    want = array(1e-30, 2e-30, dtype=np.float64)
    assert compare("y", want, want * (1 + 1e-5)).equal
    assert not compare("y", want, want * (1 + 1e-3)).equal


def test_the_uncertainty_of_the_reference_widens_the_bound():
    want, other, got = array(0, 1), array(0, 1.01), array(0, 1.035)
    assert not compare("y", want, got).equal
    assert compare("y", want, got, other).equal
    assert not compare("y", want, array(0, 1.045), other).equal


def test_a_reference_that_is_infinite_once_widens_nothing():
    want, got = array(0, 1), array(0, 1.1)
    assert not compare("y", want, got, array(0, np.inf)).equal
    assert not compare("y", want, got, array(0, np.nan)).equal


@pytest.mark.parametrize(
    ("want", "got"),
    [
        ((np.nan, 1), (0, 1)),
        ((0, 1), (np.nan, 1)),
        ((np.inf, 1), (np.nan, 1)),
        ((np.inf, 1), (-np.inf, 1)),
        ((np.inf, 1), (3e38, 1)),
        ((0, 1), (np.inf, 1)),
    ],
)
def test_other_places_of_nan_and_infinity_are_a_difference(want, got):
    found = compare("y", array(*want), array(*got))
    (want_first, _), (got_first, _) = want, got
    assert found.reason == (
        f"NaN or infinity in other places: {got_first:.7g} at [0], not {want_first:.7g}"
    )
    assert found.place == (0,)


def test_the_same_places_of_nan_and_infinity_are_equal():
    want = array(np.nan, np.inf, -np.inf, 1.0)
    assert compare("y", want, want.copy()).equal
    assert not compare("y", want, array(np.nan, np.inf, -np.inf, 1.1)).equal
    nothing = array(np.nan, np.nan)
    assert compare("y", nothing, nothing.copy(), array(1, 2)).equal


def test_zeros_must_be_zeros():
    assert compare("y", array(0, 0), array(0, -0.0)).equal
    assert not compare("y", array(0, 0), array(0, 1e-30)).equal


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_integers_are_exact(dtype):
    want = array(1, 100, 7, dtype=dtype)
    assert compare("y", want, want.copy()).equal
    found = compare("y", want, array(1, 101, 8, dtype=dtype))
    assert found.reason == "2 of 3 elements differ"
    assert (found.place, found.want, found.got, found.max_error) == ((1,), 100, 101, 1)


def test_large_integers_that_differ_by_one_differ():
    want = array(2**62, dtype=np.int64)
    assert not compare("y", want, want + 1).equal


def test_truth_values_are_exact():
    want = array(True, False, dtype=bool)
    assert compare("y", want, want.copy()).equal
    assert not compare("y", want, ~want).equal


def test_nothing_equals_nothing():
    for dtype in (F4, np.int64, bool):
        assert compare("y", np.zeros((0, 3), dtype), np.zeros((0, 3), dtype)).equal


def test_a_scalar_has_a_place_too():
    found = compare("y", np.array(1, F4), np.array(2, F4))
    assert not found.equal
    assert found.place == ()


@pytest.mark.parametrize(
    ("got", "reason"),
    [
        (np.zeros((3, 2), F4), "is float32[3, 2], not float32[2, 3]"),
        (np.zeros((2, 3), np.float64), "is float64[2, 3], not float32[2, 3]"),
        (np.zeros((1, 2, 3), F4), "is float32[1, 2, 3], not float32[2, 3]"),
    ],
)
def test_shape_and_type_are_part_of_the_value(got, reason):
    found = compare("y", np.zeros((2, 3), F4), got)
    assert found.reason == reason
    assert found.max_error == np.inf


def test_large_arrays_are_compared_in_pieces_like_small_ones(monkeypatch):
    rng = np.random.default_rng(0)
    want = rng.normal(size=(7, 11)).astype(F4)
    got, other = want.copy(), want + F4(1e-7)
    got[5, 3] += 1
    whole = compare("y", want, got, other)
    monkeypatch.setattr(tolerance, "PIECE_ELEMENTS", 4)
    assert compare("y", want, got, other) == whole
    assert whole.place == (5, 3)


def test_the_first_of_equally_bad_places_is_named(monkeypatch):
    monkeypatch.setattr(tolerance, "PIECE_ELEMENTS", 2)
    want = np.zeros(6, F4)
    assert compare("y", want, array(0, 1, 0, 1, 0, 1)).place == (1,)
    assert compare("y", want, array(0, 1, 0, np.nan, 0, np.nan)).place == (3,)


@pytest.mark.parametrize(
    ("want", "got", "expected", "found"),
    [
        (array(1, 2), array(1, 2, 3), "float32[2]", "float32[3]"),
        (array(1, 2), np.array([1, 2]), "float32[2]", "int64[2]"),
        (array(np.nan, 1), array(0.5, 1), "nan", "0.5"),
        (array(1, 1), array(1, -np.inf), "1", "-inf"),
        (np.array([2**62 + 1]), np.array([2**62]), str(2**62 + 1), str(2**62)),
        (np.array([True]), np.array([False]), "True", "False"),
        (np.array(["a", "b"], object), np.array(["a", "c"], object), "b", "c"),
    ],
    ids=["shape", "type", "nan", "infinity", "large", "truth", "text"],
)
def test_what_is_and_what_should_be_is_told_apart(want, got, expected, found):
    check = compare("y", want, got)
    assert not check.equal
    assert (check.expected, check.found) == (expected, found)
    difference = Difference(node="n", op="Op", source="", check=check)
    assert str(difference).endswith(f"is {found}, should be {expected}")


@pytest.mark.parametrize(("want", "held"), [(1e-60, 0), (-1e60, -np.inf), (1e-30, 1e-30)])
def test_doubles_are_what_float32_holds_of_them(want, held):
    def doubles(*numbers):
        return np.array(numbers, np.float64)

    assert compare("y", doubles(want, want), doubles(held, held)).equal
    assert not compare("y", doubles(want, want), doubles(held, 1e-29)).equal


@pytest.mark.parametrize("far", [-2e300, 3e-60])
def test_doubles_beyond_float32_may_be_right_for_their_own_magnitude(far):
    def doubles(*numbers):
        return np.array(numbers, np.float64)

    assert compare("y", doubles(far, far), doubles(far, far * (1 + 1e-6))).equal
    assert not compare("y", doubles(far, far), doubles(far, far * 1.1)).equal
    assert not compare("y", doubles(far, 1.0), doubles(far, 1.001)).equal


def test_quanta_of_int64_may_be_farther_apart_than_int64_counts():
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    assert compare("y", array(5, dtype=np.int64), array(6, dtype=np.int64), quanta=1).equal
    for want, got in ((least, 0), (0, least), (least, most), (most, least)):
        pair = array(want, dtype=np.int64), array(got, dtype=np.int64)
        assert not compare("y", *pair, quanta=1).equal
    assert not compare("y", array(-128, dtype=np.int8), array(127, dtype=np.int8), quanta=1).equal
