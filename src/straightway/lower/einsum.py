"""Einstein sums as transposes, sums and matrix products, two operands at a time."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from straightway.errors import InvalidModel, NotYet
from straightway.ir import TensorType, Value
from straightway.lower.broadcast import spread
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, run
from straightway.lower.integers import as_kind, is_integer, plain
from straightway.lower.matrix import product
from straightway.lower.selection import every

WEIGHTS = np.linspace(-1, 1, 120, dtype=np.float32).reshape(4, 5, 6)
LONGS = run(np.arange(24).reshape(2, 3, 4) * 2**20 - 9, np.int64)
BYTES = run(np.arange(12).reshape(3, 4) * 21, np.uint8)
# Names for the dimensions that an ellipsis stands for; letters name the others.
ELLIPSIS_LABELS = "0123456789"


@dataclass(frozen=True, slots=True, kw_only=True)
class Equation:
    """The labels of each operand's dimensions, and of the result's."""

    operands: tuple[str, ...]
    result: str


def read(equation: str, ranks: list[int]) -> Equation:
    """Read an equation; what stands for `...` becomes labels of its own, and so does a missing result."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    widths = [rank - len(t.replace("...", "")) for t, rank in zip(terms, ranks, strict=True)]
    most = max([w for t, w in zip(terms, widths, strict=True) if "..." in t], default=0)
    named = [
        t.replace("...", ELLIPSIS_LABELS[most - w : most])
        for t, w in zip(terms, widths, strict=True)
    ]
    if not arrow:
        letters = re.sub(r"[.,]", "", left)
        right = "..." + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return Equation(operands=tuple(named), result=right.replace("...", ELLIPSIS_LABELS[:most]))


@lower(
    "Einsum",
    samples=[
        case(inputs=[(2, 3, 4), (2, 5, 4)], equation="bik,bjk->bij"),
        case(inputs=[(2, 3, 4, 5), (2, 6, 4, 5)], equation="bqhd,bkhd->bhqk"),
        case(inputs=[(2, 3), (3, 4)], equation="ij,jk"),
        case(inputs=[(2, 3), (2, 4)], equation="bi,bj->bij"),
        case(inputs=[(2, 3, 4), (4, 5)], equation="...k,kn->...n"),
        case(inputs=[(2, 3, 4), (3, 4)], equation="bij,ij->b"),
        case(inputs=[(2, 3, 4), (5, 6)], equation="bij,kl->bk"),
        case(inputs=[(2, 3, 4, 5), WEIGHTS], equation="btgi,gih->btgh"),
        case(inputs=[WEIGHTS, (2, 3, 4, 5)], equation="gih,btgi->bhgt"),
        case(inputs=[(2, 3, 4), WEIGHTS], equation="abg,gih->gh"),
        case(inputs=[(2, 3, 4)], equation="bij->jb"),
        case(inputs=[(2, 3, 4)], equation="bij->bji"),
        case(inputs=[(3,), (3,)], equation="i,i"),
        case(inputs=[(3,), (3,)], equation="i,i->i"),
        case(inputs=[(2, 3), (3, 4), (4, 5)], equation="ij,jk,kl->il"),
        case(inputs=[(2, 3), (4,), (3, 4), (2,)], equation="ij,k,jk,i"),
        case(inputs=[(3, 3)], equation="ii->i"),
        case(inputs=[(3, 3)], equation="ii"),
        case(inputs=[(2, 3, 3)], equation="...ii->...i"),
        case(inputs=[(3, 4, 3), (4, 3)], equation="iji,jk->ik"),
        case(inputs=[(1, 2, 3), (5, 3, 4)], equation="...ij,...jk->...ik"),
        case(inputs=[LONGS, LONGS], equation="bij,bkj->bik"),
        case(inputs=[BYTES, BYTES.array.T.copy()], equation="ij,jk->ik"),
        case(inputs=[BYTES], equation="ij->"),
    ],
)
def einsum(g: Builder, *operands: Value, equation: str, out: list[TensorType]) -> Value:
    """Operands are contracted one after the other, each first reduced to its diagonals."""
    found = read(equation, [x.rank for x in operands])
    if is_integer(operands[0]):
        whole = _summed_up(g, [plain(g, x) for x in operands], found)
        result = as_kind(g, whole, operands[0].dtype)
    else:
        result = _summed_up(g, operands, found)
    if result.shape != out[0].shape:  # a size of 1, repeated, by runtimes
        raise NotYet(
            f"'{equation}' gives {result.type}; by ONNX's shape function {out[0]}",
            remedy="expand sizes of 1 before",
        )
    return result


