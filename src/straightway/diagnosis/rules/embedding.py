"""Embedding outside of the delegate.

What it finds: embedding, a gather of rows by int64 indices.

Why it costs: a gather has no XNNPACK kernel. It copies rows and computes nothing, but splits the
delegate where it does not come first.

What to do: look the rows up before the rest of the model, or hand the model its embeddings, so that
one partition takes all that follows; keep the table in the type of the activations.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import undelegated

RULE = Rule(
    name="embedding",
    doc=__doc__ or "",
    find=undelegated("embedding", what="{op} gathers rows outside of the delegate"),
    safety="interface",
)
