"""The findings of an ExecuTorch program as one HTML file that loads nothing and runs no script."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from straightway.diagnosis.finding import Finding
from straightway.report.html import Fact, environment, template_text
from straightway.report.quantity import duration, percent
from straightway.report.snippet import SourceLine, snippet
from straightway.trace.join import by_category, joined_share
from straightway.trace.schema import Event, Trace
from straightway.trace.taxonomy import Category

_STYLES = ("report.css", "details.css", "findings.css")
_MOST_EVENTS = 100
_OVERHEAD: tuple[Category, ...] = ("data movement", "type conversion")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A finding with its source, and its share of the run."""

    finding: Finding
    share: float
    lines: Sequence[SourceLine]

    @property
    def modules(self) -> str:
        """All places by their module paths."""
        return ", ".join(place.module or place.node for place in self.finding.places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An event of the table and where the model has it."""

    event: Event
    where: str


def render_findings(model: str, trace: Trace, findings: Sequence[Finding]) -> str:
    """The page. Source lines are read from the user's files; all that is shown is escaped."""
    whole_ns = trace.median_ns or 1.0
    categories = sorted(by_category(trace).items(), key=lambda pair: -pair[1])
    shown = [
        Shown(finding=one, share=one.saves.median / whole_ns, lines=snippet(one.cause))
        for one in findings
    ]
    slowest = sorted(trace.events, key=lambda event: -event.median_ns)[:_MOST_EVENTS]
    page = environment().get_template("findings.html")
    return page.render(
        model=model,
        trace=trace,
        findings=shown,
        facts=_facts(trace, findings),
        categories=[(name, max(0.0, time_ns)) for name, time_ns in categories],
        longest_ns=max((time_ns for _, time_ns in categories), default=1.0) or 1.0,
        events=[Row(event=event, where=_where(trace, event)) for event in slowest],
        style=Markup("\n".join(map(template_text, _STYLES))),  # noqa: S704 our own files
    )


def _facts(trace: Trace, findings: Sequence[Finding]) -> Sequence[Fact]:
    whole_ns = trace.median_ns or 1.0
    saves_ns = sum(one.saves.median for one in findings)
    spent = by_category(trace)
    moved = sum(spent.get(name, 0.0) for name in _OVERHEAD) / whole_ns
    outside_ns = sum(e.median_ns for e in trace.events if e.place == "executorch")
    return (
        Fact(
            name="May be saved",
            value=f"up to {percent(saves_ns / whole_ns)}",
            text=f"{duration(saves_ns)} of {duration(trace.median_ns)}",
        ),
        Fact(name="Overhead", value=percent(moved), text="only moves or converts data"),
        Fact(
            name="Outside",
            value=percent(outside_ns / whole_ns),
            text="of the time in portable kernels",
        ),
        Fact(
            name="Joined",
            value=percent(joined_share(trace)),
            text="of the time to the model's operators",
        ),
    )


def _where(trace: Trace, event: Event) -> str:
    if event.op_index is None:
        return ""
    op = trace.ops[event.op_index]
    line = f"{Path(op.file).name}:{op.line}" if op.file else ""
    return " ".join(part for part in (op.module, line) if part)
