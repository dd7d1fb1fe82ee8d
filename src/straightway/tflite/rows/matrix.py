"""Matrix products."""

import numpy as np

from straightway.ir import Node
from straightway.tflite.rows import shapes, versions
from straightway.tflite.rows.conditions import (
    ACTIVATIONS,
    constant,
    is_float,
    per_tensor,
    present,
)
from straightway.tflite.rows.row import (
    ACTIVATION,
    DELEGATE_RANK,
    LOGICAL,
    Condition,
    Row,
    field_,
    types,
)

INT8 = np.dtype(np.int8)
FLOAT32 = np.dtype(np.float32)


def weights_fit(node: Node, x: int, weights: int) -> bool:
    """Float with float, 8-bit with 8-bit, or float32 with int8 weights (quantized as it runs)."""
    a, w = present(node, x), present(node, weights)
    if a is None or w is None or a.dtype != node.output.dtype:
        return False
    if not is_float(a) and not (per_tensor(a) and per_tensor(node.output)):
        return False
    return a.dtype == w.dtype or (a.dtype == FLOAT32 and w.dtype == INT8 and w.quant is not None)


def weights_condition(x: int, weights: int) -> Condition:
    """The types of a product (`weights_fit`)."""
    return Condition(
        test=lambda node: weights_fit(node, x, weights),
        text="operand and result must be float or 8-bit with one scale, the weights too or int8",
    )


def _batch_types(node: Node) -> bool:
    a, b, y = *node.operands()[:2], node.output
    if not all(is_float(v) or per_tensor(v) for v in (a, y)):
        return False
    dynamic = a.dtype == FLOAT32 and b.dtype == INT8
    return dynamic or (a.dtype == b.dtype and (is_float(b) or b.dtype == INT8))


def _no_zero_point(node: Node) -> bool:
    b = node.operands()[1]
    return b.dtype != INT8 or b.quant is None or not np.any(b.quant.zero_point)


ROWS = [
    Row(
        name="FULLY_CONNECTED",
        layout="matrix",
        infer=shapes.matrix,
        types=types("f32"),
        quantized=types("i8 u8 i16"),
        kernel="kernels/fully_connected.cc:255",
        options="FullyConnectedOptions",
        attrs={
            "axis": LOGICAL,
            "activation": ACTIVATION,
            "keep_num_dims": field_("keepNumDims"),
            # a hybrid kernel's: floats are rounded as it runs, by a scale and a zero point
            "asymmetric_inputs": field_("asymmetricQuantizeInputs"),
        },
        defaults={"activation": "NONE", "keep_num_dims": True, "asymmetric_inputs": False},
        max_rank=DELEGATE_RANK,
        quant="weights",
        # VisitFullyConnectedNode, delegates/xnnpack/xnnpack_delegate.cc:4823
        xnnpack=(
            weights_condition(0, 1),
            constant(1, "the weights"),
            constant(2, "the bias"),
            ACTIVATIONS,
        ),
        version=versions.fully_connected,
        fuses=True,
        channels="mixed",
    ),
    Row(
        name="BATCH_MATMUL",
        layout="batch_matrix",
        infer=shapes.batch_matrix,
        types=types("f32"),
        quantized=types("i8 i16"),
        kernel="kernels/batch_matmul.cc:340",
        options="BatchMatMulOptions",
        attrs={"adj_x": field_("adjX"), "adj_y": field_("adjY")},
        defaults={"adj_x": False, "adj_y": False},
        max_rank=5,
        quant="free",
        # VisitBatchMatMulNode, delegates/xnnpack/xnnpack_delegate.cc:3525
        xnnpack=(
            Condition(
                test=_batch_types,
                text="operands must be float, or int8; the second also int8 beside float32",
            ),
            Condition(
                test=_no_zero_point, text="an int8 second operand must have a zero point of 0"
            ),
        ),
        version=versions.by_type("i16:3 i8:2"),
    ),
]
