"""Inputs and outputs turned to NHWC and back.

What it finds: layout conversions at the program's own inputs and outputs.

Why it costs: XNNPACK's convolutions and pools run channels last. An image that is given as NCHW is turned before
the first of them, and a result that is wanted as NCHW behind the last; between partitions, NCHW is kept as well.

What to do: export with an example input in x.to(memory_format=torch.channels_last) and give the program such
inputs; its outputs come back channels last: `straightway fix --channels-last` does. Not the module:
.to(memory_format=...) on the model does not lower.
"""

from collections.abc import Iterator

from straightway.diagnosis.case import Case
from straightway.diagnosis.finding import Match
from straightway.diagnosis.rule import Rule


def _find(case: Case) -> Iterator[Match]:
    for event in case.conversions():
        if event.forced_by is None and event.op_index is not None:
            yield Match(
                at=event.op_index,
                events=(event.id,),
                message=f"at {case.told(event.op_index)} the program's own input or output is turned",
            )


RULE = Rule(
    name="channels-last-input",
    doc=__doc__ or "",
    find=_find,
    fix="channels-last",
    safety="interface",
)
