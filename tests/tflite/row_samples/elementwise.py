"""Samples of the ops that work element by element."""

import math

import numpy as np

from row_samples.numbers import real, truths, whole
from row_samples.quantized import quant, to_integer, to_real
from row_samples.sample import Sample

A, B = whole(2, 3, 4, 5), whole(4, 1)
WORDS = np.array([[1, 0x01000001, 0x01010101, 0], [0, 1, 256, 0x00010000]], np.int32)
P, Q = truths(2, 3, 4), truths(3, 1)


def divide(a, b):
    """Integers are divided towards zero; here all are positive."""
    return a // b if np.issubdtype(a.dtype, np.integer) else a / b


def power(a, b):
    """The exponent is small enough for every type."""
    return a.astype(float) ** np.minimum(b.astype(float), 2)


BINARY = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "DIV": divide,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "SQUARED_DIFFERENCE": lambda a, b: (a - b) ** 2,
    "FLOOR_DIV": np.floor_divide,
    "FLOOR_MOD": np.mod,
    "ATAN2": np.arctan2,
    "EQUAL": np.equal,
    "NOT_EQUAL": np.not_equal,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
}
SAMPLES = [
    # the first operand is the greater one, for the sake of unsigned types
    Sample(
        op=op,
        inputs=(A + 5 if op == "SUB" else A, A[::-1].copy() if op == "ATAN2" else B),
        reference=reference,
    )
    for op, reference in BINARY.items()
]
SAMPLES += [
    Sample(op=op, inputs=(A, A[::-1].copy()), reference=reference)
    for op, reference in (
        ("STABLEHLO_ADD", np.add),
        ("STABLEHLO_MULTIPLY", np.multiply),
        ("STABLEHLO_MAXIMUM", np.maximum),
        ("STABLEHLO_MINIMUM", np.minimum),
    )
]
SAMPLES += [
    Sample(
        op="STABLEHLO_AND",
        inputs=(whole(2, 3, 4, dtype=np.int32), whole(2, 3, 4, dtype=np.int32) + 1),
        reference=np.bitwise_and,
    ),
    Sample(op="POW", inputs=(A, whole(4, 1, low=1, high=3)), reference=np.power),
    Sample(op="LOGICAL_AND", inputs=(P, Q), reference=np.logical_and),
    Sample(op="LOGICAL_OR", inputs=(P, Q), reference=np.logical_or),
    Sample(
        op="BITWISE_XOR",
        inputs=(whole(2, 3, 4, dtype=np.int32), whole(4, dtype=np.int32)),
        reference=np.bitwise_xor,
    ),
    Sample(
        op="RIGHT_SHIFT",
        inputs=(whole(2, 3, 4, high=90, dtype=np.int32), whole(4, dtype=np.int32)),
        reference=np.right_shift,
    ),
    Sample(
        op="PRELU",
        inputs=(whole(2, 3, 4, 5, low=-4), whole(5, low=2)),
        reference=lambda x, slope: np.where(x < 0, x * slope, x),
        constant=(1,),
    ),
    Sample(
        op="SELECT_V2",
        inputs=(truths(3, 1), whole(2, 3, 4), whole(4)),
        reference=np.where,
    ),
]
erf = np.vectorize(math.erf)


def gelu(x):
    """The exact one."""
    return x * (1 + erf(x / math.sqrt(2))) / 2


def gelu_tanh(x):
    """The approximation."""
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


COARSE = quant(0.25, 3)
POSITIVE = {"LOG": np.log, "SQRT": np.sqrt, "RSQRT": lambda x: 1 / np.sqrt(x)}
UNARY = {
    "ABS": np.abs,
    "NEG": np.negative,
    "EXP": np.exp,
    "SQUARE": np.square,
    "SIN": np.sin,
    "COS": np.cos,
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "ROUND": np.round,
    "SIGN": np.sign,
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
    "TANH": np.tanh,
    "RELU": lambda x: np.maximum(x, 0),
    "RELU6": lambda x: np.clip(x, 0, 6),
    "RELU_N1_TO_1": lambda x: np.clip(x, -1, 1),
    "RELU_0_TO_1": lambda x: np.clip(x, 0, 1),
    "ELU": lambda x: np.where(x < 0, np.expm1(x), x),
    "HARD_SWISH": lambda x: x * np.clip(x + 3, 0, 6) / 6,
}
SAMPLES += [
    Sample(op=op, inputs=(real(2, 3, 4, 5),), reference=f, rtol=1e-4) for op, f in UNARY.items()
]
SAMPLES += [
    Sample(op=op, inputs=(real(2, 3, 4, 5, low=0.5),), reference=f, rtol=1e-4)
    for op, f in POSITIVE.items()
]
SAMPLES += [
    Sample(op="LOGICAL_NOT", inputs=(truths(2, 3, 4),), reference=np.logical_not),
    Sample(op="GELU", inputs=(real(2, 3, 4, 5),), reference=gelu, rtol=1e-4),
    Sample(
        op="GELU",
        inputs=(real(2, 3, 4, 5),),
        attrs={"approximate": True},
        reference=gelu_tanh,
        rtol=1e-4,
    ),
    Sample(
        op="LEAKY_RELU",
        inputs=(real(2, 3, 4, 5),),
        attrs={"alpha": 0.25},
        reference=lambda x: np.where(x < 0, x * 0.25, x),
    ),
    Sample(
        op="QUANTIZE",
        inputs=(real(2, 3, 4),),
        attrs={"dtype": np.dtype(np.int8)},
        reference=lambda x: to_integer(x, COARSE, np.dtype(np.int8)),
        quants={"y0": COARSE},
        swept=False,
    ),
    Sample(
        op="DEQUANTIZE",
        inputs=(whole(2, 3, 4, low=-90, high=90, dtype=np.int8),),
        reference=lambda x: to_real(x, COARSE),
        quants={0: COARSE},
        swept=False,
    ),
    Sample(
        op="DEQUANTIZE",
        inputs=(whole(2, 3, 4).astype(np.float16),),
        reference=lambda x: x.astype(np.float32),
    ),
    Sample(
        op="CAST",
        inputs=(whole(2, 3, 4),),
        attrs={"dtype": np.dtype(np.int32)},
        reference=lambda x: x.astype(np.int32),
    ),
    *(
        Sample(
            op="BITCAST",
            inputs=(WORDS.view(source),),
            attrs={"dtype": np.dtype(target)},
            reference=lambda x, s=source, t=target: x.astype(s).view(t),
            swept=False,
        )
        for source, target in ((np.int32, np.float32), (np.uint64, np.int64), (bool, np.uint8))
    ),
    Sample(
        op="BITCAST",
        inputs=(WORDS.view(np.int64),),
        attrs={"dtype": np.dtype(np.int32)},
        reference=lambda x: x.view(np.int32).reshape(*x.shape, 2),
        swept=False,
    ),
]
