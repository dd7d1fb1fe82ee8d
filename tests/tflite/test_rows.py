"""Every row against the installed runtime: it is the judge."""

from collections import defaultdict
from dataclasses import replace
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from row_samples import SAMPLES, refused
from row_samples.measured import Measured, measure
from row_samples.quantized import quant, quantize
from row_samples.ranks import BY_RANK, LEAST
from row_samples.sample import Sample, write_down

from straightway.ir import Value, tensor_type
from straightway.ir.types import SHORT_NAMES
from straightway.tflite.rows import ROWS, Row
from straightway.tflite.rows.row import field_, types
from straightway.tflite.rows.shapes import same

TYPES = [
    np.dtype(t)
    for t in (
        np.float16,
        ml_dtypes.bfloat16,
        np.float32,
        np.float64,
        np.int8,
        np.uint8,
        np.int16,
        np.uint16,
        np.int32,
        np.uint32,
        np.int64,
        np.uint64,
        np.bool_,
    )
]
QUANTIZED = [np.dtype(t) for t in (np.int8, np.uint8, np.int16)]
MOST = 9
OPS = sorted(ROWS)


def grouped(found: list[Measured]) -> dict[str, list[Measured]]:
    groups = defaultdict(list)
    for one in found:
        groups[one.sample.op].append(one)
    return groups


@cache
def swept() -> dict[str, list[Measured]]:
    """Every sample in every element type, by the kernels alone."""
    samples = []
    for sample in SAMPLES:
        kinds = [sample.dtype] if sample.dtype.kind == "c" else TYPES
        samples += [sample.as_type(kind) for kind in kinds if sample.swept]
    return grouped(measure(samples, delegate=False))


@cache
def as_they_are() -> dict[str, list[Measured]]:
    """Every sample as it stands, with XNNPACK."""
    return grouped(measure(SAMPLES, delegate=True))


@cache
def ranked(delegate: bool) -> dict[str, dict[int, Measured]]:
    """Samples of one to nine dimensions."""
    asked = [
        make(rank) for op, make in BY_RANK.items() for rank in range(LEAST.get(op, 1), MOST + 1)
    ]
    found: dict[str, dict[int, Measured]] = defaultdict(dict)
    for one in measure(asked, delegate=delegate):
        rank = one.sample.inputs[one.sample.row.data].ndim
        found[one.sample.op][rank] = one
    return found


def quantizable() -> list[Sample]:
    return [s for s in SAMPLES if s.swept and s.dtype == np.float32 and s.row.quantized]


@cache
def quantized() -> dict[str, list[Measured]]:
    """Every float sample in the quantized types, with XNNPACK."""
    asked = [quantize(s, t) for s in quantizable() for t in QUANTIZED]
    return grouped(measure(asked, delegate=True))


@cache
def unlike() -> list[Measured]:
    """Samples that XNNPACK must leave out."""
    return measure(refused.SAMPLES, delegate=True)


def test_every_row_has_a_sample():
    assert {sample.op for sample in SAMPLES} == set(ROWS)


@pytest.mark.parametrize("op", OPS)
def test_types_are_those_that_the_kernel_computes_rightly(op):
    by_sample = defaultdict(set)
    for one in swept().get(op, ()):
        key = repr(dict(one.sample.attrs)), len(one.sample.inputs), id(one.sample.reference)
        by_sample[key] |= {one.sample.dtype} if one.is_right else set()
    for found in by_sample.values():
        assert names(found) == names(ROWS[op].types)


def names(dtypes):
    return sorted(SHORT_NAMES.get(d, str(d)) for d in dtypes)


@pytest.mark.parametrize("op", OPS)
def test_results_are_those_of_the_reference(op):
    for one in as_they_are()[op]:
        assert one.outcome.error == ""
        assert one.difference() == ""


@pytest.mark.parametrize("op", sorted(BY_RANK))
def test_most_dimensions(op):
    """Up to `max_rank` it runs with and without XNNPACK; beyond it fails, or nobody wants to know."""
    limit = ROWS[op].max_rank
    plain, delegated = ranked(False)[op], ranked(True)[op]
    assert [r for r in plain if r <= limit and not plain[r].is_right] == []
    assert [r for r in delegated if r <= limit and not delegated[r].is_right] == []
    if limit < 8:
        beyond = limit + 1
        assert not (plain[beyond].is_right and delegated[beyond].is_right)


@pytest.mark.parametrize("op", OPS)
def test_the_delegate_takes_what_the_row_says(op):
    ranks = [one for rank, one in ranked(True).get(op, {}).items() if rank <= ROWS[op].max_rank]
    found = [*as_they_are()[op], *quantized().get(op, ()), *ranks]
    found += [one for one in unlike() if one.sample.op == op]
    for one in found:
        if one.sample.dtype in QUANTIZED and one.sample.dtype not in ROWS[op].quantized:
            continue
        reason = ROWS[op].refused_by_xnnpack(one.written.node)
        assert (reason == "") == one.outcome.delegated, (reason, one.sample, one.outcome.error)


def delegable():
    return [(op, k) for op in OPS for k in range(len(conditions(op)))]


def conditions(op):
    return () if isinstance(ROWS[op].xnnpack, str) else ROWS[op].xnnpack


