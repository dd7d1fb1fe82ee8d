"""RMS norm, or another norm written by hand, partly outside of the delegate.

What it finds: rsqrt, sqrt or a division whose operand comes from a mean outside of the delegate: nn.RMSNorm, or
x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps).

Why it costs: XNNPACK's partitioner takes a mean over the two spatial dimensions of an image only. The mean over
the last dimension and the scalar added to it run as portable kernels, and split the delegate in the middle of the
norm.

What to do: write the mean as a product with a column of 1/d, which is delegated; `straightway fix` does it for
nn.RMSNorm.
"""

from collections.abc import Iterator

from straightway.diagnosis.case import Case
from straightway.diagnosis.finding import Match
from straightway.diagnosis.rule import Rule

_STEPS = 4
_PARTS = {"mean", "add", "pow", "mul", "square", "var", "_to_dim_order"}


def _find(case: Case) -> Iterator[Match]:
    for place, op in enumerate(case.ops):
        if case.name(place) not in {"rsqrt", "sqrt"}:
            continue
        above = [k for k in case.above(place, _STEPS) if case.is_outside(k)]
        mean = next((k for k in above if case.name(k) in {"mean", "var"}), None)
        if mean is None:
            continue
        parts = [k for k in above if case.name(k) in _PARTS]
        parts += [place] if op.partition is None else []
        yield Match(
            ops=tuple(dict.fromkeys([mean, *parts])),
            message=f"{case.told(mean)} is a norm's statistic and runs outside of the delegate",
        )


RULE = Rule(name="rms-norm", doc=__doc__ or "", find=_find, fix="layer-norm", safety="exact")
