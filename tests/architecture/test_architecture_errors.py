"""One tree of errors, raised with their cause, and never by accident."""

import ast

from source_tree import modules

from straightway import errors

TREE = {name for name, value in vars(errors).items() if isinstance(value, type)}
BUILT_IN = {"Exception", "BaseException", "ValueError", "RuntimeError", "TypeError", "OSError"}
# Signals inside one package: raised and caught there, no user sees them.
SIGNALS = {
    "straightway.passes.arguments.RuntimeOperandError": "an operand is no constant: not folded",
    "straightway.passes.evaluator.UnfoldableError": "a node is not folded",
    "straightway.run.capi.Refused": "the profiler does not take the file: timed as a whole",
}


def bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).rpartition(".")[2] for base in node.bases}


def test_no_error_of_ours_is_defined_elsewhere():
    elsewhere = [
        f"{module.name}.{node.name}"
        for module in modules()
        for node in module.classes()
        if module.name != "straightway.errors" and not bases(node).isdisjoint(TREE | BUILT_IN)
    ]
    assert sorted(elsewhere) == sorted(SIGNALS)


def test_the_tree_is_drawn_in_full():
    drawn = errors.__doc__ or ""
    assert not [
        name for name in TREE if issubclass(getattr(errors, name), Exception) and name not in drawn
    ]


def test_input_is_not_asserted():
    assert not [
        m.name for m in modules() for node in ast.walk(m.tree) if isinstance(node, ast.Assert)
    ]


def test_errors_in_handlers_keep_their_cause():
    lost = [
        f"{module.name}:{node.lineno}"
        for module in modules()
        for handler in ast.walk(module.tree)
        if isinstance(handler, ast.ExceptHandler)
        for node in ast.walk(handler)
        if isinstance(node, ast.Raise) and node.exc is not None and node.cause is None
    ]
    assert not lost
