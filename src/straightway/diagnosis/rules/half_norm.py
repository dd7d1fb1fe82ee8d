"""Norm in half floats.

What it finds: a layer, group, batch or instance norm of float16 outside of the delegate.

Why it costs: its portable kernel converts each element from half and back, many times slower than
in float32; it splits the delegate, too.

What to do: compute the norm in float32, or out of a matrix product with a column of 1/d
(`straightway fix` does; group and instance norms by fix --rule group-norm); or export the model as
fp32 on CPUs without half arithmetic.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import is_half, undelegated

RULE = Rule(
    name="half-norm",
    doc=__doc__ or "",
    find=undelegated(
        "native_layer_norm",
        "native_group_norm",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_no_training",
        what="{op} computes in half floats outside of the delegate",
        where=is_half,
    ),
    fix="layer-norm",
    safety="exact",
)
