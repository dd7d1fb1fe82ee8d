"""Ops of onnxruntime's own domain, com.microsoft.

Source: onnxruntime/docs/ContribOperators.md. ONNX has no schema of them, so that operands and
defaults stand in the signatures, and their types must stand in the model.
"""

import numpy as np

from straightway.ir import TensorType, Value
from straightway.lower.activation import gelu
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need
from straightway.lower.matrix import product, scaled
from straightway.lower.norm import affine, standardized

DOMAIN = "com.microsoft"
WEIGHTS = np.linspace(-1, 2, 12, dtype=np.float32)


@lower("Gelu", domain=DOMAIN, samples=[case(x=(2, 3, 4))])
def exact_gelu(g: Builder, x: Value, /) -> Value:
    """ONNX's Gelu without approximation."""
    return gelu(g, x, approximate="none")


@lower("BiasGelu", domain=DOMAIN, samples=[case(a=(2, 3, 4), b=WEIGHTS[:4])])
def bias_gelu(g: Builder, a: Value, b: Value, /) -> Value:
    """ONNX's Gelu of a sum."""
    return gelu(g, g.ADD(a, b), approximate="none")


@lower(
    "FastGelu",
    domain=DOMAIN,
    samples=[case(x=(2, 3, 4)), case(x=(2, 3, 4), bias=WEIGHTS[:4])],
)
def fast_gelu(g: Builder, x: Value, bias: Value | None = None, /) -> Value:
    """ONNX's Gelu by the hyperbolic tangent."""
    return gelu(g, x if bias is None else g.ADD(x, bias), approximate="tanh")


@lower("QuickGelu", domain=DOMAIN, samples=[case(x=(2, 3, 4)), case(x=(2, 3), alpha=1.0)])
def quick_gelu(g: Builder, x: Value, /, alpha: float = 1.702) -> Value:
    """X times the sigmoid of alpha · x."""
    return g.MUL(x, g.LOGISTIC(x if alpha == 1 else g.MUL(x, alpha)))


@lower(
    "FusedMatMul",
    domain=DOMAIN,
    needs=[
        need(
            lambda transBatchA, transBatchB: not transBatchA and not transBatchB,
            "transBatchA and transBatchB must be 0; got {transBatchA}, {transBatchB}",
            possible=True,
        )
    ],
    samples=[
        case(a=(2, 4, 3), b=(2, 5, 3), transB=1, alpha=0.5),
        case(a=(2, 3, 4), b=WEIGHTS.reshape(3, 4), transA=1),
    ],
    refuses=[case(a=(2, 4, 3), b=(4, 2, 5), transBatchB=1)],
)
def fused_matmul(
    g: Builder,
    a: Value,
    b: Value,
    /,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Value:
    """A product of matrices, turned and scaled."""
    rows = turned(g, a) if transA else a
    columns = turned(g, b) if transB else b
    return scaled(g, product(g, rows, columns), alpha)


def turned(g: Builder, x: Value) -> Value:
    """Exchange rows and columns."""
    return g.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


@lower(
    "SkipLayerNormalization",
    domain=DOMAIN,
    samples=[
        case(x=(2, 3, 4), skip=(2, 3, 4), gamma=WEIGHTS[:4], beta=WEIGHTS[4:8]),
        case(
            x=(2, 3, 4),
            skip=(2, 3, 4),
            gamma=WEIGHTS[:4],
            beta=WEIGHTS[4:8],
            bias=WEIGHTS[8:],
            epsilon=0.125,
        ),
    ],
)
def skip_layer_normalization(  # noqa: PLR0917 - the signature is the schema
    g: Builder,
    x: Value,
    skip: Value,
    gamma: Value,
    beta: Value | None = None,
    bias: Value | None = None,
    /,
    *,
    epsilon: float = 1e-12,
    out: list[TensorType],
) -> list[Value]:
    """LayerNormalization of a sum, which is the fourth result."""
    total = g.ADD(x, skip) if bias is None else g.ADD(g.ADD(x, skip), bias)
    normal, mean, inverse = standardized(g, total, (x.rank - 1,), epsilon)
    return [affine(g, normal, gamma, beta), mean, inverse, total][: len(out)]
