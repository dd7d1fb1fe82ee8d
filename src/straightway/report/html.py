"""The report as one HTML file that loads nothing: styles, script and data are inside."""

import base64
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from straightway.remark import Remark
from straightway.report import accuracy, quantity, summary
from straightway.report.rows import category_class, page_data
from straightway.report.text import plan_text
from straightway.report.view import Timing, ValueCheck, View

_TEMPLATES = Path(__file__).parent / "templates"
_STYLES = ("report.css", "details.css", "accuracy.css")
_SCRIPTS = ("data.js", "select.js", "strip.js", "roofline.js", "table.js", "theme.js")
_WORDS = {
    "equal": "Equal",
    "different": "Different",
    "refused": "Refused",
    "unverified": "Not verified",
}
_FARTHEST = 7
# What the operators leave of the run, or exceed it by, as a share that is worth a word.
_SHOWN_REST = 0.0005


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A tile under the verdict: a name, a number, and what it means."""

    name: str
    value: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the operator table; `key` is the name that the script sorts by."""

    key: str
    title: str
    style: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """Positions (percent of the track) of the worst error and its bound, on a log scale."""

    allowed: float
    worst: float
    margin: tuple[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A bar of the latency comparison: percent of the slowest 90th percentile."""

    timing: Timing
    median: float
    low: float
    wide: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RemarkGroup:
    """The remarks of one kind under a title; what can be improved is shown open."""

    title: str
    remarks: tuple[Remark, ...]
    open: bool


_COLUMNS = (
    Column(key="index", title="#", style="n index"),
    Column(key="name", title="Operator", style="name"),
    Column(key="time", title="Time", style="n time"),
    Column(key="share", title="Share", style="n shared"),
    Column(key="gmacs", title="GMAC/s", style="n rate speed"),
    Column(key="gbs", title="GB/s", style="n rate speed"),
    Column(key="percent", title="Of peak", style="n near"),
    Column(key="place", title="Runs on", style="where"),
    Column(key="source", title="Kernel and source", style="source"),
)


def render_html(view: View) -> str:
    """The whole page. The same view gives the same text; all that it holds is escaped."""
    script = "\n".join(template_text(name) for name in _SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}}})();\n'
    page = environment().get_template("report.html")
    return page.render(
        view=view,
        words=_WORDS,
        policy=_policy(script),
        style=Markup("\n".join(template_text(name) for name in _STYLES)),  # noqa: S704 our own file
        script=Markup(script),  # noqa: S704 our own files
        data=Markup(page_data(view)),  # noqa: S704 made safe by rows.script_safe
        columns=_COLUMNS,
        gauge=_gauge(view),
        lanes=_lanes(view),
        facts=_facts(view),
        timed=any(row.time_ns for row in view.operators),
        delegated=any(row.partition is not None for row in view.operators),
        rated=any(row.roofline and row.roofline.gmacs for row in view.operators),
        farthest=summary.farthest(view, _FARTHEST),
        longest_ns=max((row.time_ns or 0.0 for row in view.operators), default=0.0),
        time_text=_time_text(view),
        plan_text=plan_text(view.plan) if view.plan else "",
        peaks_text=summary.peaks_text(view.machine),
        checks_text=_checks_text(view),
        refused_nodes=sum(len(refusal.nodes) for refusal in view.refusals),
        remark_groups=_remark_groups(view),
        **_accuracy(view.accuracy),
    )


def _accuracy(near: accuracy.AccuracyReport | None) -> dict[str, Any]:
    """The pictures of the accuracy, where eight bits are reported."""
    if near is None:
        return {}
    worst = near.ranked[: accuracy.SHOWN_PICTURES]
    pictures = ((one, accuracy.histogram(one)) for one in worst)
    return {
        "error_line": accuracy.along(near.inside, worst),
        "histograms": [pair for pair in pictures if pair[1] is not None],
        "shown_nodes": accuracy.SHOWN_NODES,
        "shown_branches": accuracy.SHOWN_BRANCHES,
    }


def template_text(name: str) -> str:
    """A file of the page as it stands: style or script."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def environment() -> jinja2.Environment:
    """Templates with their filters; all that they are given is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        show=quantity.printable,
        size=quantity.size,
        duration=quantity.duration,
        percent=quantity.percent,
        plural=quantity.plural,
        scientific=quantity.scientific,
        dimensions=quantity.dimensions,
        number=quantity.significant,
        category=category_class,
        ideal=summary.ideal_ns,
        nearest=summary.nearest_bandwidth,
        used=_used,
        atoms=_atoms,
        figure=quantity.figure,
        decibels=accuracy.decibels,
        shortened=quantity.shortened,
    )
    return environment


def _policy(script: str) -> str:
    """Nothing may be loaded, and only the one script runs that was written here (CSP level 3)."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _atoms(order: str) -> list[str]:
    """The parts of an order such as "(1 2 3)", for a tag each; what is no such list stays whole."""
    parts = order.removeprefix("(").removesuffix(")").split()
    short = len(parts) <= 12 and all(len(part) <= 12 for part in parts)
    return [quantity.printable(part, 60) for part in (parts if short and parts else [order])]


def _used(check: ValueCheck) -> str:
    """The error as percent of its bound, for a meter."""
    if check.bound <= 0 or not math.isfinite(check.max_error):
        return "0" if check.equal else "100"
    return f"{min(100.0, 100 * check.max_error / check.bound):.1f}"


def _gauge(view: View) -> Gauge | None:
    worst, allowed = view.verdict.worst_error, view.verdict.tolerance
    if worst is None or not allowed:
        return None
    bound_at, decades = 74.0, 4.0
    if not math.isfinite(worst):
        return Gauge(allowed=bound_at, worst=98.0, margin=None)
    ratio = max(worst, 1e-30) / allowed
    place = bound_at * (1 + math.log10(ratio) / decades)
    inside = min(97.0 if ratio > 1 else bound_at - 3, max(2.5, place))
    if worst == 0 or ratio == 1:
        margin = None
    else:
        word = "below the bound" if ratio < 1 else "over the bound"
        margin = (word, f"{quantity.significant(max(ratio, 1 / ratio), 2)}×")
    return Gauge(allowed=bound_at, worst=round(inside, 2), margin=margin)


def _lanes(view: View) -> tuple[Lane, ...]:
    if view.latency is None:
        return ()
    timings = [view.latency.ours] + ([view.latency.reference] if view.latency.reference else [])
    longest_ns = max(max(timing.p90_ns, timing.median_ns) for timing in timings) or 1.0
    return tuple(
        Lane(
            timing=timing,
            median=round(100 * timing.median_ns / longest_ns, 2),
            low=round(100 * timing.p10_ns / longest_ns, 2),
            wide=round(100 * (timing.p90_ns - timing.p10_ns) / longest_ns, 2),
        )
        for timing in timings
    )


def _facts(view: View) -> tuple[Fact, ...]:
    facts = []
    if view.categories:
        overhead = quantity.percent(summary.overhead_share(view))
        facts.append(Fact(name="Overhead", value=overhead, text="only moves or converts data"))
    near = summary.peak_share(view)
    if near is not None:
        facts.append(
            Fact(name="Speed", value=quantity.percent(near), text="of what this machine allows")
        )
    if view.partitions:
        inside = sum(part.ops for part in view.partitions)
        count = quantity.plural(len(view.partitions), "partition")
        whole = view.result.ops if view.result is not None else len(view.operators)
        text = f"{inside:,} of {quantity.plural(whole, 'operator')} delegated"
        facts.append(Fact(name="Delegate", value=count, text=text))
    if view.plan is not None:
        facts.append(_plan_fact(view))
    if view.categories:
        share = quantity.percent(summary.accounted_share(view))
        facts.append(Fact(name="Accounted for", value=share, text="of the time, by operators"))
    if view.result is not None and view.model.bytes:
        ratio = view.result.bytes / view.model.bytes
        sizes = f"{quantity.size(view.model.bytes)} before"
        facts.append(Fact(name="File", value=quantity.size(view.result.bytes),
                          text=f"{ratio:.2f}× of {sizes}"))  # fmt: skip
    return tuple(facts)


def _plan_fact(view: View) -> Fact:
    plan = view.plan
    if plan is None or not plan.conversions:
        return Fact(name="Layout conversions", value="none", text="left in the whole graph")
    moved = quantity.size(plan.total_bytes)
    if plan.minimal:
        text = f"{moved}, proven minimal"
    else:
        bound = "" if plan.bound_bytes is None else f", bound {quantity.size(plan.bound_bytes)}"
        text = f"{moved}{bound}"
    return Fact(name="Layout conversions", value=str(len(plan.conversions)), text=text)


def _time_text(view: View) -> str:
    if not view.categories:
        return ""
    overhead = summary.overhead_share(view)
    accounted = summary.accounted_share(view)
    parts = [f"{quantity.percent(accounted - overhead)} computes"]
    parts.append(f"{quantity.percent(overhead)} only moves or converts data")
    if accounted < 1 - _SHOWN_REST:
        parts.append(f"{quantity.percent(1 - accounted)} is explained by no operator")
    elif accounted > 1 + _SHOWN_REST:
        parts.append(f"together {quantity.percent(accounted - 1)} more than the run")
    return ", ".join(parts) + "."


def _checks_text(view: View) -> str:
    verdict = view.verdict
    parts = [quantity.plural(len(verdict.outputs), "output")]
    if verdict.interior_count:
        parts.append(quantity.plural(verdict.interior_count, "inner value"))
    seeds = f" on {quantity.plural(verdict.seeds, 'seeded input')}" if verdict.seeds else ""
    return " and ".join(parts) + seeds + ", element by element."


def _remark_groups(view: View) -> Sequence[RemarkGroup]:
    by_kind = (
        ("Left undone", summary.missed_remarks(view), True),
        ("Done", tuple(item for item in view.remarks if item.kind == "done"), False),
        ("Measured", tuple(item for item in view.remarks if item.kind == "measured"), False),
    )
    return [
        RemarkGroup(title=title, remarks=remarks, open=opened)
        for title, remarks, opened in by_kind
        if remarks
    ]
