"""Attention with the case of an empty row.

What it finds: scaled_dot_product_attention whose decomposition stands outside of the delegate: eq,
logical_not, any, full_like and where around the softmax, with their expansions.

Why it costs: torch decomposes it with a softmax that gives zeros for a row without any key. The
comparisons and selections have no XNNPACK kernels: on small heads they cost more than the matrix
products.

What to do: where no row can be masked whole (no mask, or a causal one), write softmax(q @
k.transpose(-2, -1) * scale + mask) @ v, with a mask of 0 and -1e9 instead of truth values.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import expression

RULE = Rule(
    name="attention",
    doc=__doc__ or "",
    find=expression(
        "any",
        "logical_not",
        "where",
        parts=(
            "eq",
            "full_like",
            "full",
            "mul",
            "expand",
            "squeeze",
            "unsqueeze",
            "scalar_tensor",
            "_to_dim_order",
            "clone",
        ),
        what="{op} outside of the delegate: the case of a row without any key",
    ),
    fix="attention",
    safety="exact",
)
