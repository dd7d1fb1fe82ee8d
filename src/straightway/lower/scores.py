"""What `post_transform` makes of scores, as ONNX Runtime computes it (core/providers/cpu/ml/ml_common.h)."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from straightway.errors import NotYet
from straightway.ir import Value
from straightway.lower.activation import sigmoid
from straightway.lower.builder import Builder
from straightway.lower.declare import Need, need
from straightway.lower.softmax import soft

TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
LABELS = (
    "export with whole numbers for labels (scikit-learn: fit on LabelEncoder's), or drop the output of "
    "labels and name them by the scores"
)


def whole_labels(test: Callable[..., bool], given: str) -> Need:
    """Labels that are read must not be texts; `given` names them in the sentence."""
    return need(
        test,
        f"labels must be whole numbers, since LiteRT hands over no texts; got {{{given}}}",
        remedy=LABELS,
        possible=True,
    )


# Smaller scores count as zeros (ml_common.h: ComputeSoftmaxZero).
ZERO = 1e-7
# Winitzki's approximation of the inverse of the error function (ml_common.h: ErfInv).
SHAPE = 0.147


def need_finite(what: str, numbers: Sequence[float] | np.ndarray) -> None:
    """Refuse NaN, beside which runtimes choose different classes, and infinity, 0 times which it is."""
    if not np.isfinite(np.asarray(numbers, np.float64)).all():
        raise NotYet(f"{what} must be finite")


def transformed(g: Builder, scores: Value, name: str) -> Value:
    """[rows, scores], two or more. Raises NotYet for a transform that ONNX hasn't."""
    if name == "NONE":
        return scores
    if name == "LOGISTIC":
        return sigmoid(g, scores)
    if name == "SOFTMAX":
        return soft(g, scores, 1)
    if name == "SOFTMAX_ZERO":
        return _soft_but_zeros(g, scores)
    if name == "PROBIT":
        return probit(g, scores)
    raise NotYet(f"post_transform is one of {TRANSFORMS}; got {name!r}")


def _soft_but_zeros(g: Builder, scores: Value) -> Value:
    """The exponentials of what is not zero, over their sum."""
    most = g.REDUCE_MAX(scores, axes=(1,), keep_dims=True)
    counts = g.GREATER(g.ABS(scores), np.float32(ZERO))
    powers = g.EXP(g.SUB(scores, most))
    total = g.SUM(g.SELECT_V2(counts, powers, g.const(0, scores.dtype)), axes=(1,), keep_dims=True)
    rest = g.MUL(scores, g.EXP(g.NEG(most)))
    return g.DIV(g.SELECT_V2(counts, powers, rest), total)


def probit(g: Builder, scores: Value) -> Value:
    """√2 · the inverse error function of 2 · score - 1."""
    x = g.SUB(g.MUL(scores, 2.0), 1.0)
    log = g.LOG(g.MUL(g.SUB(1.0, x), g.ADD(x, 1.0)))
    half = g.ADD(g.MUL(log, 0.5), 2 / (3.14159 * SHAPE))
    root = g.SQRT(g.SUB(g.SQUARE(half), g.MUL(log, 1 / SHAPE)))
    size = g.SQRT(g.SUB(root, half))
    negative = g.LESS(x, 0.0)
    return g.MUL(g.SELECT_V2(negative, g.NEG(size), size), math.sqrt(2))
