"""The tutorial runs as it stands, and the generated pages hold what the tables hold."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import generate
from straightway.flow import support
from straightway.lower.declare import LOWERINGS, need
from straightway.tflite.rows import ROWS

DOCS = Path(generate.__file__).parent
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHELL_TIMEOUT_S = 60
# several exports, seconds each
EXPORTS_S = 600
# all operators' samples in all types, on a busy machine
WHOLE_TABLE_S = 600


def blocks(page):
    return BLOCK.findall((DOCS / page).read_text())


def run_shell(command, timeout_s=SHELL_TIMEOUT_S):
    """Run as a reader would, with the programs of this environment on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", command],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{command}{done.stdout}{done.stderr}"


def test_the_tutorial_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = blocks("tutorial.md")
    assert {language for language, _ in found} == {"python", "sh"}
    names = {}
    for language, code in found:
        if language == "sh":
            run_shell(code)
        else:
            exec(compile(code, "tutorial.md", "exec"), names)  # noqa: S102 - the page's own code
    assert "<html" in Path("deployed/report.html").read_text()
    assert not Path("broken.tflite").exists()


@pytest.mark.skipif(find_spec("executorch") is None, reason="executorch is not installed")
@pytest.mark.timeout(EXPORTS_S)
def test_the_page_on_pytorch_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for language, code in blocks("pytorch.md"):
        if language == "sh":
            run_shell(code, EXPORTS_S)
        else:
            exec(compile(code, "pytorch.md", "exec"), {})  # noqa: S102 - the page's own code
    assert Path("fixed.pte").read_bytes()[4:8] == b"ET12"


@pytest.mark.timeout(WHOLE_TABLE_S)
def test_every_operator_and_row_is_on_its_page():
    operators, rows = generate.operators_page(), generate.rows_page()
    assert not [name for _, name in LOWERINGS if f"| `{name}` |" not in operators]
    assert not [name for name in ROWS if f"| `{name}` |" not in rows]


def test_every_refused_test_is_on_its_page():
    page = generate.refused_page()
    for name in ("impossible", "not_yet"):
        for line in (generate.LISTS / f"{name}.txt").read_text().splitlines()[1:]:
            if line.startswith("  "):
                assert f"`{line.split()[0]}`" in page


@pytest.mark.timeout(WHOLE_TABLE_S)
def test_pages_are_the_same_every_time():
    assert generate.operators_page() == generate.operators_page()
    assert generate.rows_page() == generate.rows_page()


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (
            need(lambda alpha: alpha, "alpha is fixed at 1.0; got {alpha}", kernel="k/elu.cc:3"),
            "**LiteRT**: alpha is fixed at 1.0 (`k/elu.cc:3`).",
        ),
        (
            need(lambda op: op, "{op} of | is not lowered", possible=True, remedy="say <x>"),
            "**not yet**: Op of \\| is not lowered. What works: say &lt;x>.",
        ),
        (need(lambda x: x, "the tensor is empty: {x.shape}"), "**ONNX**: the tensor is empty."),
        (need(lambda win: win, "pads {win.pads} of {a[0]}"), "**ONNX**: pads of a."),
    ],
)
def test_a_limit_reads_as_a_sentence(limit, text):
    assert generate.limit_cell(support.limit(limit, "Op")) == text


@pytest.mark.timeout(WHOLE_TABLE_S)
def test_a_table_has_as_many_cells_in_each_line():
    for page in (generate.operators_page(), generate.rows_page()):
        counts = [
            len(re.findall(r"(?<!\\)\|", line)) for line in page.splitlines() if line[:1] == "|"
        ]
        assert len(set(counts)) == 1


@pytest.mark.timeout(WHOLE_TABLE_S)
def test_links_between_pages_lead_somewhere():
    generate.main()
    for page in DOCS.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+\.(?:md|png))\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
