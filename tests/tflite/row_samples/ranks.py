"""Samples of any number of dimensions, for the ops that are not bound to one."""

from collections.abc import Callable

import numpy as np

from row_samples.elementwise import BINARY, POSITIVE, UNARY, gelu
from row_samples.numbers import real, truths, whole
from row_samples.reduce import softmax
from row_samples.sample import Sample

SIZES = (2, 3, 1, 2, 3, 1, 2, 2, 2, 2)


def _binary(op: str, function: Callable) -> Callable[[int], Sample]:
    """Each operand has dimensions of 1 where the other one has not."""

    def make(rank: int) -> Sample:
        a = whole(*SIZES[:rank]) + 5
        b = whole(*(1 if k % 2 else d for k, d in enumerate(SIZES[:rank])))
        return Sample(op=op, inputs=(a, b), reference=function)

    return make


def _logic(op: str, function: Callable) -> Callable[[int], Sample]:
    def make(rank: int) -> Sample:
        a = truths(*SIZES[:rank])
        b = truths(*(1 if k % 2 else d for k, d in enumerate(SIZES[:rank])))
        return Sample(op=op, inputs=(a, b), reference=function)

    return make


def _bits(op: str, function: Callable) -> Callable[[int], Sample]:
    def make(rank: int) -> Sample:
        sample = _binary(op, function)(rank)
        a, b = (x.astype(np.int32) for x in sample.inputs)
        return Sample(op=op, inputs=(a, b), reference=function)

    return make


def _unary(op: str, function: Callable, **attrs: object) -> Callable[[int], Sample]:
    def make(rank: int) -> Sample:
        x = real(*SIZES[:rank], low=0.5)
        return Sample(op=op, inputs=(x,), attrs=attrs, reference=function, rtol=1e-4)

    return make


def _prelu(rank: int) -> Sample:
    x, slope = whole(*SIZES[:rank], low=-4), whole(*SIZES[rank - 1 : rank])
    return Sample(
        op="PRELU",
        inputs=(x, slope),
        constant=(1,),
        reference=lambda a, s: np.where(a < 0, a * s, a),
    )


def _select(rank: int) -> Sample:
    flags = truths(*(1 if k % 2 else d for k, d in enumerate(SIZES[:rank])))
    x = whole(*SIZES[:rank])
    return Sample(
        op="SELECT_V2", inputs=(flags, x, whole(*SIZES[rank - 1 : rank])), reference=np.where
    )


def _reshape(rank: int) -> Sample:
    x = whole(*SIZES[:rank])
    shape = x.shape[::-1]
    return Sample(
        op="RESHAPE", inputs=(x,), attrs={"shape": shape}, reference=lambda a: a.reshape(shape)
    )


def _transpose(rank: int) -> Sample:
    perm = (*range(1, rank), 0) if rank else ()
    x = whole(*SIZES[:rank])
    return Sample(
        op="TRANSPOSE", inputs=(x,), attrs={"perm": perm}, reference=lambda a: a.transpose(perm)
    )


def _slice(rank: int) -> Sample:
    x = whole(*(d + 2 for d in SIZES[:rank]))
    size = tuple(d - 1 for d in x.shape)
    return Sample(
        op="SLICE",
        inputs=(x,),
        attrs={"begin": (1,) * rank, "size": size},
        reference=lambda a: a[(slice(1, None),) * rank],
    )


def _strided(rank: int) -> Sample:
    x = whole(*(d + 2 for d in SIZES[:rank]))
    attrs = {"begin": (0,) * rank, "end": x.shape, "strides": (2,) * rank, "end_mask": (0,) * rank}
    return Sample(
        op="STRIDED_SLICE",
        inputs=(x,),
        attrs=attrs,
        reference=lambda a: a[(slice(None, None, 2),) * rank],
    )


def _pad(op: str) -> Callable[[int], Sample]:
    def make(rank: int) -> Sample:
        pads = ((0, 1),) * rank
        x = whole(*(d + 1 for d in SIZES[:rank]))
        value = np.float32(0).reshape(())
        attrs = {"paddings": pads, "mode": "REFLECT"} if op == "MIRROR_PAD" else {"paddings": pads}
        mode = "reflect" if op == "MIRROR_PAD" else "constant"
        return Sample(
            op=op,
            inputs=(x, value) if op == "PADV2" else (x,),
            attrs=attrs,
            constant=(1,),
            reference=lambda a, *_: np.pad(a, pads, mode=mode),
        )

    return make


def _tile(rank: int) -> Sample:
    times = tuple(1 + k % 2 for k in range(rank))
    x = whole(*SIZES[:rank])
    return Sample(
        op="TILE", inputs=(x,), attrs={"multiples": times}, reference=lambda a: np.tile(a, times)
    )


def _broadcast_to(rank: int) -> Sample:
    shape = SIZES[:rank]
    x = whole(*(1 if k % 2 else d for k, d in enumerate(shape)))
    return Sample(
        op="BROADCAST_TO",
        inputs=(x,),
        attrs={"shape": shape},
        reference=lambda a: np.broadcast_to(a, shape),
    )


def _concatenation(rank: int) -> Sample:
    x = whole(*SIZES[:rank])
    return Sample(
        op="CONCATENATION",
        inputs=(x, x + 1),
        attrs={"axis": rank - 1},
        reference=lambda *a: np.concatenate(a, rank - 1),
    )


def _split(op: str) -> Callable[[int], Sample]:
    def make(rank: int) -> Sample:
        x = whole(*SIZES[: rank - 1], 4)
        sizes = {"sizes": (2, 2)} if op == "SPLIT_V" else {}
        return Sample(
            op=op,
            inputs=(x,),
            attrs={"axis": rank - 1, "num_splits": 2, **sizes},
            reference=lambda a: np.split(a, 2, rank - 1),
        )

    return make


