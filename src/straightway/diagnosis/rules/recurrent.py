"""LSTM or GRU unrolled.

What it finds: the cells of nn.LSTM and nn.GRU, which export unrolls: for each step the products, the gates, and
split, squeeze and unsqueeze outside of the delegate.

Why it costs: each step is cut by its split, so that a sequence becomes as many partitions as it has steps, with
portable copies between them; the calls cost more than the small products.

What to do: write the cell with slices of its gates in place of a split, with states of rank 2;
`straightway fix` does. Export one step and loop outside where sequences are long; or use
convolutions over time.
"""

from collections.abc import Iterator

from straightway.diagnosis.case import Case
from straightway.diagnosis.finding import Match
from straightway.diagnosis.rule import Rule

_PRODUCTS = ("linear", "addmm", "mm", "bmm")
_GATES = 2


def _find(case: Case) -> Iterator[Match]:
    for (file, _, _), members in case.lines().items():
        names = [case.name(place) for place in members]
        products = sum(names.count(one) for one in _PRODUCTS)
        if not file or names.count("sigmoid") < _GATES or "tanh" not in names or products < _GATES:
            continue
        outside = [place for place in members if case.is_outside(place)]
        if outside:
            yield Match(
                ops=tuple(outside),
                message=(
                    f"{case.told(outside[0])}: {len(outside)} operators of an unrolled cell run "
                    "outside of the delegate"
                ),
            )


RULE = Rule(name="recurrent-cell", doc=__doc__ or "", find=_find, fix="recurrent", safety="exact")
