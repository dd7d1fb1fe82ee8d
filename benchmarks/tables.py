"""What the benchmark found, for people: tables on the terminal, and a page of the documentation."""

from collections.abc import Sequence

from rich.table import Table

from results import OURS, OURS_LAST, REFERENCE, RIVAL, Aim, File, Loss, Model, Report, Share

LATENCY = (
    "model",
    "ours µs",
    "onnx2tf µs",
    "onnxruntime µs",
    "by onnx2tf",
    "by onnxruntime",
    "equal (ours, onnx2tf)",
)
STRUCTURE = ("model", "TRANSPOSE", "RESHAPE", "ops", "partitions", "layout plan")
COST = (
    "model",
    "command wall s",
    "command CPU s",
    "onnx2tf wall s",
    "conversion CPU s",
    "memory MB",
    "verifying MB",
    "onnx2tf MB",
)
Rows = list[tuple[str, ...]]
NOTHING = "–"
LONGEST_NAME = 60

PAGE = """\
---
hide: [toc]
---
# Benchmark

*Written by `make bench` on {created}; no figure here is typed by hand.*

{machine}; {versions}.

One thread. Times of a model are CPU time: medians of five races, each in a process of its own, in whose rounds every file runs once after an untimed run, inputs and outputs
bound or filled beforehand for all alike; ratios are taken within a round. *Slower beyond noise* means slower in each of the five. onnx2tf runs by
its default backend and, unlike straightway, changes the order of inputs' and outputs' dimensions;
where `--io nhwc` does the same, *ours* is also measured so (in parentheses). A file counts as equal when
all outputs are, on three seeds, by straightway's table of tolerances.
"""

CONVERTING = """\
The command verifies what it wrote (best of three runs; onnx2tf runs once); *conversion* is CPU time from the file to the bytes, imports
loaded.
"""

PROFILED = """\
Each side under its own profiler, in microseconds: by category of work, and the operators that lose
most, joined by the value that they make; – where the other side has none so called. A profiler adds to each operator, so that sums differ from the
times above.
"""


def latency(report: Report) -> Rows:
    """CPU time of each file, and what ours takes of the others'."""
    rows = [
        (
            model.name,
            _pair(_microseconds(model, OURS), _microseconds(model, OURS_LAST)),
            _microseconds(model, RIVAL),
            _microseconds(model, REFERENCE),
            _pair(_ratio(model, OURS, RIVAL), _ratio(model, OURS_LAST, RIVAL)),
            _pair(_ratio(model, OURS, REFERENCE), _ratio(model, OURS_LAST, REFERENCE)),
            f"{_verdict(model.file(OURS))}, {_verdict(model.file(RIVAL))}",
        )
        for model in report.measured
    ]
    means = [report.geometric_mean(other) for other in (RIVAL, REFERENCE)]
    texts = [NOTHING if mean is None else f"**{mean:.2f}×**" for mean in means]
    return [*rows, ("**geometric mean**", "", "", "", *texts, "")]


def structure(report: Report) -> Rows:
    """Ops of each file: ours, with --io nhwc where that was measured, and the rival's."""
    return [
        (
            model.name,
            _counts(model, "transposes"),
            _counts(model, "reshapes"),
            _counts(model, "ops"),
            _counts(model, "partitions"),
            model.conversion.layout if model.conversion else NOTHING,
        )
        for model in report.measured
    ]


def costs(report: Report) -> Rows:
    """What converting takes: by command line with verification, alone, and in memory."""
    rows = []
    for model in report.measured:
        ours, rival = model.commands.get(OURS), model.commands.get(RIVAL)
        alone = model.conversion
        rows.append(
            (
                model.name,
                f"{ours.wall_s:.2f}" if ours else NOTHING,
                f"{ours.cpu_s:.2f}" if ours else NOTHING,
                f"{rival.wall_s:.2f}" if rival else NOTHING,
                f"{alone.cpu_s:.3f}" if alone else NOTHING,
                f"{alone.peak_bytes / 1e6:.0f}" if alone else NOTHING,
                f"{alone.verifying_peak_bytes / 1e6:.0f}" if alone else NOTHING,
                f"{rival.peak_bytes / 1e6:.0f}" if rival else NOTHING,
            )
        )
    return rows


def aim_rows(aims: Sequence[Aim]) -> Rows:
    """Each aim, what was found, and where it was missed."""
    return [(aim.text, aim.found, _outcome(aim)) for aim in aims]


