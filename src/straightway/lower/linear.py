"""Linear models and norms of ONNX's domain ai.onnx.ml: a product, a bias, a transform of the scores."""

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import Node, Value
from straightway.lower.builder import Builder
from straightway.lower.declare import ABSENT, Ints, case, lower, need, run
from straightway.lower.scores import TRANSFORMS, need_finite, transformed, whole_labels

DOMAIN = "ai.onnx.ml"
Floats = tuple[float, ...]
ROWS = (0.5, -1.0, 2.0, 0.25, 1.5, -0.75)
X = run([[1.0, -2.0, 0.5], [0.0, 3.0, -1.0]], np.float32)
NOTHING = run([[0.0, 0.0, 0.0], [-1.0, 0.0, -2.0]], np.float32)


def linear(g: Builder, x: Value, rows: Floats, bias: Floats, count: int) -> Value:
    """[N, features] times [count, features], with a bias each: [N, count]."""
    if x.rank not in (1, 2) or len(rows) != count * x.shape[-1] or len(bias) not in (0, 1, count):
        raise InvalidModel(
            f"{len(rows)} coefficients and {len(bias)} intercepts are not those of {count} results "
            f"and features {x.type}"
        )
    need_finite("coefficients and intercepts", (*rows, *bias))
    weights = np.array(rows, np.float32).reshape(count, -1)
    biases = np.resize(np.array(bias or (0.0,), np.float32), count)
    samples = g.cast(g.reshape(x, (1, *x.shape)) if x.rank == 1 else x, np.float32)
    return g.FULLY_CONNECTED(samples, g.const(weights), g.const(biases), axis=1)


@lower(
    "LinearRegressor",
    domain=DOMAIN,
    needs=[
        need(
            lambda targets, post_transform: targets > 1 or post_transform == "NONE",
            "post_transform of a single score must be NONE; got {post_transform}",
            possible=True,
        )
    ],
    samples=[
        case(x=X, coefficients=ROWS[:3], intercepts=(0.5,)),
        case(x=X, coefficients=ROWS, intercepts=(0.5, -1.0), targets=2),
    ],
    refuses=[case(x=X, coefficients=ROWS[:3], post_transform="LOGISTIC")],
)
def linear_regressor(
    g: Builder,
    x: Value,
    /,
    *,
    coefficients: Floats = (),
    intercepts: Floats = (),
    targets: int = 1,
    post_transform: str = "NONE",
) -> Value:
    """A product and a bias."""
    scores = linear(g, x, coefficients, intercepts, targets)
    return transformed(g, scores, post_transform) if targets > 1 else scores


@lower(
    "LinearClassifier",
    domain=DOMAIN,
    needs=[
        whole_labels(
            lambda classlabels_strings, node: not (classlabels_strings and node.outputs[0].uses),
            "classlabels_strings",
        ),
        need(
            lambda intercepts, classlabels_ints, classlabels_strings: (
                len(intercepts) == len(classlabels_strings or classlabels_ints) > 1
            ),
            "each of two or more classes must have an intercept; got {intercepts} for {classlabels_ints} "
            "{classlabels_strings}",
            remedy="export with a row of coefficients for each class",
            possible=True,
        ),
    ],
    samples=[
        case(x=X, outputs=2, coefficients=ROWS, intercepts=(0.5, -1.0), classlabels_ints=(3, 7)),
        *(
            case(
                x=X,
                outputs=2,
                coefficients=(*ROWS, 1.0, 0.0, -0.5),
                intercepts=(0.5, -1.0, 0.25),
                classlabels_ints=(0, 1, 2),
                post_transform=name,
            )
            for name in TRANSFORMS
            if name != "PROBIT"
        ),
    ],
    refuses=[
        case(x=X, outputs=2, coefficients=ROWS[:3], intercepts=(0.5,), classlabels_ints=(0, 1)),
        case(
            x=X, outputs=2, coefficients=ROWS, intercepts=(0.5, 1.0), classlabels_strings=["a", "b"]
        ),
    ],
)
def linear_classifier(
    g: Builder,
    x: Value,
    /,
    *,
    coefficients: Floats,
    intercepts: Floats = (),
    classlabels_ints: Ints = ABSENT,
    classlabels_strings: tuple[str, ...] = (),
    multi_class: int = 0,
    post_transform: str = "NONE",
    node: Node,
) -> list[Value | None]:
    """The class with the greatest score, and all scores, transformed; `multi_class` changes neither."""
    scores = linear(g, x, coefficients, intercepts, len(classlabels_strings or classlabels_ints))
    label = None
    if node.outputs[0].uses:
        place = g.ARG_MAX(scores, axis=1, output_type="INT64")
        label = g.GATHER(g.const(np.array(classlabels_ints, np.int64)), place, axis=0)
    return [label, transformed(g, scores, post_transform)][: len(node.outputs)]


@lower(
    "Normalizer",
    domain=DOMAIN,
    samples=[case(x=x, norm=name) for name in ("MAX", "L1", "L2") for x in (X, NOTHING)],
)
def normalizer(g: Builder, x: Value, /, norm: str = "MAX") -> Value:
    """Features over their norm, a row each; a row without a norm stays as it is, as in onnxruntime."""
    axes = (x.rank - 1,)
    values = g.cast(x, np.float32)
    if norm == "L1":
        size = g.SUM(g.ABS(values), axes=axes, keep_dims=True)
    elif norm == "L2":
        size = g.SQRT(g.SUM(g.MUL(values, values), axes=axes, keep_dims=True))
    else:
        size = g.REDUCE_MAX(values, axes=axes, keep_dims=True)
    size = g.SELECT_V2(g.EQUAL(size, 0.0), g.const(1.0, np.float32), size)
    return g.DIV(values, size)
