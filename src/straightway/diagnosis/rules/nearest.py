"""Nearest upsampling outside of the delegate.

What it finds: upsample_nearest2d, for which XNNPACK's partitioner has no rule.

Why it costs: It runs as a portable kernel, one element at a time, splits the delegate in two, and
what flows in and out is turned from NHWC to NCHW and back, at the larger size.

What to do: for whole factors let the convolution that reads it enlarge the image:
nn.ConvTranspose2d with stride 2, whose weights are sums of that convolution's; `straightway fix`
does. Or, where the numbers may change, interpolate with mode='bilinear', which is delegated.
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
