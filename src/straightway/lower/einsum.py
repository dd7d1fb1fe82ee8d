"""Einstein sums of one or two operands as transposes, sums and one matrix product."""

import math
import re
from dataclasses import dataclass

import numpy as np

from straightway.ir import Value
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need
from straightway.lower.matrix import product

WEIGHTS = np.linspace(-1, 1, 120, dtype=np.float32).reshape(4, 5, 6)
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


def _distinct(equation: str) -> bool:
    terms = equation.replace(" ", "").replace("...", "").partition("->")[0].split(",")
    return all(len(set(term)) == len(term) for term in terms)


@lower(
    "Einsum",
    needs=[
        need(
            lambda operands: len(operands) <= 2,
            "Einsum is lowered for one or two operands; got {equation}",
            possible=True,
        ),
        need(_distinct, "Einsum of a diagonal is not lowered; got {equation}", possible=True),
    ],
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
    ],
    refuses=[
        case(inputs=[(2, 3), (3, 4), (4, 5)], equation="ij,jk,kl->il"),
        case(inputs=[(3, 3)], equation="ii->i"),
    ],
)
def einsum(g: Builder, *operands: Value, equation: str) -> Value:
    """Labels of one operand alone are summed, shared ones become the batch or are contracted."""
    found = read(equation, [x.rank for x in operands])
    if len(operands) == 1:
        return _arranged(g, operands[0], found.operands[0], found.result)
    (a, b), (left, right) = operands, found.operands
    if a.const is not None:
        (a, b), (left, right) = (b, a), (right, left)
    a, left = _summed(g, a, left, keep=right + found.result)
    b, right = _summed(g, b, right, keep=left + found.result)
    shared = [c for c in left if c in right]
    batch = "".join(c for c in shared if c in found.result)
    inner = "".join(c for c in shared if c not in found.result)
    rows = "".join(c for c in left if c not in right)
    columns = "".join(c for c in right if c not in left)
    sizes = dict(zip(left + right, a.shape + b.shape, strict=True))
    if b.const is not None and batch and inner:
        x, weights = (rows, batch, inner), (batch, columns, inner)
        result = _grouped(g, _matrix(g, a, left, x), _matrix(g, b, right, weights))
        made = rows + batch + columns
    else:
        x, y = (batch, rows, inner), (batch, inner, columns)
        result = product(g, _matrix(g, a, left, x), _matrix(g, b, right, y))
        made = batch + rows + columns
    return _arranged(g, g.reshape(result, [sizes[c] for c in made]), made, found.result)


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