def _outcome(aim: Aim) -> str:
    if aim.found.startswith("not measured"):
        return NOTHING
    return "; ".join(aim.missed) or "met"


def _microseconds(model: Model, label: str) -> str:
    found = model.median_ns(label)
    if found is None:
        return NOTHING if label != OURS_LAST else ""
    return f"{found / 1e3:,.0f}"


def _ratio(model: Model, label: str, to: str) -> str:
    ratio = model.ratio(label, to)
    if ratio is None:
        return NOTHING if label != OURS_LAST else ""
    return str(ratio)


def _pair(kept: str, last: str) -> str:
    return f"{kept} ({last})" if last else kept


def _verdict(file: File | None) -> str:
    if file is None:
        return NOTHING
    if not file.ops:
        return "does not run"
    return "yes" if file.equal else "**wrong**"


def _counts(model: Model, name: str) -> str:
    def count(label: str) -> str:
        file = model.file(label)
        return str(getattr(file, name)) if file is not None and file.ops else ""

    return f"{_pair(count(OURS), count(OURS_LAST))} / {count(RIVAL) or NOTHING}"


def terminal(title: str, header: Sequence[str], rows: Rows) -> Table:
    """A table for the terminal."""
    table = Table(title=title, title_justify="left")
    for position, name in enumerate(header):
        table.add_column(name, justify="left" if position == 0 else "right")
    for row in rows:
        table.add_row(*(cell.replace("**", "") for cell in row))
    return table


def page(report: Report, aims: Sequence[Aim]) -> str:
    """The page of the documentation."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    parts = [PAGE.format(created=report.created, machine=report.machine, versions=versions)]
    if report.rival:
        parts.append(f"onnx2tf: not measured ({report.rival}).\n")
    parts += ["## Aims\n", markdown(("aim", "found", "missed"), aim_rows(aims))]
    parts += ["## Latency\n", markdown(LATENCY, latency(report))]
    parts += [
        "## What was written\n",
        "Counts are ours / onnx2tf's; partitions are XNNPACK's, each edge of which costs.\n",
        markdown(STRUCTURE, structure(report)),
        "## What converting takes\n",
        CONVERTING,
        markdown(COST, costs(report)),
    ]
    parts += ["## Where ours is slower\n", *_losses(report)]
    parts += ["## Notes\n", *_notes(report)]
    return "\n".join(parts)


def _losses(report: Report) -> list[str]:
    found = [(model, loss) for model in report.measured for loss in model.losses]
    if not found:
        return ["Nowhere beyond noise.\n"]
    parts = [PROFILED]
    for model, loss in found:
        parts += [f"### {model.name}, against {loss.other}\n", *_loss(loss)]
    return parts


def _loss(loss: Loss) -> list[str]:
    return [
        markdown((what, "ours", loss.other, "difference"), [_share(share) for share in shares])
        for what, shares in (("category", loss.categories), ("operator", loss.operators))
    ]


def _share(share: Share) -> tuple[str, ...]:
    times = (share.ours_ns, share.other_ns, share.ours_ns - share.other_ns)
    return (_short(share.name), *(f"{ns / 1e3:,.1f}" if ns else NOTHING for ns in times))


def _short(name: str) -> str:
    """The first of several names that were joined, if it is not too long."""
    first = name.partition(";")[0]
    return first if len(first) <= LONGEST_NAME else f"{first[:LONGEST_NAME]}…"


def _notes(report: Report) -> list[str]:
    lines = []
    for model in report.models:
        notes = [f"not measured: {model.skipped}"] if model.skipped else []
        for file in model.files:
            if file.note:
                notes.append(f"{file.label}: {file.note}")
            if file.outside:
                kinds = ", ".join(f"{count} {kind}" for kind, count in file.outside.items())
                notes.append(f"{file.label} leaves outside XNNPACK: {kinds}")
        if notes:
            lines.append(f"- {model.name}: " + "; ".join(notes))
    return ["\n".join(lines) + "\n"] if lines else ["All measured, all equal, all in XNNPACK.\n"]


def markdown(header: Sequence[str], rows: Rows) -> str:
    """A Markdown table."""
    lines = [tuple(header), ("--",) * len(header), *rows]
    cells = [" | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in r) for r in lines]
    return "".join(f"| {line} |\n" for line in cells)
