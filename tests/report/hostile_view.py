"""A view in which every text that comes from a model, or may, is hostile."""

from dataclasses import replace

from sample_view import sample_view

from straightway.remark import Remark
from straightway.report.summary import category_times, group_refusals
from straightway.report.view import FirstDifference, StepTime

HOSTILE = (
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "\"'`onmouseover=window.hacked=1 x=",
    "{{ 7*7 }}{% raw %}<!--",
    "\u202e gpj.exe \u2066\u0000\x1b[31m \u2028\u2029",
    "lone \ud800 surrogate",
    "名前/畳み込み/🙂",
    "[red]markup[/red] [link=http://example.org]x[/link]",
    "/very/long" * 1000,
    "",
)


def hostile_view():
    """Every text that comes from a model, or may, is hostile."""
    whole = sample_view()
    rows = tuple(
        replace(
            row,
            kind=HOSTILE[i % 8] if i % 3 else row.kind,
            kernel=HOSTILE[(i + 1) % 9],
            category=HOSTILE[1] if i == 5 else row.category,
            place=HOSTILE[i % 4],
            origins=(HOSTILE[i % len(HOSTILE)], HOSTILE[(i + 3) % len(HOSTILE)]),
            source=HOSTILE[(i + 5) % len(HOSTILE)],
            remarks=(HOSTILE[(i + 2) % 9],),
        )
        for i, row in enumerate(whole.operators)
    )
    text = "".join(HOSTILE[:8])
    run_ns = whole.latency.ours.median_ns
    return replace(
        whole,
        title=HOSTILE[0],
        created=HOSTILE[1],
        command=text,
        model=replace(whole.model, name=HOSTILE[8], producer=text, opset=HOSTILE[1]),
        result=replace(whole.result, name=text),
        versions={HOSTILE[0]: HOSTILE[1]},
        machine=replace(whole.machine, cpu=text, clock=text),
        verdict=replace(
            whole.verdict,
            text=text,
            outputs=tuple(replace(item, name=text, dtype=text) for item in whole.verdict.outputs),
            first_difference=FirstDifference(
                node=text, op=HOSTILE[1], element=text, expected=text, got=text, source=text
            ),
        ),
        latency=replace(whole.latency, ours=replace(whole.latency.ours, engine=text), notes=(text,)),
        operators=rows,
        categories=category_times(rows, run_ns),
        partitions=tuple(
            replace(item, place=text, cut_by=text, reason=text) for item in whole.partitions
        ),
        plan=replace(
            whole.plan,
            text=text,
            conversions=tuple(
                replace(item, value=text, from_order=text, to_order=text, cause=text,
                        demanded_by=text)
                for item in whole.plan.conversions
            ),
        ),
        remarks=(Remark(kind="missed", step=text, text=text, node=text, op=text, source=text,
                        remedy=text, numbers={text: 1.0}),),
        refusals=group_refusals([Remark(kind="missed", step="x", text=text, node=text, op=text,
                                        remedy=text, source=text)]),
        notes=(text,),
        steps=(StepTime(name=text, time_ns=1.0),),
    )  # fmt: skip
