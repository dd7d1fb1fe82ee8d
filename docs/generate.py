"""Write the pages that are made from declarations, below `docs/generated`.

    python docs/generate.py

What stands there is read from the same tables that the converter works by.
"""

import inspect
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from straightway.ir.types import SHORT_NAMES
from straightway.lower import families
from straightway.lower.declare import LOWERINGS, Lowering, Need
from straightway.tflite.rows import ROWS, Row

FOLDER = Path(__file__).parent / "generated"
CHANGES = FOLDER.parents[1] / "CHANGELOG.md"
DOMAINS = {"onnx": "ONNX", "com.microsoft": "com.microsoft"}

OPERATORS = """\
# ONNX operators

*Made from the declarations in `straightway.lower`; {count} operators.*

An operator that is not listed is refused, with its name and the name of each node. So is a node
that meets a limit below: the message says what was found, and what works instead.

**the target** means that TFLite has no kernel for it (the file and line say where that stands);
**not yet** that straightway does not lower it so far; **ONNX** that the model's own format, or
arithmetic, rules it out.
"""

ROWS_PAGE = """\
---
hide: [toc]
---
# TFLite operators

*Made from the rows in `straightway.tflite.rows`; {count} operators.*

Each row is the only place where a fact about a TFLite operator stands; tests hold it against the
installed runtime. Files and lines are those of LiteRT v2.2.0, below its folder `tflite/`. The
version that a written operator carries is the lowest that holds for its types, shapes and options.

- **types**: element types that the kernel computes rightly without a delegate; in parentheses those
  that it takes with a scale and a zero point.
- **layout**: what the operator asks of the order in which its tensors are stored.
- **8-bit**: its rule in TFLite's quantization scheme.
- **XNNPACK**: what the delegate asks of a node. One that it leaves out ends a partition.
"""

REFUSED = """\
# ONNX's backend tests that are refused

*Made from the lists that `make conformance` holds: all others of the 1,765 tests pass, with and without
straightway's own verification.*

*Frozen*: what exporters write as constants (weights, shapes, axes) is constant. *As is*: every operand
comes when the model runs.
"""
LISTS = FOLDER.parents[1] / "tests" / "conformance"

LAYOUTS = {
    "elementwise": "any order, the same for all",
    "rename": "names dimensions anew",
    "along": "any order that keeps its axes whole",
    "reduce": "any order",
    "arg": "any order that keeps its axis whole",
    "gather": "any order that keeps its axis whole",
    "last": "its axis last",
    "window": "N, spatial, channels",
    "matrix": "features last",
    "batch_matrix": "batch, then either matrix order",
    "fixed": "the model's own",
}


def refused_page() -> str:
    """Both lists: each reason, and the tests below it."""
    lines = [REFUSED]
    for name in ("impossible", "not_yet"):
        head, *rest = (LISTS / f"{name}.txt").read_text().splitlines()
        lines += [f"## {head}", ""]
        for line in rest:
            if line.startswith("  "):
                case, *modes = line.split()
                lines.append(f"- `{case}` ({', '.join(modes)})")
            elif line:
                lines += ["", line, ""]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Write all pages."""
    families.load()
    FOLDER.mkdir(exist_ok=True)
    pages = {
        "operators.md": operators_page(),
        "rows.md": rows_page(),
        "changelog.md": CHANGES.read_text(),
        "refused.md": refused_page(),
    }
    for name, page in pages.items():
        (FOLDER / name).write_text(page)


def operators_page() -> str:
    """One table for each domain, in the order of names."""
    parts = [OPERATORS.format(count=len(LOWERINGS))]
    for domain in sorted({domain for domain, _ in LOWERINGS}, reverse=True):
        parts.append(f"## {DOMAINS.get(domain, domain)}\n")
        found = [entry for (where, _), entry in sorted(LOWERINGS.items()) if where == domain]
        header = ("operator", "becomes", "limits")
        parts.append(table(header, [operator_cells(entry) for entry in found]))
    return "\n".join(parts)


def operator_cells(entry: Lowering) -> tuple[str, str, str]:
    """Name, what it becomes, and its limits."""
    becomes = (inspect.getdoc(entry.function) or "").partition("\n\n")[0]
    limits = "<br>".join(limit(need, entry.op.name) for need in entry.needs) or "none"
    return f"`{entry.op.name}`", escaped(becomes), limits


def limit(need: Need, op: str) -> str:
    """Who sets a limit, the limit, where that stands, and what works instead."""
    where = f" (`{need.kernel}`)" if need.kernel else ""
    instead = f" What works: {escaped(need.remedy)}." if need.remedy else ""
    return f"**{setter(need)}**: {escaped(need.limit(op))}{where}.{instead}"


def setter(need: Need) -> str:
    """Who sets a limit."""
    if need.possible:
        return "not yet"
    return "the target" if need.kernel else "ONNX"


def rows_page() -> str:
    """One table of all rows."""
    header = ("operator", "types", "rank", "layout", "8-bit", "XNNPACK", "kernel")
    rows = [row_cells(row) for _, row in sorted(ROWS.items())]
    return "\n".join([ROWS_PAGE.format(count=len(ROWS)), table(header, rows)])


def row_cells(row: Row) -> tuple[str, ...]:
    """The columns of a row that a reader can use."""
    kinds = type_names(row.types)
    if row.quantized:
        kinds = f"{kinds} ({type_names(row.quantized)})".strip()
    return (
        f"`{row.name}`",
        kinds,
        f"≤ {row.max_rank}",
        LAYOUTS[row.layout],
        row.quant,
        delegate(row),
        f"`{row.kernel}`",
    )


def type_names(types: Iterable[np.dtype]) -> str:
    """Short names of element types, floats first, then by size."""
    ordered = sorted(types, key=lambda dtype: (dtype.kind != "f", dtype.kind, dtype.itemsize))
    return " ".join(SHORT_NAMES.get(dtype, dtype.name) for dtype in ordered)


def delegate(row: Row) -> str:
    """What the delegate asks of a node, or why it takes none."""
    if isinstance(row.xnnpack, str):
        return f"no: {escaped(row.xnnpack)}"
    return "; ".join(dict.fromkeys(escaped(one.text) for one in row.xnnpack)) or "always"


def escaped(text: str) -> str:
    """Text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["--"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    main()
