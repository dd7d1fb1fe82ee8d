"""Ops of ONNX's domain ai.onnx.ml that are arithmetic."""

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import TensorType, Value
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
    features = x.shape[-1] if x.rank else 1
    for name, numbers in (("offset", offset), ("scale", scale)):
        if len(numbers) not in (1, features):
            raise InvalidModel(f"Scaler has {len(numbers)} numbers of {name} for features {x.type}")
    centred = g.SUB(g.cast(x, np.float32), g.const(offset, np.float32))
    return g.MUL(centred, g.const(scale, np.float32))


@lower(
    "ArrayFeatureExtractor",
    domain=DOMAIN,
    samples=[
        case(x=(2, 5), y=np.array([3, 1, 1])),
        case(x=(2, 3, 5), y=run([4, 0], np.int64)),
        case(x=(4,), y=np.array([2])),
    ],
)
def array_feature_extractor(g: Builder, x: Value, y: Value, /, *, out: list[TensorType]) -> Value:
    """Features by their places along the last axis."""
    places = g.reshape(y, (y.known_type.size,))
    if places.const is not None and not (places.const < x.shape[-1]).all():
        raise InvalidModel(f"features {places.const} are not all among those of {x.type}")
    return g.reshape(g.GATHER(x, places, axis=x.rank - 1), out[0].dims)


@lower("Binarizer", domain=DOMAIN, samples=[case(x=(2, 3), threshold=0.25)])
def binarizer(g: Builder, x: Value, /, threshold: float = 0.0) -> Value:
    """One above the threshold, else zero."""
    return g.cast(g.GREATER(x, threshold), x.dtype)
