"""Softplus in parts.

What it finds: softplus or logsigmoid, decomposed into exp, log1p, gt and where, the latter outside
of the delegate.

Why it costs: the comparison, log1p and the selection have portable kernels only, and the data leave
the delegate and come back between them.

What to do: write relu(x) + log(1 + exp(-abs(x))), all of which is delegated; `straightway fix`
does.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import COMPARISONS, expression

RULE = Rule(
    name="softplus",
    doc=__doc__ or "",
    find=expression(
        "log1p",
        parts=(*COMPARISONS, "where", "exp", "neg", "abs", "minimum", "sub"),
        without=("tanh",),
        what="{op} of softplus runs outside of the delegate",
    ),
    fix="activations",
    safety="exact",
)
