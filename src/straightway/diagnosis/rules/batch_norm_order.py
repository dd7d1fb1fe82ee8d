"""Batch norm behind an activation.

What it finds: a batch norm in the delegate that is not part of a convolution, because an activation, a sum or a
concatenation stands between, or because it comes first.

Why it costs: only a batch norm directly behind its convolution disappears into that one's weights. This one runs
as a depthwise convolution of its own: it reads and writes the whole image, and in 8 bits it computes in floats
between two conversions.

What to do: train with the order conv, norm, activation. Where no padding and no other reader stand between, the
norm can also be folded into the convolution that follows.
"""

from collections.abc import Iterator

from straightway.diagnosis.case import Case
from straightway.diagnosis.finding import Match
from straightway.diagnosis.rule import Rule


def _find(case: Case) -> Iterator[Match]:
    for place in case.inside("_native_batch_norm_legit_no_training", "native_batch_norm"):
        if not case.own(place):
            continue  # it went into a convolution
        makers = case.ops[place].feeds_on
        behind = case.told(makers[0]) if makers else "the input"
        yield Match(
            ops=(place,),
            message=f"{case.told(place)} stands behind {behind} and is computed on its own",
            saves_own=True,
        )


RULE = Rule(name="batch-norm-order", doc=__doc__ or "", find=_find, safety="numbers")