@pytest.mark.parametrize(("op", "index"), delegable())
def test_every_condition_is_tripped(op, index):
    condition = conditions(op)[index]
    found = [*as_they_are()[op], *(one for one in unlike() if one.sample.op == op)]
    tripped = [one for one in found if not condition.test(one.written.node)]
    assert tripped, condition.text
    assert not any(one.outcome.delegated for one in tripped)


@pytest.mark.parametrize("op", [op for op in OPS if conditions(op)])
def test_what_can_be_delegated_is(op):
    found = [*as_they_are()[op], *quantized().get(op, ())]
    assert any(one.outcome.delegated for one in found)


# Of int16 these ignore the scales (kernels/comparisons.cc:304), and what the samples compare is far apart.
UNSCALED = dict.fromkeys(("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"), np.dtype(np.int16))


# QUANTIZE and DEQUANTIZE: see test_conversions
@pytest.mark.parametrize("op", sorted({s.op for s in quantizable()} - {"QUANTIZE"}))
def test_quantized_types_follow_the_rule(op):
    by_type = defaultdict(list)
    for one in quantized()[op]:
        by_type[one.sample.inputs[one.sample.row.data].dtype].append(one)
    found = {kind for kind, all_ in by_type.items() if all(one.is_right for one in all_)}
    assert names(found - {UNSCALED.get(op)}) == names(ROWS[op].quantized)


def test_float_rows_have_no_right_int8_kernel():
    int8 = np.dtype(np.int8)
    samples = [s for s in SAMPLES if s.row.quant == "float" and s.dtype == np.float32 and s.swept]
    found = measure([quantize(s, int8) for s in samples], delegate=True)
    assert [one.sample.op for one in found if one.is_right] == []


def conversions():
    x = np.arange(-60, 60, dtype=np.int8).reshape(2, 3, 20)
    fine, coarse = quant(0.25, 3), quant(0.5, -2)
    for kind, q in ((np.int8, coarse), (np.int16, quant(0.01)), (np.uint8, quant(0.5, 100))):
        yield Sample(
            op="QUANTIZE",
            inputs=(x,),
            attrs={"dtype": np.dtype(kind)},
            quants={0: fine, "y0": q},
            reference=lambda a: a,
        )
    for kind in QUANTIZED:
        yield Sample(
            op="DEQUANTIZE",
            inputs=(x.astype(kind),),
            quants={0: quant(0.25, 0)},
            reference=lambda a: a,
        )
    for kind in (np.uint8, np.int16):
        yield Sample(
            op="QUANTIZE",
            inputs=((x / 4 + 16).astype(np.float32),),
            attrs={"dtype": np.dtype(kind)},
            quants={"y0": quant(0.25, 0)},
            reference=lambda a: a,
        )


def test_conversions():
    for one in measure(list(conversions()), delegate=True):
        assert one.outcome.error == ""
        assert one.difference() == ""
        reason = one.sample.row.refused_by_xnnpack(one.written.node)
        assert (reason == "") == one.outcome.delegated, (reason, one.sample)


CLAMPS = {"RELU": (0, np.inf), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1)}


def fused():
    """The first sample of each op that fuses, with results below -1 and above 6, clamped."""
    for op in OPS:
        if not ROWS[op].fuses:
            continue
        sample = next(s for s in SAMPLES if s.op == op)
        data, *others = sample.inputs
        spread = (data - data.mean(dtype=float)).astype(np.float32) * 8
        for name, limits in CLAMPS.items():
            yield replace(
                sample,
                inputs=(spread, *others),
                attrs={**sample.attrs, "activation": name},
                reference=clamped(sample.reference, *limits),
            )


def clamped(function, low, high):
    return lambda *arrays: np.clip(function(*arrays), low, high)


@pytest.mark.parametrize("delegate", [False, True])
def test_fused_activations(delegate):
    for one in measure(list(fused()), delegate=delegate):
        assert one.outcome.error == ""
        assert one.difference() == ""


def test_recurrent_ops_remember():
    """Their states outlive a run: the second one differs."""
    sample = next(s for s in SAMPLES if s.op == "UNIDIRECTIONAL_SEQUENCE_LSTM")
    (once,) = measure([sample], delegate=True)
    twice = run_twice(sample)
    assert not np.allclose(once.outcome.outputs[0], twice)


def run_twice(sample):
    from row_samples.measured import flatbuffer
    from single_runs import Job, run_all

    written = write_down(sample)
    job = Job(data=flatbuffer(sample, written), feeds=written.feeds, repeats=2)
    return run_all([job])[0].outputs[0]


def test_a_row_takes_values_by_type_and_scale():
    value = Value("x", tensor_type(np.int8, (2,)))
    assert not ROWS["ADD"].takes(value)
    assert ROWS["MAXIMUM"].takes(value)
    value.quant = quant(1.0)
    assert ROWS["ADD"].takes(value)
    assert not ROWS["FLOOR_DIV"].takes(value)


def test_a_row_must_say_where_an_attribute_is_written():
    fine = {
        "name": "X",
        "layout": "fixed",
        "infer": same,
        "types": types("f32"),
        "kernel": "x.cc:1",
    }
    with pytest.raises(ValueError, match="where is it written"):
        Row(**fine, attrs={"axis": replace(field_("axis"), role="logical")})
    with pytest.raises(ValueError, match="disagree"):
        Row(**fine, quant="same")
