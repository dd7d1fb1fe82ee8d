"""Floats among 8-bit integers, in a program of one delegate written by hand."""

import pytest

from straightway.diagnosis.case import Case
from straightway.diagnosis.engine import diagnose
from straightway.diagnosis.rules.catalogue import RULES
from straightway.errors import InvalidModel
from straightway.executorch.program import (
    Delegate,
    EdgeOp,
    Instruction,
    ProgramMap,
    Shape,
    XnnNode,
    XnnValue,
)
from straightway.ir.source import Source
from straightway.trace.schema import Event, Op, Run, Trace

IMAGE = (1, 8, 4, 4)
Q, DQ = (f"quantized_decomposed.{kind}_per_tensor.default" for kind in ("quantize", "dequantize"))
# Of convolution → quantize → dequantize → middle → quantize: the operators with what they feed on.
CHAIN = ["aten.convolution.default", Q, DQ, "", Q]


def case_of(middle, kind, dtype, *, converted):
    """A program whose `middle` runs as `kind` on `dtype`, with a conversion of 2 µs before it or not."""
    ops = tuple(
        EdgeOp(
            name=f"op{k}",
            target=target or middle,
            handle=k + 1,
            partition=0,
            instruction=0,
            inputs=(Shape(sizes=IMAGE, dtype="float32"),),
            outputs=(Shape(sizes=IMAGE, dtype="float32"),),
            feeds_on=(k - 1,) if k else (),
            source=Source(file="net.py", line=k + 1, code=f"line {k + 1}", module=f"m{k}"),
            is_result=k == len(CHAIN) - 1,
        )
        for k, target in enumerate(CHAIN)
    )
    nodes = (
        XnnNode(index=0, kind="XNNConv2d", handle=1, inputs=(0,), output=1),
        XnnNode(index=1, kind="XNNConvert", handle=3, inputs=(1,), output=2),
        XnnNode(index=2, kind=kind, handle=4, inputs=(2,), output=3),
    )
    types = ("qint8", "qint8", dtype, dtype)
    values = tuple(XnnValue(id=k, sizes=IMAGE, dtype=one) for k, one in enumerate(types))
    program = ProgramMap(
        instructions=(Instruction(index=0, kind="delegate", name="XnnpackBackend", delegate=0),),
        delegates=(Delegate(number=0, backend="XnnpackBackend", nodes=nodes, values=values),),
        outputs=1,
        ops=ops,
    )
    events = [("Convolution (NHWC, QC8) IGEMM", 0, 10_000.0), (kind.removeprefix("XNN"), 3, 3000.0)]
    if converted:
        events.append(("Convert (NC)", 2, 2000.0))
    trace = Trace(
        run=Run(device="d", runtime="ExecuTorch", clock="wall", warmup=0, runs=2),
        events=tuple(
            Event(
                id=k,
                name=name,
                kind=ops[place].target,
                op_index=place,
                partition=0,
                place="xnnpack",
                samples_ns=(time_ns, time_ns + 100),
            )
            for k, (name, place, time_ns) in enumerate(events)
        ),
        total_ns=(20_000.0, 20_300.0),
        ops=tuple(Op(index=k, kind=op.target) for k, op in enumerate(ops)),
    )
    return Case(program, trace)


def found(case):
    return {one.rule: one for one in diagnose(case, RULES)}


def test_a_batch_norm_between_conversions_is_an_island():
    norm = "aten._native_batch_norm_legit_no_training.default"
    finding = found(case_of(norm, "XNNDepthwiseConv2d", "fp32", converted=True))[
        "int8-float-island"
    ]
    assert finding.cause.line == 4
    assert finding.saves.median == pytest.approx(2050)  # the conversion
    assert finding.cost.median == pytest.approx(5100)  # and the norm itself
    assert (finding.saves.p10, finding.saves.p90) == pytest.approx((2010, 2090))


def test_what_computes_with_integers_is_none():
    assert not found(case_of("aten.add.Tensor", "XNNAdd", "qint8", converted=False))


def test_floats_without_conversions_are_none():
    assert not found(case_of("aten.gelu.default", "XNNGelu", "fp32", converted=False))


def test_a_concatenation_of_different_scales_is_found():
    finding = found(case_of("aten.cat.default", "XNNConcatenate2", "qint8", converted=True))
    assert finding["int8-concatenation"].saves.median == pytest.approx(2050)
    assert not found(case_of("aten.cat.default", "XNNConcatenate2", "qint8", converted=False))


def test_a_trace_of_another_program_is_refused():
    one = case_of("aten.cat.default", "XNNConcatenate2", "qint8", converted=True)
    other = case_of("aten.add.Tensor", "XNNAdd", "qint8", converted=False)
    with pytest.raises(InvalidModel, match="another program"):
        Case(one.program, other.trace)
