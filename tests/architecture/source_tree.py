"""The project's own files, parsed once for all tests of the architecture."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "straightway"
OWN_FOLDERS = (".ci", "benchmarks", "docs", "examples", "src", "tests")
OWN_SUFFIXES = {
    ".c", ".cfg", ".css", ".html", ".ini", ".j2", ".js", ".json", ".md", ".py", ".toml", ".txt",
    ".yaml", ".yml", "",
}  # fmt: skip
MADE_FOLDERS = {"__pycache__", "generated", "results", "straightway.egg-info"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One module of the package: dotted name, text, syntax tree."""

    path: Path
    name: str
    text: str = field(repr=False)
    tree: ast.Module = field(repr=False)

    def functions(self) -> Iterator[Function]:
        """Every function and method, nested ones too."""
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def classes(self) -> Iterator[ast.ClassDef]:
        """Every class."""
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))


@cache
def modules() -> tuple[Module, ...]:
    """The modules of the package, in order of their names."""
    return tuple(_module(path) for path in sorted(PACKAGE.rglob("*.py")))


def _module(path: Path) -> Module:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    text = path.read_text()
    return Module(
        path=path,
        name=".".join(part for part in parts if part != "__init__"),
        text=text,
        tree=ast.parse(text),
    )


def own_texts() -> Iterator[tuple[str, str]]:
    """Path below the root and text of every file that people wrote."""
    paths = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".coverage"]
    for folder in OWN_FOLDERS:
        paths += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    for path in sorted(paths):
        below = path.relative_to(ROOT)
        if path.suffix in OWN_SUFFIXES and not MADE_FOLDERS.intersection(below.parts):
            yield str(below), path.read_text()
