"""Operator outside of the delegate.

What it finds: any operator that XNNPACK's partitioner leaves and no other rule knows; the evidence
gives the partitioner's reason.

Why it costs: It runs as a portable kernel, one element at a time, splits the delegate in two, and
what flows in and out is turned from NHWC to NCHW and back.

What to do: use an operator that is delegated (`straightway export` lists what is not, and why), or
move it to the beginning or end of the model.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import undelegated

RULE = Rule(
    name="island",
    doc=__doc__ or "",
    find=undelegated(what="{op} runs as a portable kernel outside of the delegate"),
    safety="numbers",
)
