"""Conversion of type or memory format.

What it finds: _to_dim_order_copy and _clone_dim_order outside of the delegate: .to(dtype),
.float(), .contiguous(), .to(memory_format=...).

Why it costs: the copy computes nothing, has a portable kernel only, and cuts the delegate.

What to do: keep one type through the model: floats for what floats are computed with, constants as
buffers of the right type; leave memory formats to the input. `straightway fix` leaves out what changes no
number: casts to the type that is there, or a wider one and back, and memory formats within the model.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import undelegated

RULE = Rule(
    name="dim-order-copy",
    doc=__doc__ or "",
    find=undelegated(
        "_to_dim_order",
        "_clone_dim_order",
        "_empty_dim_order",
        "clone",
        what="{op} converts outside of the delegate",
    ),
    fix="copies",
    safety="exact",
)
