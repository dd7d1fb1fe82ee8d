"""Ops of onnxruntime's own domain, com.microsoft.

Source: onnxruntime/docs/ContribOperators.md. ONNX has no schema of them, so that operands and
defaults stand in the signatures, and their types must stand in the model.
"""

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import TensorType, Value
from straightway.lower.activation import gelu, sigmoid
from straightway.lower.axes import counted
from straightway.lower.builder import Builder
from straightway.lower.declare import ONNX_TEXT, case, lower, need, run
from straightway.lower.index import triangle
from straightway.lower.looked_up import Given
from straightway.lower.matrix import of_matrices, product, scaled
from straightway.lower.norm import affine, root_mean_square, standardized
from straightway.lower.pad import NUMPY_MODES, pad
from straightway.lower.selection import crop

DOMAIN = "com.microsoft"
WEIGHTS = np.linspace(-1, 2, 12, dtype=np.float32)
TABLE = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)


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
    return g.MUL(x, sigmoid(g, x if alpha == 1 else g.MUL(x, alpha)))


@lower(
    "FusedMatMul",
    "TransposeMatMul",
    domain=DOMAIN,
    samples=[
        case(a=(2, 4, 3), b=(2, 5, 3), transB=1, alpha=0.5),
        case(a=(2, 3, 4), b=WEIGHTS.reshape(3, 4), transA=1),
    ],
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
    """A product of matrices, turned and scaled; what may be a vector is not turned."""
    rows, columns = (
        turned(g, v) if turn and v.rank > 1 else v
        for v, turn in (
            (batched(g, a) if transBatchA else a, transA),
            (batched(g, b) if transBatchB else b, transB),
        )
    )
    return scaled(g, of_matrices(g, rows, columns, product), alpha)


def batched(g: Builder, x: Value) -> Value:
    """Let the first dimension, of rows, come after those of the batch."""
    return g.transpose(x, [*range(1, x.rank - 1), 0, x.rank - 1])


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


SUMS = [
    case(x=(2, 3, 4), skip=(2, 3, 4), gamma=WEIGHTS[:4]),
    case(x=(2, 3, 4), skip=(2, 3, 4), gamma=WEIGHTS[:4], bias=WEIGHTS[8:], epsilon=0.125),
]


@lower("SkipSimplifiedLayerNormalization", domain=DOMAIN, samples=SUMS)
def skip_simplified_layer_normalization(
    g: Builder,
    x: Value,
    skip: Value,
    gamma: Value,
    bias: Value | None = None,
    /,
    *,
    epsilon: float = 1e-12,
    out: list[TensorType],
) -> list[Value | None]:
    """A sum, which is the fourth result, over the root of its mean square."""
    total = g.ADD(x, skip) if bias is None else g.ADD(g.ADD(x, skip), bias)
    normal, inverse = root_mean_square(g, total, (x.rank - 1,), epsilon)
    return [g.MUL(normal, gamma), None, inverse, total][: len(out)]


@lower(
    "SimplifiedLayerNormalization",
    samples=[
        case(x=(2, 3, 5), scale=WEIGHTS[:5]),
        case(x=(2, 3, 4), scale=WEIGHTS.reshape(3, 4), axis=1, epsilon=0.125),
    ],
)
def simplified_layer_normalization(
    g: Builder,
    x: Value,
    scale: Value,
    /,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    out: list[TensorType],
) -> list[Value]:
    """ONNX's RMSNormalization under the name it has in onnxruntime."""
    axes = tuple(range(counted(axis, x.rank), x.rank))
    normal, inverse = root_mean_square(g, x, axes, epsilon)
    return [g.MUL(normal, scale), inverse][: len(out)]


@lower(
    "EmbedLayerNormalization",
    domain=DOMAIN,
    samples=[
        case(
            ids=run([[0, 4, 2], [1, 1, 3]], np.int32),
            segments=run([[0, 0, 1], [1, 1, 0]], np.int32),
            words=TABLE,
            places=TABLE[::-1],
            kinds=TABLE[:2],
            gamma=WEIGHTS[:4],
            beta=WEIGHTS[4:8],
            outputs=2,
        ),
        case(
            ids=run([[0, 4, 2], [1, 1, 3]], np.int32),
            words=TABLE,
            places=TABLE[::-1],
            gamma=WEIGHTS[:4],
            beta=WEIGHTS[4:8],
            mask=run([[1, 1, 0], [1, 0, 0]], np.int32),
            positions=run([[2, 1, 0], [0, 1, 4]], np.int32),
            epsilon=0.125,
            outputs=3,
        ),
    ],
)
def embed_layer_normalization(  # noqa: PLR0917 - the signature is the schema
    g: Builder,
    ids: Value,
    segments: Value | None = None,
    words: Value | None = None,
    places: Value | None = None,
    kinds: Value | None = None,
    gamma: Value | None = None,
    beta: Value | None = None,
    mask: Value | None = None,
    positions: Value | None = None,
    /,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
    out: list[TensorType],
) -> list[Value]:
    """Rows of tables, by word, place and segment, summed and normalised; how many words count."""
    if words is None or places is None or (segments is not None and kinds is None):
        raise InvalidModel("EmbedLayerNormalization lacks a table of embeddings")
    batch, length = ids.shape
    if positions is None and length > places.shape[0]:
        raise InvalidModel(f"{length} words have no places in {places.type}")
    if positions is None and 1 in g.open_dims:
        positions = g.ADD(g.MUL(ids, 0), np.arange(length, dtype=ids.dtype))
    if positions is None:
        row = crop(g, places, (0, 0), (length, places.shape[1]))
        place = g.reshape(row, (1, *row.shape))
    else:
        place = g.GATHER(places, positions, axis=0)
    total = g.ADD(g.GATHER(words, ids, axis=0), place)
    if segments is not None:
        total = g.ADD(total, g.GATHER(kinds, segments, axis=0))
    normal, _, _ = standardized(g, total, (2,), epsilon)
    results = [affine(g, normal, gamma, beta)]
    if len(out) > 1:
        counts = g.const(np.zeros(batch, np.int32))
        if mask is not None:
            counts = g.SUM(g.cast(g.EQUAL(mask, 1), np.int32), axes=(1,), keep_dims=False)
        results.append(counts)
    return [*results, total][: len(out)]


@lower(
    "Trilu",
    domain=DOMAIN,
    samples=[case(x=(2, 4, 5)), case(x=(2, 4, 5), upper=0, k=np.array(-1, np.int64))],
)
def trilu(g: Builder, x: Value, k: Value | None = None, /, upper: int = 1) -> Value:
    """ONNX's Trilu."""
    return triangle(g, x, k=k, upper=upper)


@lower(
    "Pad",
    domain=DOMAIN,
    needs=[
        need(
            lambda mode: mode in ("constant", *NUMPY_MODES),
            "mode must be constant, reflect, edge or wrap; got {mode}",
            kernel=ONNX_TEXT,
        )
    ],
    samples=[
        case(data=(2, 3, 4), pads=np.array([0, 1, 2, 0, 0, 1]), value=np.array([-3.5], np.float32)),
        case(data=(2, 3, 6), pads=np.array([0, 1, 2, 0, 1, 0]), mode="reflect"),
    ],
    refuses=[case(data=(2, 3), pads=np.array([0, 0, 0, 1]), mode="mirror")],
)
def own_pad(
    g: Builder,
    data: Value,
    pads: Given,
    value: Value | None = None,
    /,
    mode: str = "constant",
    *,
    out: list[TensorType],
) -> Value:
    """ONNX's Pad."""
    return pad(g, data, pads=pads, constant_value=value, mode=mode, out=out)
