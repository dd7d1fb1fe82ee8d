"""Operators that round their operand as the model runs: TFLite's hybrid kernels do so, too.

A hybrid kernel takes floats and int8 weights, and rounds each row of the floats by a scale of its own,
where ONNX's DynamicQuantizeLinear has one for the tensor: no row's numbers are farther apart.
"""

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import Quant, Value
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need, run
from straightway.lower.matrix import linear
from straightway.lower.quantized import dynamic_quantize, matmul_integer

DOMAIN = "com.microsoft"
FLOAT = np.dtype(np.float32)
INT8_LIMITS = (-128, 127)
NUMBERS = (np.arange(20) * 7 % 200 - 100).astype(np.int8).reshape(4, 5)
SCALES = np.array([0.5, 0.25, 0.125, 0.0625, 0.03125], np.float32)


def real_weights(g: Builder, b: Value, scale: Value, zero_point: Value | None) -> Value | None:
    """Constant weights [K, N] as the floats that they stand for, with their scheme.

    Without a scheme where their numbers less the zero points don't fit int8: then they are floats in the
    file, and the operand is not rounded. None where they are no constants.
    """
    if b.const is None or scale.const is None:
        return None
    if zero_point is not None and zero_point.const is None:
        return None
    if b.dtype.kind not in "iu":
        raise InvalidModel(f"weights are whole numbers of 8 bits; got {b.type}")
    zero = np.zeros(1, np.int64) if zero_point is None else zero_point.const.reshape(-1)  # type: ignore[union-attr]
    numbers = b.const.astype(np.int64) - zero.astype(np.int64)
    factors = scale.const.reshape(-1).astype(np.float32)
    if factors.size not in (1, b.shape[-1]) or zero.size not in (1, b.shape[-1]):
        raise InvalidModel(f"weights {b.type} have no scales {scale.type}")
    low, high = INT8_LIMITS
    fits = numbers.min(initial=0) >= low and numbers.max(initial=0) <= high and (factors > 0).all()
    key = ("real", factors.tobytes(), zero.tobytes())
    made = g.derived(b, key, lambda _: (numbers * factors).astype(np.float32))
    axis = None if factors.size == 1 else b.rank - 1
    if fits:
        made.quant = Quant(scale=factors, zero_point=np.zeros(factors.size, np.int64), axis=axis)
    return made


@lower(
    "DynamicQuantizeMatMul",
    domain=DOMAIN,
    needs=[
        need(
            lambda a: a.dtype == FLOAT and a.rank >= 2 and 0 not in a.shape,
            "matrices must be of float32; got {a.type}",
            possible=True,
        )
    ],
    samples=[
        case(
            a=run(np.linspace(-1, 2, 24).reshape(2, 3, 4)),
            b=run(NUMBERS.astype(np.int16) + 128, np.uint8),
            b_scale=np.array(0.5, np.float32),
            b_zero_point=np.array(3, np.uint8),
        )
    ],
    refuses=[
        case(a=run(np.zeros((0, 4))), b=NUMBERS, b_scale=SCALES, b_zero_point=np.zeros(5, np.int8))
    ],
)
def dynamic_quantize_matmul(  # noqa: PLR0917 - the signature is the schema
    g: Builder,
    a: Value,
    b: Value,
    b_scale: Value,
    b_zero_point: Value | None = None,
    bias: Value | None = None,
    /,
) -> Value:
    """A product with int8 weights, each row rounded as it runs; with floats where the weights don't fit."""
    weights = real_weights(g, b, b_scale, b_zero_point)
    if weights is not None:
        columns = g.transpose(weights, (1, 0))
        result = linear(g, a, columns, a.rank - 1, None, rounds=True)
    else:
        numbers, scale, zero_point = dynamic_quantize(g, a)
        whole = matmul_integer(g, numbers, b, zero_point, b_zero_point)
        result = g.MUL(g.cast(whole, FLOAT), g.MUL(scale, b_scale))
    return result if bias is None else g.ADD(result, bias)
