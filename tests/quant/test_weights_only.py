"""Weights of float16, int8 and int4: what the file holds, how far off it is, what XNNPACK runs."""

from collections import Counter

import ml_dtypes
import numpy as np
import pytest
from quantizer_models import images, sequences, vectors

from straightway.errors import InvalidRequest
from straightway.flow.convert import Request, convert
from straightway.flow.files import scratch
from straightway.quant import weights_only
from straightway.run import litert
from straightway.tflite.write import packed

# the least share of the weights' bytes that is saved (the file has tables, too), and dB from float32
SAVED = {"float16": 0.3, "int8": 0.3, "int4": 0.5}
LEAST_DB = {"float16": 55.0, "int8": 30.0, "int4": 10.0}


def converted(build, folder, child, **options):
    build(folder / "float.onnx")
    return convert(folder / "float.onnx", request=Request(seeds=(0, 1), **options), child=child)


def kinds(found):
    return Counter(
        v.dtype.name for v in found.translation.layout.graph.values() if v.const is not None
    )


@pytest.mark.parametrize("weights", list(SAVED))
@pytest.mark.parametrize("build", [images, vectors], ids=["images", "vectors"])
def test_weights_are_stored_so_in_one_partition(build, weights, tmp_path, child):
    found = converted(build, tmp_path, child, weights=weights)
    assert found.verification.equal
    assert "within the bound of floats" in found.verification.note
    stored = kinds(found)
    # int4 is for matrix products: the convolutions have int8
    assert stored["int8" if build is images and weights == "int4" else weights] > 0
    ratios = [r.numbers["sqnr_db"] for r in found.remarks if "sqnr_db" in r.numbers]
    assert min(ratios) >= LEAST_DB[weights]


@pytest.mark.parametrize("weights", list(SAVED))
def test_no_dequantize_runs_under_xnnpack(weights, tmp_path, child):
    plain = converted(vectors, tmp_path, child)
    found = converted(vectors, tmp_path, child, weights=weights)
    with scratch("small.tflite", found.translation.written) as path:
        ran = child.call(litert.run(path, [found.arrays["x"]]))
    assert len(ran.placement.partitions) == len(plain.verification.ran.placement.partitions) == 1
    sizes = [len(one.data) for one in (plain, found)]
    assert sizes[0] - sizes[1] >= SAVED[weights] * 4 * (20 * 32 + 32 * 16 + 16 * 7)


def test_what_stays_float32_is_named(tmp_path, child):
    found = converted(sequences, tmp_path, child, weights="float16")
    told = [r for r in found.remarks if r.step == weights_only.STEP]
    assert {r.kind for r in told} <= {"done", "missed"}
    assert told


def test_each_weight_is_off_by_half_a_step(tmp_path, child):
    plain = converted(vectors, tmp_path, child)
    choice = weights_only.choose(plain.translation.layout.graph, "int8")
    assert choice.stored
    for one in choice.stored:
        (node, *_) = one.users
        exact = np.asarray(node.inputs[1].const, np.float64)
        scale = one.small.quant.scale.reshape(-1, 1)
        assert (np.abs(one.plain.const - exact) <= scale * 0.5001).all()


def test_two_int4_share_a_byte():
    numbers = np.array([1, -1, 7, -8, 3], ml_dtypes.int4)
    assert packed(numbers).tolist() == [0xF1, 0x87, 0x03]
    assert packed(np.ones(3, np.int8)).tolist() == [1, 1, 1]


def test_weights_that_nobody_stores_are_refused():
    with pytest.raises(
        InvalidRequest, match="weights are float32, float16, int8, int4; got 'int3'"
    ):
        Request(weights="int3")