def _reverse(rank: int) -> Sample:
    x = whole(*SIZES[:rank])
    return Sample(
        op="REVERSE_V2",
        inputs=(x,),
        attrs={"axes": (rank - 1,)},
        reference=lambda a: np.flip(a, rank - 1),
    )


def _cumsum(rank: int) -> Sample:
    attrs = {"axis": 0, "exclusive": False, "reverse": False}
    x = whole(*SIZES[:rank])
    return Sample(op="CUMSUM", inputs=(x,), attrs=attrs, reference=lambda a: np.cumsum(a, 0))


def _reduce(op: str, function: Callable, make_x: Callable = whole) -> Callable[[int], Sample]:
    def make(rank: int) -> Sample:
        axes = tuple(range(0, rank, 2))
        return Sample(
            op=op,
            inputs=(make_x(*SIZES[:rank]),),
            attrs={"axes": axes, "keep_dims": True},
            reference=lambda a: function(a, axis=axes, keepdims=True),
        )

    return make


def _arg(op: str, function: Callable) -> Callable[[int], Sample]:
    def make(rank: int) -> Sample:
        x = whole(*SIZES[: rank - 1], 3, high=90)
        attrs = {"axis": rank - 1, "output_type": "INT32"}
        return Sample(op=op, inputs=(x,), attrs=attrs, reference=lambda a: function(a, rank - 1))

    return make


def _last(op: str, function: Callable) -> Callable[[int], Sample]:
    def make(rank: int) -> Sample:
        x = real(*SIZES[: rank - 1], 3)
        return Sample(op=op, inputs=(x,), attrs={"axis": rank - 1}, reference=function, rtol=1e-4)

    return make


def _gather(rank: int) -> Sample:
    x = whole(*SIZES[:rank])
    indices = np.array([1, 0, 1], np.int32)
    return Sample(
        op="GATHER",
        inputs=(x, indices),
        attrs={"axis": 0},
        reference=lambda a, i: a.take(i.astype(int), 0),
    )


def _batch_matmul(rank: int) -> Sample:
    a, b = whole(*SIZES[: rank - 2], 4, 5), whole(*SIZES[: rank - 2], 5, 3)
    return Sample(op="BATCH_MATMUL", inputs=(a, b), reference=np.matmul)


def _fully_connected(rank: int) -> Sample:
    return Sample(
        op="FULLY_CONNECTED",
        inputs=(whole(*SIZES[: rank - 1], 5), whole(4, 5)),
        attrs={"axis": rank - 1},
        constant=(1,),
        reference=lambda x, w: x @ w.T,
    )


def _cast(rank: int) -> Sample:
    x = whole(*SIZES[:rank])
    attrs = {"dtype": np.dtype(np.int32)}
    return Sample(op="CAST", inputs=(x,), attrs=attrs, reference=lambda a: a.astype(np.int32))


def log_softmax(x):
    """Over the last axis."""
    return np.log(softmax(x))


def unit(x):
    """Divide by the length along the last axis."""
    return x / np.sqrt((x**2).sum(-1, keepdims=True))


BY_RANK: dict[str, Callable[[int], Sample]] = {
    **{op: _binary(op, f) for op, f in {**BINARY, "POW": np.power}.items() if op != "ATAN2"},
    "LOGICAL_AND": _logic("LOGICAL_AND", np.logical_and),
    "LOGICAL_OR": _logic("LOGICAL_OR", np.logical_or),
    "BITWISE_XOR": _bits("BITWISE_XOR", np.bitwise_xor),
    "RIGHT_SHIFT": _bits("RIGHT_SHIFT", np.right_shift),
    **{op: _unary(op, f) for op, f in {**UNARY, **POSITIVE}.items()},
    "GELU": _unary("GELU", gelu, approximate=False),
    "LEAKY_RELU": _unary("LEAKY_RELU", lambda x: x, alpha=0.5),
    "PRELU": _prelu,
    "SELECT_V2": _select,
    "CAST": _cast,
    "RESHAPE": _reshape,
    "TRANSPOSE": _transpose,
    "SLICE": _slice,
    "STRIDED_SLICE": _strided,
    **{op: _pad(op) for op in ("PAD", "PADV2", "MIRROR_PAD")},
    "TILE": _tile,
    "BROADCAST_TO": _broadcast_to,
    "CONCATENATION": _concatenation,
    "SPLIT": _split("SPLIT"),
    "SPLIT_V": _split("SPLIT_V"),
    "REVERSE_V2": _reverse,
    "CUMSUM": _cumsum,
    "MEAN": _reduce("MEAN", np.mean),
    "SUM": _reduce("SUM", np.sum),
    "REDUCE_MAX": _reduce("REDUCE_MAX", np.max),
    "REDUCE_MIN": _reduce("REDUCE_MIN", np.min),
    "REDUCE_PROD": _reduce("REDUCE_PROD", np.prod),
    "REDUCE_ANY": _reduce("REDUCE_ANY", np.any, truths),
    "REDUCE_ALL": _reduce("REDUCE_ALL", np.all, truths),
    "ARG_MAX": _arg("ARG_MAX", np.argmax),
    "ARG_MIN": _arg("ARG_MIN", np.argmin),
    "SOFTMAX": _last("SOFTMAX", softmax),
    "LOG_SOFTMAX": _last("LOG_SOFTMAX", log_softmax),
    "L2_NORMALIZATION": _last("L2_NORMALIZATION", unit),
    "GATHER": _gather,
    "BATCH_MATMUL": _batch_matmul,
    "FULLY_CONNECTED": _fully_connected,
}
LEAST = {"BATCH_MATMUL": 2, "FULLY_CONNECTED": 2}
