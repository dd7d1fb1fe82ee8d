"""Joining: XNNPACK's operators to ops, ops to nodes."""

import pytest
from hypothesis import given, strategies as st

from straightway.trace.align import align
from straightway.trace.join import (
    by_category,
    by_node,
    by_op,
    join_delegated,
    joined_share,
    unjoined,
)
from straightway.trace.schema import Event, Op, Run, Trace, unaccounted

CONV, FC = "Convolution (NHWC, F32) IGEMM", "Fully Connected (NC, F32) GEMM"
CLAMP, ADD, COPY = "Clamp (NC)", "Add (ND)", "Copy (NC, X32)"
RESHAPE, SLICE, CONVERT = "Static Reshape (NC)", "Slice (ND, X32)", "Convert (NC, F32, QD8)"


@pytest.mark.parametrize(
    ("events", "kinds", "places"),
    [
        # one each
        ([CONV, ADD], ["CONV_2D", "ADD"], [0, 1]),
        # a fused activation stays with its op, a standing one has its own
        ([ADD, CLAMP, CONV], ["ADD", "CONV_2D"], [0, 0, 1]),
        ([ADD, CLAMP, CONV], ["ADD", "RELU", "CONV_2D"], [0, 1, 2]),
        # a RELU that XNNPACK fused has no event
        ([CONV, CONV], ["CONV_2D", "RELU", "CONV_2D"], [0, 2]),
        # elided reshapes and constant dequantization
        ([CONV, FC], ["DEQUANTIZE", "CONV_2D", "RESHAPE", "FULLY_CONNECTED"], [1, 3]),
        # a 1×1 convolution is a matrix product to XNNPACK
        ([CONV, FC, FC], ["CONV_2D", "CONV_2D", "FULLY_CONNECTED"], [0, 1, 2]),
        # helpers before and after
        ([RESHAPE, FC, RESHAPE], ["FULLY_CONNECTED"], [0, 0, 0]),
        ([CONVERT, FC, CONVERT, FC], ["FULLY_CONNECTED", "FULLY_CONNECTED"], [0, 0, 1, 1]),
        ([CONV, RESHAPE, FC], ["CONV_2D", "DEQUANTIZE", "FULLY_CONNECTED"], [0, 2, 2]),
        # one op, several operators
        ([COPY, COPY, CONV], ["CONCATENATION", "CONV_2D"], [0, 0, 1]),
        ([SLICE, SLICE, ADD], ["SPLIT", "ADD"], [0, 0, 1]),
        # a square that XNNPACK merged into the mean
        (["Mean (ND)", "Mean Squared (ND) Reduce2"], ["MEAN", "MUL", "MEAN"], [0, 2]),
        # a fused activation after a custom op of MediaPipe
        (["Deconvolution (NHWC, F32) Subconv2D"], ["Convolution2DTransposeBias"], [0]),
        # what XNNPACK names newly belongs to nobody, the neighbours still to theirs
        ([CONV, "Frobnicate (NC)", ADD], ["CONV_2D", "ADD"], [0, None, 1]),
        (["Frobnicate (NC)", CONV], ["CONV_2D"], [None, 0]),
        ([CONV], [], [None]),
        ([], ["CONV_2D"], []),
        # an op of which nothing was run does not take its neighbour's event
        ([ADD], ["MUL", "ADD"], [1]),
        # a helper can't stand before the first op
        ([RESHAPE, RESHAPE, FC], ["RESHAPE", "FULLY_CONNECTED"], [0, 0, 1]),
    ],
)
def test_alignment(events, kinds, places):
    assert list(align(events, kinds)) == places


EMITTED = {
    "CONV_2D": [[CONV], [FC]],
    "FULLY_CONNECTED": [[FC], [CONVERT, FC]],
    "ADD": [[ADD], [ADD, CLAMP]],
    "LOGISTIC": [["Sigmoid (NC)"]],
    "MAX_POOL_2D": [["Max Pooling (NHWC, F32)"]],
    "CONCATENATION": [[COPY]],
    "RESHAPE": [[], [RESHAPE]],
    "DEQUANTIZE": [[]],
}


@given(st.lists(st.sampled_from(sorted(EMITTED)), max_size=40), st.data())
def test_whatever_xnnpack_emits_comes_back_to_an_op_that_can_emit_it(kinds, data):
    emitted = [data.draw(st.sampled_from(EMITTED[kind])) for kind in kinds]
    events = [(name, i) for i, names in enumerate(emitted) for name in names]
    places = align([name for name, _ in events], kinds)
    assert list(places) == sorted(places)
    main = [(name, i, place) for (name, i), place in zip(events, places, strict=True)
            if name not in (CLAMP, CONVERT, RESHAPE)]  # fmt: skip
    for name, _, place in main:
        assert [name] in [[one] for names in EMITTED[kinds[place]] for one in names]
    # Ops that always run something leave no freedom: the join is exact.
    if not any(kind in ("RESHAPE", "DEQUANTIZE") for kind in kinds):
        assert [i for _, i, _ in main] == [place for _, _, place in main]


def _event(number, **fields):
    defaults = {"id": number, "name": "x", "place": "xnnpack", "samples_ns": (10.0 * number + 10,)}
    return Event(**{**defaults, **fields})


def _trace(*events):
    return Trace(
        run=Run(device="d", runtime="r", clock="wall", warmup=0, runs=1),
        events=events,
        total_ns=(100.0,),
    )


def test_partitions_are_aligned_one_by_one():
    ops = [Op(index=index, kind=kind) for index, kind in enumerate(["ADD", "CUMSUM", "ADD"])]
    events = [_event(0, name=ADD, partition=0), _event(1, name=ADD, partition=1),
              _event(2, name="CUMSUM", place="builtin", kind="CUMSUM", op_index=1)]  # fmt: skip
    joined = join_delegated(events, ops, {0: [0], 1: [2]})
    assert [event.op_index for event in joined] == [0, 2, 1]
    assert joined[2] is events[2]


def test_sums_by_op_category_and_share():
    trace = _trace(
        _event(0, op_index=0, kind="CONV_2D", name=CONV),
        _event(1, op_index=0, kind="CONV_2D", name=CLAMP),
        _event(2, name="Frobnicate (NC)"),
        unaccounted(3, 100.0, 60.0),
    )
    assert by_op(trace) == {(0, 0): 30.0}
    assert joined_share(trace) == 0.5
    assert [event.id for event in unjoined(trace)] == [2]
    assert by_category(trace) == {
        "convolution": 10.0, "elementwise": 20.0, "other": 30.0, "unaccounted": 40.0,
    }  # fmt: skip
    assert joined_share(_trace()) == 1.0


def test_fused_nodes_and_split_nodes_form_one_group():
    trace = _trace(
        _event(0, op_index=0), _event(1, op_index=1), _event(2, op_index=2), _event(3),
        _event(4, op_index=0, subgraph=1), unaccounted(5, 1.0, 0.0),
    )  # fmt: skip
    rows = by_node(trace, {0: ["conv", "relu"], 1: ["relu", "scale"], 2: ["pool"], 7: []})
    assert [(row.nodes, row.duration_ns, row.events) for row in rows] == [
        (("conv", "relu", "scale"), 30.0, (0, 1)),
        (("pool",), 30.0, (2,)),
        ((), 90.0, (3, 4)),
    ]
