"""What sizes at three samples are explained by."""

from fractions import Fraction

import pytest

from straightway.domains.sizes import Open, Size, explain
from straightway.ir import Value

X = Value("x", None)


@pytest.mark.parametrize(
    ("sizes", "sample", "factor", "offset"),
    [
        pytest.param((2, 2, 5), (1, 1, 4), 1, -1, id="two samples alike"),
        pytest.param((5, 2, 2), (7, 4, 4), 1, 2, id="the last two alike"),
        pytest.param((2, 4, 10), (3, 5, 11), 1, 1, id="three"),
        pytest.param((2, 4, 10), (4, 8, 20), 2, 0, id="a multiple"),
        pytest.param((2, 4, 10), (0, 1, 4), Fraction(1, 2), -1, id="a part"),
    ],
)
def test_one_dimension_explains(sizes, sample, factor, offset):
    one = Open(value=X, dim=0, sizes=sizes)
    found = explain(sample, [one])
    assert found is not None
    assert found.opens == (one,)
    assert (Fraction(found.factor, found.divisor), found.offset) == (factor, offset)
    assert [found.at({one: size}) for size in sizes] == list(sample)


@pytest.mark.parametrize(
    ("sizes", "sample"), [((2, 2, 5), (4, 4, 10)), ((2, 2, 5), (1, 2, 4)), ((2, 4, 10), (1, 2, 4))]
)
def test_what_two_points_leave_open_is_not_explained(sizes, sample):
    assert explain(sample, [Open(value=X, dim=0, sizes=sizes)]) is None


def test_what_does_not_change_is_a_number():
    assert explain((3, 3, 3), []) == Size(factor=0, offset=3)
