"""Matrix products."""

import math
from collections.abc import Callable

import numpy as np

from straightway.errors import InvalidModel, NotYet
from straightway.ir import Value
from straightway.ir.scheme import multiplied
from straightway.lower.broadcast import fits
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need, run
from straightway.lower.integers import as_kind, is_integer, plain, widened

WEIGHTS = np.linspace(-1, 1, 12, dtype=np.float32)
# TFLite's BATCH_MATMUL takes at most five dimensions (kernels/batch_matmul.cc:340).
MOST_DIMENSIONS = 5
# 128 MB of int64, and as much again where they are made
MOST_PRODUCTS = 2**24
WHOLE = run(np.arange(24).reshape(2, 3, 4) * 2**20 - 2**24, np.int64)
UNSIGNED = run(np.arange(12).reshape(3, 4) * 2**29, np.uint32)


@lower(
    "MatMul",
    samples=[
        case(a=(2, 3), b=WEIGHTS.reshape(3, 4)),
        case(a=(5, 2, 3), b=WEIGHTS.reshape(3, 4)),
        case(a=WEIGHTS.reshape(4, 3), b=(2, 3, 5)),
        case(a=WEIGHTS.reshape(4, 3), b=(3, 5)),
        case(a=(2, 3, 5), b=WEIGHTS.reshape(1, 1, 12)[:, :, :5].reshape(1, 5, 1)),
        case(a=(2, 4, 3), b=WEIGHTS.reshape(2, 3, 2)),
        case(a=(2, 4, 3), b=(2, 3, 5)),
        case(a=(2, 1, 4, 3), b=(5, 3, 6)),
        case(a=(2, 4, 3), b=(3, 5)),
        case(a=(4, 3), b=(2, 3, 5)),
        case(a=(2, 1, 3, 2, 4, 3), b=(2, 1, 3, 2, 3, 5)),
        case(a=(3,), b=(3,)),
        case(a=(3,), b=(2, 3, 5)),
        case(a=(2, 4, 3), b=(3,)),
        case(a=(3,), b=WEIGHTS.reshape(3, 4)),
        case(a=(2, 3), b=WEIGHTS[:3]),
        case(a=WHOLE, b=WHOLE.array.reshape(2, 4, 3)),
        case(a=run(np.ones((2, 1, 3, 4)), np.int64), b=run(np.ones((5, 4, 2)), np.int64)),
        case(a=UNSIGNED, b=UNSIGNED.array.T.copy()),
        case(a=run(np.arange(6).reshape(2, 3), np.uint64), b=run([2**63, 2**62, 7], np.uint64)),
    ],
    refuses=[
        case(a=run(np.ones((300, 300)), np.int32), b=run(np.ones((300, 300)), np.int32)),
    ],
)
def matmul(g: Builder, a: Value, b: Value, /) -> Value:
    """A constant operand makes it FULLY_CONNECTED."""
    return of_matrices(g, a, b, product)


def of_matrices(
    g: Builder, a: Value, b: Value, multiply: Callable[[Builder, Value, Value], Value]
) -> Value:
    """Multiply what may be a vector, which is a matrix of one row or one column."""
    rows = a if a.rank > 1 else g.reshape(a, (1, *a.shape))
    columns = b if b.rank > 1 else g.reshape(b, (*b.shape, 1))
    result = multiply(g, rows, columns)
    shape = list(result.shape)
    if a.rank == 1:
        del shape[-2]
    if b.rank == 1:
        del shape[-1]
    return g.reshape(result, shape)


def product(g: Builder, a: Value, b: Value) -> Value:
    """Multiply [batch…, M, K] with [batch…, K, N]; Gemm's shape function looks at the ranks only."""
    if a.shape[-1] != b.shape[-2]:
        raise InvalidModel(f"the factors do not fit together; got {a.type} and {b.type}")
    if is_integer(a):
        return _whole_product(g, a, b)
    if b.const is not None and math.prod(b.shape[:-2]) == 1 and b.rank <= a.rank:
        return linear(g, a, g.transpose(g.reshape(b, b.shape[-2:]), (1, 0)), a.rank - 1)
    if a.const is not None and math.prod(a.shape[:-2]) == 1 and a.rank <= b.rank:
        return linear(g, b, g.reshape(a, a.shape[-2:]), b.rank - 2)
    if b.rank == 2 < a.rank:
        flat = g.reshape(a, (math.prod(a.shape[:-1]), a.shape[-1]))
        return g.reshape(g.BATCH_MATMUL(flat, b), (*a.shape[:-1], b.shape[-1]))
    if max(a.rank, b.rank) > MOST_DIMENSIONS:
        return _deep(g, a, b)
    return g.BATCH_MATMUL(a, b)


def linear(
    g: Builder,
    x: Value,
    weights: Value,
    axis: int,
    bias: Value | None = None,
    *,
    rounds: bool = False,
) -> Value:
    """Multiply dimension `axis` with constant weights [M, K]; `rounds`: `x` is rounded as it runs."""
    if x.shape[axis] != weights.shape[1]:
        raise InvalidModel(f"the factors do not fit together; got {x.type} and {weights.type}")
    attrs = {"asymmetric_inputs": True} if rounds else {}
    return g.FULLY_CONNECTED(x, weights, bias, axis=axis, **attrs)


