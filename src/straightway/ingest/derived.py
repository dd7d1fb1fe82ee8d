"""Open dimensions whose names say how they follow from others.

attention_mask [batch, past + 1] beside key [batch, 8, past, 64]    →    past + 1 is 17 where past is 16
"""

import ast
import operator
from collections.abc import Callable, Mapping

OPERATIONS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
# Exporters write short ones; a parser takes some time, and much depth, for others.
LONGEST = 200


def with_derived(symbols: Mapping[str, object], sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes, and those of symbols that are sums, products or quotients of others in them."""
    found = {symbol: size_of(symbol, sizes) for symbol in symbols}
    return {**sizes, **{s: size for s, size in found.items() if size is not None}}


def size_of(symbol: str, sizes: Mapping[str, int]) -> int | None:
    """What a symbol's name makes of the sizes of others; None where it says no such thing."""
    if not 0 < len(symbol) <= LONGEST:
        return None
    try:
        tree = ast.parse(symbol.strip(), mode="eval").body
    except (SyntaxError, ValueError):  # a name with spaces or slashes, a zero byte
        return None
    found = _evaluated(tree, sizes) if isinstance(tree, ast.BinOp) else None
    return None if found is None or found < 0 else found


def _evaluated(tree: ast.expr, sizes: Mapping[str, int]) -> int | None:
    match tree:
        case ast.Name(id=name):
            return sizes.get(name)
        case ast.Constant(value=int(number)):
            return number
        case ast.BinOp(left=left, op=op, right=right):
            operation = OPERATIONS.get(type(op))
            a, b = _evaluated(left, sizes), _evaluated(right, sizes)
            if operation is None or a is None or b is None:
                return None
            return None if b == 0 and operation is operator.floordiv else operation(a, b)
        case _:
            return None
