"""Nearest upsampling outside of the delegate.

What it finds: upsample_nearest2d, for which XNNPACK's partitioner has no rule.

Why it costs: It runs as a portable kernel, one element at a time, splits the delegate in two, and
what flows in and out is turned from NHWC to NCHW and back, at the larger size.

What to do: repeat pixels and rows by products with ones, channels last, which are delegated, or by
factors of 4 and more let nn.ConvTranspose2d with sums of the convolution's weights do both;
`straightway fix` does. Or, where the numbers may change, interpolate with mode='bilinear', which is
delegated and faster still.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import undelegated

RULE = Rule(
    name="nearest",
    doc=__doc__ or "",
    find=undelegated(
        "upsample_nearest2d",
        "upsample_nearest1d",
        "upsample_nearest3d",
        what="{op} has no XNNPACK kernel and splits the delegate",
    ),
    fix="nearest",
    safety="exact",
)
