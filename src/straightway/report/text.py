"""The report on a terminal: verdict, latency, where the time goes, and what is left to do."""

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from straightway.report.accuracy import AccuracyReport
from straightway.report.quantity import (
    dimensions,
    duration,
    percent,
    plural,
    printable,
    scientific,
    significant,
    size,
)
from straightway.report.summary import missed_remarks
from straightway.report.view import (
    CategoryTime,
    FirstDifference,
    Latency,
    OperatorRow,
    Plan,
    Timing,
    View,
)

_SHOWN_OPERATORS = 10
_SHOWN_LINES = 5
_NAME_WIDTH = 60
_CAUSE_WIDTH = 40
_BAR_WIDTH = 24
_STATUS = {
    "equal": ("✓", "+", "Equal", "bold green"),
    "different": ("✗", "x", "Different", "bold red"),
    "refused": ("⊘", "!", "Refused", "bold yellow"),
    "unverified": ("?", "?", "Not verified", "bold yellow"),
}
# Texture and colour both tell categories apart: a pipe or a log keeps the texture only.
_STYLES = {
    "convolution": ("blue", "█", "#"),
    "matrix": ("cyan", "▓", "%"),
    "elementwise": ("green", "▒", "="),
    "normalisation": ("bright_green", "░", "-"),
    "pooling": ("magenta", "▚", "o"),
    "data movement": ("red", "╳", "x"),
    "type conversion": ("yellow", "╱", "/"),
    "unaccounted": ("bright_black", "·", "."),
}
_OTHER_STYLE = ("white", "▪", "*")


def print_summary(view: View, console: Console) -> None:
    """Print the summary of `view`; 80 columns suffice, and colours only where they can be seen."""
    ascii_only = console.options.ascii_only
    for part in _parts(view, ascii_only=ascii_only, width=console.width):
        console.print(part, highlight=False)


def _parts(view: View, *, ascii_only: bool, width: int) -> Iterator[RenderableType]:
    yield _verdict(view, ascii_only=ascii_only)
    if view.verdict.first_difference is not None:
        yield _section("First node that differs", _difference(view.verdict.first_difference))
    if view.refusals:
        yield _section("Refused", _refusals(view))
    if view.latency is not None:
        yield _section("Latency", _latency(view.latency, ascii_only=ascii_only))
    if view.categories:
        yield _section("Time", _categories(view.categories, ascii_only=ascii_only))
    if any(row.time_ns for row in view.operators):
        yield _section(
            "Slowest operators", _operators(view.operators, name_width=max(20, width - 52))
        )
    if view.plan is not None:
        yield _section("Layout", _plan(view.plan))
    if view.accuracy is not None and view.accuracy.shares:
        yield _section("Share of the end error", _causes(view.accuracy))
    missed = missed_remarks(view)
    if missed:
        lines = [_named(remark.op, remark.node, remark.text, remark.remedy) for remark in missed]
        yield _section("Left undone", _some(lines, "remark"))
    if view.notes:
        yield _section("Notes", Group(*(Text(printable(note, 400)) for note in view.notes)))


def _section(title: str, body: RenderableType) -> RenderableType:
    return Group(Text(), Text(title, style="bold"), _indented(body))


def _verdict(view: View, *, ascii_only: bool) -> RenderableType:
    mark, plain_mark, word, style = _STATUS[view.verdict.status]
    head = Text.assemble((f"{plain_mark if ascii_only else mark} {word}", style))
    if view.verdict.accuracy:
        head.append(f", {printable(view.verdict.accuracy, 200)}")
    head.append("  ")
    head.append(printable(view.model.name, _NAME_WIDTH), style="bold")
    if view.result is not None:
        head.append(" -> " if ascii_only else " → ")
        head.append(printable(view.result.name, _NAME_WIDTH))
        head.append(f" ({size(view.model.bytes)}, {size(view.result.bytes)})", style="dim")
    text = Text(printable(view.verdict.text, 1000))
    worst, tolerance = view.verdict.worst_error, view.verdict.tolerance
    if worst is not None and tolerance is not None:
        numbers = f"; worst error {scientific(worst)} of {scientific(tolerance)} allowed"
        text = Text(text.plain.rstrip(".") + numbers + ".")
    return Group(head, _indented(text))


def _difference(difference: FirstDifference) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    table.add_row("node", Text(f"{difference.op} {printable(difference.node)}", style="bold"))
    if difference.source:
        table.add_row("source", Text(printable(difference.source)))
    table.add_row("element", Text(printable(difference.element)))
    table.add_row("expected", Text(printable(difference.expected), style="green"))
    table.add_row("got", Text(printable(difference.got), style="red"))
    return table


def _refusals(view: View) -> RenderableType:
    lines = []
    for refusal in view.refusals:
        first = refusal.nodes[0] if refusal.nodes else None
        more = f" (and {len(refusal.nodes) - 1:,} more)" if len(refusal.nodes) > 1 else ""
        node = f"{printable(first.name, _NAME_WIDTH)}{more}" if first else ""
        lines.append(_named(first.op if first else "", node, refusal.cause, refusal.remedy))
    return _some(lines, "cause")


def _named(op: str, node: str, text: str, remedy: str) -> RenderableType:
    line = Text()
    for part, style in ((op, "bold"), (node, "cyan")):
        if part:
            line.append(f"{printable(part, _NAME_WIDTH)} ", style=style)
    line.append(printable(text, 400))
    if not remedy:
        return line
    return Group(line, _indented(Text(printable(remedy, 400), style="green")))


