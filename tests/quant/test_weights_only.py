"""Weights of float16, int8 and int4: what the file holds, how far off it is, what XNNPACK runs."""

from collections import Counter

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from quantizer_models import images, sequences, vectors

from straightway.errors import InvalidRequest, Mismatch
from straightway.flow.convert import Request, convert
from straightway.flow.files import scratch
from straightway.ir import Value
from straightway.quant import blocks, weights_only
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


def uneven(folder, *, inner=128):
    """Two products whose rows have blocks of unlike ranges."""
    rng = np.random.default_rng(0)

    def weights(size, count):
        spread = np.exp(rng.normal(size=(size // 32, 1, count))).repeat(32, 1)
        return (rng.normal(size=(size, count)) * spread.reshape(size, count) / 8).astype(np.float32)

    arrays = {"a": weights(64, inner), "c": weights(inner, 10), "b": rng.normal(size=inner)}
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["q"]),
        helper.make_node("Relu", ["q"], ["r"]),
        helper.make_node("MatMul", ["r", "c"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, 1, ["n", k]) for n, k in (("x", 64), ("y", 10))]
    kept = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "uneven.onnx")
    return folder / "uneven.onnx"


def in_blocks(path, child, block, **options):
    return convert(
        path, request=Request(seeds=(0, 1), weights="int4", block=block), child=child, **options
    )


def sizes_of_blocks(found):
    values = found.translation.layout.graph.values()
    return [v.quant.block for v in values if v.dtype == ml_dtypes.int4]


def test_blocks_have_scales_of_their_own_and_lose_less(tmp_path, child):
    path = uneven(tmp_path)
    found = {block: in_blocks(path, child, block) for block in (0, 64, 32)}
    assert sizes_of_blocks(found[32]) == [32, 32]
    assert all(one.verification.equal for one in found.values())
    assert all(len(one.verification.ran.placement.partitions) == 1 for one in found.values())
    whole, wide, narrow = (
        next(r.numbers["sqnr_db"] for r in one.remarks if "sqnr_db" in r.numbers)
        for one in found.values()
    )
    assert narrow > wide > whole
    assert any("each block of a row" in r.text for r in found[32].remarks)


def test_builtin_kernels_read_the_same_blocks(tmp_path, child):
    found = in_blocks(uneven(tmp_path), child, 32)
    with scratch("blocks.tflite", found.translation.written) as file:
        own, other = (
            child.call(litert.run(file, [found.arrays["x"]], delegate=on)).outputs[0]
            for on in (True, False)
        )
    # the kernels round the operand to 8 bits, each in its own way
    assert np.abs(own - other).max() <= np.ptp(own) / 64


def test_rows_that_are_no_whole_blocks_have_one_scale(tmp_path, child):
    found = in_blocks(uneven(tmp_path, inner=96), child, 64)
    assert sorted(sizes_of_blocks(found)) == [0, 64]
    assert found.verification.equal


def test_wrong_blocks_are_a_mismatch(tmp_path, child, monkeypatch):
    spread = blocks.spread

    def shuffled(graph, node, weights):
        other = Value(weights.name, weights.type, np.asarray(weights.const)[::-1])
        other.quant = weights.quant
        return spread(graph, node, other)

    monkeypatch.setattr(blocks, "spread", shuffled)
    with pytest.raises(Mismatch):
        in_blocks(uneven(tmp_path), child, 32)


def test_blocks_that_can_not_be_proven_here_are_refused(tmp_path, child, monkeypatch):
    monkeypatch.setattr(blocks, "MOST_PROVEN_BYTES", 2**10)
    path = uneven(tmp_path)
    with pytest.raises(InvalidRequest, match=r"proven by kernels .* larger blocks"):
        in_blocks(path, child, 32)
    assert sizes_of_blocks(in_blocks(path, None, 32, verify=False)) == [32, 32]


def test_scales_of_blocks_hold_in_float16_and_bfloat16():
    weights = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    weights[0, :32] = 0
    found = blocks.scales(weights, 32, 7)
    assert (found.astype(np.float32).astype(ml_dtypes.bfloat16) == found.astype(np.float32)).all()
    assert (found[1:] * 7 >= np.abs(weights.reshape(3, 2, 32)).max(2)[1:]).all()
    assert blocks.scales(weights * 1e-4, 32, 7) is None


@pytest.mark.parametrize(
    ("block", "weights", "text"),
    [
        (48, "int4", "a multiple of 32 weights, as XNNPACK reads them; got 48"),
        (-32, "int4", "a multiple of 32 weights, as XNNPACK reads them; got -32"),
        (32, "int8", "blocks are of int4 weights; got weights of int8"),
    ],
)
def test_blocks_that_no_kernel_reads_are_refused(block, weights, text):
    with pytest.raises(InvalidRequest, match=text):
        Request(weights=weights, block=block)