def _summed_up(g: Builder, operands: Sequence[Value], found: Equation) -> Value:
    parts = [_diagonal(g, x, t) for x, t in zip(operands, found.operands, strict=True)]
    (x, labels), *others = _spread(g, parts)
    for k, (other, more) in enumerate(others):
        keep = found.result + "".join(later for _, later in others[k + 1 :])
        x, labels = _contracted(g, (x, labels), (other, more), keep)
    return _arranged(g, x, labels, found.result)


Part = tuple[Value, str]


def _diagonal(g: Builder, x: Value, labels: str) -> Part:
    """Take one dimension of several that have one label."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first, second = [k for k, c in enumerate(labels) if c == label][:2]
            order = [k for k in range(x.rank) if k not in (first, second)]
            size = x.shape[first]
            moved = g.transpose(x, [*order, first, second])
            flat = g.reshape(moved, (*moved.shape[:-2], size * size))
            x = every(g, flat, flat.rank - 1, range(0, size * size, size + 1))
            labels = "".join(labels[k] for k in order) + label
    return x, labels


def _spread(g: Builder, parts: list[Part]) -> list[Part]:
    """Repeat dimensions of size 1 whose label has another size elsewhere."""
    sizes: dict[str, int] = {}
    for x, labels in parts:
        for label, size in zip(labels, x.shape, strict=True):
            known = sizes.setdefault(label, size)
            if 1 not in (known, size) and known != size:
                raise InvalidModel(f"'{label}' is one size; got {known} and {size}")
            sizes[label] = size if known == 1 else known
    return [(spread(g, x, tuple(sizes[c] for c in labels)), labels) for x, labels in parts]


def _contracted(g: Builder, one: Part, other: Part, keep: str) -> Part:
    """Labels of one operand alone are summed, shared ones become the batch or are contracted."""
    (a, left), (b, right) = (other, one) if one[0].const is not None else (one, other)
    a, left = _summed(g, a, left, keep=right + keep)
    b, right = _summed(g, b, right, keep=left + keep)
    shared = [c for c in left if c in right]
    batch = "".join(c for c in shared if c in keep)
    inner = "".join(c for c in shared if c not in keep)
    rows = "".join(c for c in left if c not in right)
    columns = "".join(c for c in right if c not in left)
    sizes = dict(zip(left + right, a.shape + b.shape, strict=True))
    if b.const is not None and batch and inner and not is_integer(b):
        x, weights = (rows, batch, inner), (batch, columns, inner)
        result = _grouped(g, _matrix(g, a, left, x), _matrix(g, b, right, weights))
        made = rows + batch + columns
    else:
        x, y = (batch, rows, inner), (batch, inner, columns)
        result = product(g, _matrix(g, a, left, x), _matrix(g, b, right, y))
        made = batch + rows + columns
    return g.reshape(result, [sizes[c] for c in made]), made


def _grouped(g: Builder, x: Value, weights: Value) -> Value:
    """Multiply [rows, groups, K] with constant weights [groups, M, K]: [rows, groups, M].

    As a convolution in groups it leaves the groups where they stand; BATCH_MATMUL wants them first.
    """
    count, groups, inner = x.shape
    columns = weights.shape[1]
    flat = g.transpose(g.reshape(x, (1, count, 1, groups * inner)), (0, 3, 1, 2))
    filters = g.reshape(weights, (groups * columns, inner, 1, 1))
    bias = g.const(np.zeros(groups * columns), x.dtype)
    once = (1, 1)
    made = g.CONV_2D(flat, filters, bias, strides=once, dilations=once, padding="VALID")
    return g.reshape(g.transpose(made, (0, 2, 3, 1)), (count, groups, columns))


def _summed(g: Builder, x: Value, labels: str, *, keep: str) -> tuple[Value, str]:
    axes = tuple(k for k, c in enumerate(labels) if c not in keep)
    if not axes:
        return x, labels
    return g.SUM(x, axes=axes, keep_dims=False), "".join(c for c in labels if c in keep)


def _arranged(g: Builder, x: Value, labels: str, result: str) -> Value:
    x, labels = _summed(g, x, labels, keep=result)
    return g.transpose(x, [labels.index(c) for c in result])


def _matrix(g: Builder, x: Value, labels: str, groups: tuple[str, str, str]) -> Value:
    """Bring dimensions into [batch, rows, columns], each group one dimension."""
    sizes = dict(zip(labels, x.shape, strict=True))
    ordered = g.transpose(x, [labels.index(c) for c in "".join(groups)])
    return g.reshape(ordered, [math.prod(sizes[c] for c in group) for group in groups])
