"""Reductions, and the ops that normalise along an axis."""

from straightway.ir import Node
from straightway.tflite.rows import shapes, tables, versions
from straightway.tflite.rows.conditions import (
    constant,
    constant_of,
    floats,
    floats_or_8_bit,
    option,
)
from straightway.tflite.rows.row import (
    DELEGATE_RANK,
    LOGICAL,
    Condition,
    Row,
    field_,
    operand,
    types,
)
from straightway.tflite.rows.versions import by_type


def _has_axes(node: Node) -> bool:
    axes = constant_of(node, 1)
    return axes is None or axes.size > 0


def _softmax_error(node: Node) -> float:
    """What a table leaves, and up to 2 for each element, since none is less than exp(-10) or 1.5.

    Source: kernels/internal/reference/softmax.h:152, SoftmaxInt16.
    """
    return tables.SOFTMAX + 2 * node.operands()[0].shape[_last(node)]


def _last(node: Node) -> int:
    """The axis, which is the last one once the node is written."""
    return int(node.attrs.get("axis", -1))


# VisitReduceNode, delegates/xnnpack/xnnpack_delegate.cc:5192
REDUCED = (
    floats_or_8_bit(0),
    constant(1, "the axes"),
    Condition(test=_has_axes, text="there must be an axis"),
)
ROWS = [
    Row(
        name=name,
        layout="reduce",
        infer=shapes.reduced,
        types=types(names),
        quantized=types(quantized),
        kernel=f"kernels/reduce.cc:{line}",
        options="ReducerOptions",
        attrs={"axes": operand(1, "axes"), "keep_dims": field_("keepDims")},
        max_rank=DELEGATE_RANK if delegated else 8,
        quant=quant,
        xnnpack=REDUCED if delegated else f"XNNPACK's delegate takes no {name}",
        version=version,
    )
    for name, names, quantized, line, quant, delegated, version in (
        ("MEAN", "f32 i32 i64", "i8 u8 i16", 804, "free", True, versions.INT8_INT16),
        ("SUM", "f32 i32 i64", "i8 u8 i16", 1104, "free", True, versions.INT8),
        (
            "REDUCE_MAX",
            "f32 i8 u8 i16 i32 i64",
            "i8 u8 i16",
            1066,
            "same",
            True,
            versions.INT8_INT16,
        ),
        (
            "REDUCE_MIN",
            "f32 i8 u8 i16 i32 i64",
            "i8 u8 i16",
            1066,
            "same",
            True,
            versions.INT8_INT16,
        ),
        (
            "REDUCE_PROD",
            "f32 i8 u8 i16 i32 i64",
            "i8 i16",
            1282,
            "free",
            False,
            by_type("i8:2 i16:2"),
        ),
        ("REDUCE_ANY", "bool", "", 458, "int", False, lambda _: 1),
        ("REDUCE_ALL", "bool", "", 458, "int", False, lambda _: 1),
    )
]
ROWS += [
    Row(
        name=name,
        layout="arg",
        infer=shapes.arg,
        types=types("f32 i8 u8 i32 bool"),
        quantized=types("i8 u8"),
        kernel="kernels/arg_min_max.cc:118",
        options=options,
        attrs={
            "axis": operand(1, "axis"),
            "output_type": field_("outputType", role="enum", enum="TensorType"),
        },
        quant="free",
        xnnpack=f"XNNPACK's delegate takes no {name}",
        version=by_type("bool:3 i8:2"),
    )
    for name, options in (("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions"))
]
ROWS += [
    Row(
        name="SOFTMAX",
        layout="last",
        infer=shapes.same,
        types=types("f32 f16"),
        quantized=types("i8 u8 i16"),
        kernel="kernels/activations.cc:1270",
        options="SoftmaxOptions",
        attrs={"axis": LOGICAL, "beta": field_("beta")},
        max_rank=DELEGATE_RANK,
        defaults={"beta": 1.0},
        quant="fixed:1/256,-128",
        table=_softmax_error,
        # VisitSoftmaxNode, delegates/xnnpack/xnnpack_delegate.cc:5911
        xnnpack=(
            option("beta", lambda beta: beta == 1.0, "beta must be 1"),
            floats(0),
        ),
        version=by_type("f16:4 i16:3 i8:2"),
    ),
    Row(
        name="LOG_SOFTMAX",
        layout="last",
        infer=shapes.same,
        types=types("f32"),
        quantized=types("i8 u8"),
        kernel="kernels/activations.cc:1331",
        options="LogSoftmaxOptions",
        attrs={"axis": LOGICAL},
        quant="fixed:16/256,127",
        xnnpack="XNNPACK's delegate takes no LOG_SOFTMAX",
        version=versions.INT8,
    ),
    Row(
        name="L2_NORMALIZATION",
        layout="last",
        infer=shapes.same,
        types=types("f32"),
        quantized=types("i8 u8"),
        kernel="kernels/l2norm.cc:55",
        options="L2NormOptions",
        attrs={"axis": LOGICAL},
        quant="fixed:1/128,0",
        xnnpack="XNNPACK's delegate takes no L2_NORMALIZATION",
        version=versions.INT8,
    ),
    Row(
        name="TOPK_V2",
        layout="fixed",
        infer=shapes.top_k,
        types=types("f32 i8 u8 i16 i32 i64"),
        quantized=types("i8 u8 i16"),
        kernel="kernels/topk_v2.cc:315",
        options="TopKV2Options",
        attrs={"k": operand(1)},
        quant="same",
        xnnpack="XNNPACK's delegate takes no TOPK_V2",
        version=by_type("i16:3 i8:2"),
    ),
]
