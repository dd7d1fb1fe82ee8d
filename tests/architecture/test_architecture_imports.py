"""Imports point down, and each foreign package is known in one place."""

import ast
import os
import statistics
import subprocess
import sys

import pytest
from importlinter.cli import lint_imports
from source_tree import ROOT, Module, modules

IMPORT_CPU_S = 0.150
# `import straightway` must stay free of these.
HEAVY = {
    "ai_edge_litert", "flatbuffers", "jinja2", "ml_dtypes", "numpy", "onnx", "onnx_ir",
    "onnxruntime", "rich", "scipy", "torch", "typer",
}  # fmt: skip
# import-linter sees foreign packages as a whole; these are parts of one.
PARTS = {
    "ai_edge_litert.interpreter": {"straightway.run"},
    "ai_edge_litert.schema_py_generated": {"straightway.run", "straightway.tflite"},
}


def imported(module: Module) -> set[str]:
    """Dotted names that a module imports anywhere in it, `from a import b` as a.b and a."""
    names = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def test_contracts_hold(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    code = lint_imports(no_cache=True, no_logo=True)
    assert code == 0, capsys.readouterr().out


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_packages_are_known_in_one_place(part):
    users = {".".join(m.name.split(".")[:2]) for m in modules() if part in imported(m)}
    assert users
    assert users <= PARTS[part]


def test_imports_are_absolute():
    relative = [
        m.name
        for m in modules()
        for node in ast.walk(m.tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not relative


def fresh(code: str) -> str:
    """What a fresh interpreter prints, without coverage in it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60, env=environment
    ).stdout


def cpu_s(code: str) -> float:
    """CPU seconds of a fresh interpreter."""
    return float(
        fresh(
            "import resource\n"
            f"{code}\n"
            "used = resource.getrusage(resource.RUSAGE_SELF)\n"
            "print(used.ru_utime + used.ru_stime)"
        )
    )


def loaded(module: str) -> set[str]:
    """Top-level packages that are loaded by importing a module."""
    names = "{name.partition('.')[0] for name in sys.modules}"
    return set(fresh(f"import sys, {module}; print(*{names})").split())


def test_the_package_is_imported_fast():
    code = "import straightway"
    cpu_s(code)  # writes the bytecode
    spent = [cpu_s(code) - cpu_s("pass") for _ in range(5)]
    assert statistics.median(spent) < IMPORT_CPU_S


def test_the_package_pulls_in_nothing_heavy():
    assert HEAVY.isdisjoint(loaded("straightway"))


def test_help_is_shown_without_the_engines():
    found = loaded("straightway.cli.main")
    assert {"onnx", "onnx_ir", "onnxruntime", "ai_edge_litert"}.isdisjoint(found)
