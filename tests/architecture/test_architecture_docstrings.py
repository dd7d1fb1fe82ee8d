"""Every public module, class and function says in a sentence what it is for."""

import ast

from source_tree import Function, modules


def public(node: ast.AST, name: str = "") -> list[tuple[str, ast.AST]]:
    """The node and the public classes and functions in it, by dotted name."""
    found = [(name, node)]
    for child in getattr(node, "body", []):
        if isinstance(child, Function | ast.ClassDef) and not child.name.startswith("_"):
            inside = public(child, f"{name}.{child.name}")
            found += inside if isinstance(child, ast.ClassDef) else inside[:1]
    return found


def sentence(node: ast.AST) -> str:
    """The first paragraph of the docstring."""
    return (ast.get_docstring(node) or "").partition("\n\n")[0]


def test_everything_public_has_a_sentence():
    bad = [
        name
        for module in modules()
        for name, node in public(module.tree, module.name)
        if not sentence(node).endswith((".", ":", "?"))
    ]
    assert not bad