def _indented(body: RenderableType) -> RenderableType:
    return Padding(body, (0, 0, 0, 2), expand=False)


def _some(lines: Sequence[RenderableType], noun: str) -> RenderableType:
    shown = list(lines[:_SHOWN_LINES])
    if len(lines) > len(shown):
        rest = plural(len(lines) - len(shown), noun)
        shown.append(Text(f"and {rest} more, see the report", style="dim"))
    return Group(*shown)


def _latency(latency: Latency, *, ascii_only: bool) -> RenderableType:
    timings = [latency.ours] + ([latency.reference] if latency.reference else [])
    longest_ns = max(timing.p90_ns for timing in timings)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(width=_BAR_WIDTH, no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim", no_wrap=True)
    for timing, style in zip(timings, ("bold cyan", "white"), strict=False):
        table.add_row(*_timing(timing, longest_ns, style, ascii_only=ascii_only))
    lines: list[RenderableType] = [table]
    if latency.ratio is not None and latency.reference is not None:
        lines.append(Text(ratio_text(latency), style="bold"))
    lines += [Text(printable(note, 400), style="dim") for note in latency.notes]
    return Group(*lines)


def _timing(
    timing: Timing, longest_ns: float, style: str, *, ascii_only: bool
) -> tuple[Text, Text, Text, Text]:
    cells = round(_BAR_WIDTH * timing.median_ns / longest_ns) if longest_ns > 0 else 0
    return (
        Text(printable(timing.engine, 24), style=style),
        Text(("#" if ascii_only else "━") * max(1, cells), style=style),
        Text(duration(timing.median_ns), style=style),
        Text(f"{duration(timing.p10_ns)} to {duration(timing.p90_ns)}"),
    )


def ratio_text(latency: Latency) -> str:
    """The comparison as a sentence; it says so where noise is greater than the difference."""
    if latency.ratio is None or latency.reference is None:
        return ""
    engine = printable(latency.reference.engine, 40)
    number = f"{latency.ratio:.2f}× the time of {engine}"
    return number if latency.clear else f"{number}, within the noise"


def _categories(categories: Sequence[CategoryTime], *, ascii_only: bool) -> RenderableType:
    bar = Text(no_wrap=True, overflow="crop")
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "right", "right"):
        table.add_column(justify=justify, no_wrap=True)
    for item in categories:
        colour, block, plain_block = _STYLES.get(item.name, _OTHER_STYLE)
        texture = plain_block if ascii_only else block
        bar.append(texture * round(70 * item.share), style=colour)
        name = Text.assemble((f"{texture * 2} ", colour), printable(item.name, 24))
        count = plural(item.count, "op") if item.count else ""
        table.add_row(name, percent(item.share), duration(item.time_ns), Text(count, style="dim"))
    return Group(bar, table)


def _operators(operators: Sequence[OperatorRow], *, name_width: int) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=False)
    table.add_column("#", justify="right", no_wrap=True, style="dim")
    table.add_column("operator", no_wrap=True)
    table.add_column("node", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("of peak", justify="right", no_wrap=True)
    slowest = sorted(operators, key=lambda row: -(row.time_ns or 0.0))[:_SHOWN_OPERATORS]
    for row in slowest:
        table.add_row(
            str(row.index),
            Text(printable(row.kind, 16)),
            Text(printable(row.origins[0], name_width) if row.origins else "", style="cyan"),
            duration(row.time_ns or 0.0),
            percent(row.share) if row.share is not None else "",
            f"{significant(row.roofline.percent_of_peak, 2)} %" if row.roofline else "",
        )
    return table


def _causes(near: AccuracyReport) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="cyan")
    for one in [one for one in near.ranked if one.share][:_SHOWN_LINES]:
        name = printable(one.node or one.name, _CAUSE_WIDTH)
        table.add_row(percent(one.share or 0.0), printable(one.op, 24), name)
    return Group(table, Text(printable(near.shares, 400), style="dim"))


def plan_text(plan: Plan) -> str:
    """The plan as a sentence: how many conversions are left, and what is proven of it."""
    if plan.text:
        return printable(plan.text, 400)
    if not plan.conversions:
        return "No layout conversion is left."
    head = f"{plural(len(plan.conversions), 'conversion')} left, {size(plan.total_bytes)}"
    if plan.minimal:
        return f"{head}: minimal, proven for the whole graph."
    bound = (
        "" if plan.bound_bytes is None else f": any plan moves at least {size(plan.bound_bytes)}"
    )
    return f"{head}{bound}."


def _plan(plan: Plan) -> RenderableType:
    lines = []
    for conversion in plan.conversions:
        line = Text(printable(conversion.value, _NAME_WIDTH), style="cyan")
        shape = f" [{dimensions(conversion.shape)}]" if conversion.shape else ""
        orders = f"{printable(conversion.from_order, 40)} -> {printable(conversion.to_order, 40)}"
        line.append(f"{shape} {orders}, {size(conversion.bytes)}", style="default")
        reason = f"{printable(conversion.cause)}; demanded by {printable(conversion.demanded_by)}"
        lines.append(Group(line, _indented(Text(reason, style="dim"))))
    return Group(Text(plan_text(plan)), _some(lines, "conversion"))
