"""Rows against the published 8-bit specification, written down here op by op.

Source: ai.google.dev/edge/litert/models/quantization_spec, "Int8 quantized operator specifications".
"""

import numpy as np
import pytest

from straightway.quant.assignment import scheme_for
from straightway.quant.scheme import INT8, fixed_scheme
from straightway.quant.weights import INT8_LIMITS
from straightway.tflite.rows import ROWS

# "Inputs and outputs must all have same scale/zero_point"
SAME = [
    "AVERAGE_POOL_2D",
    "CONCATENATION",
    "GATHER",
    "MAX_POOL_2D",
    "RESHAPE",
    "RESIZE_BILINEAR",
    "SPACE_TO_DEPTH",
    "PAD",
    "BATCH_TO_SPACE_ND",
    "SPACE_TO_BATCH_ND",
    "TRANSPOSE",
    "SQUEEZE",
    "MAXIMUM",
    "MINIMUM",
    "PADV2",
    "SLICE",
]
# of the result, as numbers: scale and zero point
FIXED = {
    "L2_NORMALIZATION": (1 / 128, 0),
    "LOGISTIC": (1 / 256, -128),
    "SOFTMAX": (1 / 256, -128),
    "TANH": (1 / 128, 0),
    "LOG_SOFTMAX": (16 / 256, 127),
}
# weights of -127 to 127 around 0, and int32 biases at the product of the scales
WEIGHTS = ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"]
# per-tensor, nothing asked of inputs and outputs together
FREE = [
    "ADD",
    "MUL",
    "MEAN",
    "SUB",
    "SUM",
    "ARG_MAX",
    "LESS",
    "LESS_EQUAL",
    "GREATER",
    "GREATER_EQUAL",
    "EQUAL",
    "NOT_EQUAL",
]
QUANTIZE = "QUANTIZE"


@pytest.mark.parametrize("name", [name for name in SAME if name in ROWS])
def test_operands_and_results_share_a_scale(name):
    assert ROWS[name].quant == "same"
    assert INT8 in ROWS[name].quantized


def test_no_row_but_these_is_missing():
    # a SQUEEZE is written as a RESHAPE, these as the moves that they are
    missing = {n for n in (*SAME, *FIXED, *WEIGHTS, *FREE, QUANTIZE) if n not in ROWS}
    assert missing <= {"SQUEEZE", "BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND"}


@pytest.mark.parametrize("name", FIXED)
def test_results_have_the_fixed_scale(name):
    scheme = fixed_scheme(ROWS[name], INT8)
    assert (scheme.scale, scheme.zero_point) == FIXED[name]


def test_nothing_else_is_fixed():
    assert {n for n, row in ROWS.items() if row.quant.startswith("fixed:")} == set(FIXED)


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_are_int8_beside_an_int32_bias(name):
    assert ROWS[name].quant == "weights"


@pytest.mark.parametrize("name", FREE)
def test_operands_and_results_have_scales_of_their_own(name):
    assert ROWS[name].quant == "free"


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.0, 6.0), (-3.0, -1.0), (2.0, 5.0), (0.0, 0.0)])
def test_zero_is_a_number_stored_and_zero_points_are_int8(ends):
    scheme = scheme_for(*ends)
    assert -128 <= scheme.zero_point <= 127
    assert scheme.real(scheme.stored(np.zeros(1)))[0] == 0
    assert INT8_LIMITS == (-128, 127)


def test_int16_has_no_zero_point():
    """The 16x8 scheme: activations are symmetric, results of these have a scale of 1/32768."""
    int16 = np.dtype(np.int16)
    assert scheme_for(-1.0, 3.0, dtype=int16).zero_point == 0
    for name in ("LOGISTIC", "TANH", "SOFTMAX"):
        scheme = fixed_scheme(ROWS[name], int16)
        assert (scheme.scale, scheme.zero_point) == (1 / 32768, 0)
