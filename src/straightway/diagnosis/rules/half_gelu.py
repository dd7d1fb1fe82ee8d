"""GELU in half floats.

What it finds: gelu of float16 outside of the delegate.

Why it costs: XNNPACK's partitioner takes GELU in float32 only. It runs as a portable kernel, one
element at a time, splits the delegate in two, and what flows in and out is turned from NHWC to NCHW
and back.

What to do: write x * torch.sigmoid(1.5957691 * (x + 0.044715 * x**3)), which is delegated;
`straightway fix` does. Or keep the activation in float32 (x.float() before and .half() after), or
export the model as fp32.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import is_half, undelegated

RULE = Rule(
    name="half-gelu",
    doc=__doc__ or "",
    find=undelegated(
        "gelu",
        what="{op} computes in half floats outside of the delegate",
        where=is_half,
    ),
    fix="half-gelu",
    safety="exact",
)
