"""What ONNX's domain ai.onnx.ml makes of tabular features before a model: codes, gaps, columns joined."""

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import Value
from straightway.lower.builder import Builder
from straightway.lower.declare import ABSENT, ZERO, AnyFloat, Ints, case, lower, need, run
from straightway.lower.selection import join

DOMAIN = "ai.onnx.ml"
Floats = tuple[float, ...]
Texts = tuple[str, ...]
INT64 = np.dtype(np.int64)
GAPS = run([[1.0, np.nan, 3.0], [np.nan, 0.0, -1.0]], np.float32)
CODES = run([[3, 5], [7, 4]], INT64)


@lower(
    "Imputer",
    domain=DOMAIN,
    samples=[
        case(x=GAPS, imputed_value_floats=(0.5, 2.0, -1.0), replaced_value_float=float("nan")),
        case(x=run([[1.0, 0.0, 3.0]], np.float32), imputed_value_floats=(0.5,)),
        case(x=CODES, imputed_value_int64s=(9, 8), replaced_value_int64=5),
    ],
)
def imputer(
    g: Builder,
    x: Value,
    /,
    *,
    imputed_value_floats: Floats = (),
    imputed_value_int64s: Ints = ABSENT,
    replaced_value_float: AnyFloat = ZERO,
    replaced_value_int64: int = 0,
) -> Value:
    """Another number, a feature each, in the place of one, or of NaN."""
    is_float = x.dtype.kind == "f"
    found = imputed_value_floats if is_float else imputed_value_int64s
    if len(found) not in (1, x.shape[-1]):
        raise InvalidModel(f"{len(found)} numbers to fill in are not those of features {x.type}")
    if is_float and np.isnan(replaced_value_float):
        gap = g.NOT_EQUAL(x, x)
    else:
        gap = g.EQUAL(x, replaced_value_float if is_float else replaced_value_int64)
    return g.SELECT_V2(gap, g.const(found, x.dtype), x)


@lower(
    "FeatureVectorizer",
    domain=DOMAIN,
    needs=[
        need(
            lambda xs, inputdimensions: all(
                x.rank == 2 and x.shape[1] == n for x, n in zip(xs, inputdimensions, strict=False)
            ),
            "inputdimensions must be the columns of the operands; got {inputdimensions}",
            possible=True,
        )
    ],
    samples=[
        case(xs=[(2, 3), run([[1, 2], [3, 4]], np.float32)], inputdimensions=(3, 2)),
    ],
    refuses=[case(xs=[(2, 3), (2, 2)], inputdimensions=(2, 2))],
)
def feature_vectorizer(g: Builder, /, *xs: Value, inputdimensions: Ints) -> Value:
    """Columns side by side, as floats."""
    return join(g, [g.cast(x, np.float32) for x in xs], 1)


@lower(
    "OneHotEncoder",
    domain=DOMAIN,
    needs=[
        need(
            lambda cats_strings: not cats_strings,
            "categories must be whole numbers; got {cats_strings}",
            remedy="encode texts as whole numbers outside of the model",
            possible=True,
        )
    ],
    samples=[
        case(x=CODES, cats_int64s=(3, 4, 5)),
        case(x=run([3.0, 4.0], np.float32), cats_int64s=(3, 4, 5)),
    ],
    refuses=[case(x=CODES, cats_strings=["a", "b"])],
)
def one_hot_encoder(
    g: Builder,
    x: Value,
    /,
    *,
    cats_int64s: Ints = ABSENT,
    cats_strings: Texts = (),
    zeros: int = 1,
) -> Value:
    """One where the category is, in a dimension of its own; zeros for one that is not there."""
    codes = g.reshape(g.cast(x, INT64), (*x.shape, 1))
    return g.cast(g.EQUAL(codes, g.const(cats_int64s, INT64)), np.float32)


@lower(
    "LabelEncoder",
    domain=DOMAIN,
    needs=[
        need(
            lambda keys_strings, values_strings, classes_strings, x: (
                not (keys_strings or values_strings or classes_strings or x.dtype == object)
            ),
            "keys and values must be numbers; got {keys_strings} {values_strings} {classes_strings}",
            remedy="encode texts as whole numbers outside of the model",
            possible=True,
        )
    ],
    samples=[
        case(
            x=CODES,
            keys_int64s=(3, 5, 7),
            values_floats=(0.5, 1.5, -2.0),
            default_float=9.0,
            opset=2,
        ),
        case(x=CODES, keys_int64s=(3, 5, 7), values_int64s=(1, 2, 3), opset=2),
        case(
            x=run([3.0, 4.5, 5.0], np.float32),
            keys_floats=(3.0, 4.5),
            values_int64s=(7, 8),
            default_int64=-5,
            opset=2,
        ),
        case(
            x=CODES,
            keys_tensor=np.array([3, 4], INT64),
            values_tensor=np.array([30, 40], INT64),
            default_tensor=np.array([-7], INT64),
            opset=4,
        ),
    ],
    refuses=[case(x=CODES, keys_int64s=(3, 5), values_strings=["a", "b"], opset=2)],
)
def label_encoder(
    g: Builder,
    x: Value,
    /,
    *,
    keys_int64s: Ints = ABSENT,
    keys_floats: Floats = (),
    keys_tensor: np.ndarray | None = None,
    values_int64s: Ints = ABSENT,
    values_floats: Floats = (),
    values_tensor: np.ndarray | None = None,
    default_int64: int = -1,
    default_float: float = -0.0,
    default_tensor: np.ndarray | None = None,
    keys_strings: Texts = (),
    values_strings: Texts = (),
    classes_strings: Texts = (),
    default_string: str = "_Unused",
) -> Value:
    """The value of the first key that is equal, else the default."""
    keys = keys_tensor if keys_tensor is not None else np.array(keys_int64s or keys_floats, x.dtype)
    if values_tensor is not None:
        default = default_tensor if default_tensor is not None else -np.ones(1)
        values = np.concatenate([values_tensor, default.astype(values_tensor.dtype).reshape(1)])
    elif values_floats:
        values = np.array([*values_floats, default_float], np.float32)
    else:
        values = np.array([*values_int64s, default_int64], INT64)
    if len(keys) + 1 != len(values):
        raise InvalidModel(f"{len(keys)} keys have {len(values) - 1} values")
    codes = g.reshape(x, (*x.shape, 1))
    known = g.EQUAL(codes, g.const(keys, x.dtype))
    if x.dtype.kind == "f" and np.isnan(keys).any():
        gaps = g.LOGICAL_AND(g.NOT_EQUAL(codes, codes), g.const(np.isnan(keys)))
        known = g.LOGICAL_OR(known, gaps)
    order = np.arange(len(keys), 0, -1, dtype=np.float32)
    ranked = g.MUL(g.cast(known, np.float32), g.const(order))
    most = g.REDUCE_MAX(ranked, axes=(x.rank,), keep_dims=False)
    place = g.cast(g.SUB(np.float32(len(keys)), most), np.int32)
    return g.GATHER(g.const(values), place, axis=0)
