"""Functions, files and signatures stay small: a rule that serves readability."""

import ast
import inspect
import statistics

from source_tree import Function, modules

MEDIAN_STATEMENTS = 10
TENTH_LARGEST_STATEMENTS = 35
MOST_STATEMENTS = 60
MOST_LINES = 500
MOST_PARAMETERS = 6

# The decorator reads the signature: parameters are an ONNX op's attributes and operands, or a
# command's options. An options dataclass would hide the schema.
SCHEMA_DECORATORS = {"lower", "evaluates", "evaluate", "command"}


def statements(function: Function) -> int:
    """Statements below the signature; the docstring and bodies of nested functions don't count."""
    return sum(_count(statement) for statement in function.body) - (
        ast.get_docstring(function) is not None
    )


def _count(node: ast.AST) -> int:
    own = isinstance(node, ast.stmt)
    if isinstance(node, Function | ast.ClassDef):
        return own
    return own + sum(_count(child) for child in ast.iter_child_nodes(node))


def parameters(function: Function) -> int:
    """Parameters that a caller gives."""
    spec = function.args
    names = [one.arg for one in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def reads_signature(function: Function) -> bool:
    """Whether a decorator takes the signature as a schema."""
    called = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
    names = {d.attr if isinstance(d, ast.Attribute) else getattr(d, "id", "") for d in called}
    return not names.isdisjoint(SCHEMA_DECORATORS)


def all_functions() -> list[tuple[str, Function]]:
    return [(f"{m.name}.{f.name}", f) for m in modules() for f in m.functions()]


def test_statements_are_counted_without_docstrings_and_nested_bodies():
    source = '''
    def f(x):
        """Doc."""
        if x:
            y = 1
        else:
            y = 2
        def g():
            return 1
        return y
    '''
    assert statements(ast.parse(inspect.cleandoc(source)).body[0]) == 5


def test_functions_are_short():
    sizes = sorted(statements(function) for _, function in all_functions())
    assert statistics.median(sizes) <= MEDIAN_STATEMENTS
    assert sizes[int(len(sizes) * 0.9)] <= TENTH_LARGEST_STATEMENTS


def test_no_function_is_long():
    long = {name: statements(f) for name, f in all_functions() if statements(f) > MOST_STATEMENTS}
    assert not long


def test_files_are_short():
    lines = {m.name: len(m.text.splitlines()) for m in modules()}
    assert not {name: count for name, count in lines.items() if count > MOST_LINES}


def test_signatures_are_short():
    wide = {
        name: parameters(function)
        for name, function in all_functions()
        if parameters(function) > MOST_PARAMETERS and not reads_signature(function)
    }
    assert not wide
