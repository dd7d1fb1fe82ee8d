"""Ops of ONNX's domain ai.onnx.ml that are arithmetic."""

import numpy as np

from straightway.ir import Value
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, run

DOMAIN = "ai.onnx.ml"
Floats = tuple[float, ...]


@lower(
    "Scaler",
    domain=DOMAIN,
    samples=[
        case(x=(2, 3), offset=(0.5, -1.0, 2.0), scale=(2.0, 0.25, 3.0)),
        case(x=run([[1, 2, 3]], np.int64), offset=(0.5,), scale=(2.0,)),
    ],
)
def scaler(g: Builder, x: Value, /, offset: Floats, scale: Floats) -> Value:
    """(x - offset) · scale, a feature each."""
    centred = g.SUB(g.cast(x, np.float32), g.const(offset, np.float32))
    return g.MUL(centred, g.const(scale, np.float32))


@lower("Binarizer", domain=DOMAIN, samples=[case(x=(2, 3), threshold=0.25)])
def binarizer(g: Builder, x: Value, /, threshold: float = 0.0) -> Value:
    """One above the threshold, else zero."""
    return g.cast(g.GREATER(x, threshold), x.dtype)
