"""Every op in every type on the package tflite-micro: it is the judge of what a microcontroller runs."""

from collections import defaultdict
from functools import cache

import numpy as np
import pytest
from row_samples import SAMPLES
from row_samples.measured import measure
from row_samples.quantized import quantize
from row_samples.ranks import BY_RANK, LEAST

from straightway.ir.types import SHORT_NAMES
from straightway.targets.micro_kernels import ENGINE
from straightway.tflite.rows import ROWS
from straightway.tflite.rows.row import types

pytest.importorskip("tflite_micro")
PLAIN = sorted(types("f16 f32 f64 i8 u8 i16 i32 u32 i64 bool"), key=str)
SCALED = sorted(types("i8 u8 i16"), key=str)
# kernels that read some integers as plain numbers or truth values, right where the samples are alike
UNSCALED = {"LOGICAL_AND", "LOGICAL_OR", "GREATER"}


@cache
def found():
    """What each op computes rightly: its types, by whether they have a scale."""
    samples = [s for s in SAMPLES if s.op in ENGINE.kernels]
    asked = [
        (s.op, False, kind, s.as_type(kind))
        for s in samples
        for kind in ([s.dtype] if s.dtype.kind == "c" or not s.swept else PLAIN)
    ]
    asked += [
        (s.op, True, kind, quantize(s, kind))
        for s in samples
        if s.swept and s.dtype == np.float32 and s.row.quantized
        for kind in SCALED
    ]
    results = defaultdict(list)
    for (op, scaled, kind, _), one in zip(
        asked, measure([a[3] for a in asked], micro=True), strict=True
    ):
        results[op, scaled, kind].append((one, ENGINE.fault(one.written.node, written=True)))
    return results


def names(kinds):
    return sorted(SHORT_NAMES[kind] for kind in kinds)


@pytest.mark.parametrize("op", sorted(ENGINE.kernels.keys() & {s.op for s in SAMPLES}))
def test_what_the_table_lets_pass_runs(op):
    for (name, _, kind), all_ in found().items():
        if name != op:
            continue
        for one, fault in all_:
            if not fault:
                assert one.outcome.error == "", (kind, one.sample.attrs)
                assert one.difference() == "", (kind, one.sample.attrs)


@pytest.mark.parametrize("op", sorted(ENGINE.kernels.keys() & {s.op for s in SAMPLES}))
def test_what_the_table_refuses_fails(op):
    for (name, _, kind), all_ in found().items():
        if name != op or op in UNSCALED:
            continue
        for one, fault in all_:
            assert not (fault and one.is_right), (kind, fault)


@pytest.mark.parametrize("op", sorted(ROWS.keys() - ENGINE.kernels.keys()))
def test_what_is_not_registered_is_not_in_the_table(op):
    (first, *_) = measure([next(s for s in SAMPLES if s.op == op)], micro=True)
    assert first.outcome.error


@pytest.mark.parametrize("op", sorted(BY_RANK.keys() & ENGINE.kernels.keys()))
def test_most_dimensions(op):
    asked = [BY_RANK[op](rank) for rank in range(LEAST.get(op, 1), 7)]
    for one in measure(asked, micro=True):
        # kernels may compute with more than their sources promise
        assert one.is_right or ENGINE.fault(one.written.node, written=True), one.outcome