def _whole_product(g: Builder, a: Value, b: Value) -> Value:
    """All products, summed: TFLite has no matrix product of plain integers. They wrap around as ONNX's do."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    count = math.prod((*batch, rows, inner, columns))
    if count > MOST_PRODUCTS:
        raise NotYet(
            f"whole numbers are multiplied one by one, up to {MOST_PRODUCTS:,} products; got {count:,}",
            remedy="export the product in floats, or quantized: MatMulInteger",
        )
    x, y = plain(g, a), plain(g, b)
    if len(batch) > 1:
        x, y = (_one_batch(g, v, batch) for v in (x, y))
    y = g.transpose(y, [*range(y.rank - 2), y.rank - 1, y.rank - 2])
    left = g.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
    right = g.reshape(y, (*y.shape[:-2], 1, *y.shape[-2:]))
    found = g.SUM(g.MUL(left, right), axes=(max(left.rank, right.rank) - 1,), keep_dims=False)
    return as_kind(g, g.reshape(found, (*batch, rows, columns)), a.dtype)


def _deep(g: Builder, a: Value, b: Value) -> Value:
    """Make one batch dimension of many."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    flat = [_one_batch(g, x, batch) for x in (a, b)]
    return g.reshape(g.BATCH_MATMUL(*flat), (*batch, a.shape[-2], b.shape[-1]))


def _one_batch(g: Builder, x: Value, batch: tuple[int, ...]) -> Value:
    ones = g.const(np.ones((*batch, 1, 1), x.dtype))
    full = x if x.shape[:-2] == batch else g.MUL(x, ones)
    return g.reshape(full, (math.prod(batch), *x.shape[-2:]))


@lower(
    "Gemm",
    samples=[
        case(a=(2, 3), b=WEIGHTS.reshape(3, 4), c=WEIGHTS[:4]),
        case(a=(2, 3), b=WEIGHTS.reshape(4, 3), c=WEIGHTS[:1], transB=1, alpha=0.5, beta=2.0),
        case(a=(3, 2), b=WEIGHTS.reshape(3, 4), transA=1),
        case(a=(2, 3), b=WEIGHTS.reshape(3, 4), c=WEIGHTS[:8].reshape(2, 4), beta=2.0),
        case(a=(2, 3), b=WEIGHTS.reshape(3, 4), c=(2, 1), beta=0.5),
        case(a=(2, 3), b=(5, 3), c=(5,), transB=1, alpha=0.5, beta=2.0),
        case(a=(3, 2), b=(3, 5), transA=1),
        case(a=WEIGHTS.reshape(4, 3), b=(3, 5), c=(5,), alpha=0.5),
        case(a=WEIGHTS.reshape(3, 4), b=(5, 3), transA=1, transB=1),
        case(a=(2, 3), b=WEIGHTS.reshape(3, 4), c=WEIGHTS[:4], broadcast=1, opset=6),
        case(a=UNSIGNED, b=UNSIGNED.array, c=run([7, 8, 9], np.uint32), transB=1),
    ],
    needs=[
        need(
            lambda a, alpha, beta: not is_integer(a) or are_of(a.dtype, alpha, beta),
            "factors of whole numbers must be numbers of their type; got alpha {alpha} and beta {beta}",
            kernel="onnx/docs/Operators.md#Gemm",
        )
    ],
    refuses=[
        case(a=UNSIGNED, b=UNSIGNED.array, transB=1, alpha=0.5),
        case(a=UNSIGNED, b=UNSIGNED.array, transB=1, alpha=-1.0),
    ],
)
def gemm(
    g: Builder,
    a: Value,
    b: Value,
    c: Value | None = None,
    /,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    broadcast: int = 0,
) -> Value:
    """Factors go into constant weights and biases; what does not fit there is multiplied and added."""
    rows = g.transpose(a, (1, 0)) if transA else a
    columns = g.transpose(b, (1, 0)) if transB else b
    if rows.shape[1] != columns.shape[0]:
        raise InvalidModel(f"{rows.type} by {columns.type}: the factors do not fit")
    bias = None if c is None or beta == 0 else scaled(g, c, beta)
    if is_integer(a):
        result = scaled(g, product(g, rows, columns), alpha)
    elif b.const is not None:
        weights = scaled(g, b if transB else g.transpose(b, (1, 0)), alpha)
        vector = _row_bias(g, bias, weights.shape[0])
        result = linear(g, rows, weights, 1, vector)
        bias = None if vector is not None else bias
    elif rows.const is not None:
        result = linear(g, columns, scaled(g, rows, alpha), 0)
    else:
        result = scaled(g, g.BATCH_MATMUL(rows, columns), alpha)
    if bias is not None and not fits(bias, result):
        raise InvalidModel(f"the bias broadcasts to {result.type}; got {bias.type}")
    return result if bias is None else widened(g, g.ADD, result, bias)


def are_of(dtype: np.dtype, *numbers: float) -> bool:
    """Whether a type of whole numbers has all of these."""
    ends = np.iinfo(dtype)
    return all(number % 1 == 0 and ends.min <= number <= ends.max for number in numbers)


def scaled(g: Builder, x: Value, factor: float) -> Value:
    """Multiply by a number; nothing where it is 1."""
    if factor == 1:
        return x
    if x.const is not None:
        made = g.derived(x, ("scale", factor), lambda array: array * array.dtype.type(factor))
        made.quant = multiplied(x.quant, np.array(factor), 0)
        return made
    if is_integer(x):
        return as_kind(g, g.MUL(plain(g, x), int(factor)), x.dtype)
    return g.MUL(x, factor)


def _row_bias(g: Builder, bias: Value | None, count: int) -> Value | None:
    """Return the bias as FULLY_CONNECTED wants it, one constant a column, where it is such."""
    if bias is None or bias.const is None or math.prod(bias.shape[:-1]) != 1:
        return None
    row = g.reshape(bias, bias.shape[-1:])
    if row.shape == (count,):
        return row
    return g.derived(row, ("columns", count), lambda array: np.repeat(array.reshape(-1), count))
