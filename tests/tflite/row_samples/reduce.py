"""Samples of reductions, and of the ops that normalise along an axis."""

import numpy as np

from row_samples.numbers import real, truths, whole
from row_samples.sample import Sample

X = whole(2, 3, 4, 5, high=4)


def mean(x, *, keepdims):
    """Integers are divided towards zero."""
    total = x.sum((1, 3), keepdims=keepdims)
    return total // 15 if np.issubdtype(x.dtype, np.integer) else total / 15


def reduced(op, function, keep=True, x=X):
    """A reduction over two axes."""
    return Sample(
        op=op,
        inputs=(x,),
        attrs={"axes": (1, 3), "keep_dims": keep},
        reference=lambda a: function(a, keepdims=keep),
    )


def softmax(x):
    """Over the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def top_k(x):
    """The three greatest; of equal ones the first."""
    order = np.argsort(-x, axis=-1, kind="stable")[..., :3]
    return [np.take_along_axis(x, order, -1), order.astype(np.int32)]


SAMPLES = [
    reduced("MEAN", mean),
    reduced("MEAN", mean, keep=False),
    reduced("SUM", lambda x, keepdims: x.sum((1, 3), keepdims=keepdims)),
    reduced("SUM", lambda x, keepdims: x.sum((1, 3), keepdims=keepdims), keep=False),
    reduced("REDUCE_MAX", lambda x, keepdims: x.max((1, 3), keepdims=keepdims)),
    reduced("REDUCE_MAX", lambda x, keepdims: x.max((1, 3), keepdims=keepdims), keep=False),
    reduced("REDUCE_MIN", lambda x, keepdims: x.min((1, 3), keepdims=keepdims)),
    reduced("REDUCE_MIN", lambda x, keepdims: x.min((1, 3), keepdims=keepdims), keep=False),
    Sample(
        op="REDUCE_PROD",
        inputs=(whole(2, 3, 4, high=3),),
        attrs={"axes": (2,), "keep_dims": False},
        reference=lambda x: x.prod(2),
    ),
    reduced(
        "REDUCE_ANY", lambda x, keepdims: x.any((1, 3), keepdims=keepdims), x=truths(2, 3, 4, 2)
    ),
    reduced(
        "REDUCE_ALL", lambda x, keepdims: x.all((1, 3), keepdims=keepdims), x=truths(2, 1, 4, 2)
    ),
    *(
        Sample(
            op=op,
            inputs=(whole(2, 3, 4, 5, high=90),),
            attrs={"axis": 2, "output_type": kind},
            reference=lambda x, f=function: f(x, 2),
        )
        for op, function in (("ARG_MAX", np.argmax), ("ARG_MIN", np.argmin))
        for kind in ("INT32", "INT64")
    ),
    Sample(op="SOFTMAX", inputs=(real(2, 3, 5),), attrs={"axis": 2}, reference=softmax),
    Sample(
        op="SOFTMAX",
        inputs=(real(2, 3, 5),),
        attrs={"axis": 2, "beta": 0.5},
        reference=lambda x: softmax(x / 2),
    ),
    Sample(
        op="LOG_SOFTMAX",
        inputs=(real(2, 3, 5),),
        attrs={"axis": 2},
        reference=lambda x: np.log(softmax(x)),
        rtol=1e-4,
    ),
    Sample(
        op="L2_NORMALIZATION",
        inputs=(real(2, 3, 5),),
        attrs={"axis": 2},
        reference=lambda x: x / np.sqrt((x**2).sum(-1, keepdims=True)),
    ),
    Sample(op="TOPK_V2", inputs=(whole(2, 3, 7, high=9),), attrs={"k": 3}, reference=top_k),
]
