"""ONNX's own node tests of every declared operator: passed or refused, never wrong, never crashed.

Two snapshots count the refusals by reason: what LiteRT can't, and what is not lowered yet. The second
must shrink. UPDATE_SNAPSHOTS=1 writes them.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from node_cases import NodeCase, node_cases

from straightway.errors import Unsupported
from straightway.flow.tolerance import compare
from straightway.flow.translate import read, translate
from straightway.run import litert
from straightway.run.process import Child

SNAPSHOTS = Path(__file__).parent / "snapshots"
# The cases change from version to version; the snapshots are those of this one.
ONNX_VERSION = "1.23"
# Expected values that stand in the case as literals of four digits.
ROUNDED = {"test_averagepool_2d_ceil_last_window_starts_on_pad"}


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child(engines=["litert"]) as made:
        yield made


def refused(case: NodeCase, child: Child, folder: Path) -> str:
    """The reason why a case is refused, "" where it passes. Raises AssertionError where it is wrong."""
    path = folder / "case.onnx"
    onnx.save(case.model, path)
    try:
        found = translate(read(path))
    except Unsupported as error:
        return error.remarks[0].text if error.remarks else str(error)
    written = folder / "case.tflite"
    written.write_bytes(found.written.data)
    outputs = child.call(litert.run(written, list(case.feeds.values()))).outputs
    for want, got in zip(case.expected, outputs, strict=True):
        check = compare(case.name, want, got)
        rounded = case.name in ROUNDED and check.max_error < 1e-4
        assert check.equal or rounded, f"{case.name}: {check.reason}"
    return ""


def is_impossible(reason: str) -> bool:
    """Whether a kernel or a specification says so, as opposed to us."""
    return reason.endswith(")") and any(part in reason for part in (".cc", ".md"))


def test_node_cases_pass_or_are_refused(child: Child, tmp_path: Path) -> None:
    reasons: Counter[tuple[str, str]] = Counter()
    wrong = []
    count = 0
    for case in node_cases():
        count += 1
        try:
            reasons[case.op, refused(case, child, tmp_path)] += 1
        except Exception as error:  # noqa: BLE001 - whatever happens, the other cases count
            wrong.append(f"{case.name}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)
    assert count
    if not onnx.__version__.startswith(ONNX_VERSION):
        pytest.skip(f"snapshots are of onnx {ONNX_VERSION}, not {onnx.__version__}")
    lines = [f"{op}: {reason}: {n}" for (op, reason), n in sorted(reasons.items()) if reason]
    check_snapshot("impossible", [s for s in lines if is_impossible(s.rpartition(": ")[0])])
    check_snapshot("not_yet", [s for s in lines if not is_impossible(s.rpartition(": ")[0])])


def check_snapshot(name: str, lines: list[str]) -> None:
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    assert path.read_text().splitlines() == lines
