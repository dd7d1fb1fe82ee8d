"""Write the pages that are made from declarations, below `docs/generated`.

    python docs/generate.py

What stands there is read from the same tables that the converter works by.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from straightway.diagnosis.rules.catalogue import RULES
from straightway.flow.support import Limit, Support, support
from straightway.ir.types import SHORT_NAMES
from straightway.tflite.rows import ROWS, Row

FOLDER = Path(__file__).parent / "generated"
CHANGES = FOLDER.parents[1] / "CHANGELOG.md"
DOMAINS = {"onnx": "ONNX", "com.microsoft": "com.microsoft"}

OPERATORS = """\
---
hide: [toc]
---
# ONNX operators

*Made from the declarations in `straightway.lower` and by converting their samples; {count} operators.
`straightway ops` prints the same, `straightway ops NAME` with the kernels' files and lines.*

An operator that is not listed becomes those that ONNX defines it by, or is refused, with its name and
the name of each node. So is a node that does not keep a limit below: the message says what was found,
and what works instead.

- **versions**: the opsets that changed the operator, of those that are accepted. Each holds until the
  next.
- **types**: element types of operands with which a sample converts, by the schema's names of types.
  What has no kernel of its type is computed in another; `straightway inspect` says so.
- **TFLite**: what the samples become, by their attributes, shapes and types; the kernels are on the
  page of [TFLite operators](rows.md).
- **limits**: of **LiteRT**, whose kernels have none for it (the file and line, at LiteRT v2.2.0, say
  where that stands); of **ONNX**, its format or arithmetic; or **not yet** lowered.
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

RULES_PAGE = """\
# Rules

*Made from the rules in `straightway.diagnosis.rules`; {count} of them. `straightway rules NAME` prints the same.*

`straightway diagnose` asks them in this order of each program and trace. What one of them takes, no later
one counts again, so that no time is promised twice. A saving is an upper bound: the measured time of
the operators that would go away and of the conversions that they force.
"""

SAFETY = {
    "exact": "the same numbers, but for the order of summation",
    "interface": "the same numbers; the caller gives or takes other tensors",
    "numbers": "other numbers: check the accuracy, or train again",
}

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
    FOLDER.mkdir(exist_ok=True)
    pages = {
        "operators.md": operators_page(),
        "rows.md": rows_page(),
        "changelog.md": CHANGES.read_text(),
        "refused.md": refused_page(),
        "rules.md": rules_page(),
    }
    for name, page in pages.items():
        (FOLDER / name).write_text(page)


def rules_page() -> str:
    """Each rule's own documentation, in the order in which they are asked."""
    parts = [RULES_PAGE.format(count=len(RULES))]
    for rule in RULES:
        told = rule.documentation
        rewrite = f"`straightway fix --rule {rule.fix}`" if rule.fix else "none: change the source"
        parts.append(
            f"## {rule.name}\n\n**{escaped(told.title)}.**\n\n"
            f"- **What it finds**: {escaped(told.finds)}\n- **Why it costs**: {escaped(told.costs)}\n"
            f"- **What to do**: {escaped(told.advice)}\n- **Rewrite**: {rewrite}\n"
            f"- **Safety**: {SAFETY[rule.safety]}\n"
        )
    return "\n".join(parts)


def operators_page() -> str:
    """One table for each domain, in the order of names."""
    found = [*support()]
    parts = [OPERATORS.format(count=len(found))]
    for domain in dict.fromkeys(entry.domain for entry in found):
        parts.append(f"## {DOMAINS.get(domain, domain)}\n")
        header = ("operator", "versions", "types", "becomes", "TFLite", "limits")
        rows = [operator_cells(entry) for entry in found if entry.domain == domain]
        parts.append(table(header, rows))
    return "\n".join(parts)


def operator_cells(entry: Support) -> tuple[str, ...]:
    """The columns of an operator."""
    return (
        f"`{entry.op}`",
        ", ".join(map(str, entry.versions)),
        "<br>".join(f"{name}: {' '.join(kinds)}" for name, kinds in entry.types.items()),
        escaped(entry.becomes),
        ", ".join(entry.rows) or "constants",
        "<br>".join(map(limit_cell, entry.limits)) or "none",
    )


def limit_cell(one: Limit) -> str:
    """Who sets a limit, the limit, where that stands, and what works instead."""
    where = f" (`{one.kernel}`)" if one.kernel else ""
    instead = f" What works: {escaped(one.remedy)}." if one.remedy else ""
    return f"**{one.setter}**: {escaped(one.text)}{where}.{instead}"


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
