"""Product that the delegate leaves.

What it finds: mm, bmm, addmm or linear outside of the delegate, mostly of two activations.

Why it costs: XNNPACK's partitioner takes mm and linear with constant weights only; the portable
kernel multiplies without blocking or vectors.

What to do: write products of two activations with torch.bmm (three dimensions: x.unsqueeze(0) @
y.unsqueeze(0)), which is delegated as a batch matrix product; keep weights as parameters.
`straightway fix` does.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import undelegated

RULE = Rule(
    name="matmul",
    doc=__doc__ or "",
    find=undelegated(
        "mm",
        "bmm",
        "addmm",
        "linear",
        "matmul",
        what="{op} multiplies outside of the delegate",
    ),
    fix="matmul",
    safety="exact",
)
