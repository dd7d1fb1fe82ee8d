"""Models whose activations are rounded as they run become hybrid kernels, within one quantum."""

from collections import Counter

import numpy as np
import onnx
import pytest
from quantizer_models import dynamic, images, vectors

from straightway.flow import hybrid
from straightway.flow.convert import Proof, Request, convert, prove
from straightway.flow.files import scratch
from straightway.flow.inputs import make_inputs


def converted(path, child):
    return convert(path, request=Request(seeds=(0, 1)), child=child)


def kinds(found):
    return Counter(node.op.name for node in found.translation.layout.graph.nodes)


def weights(found):
    return [
        node.inputs[1]
        for node in found.translation.layout.graph.nodes
        if node.op.name in ("FULLY_CONNECTED", "CONV_2D")
    ]


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("build", [images, vectors], ids=["images", "vectors"])
def test_weights_stay_int8_in_one_partition(build, per_channel, tmp_path, child):
    path = dynamic(build, tmp_path, per_channel=per_channel)
    found = converted(path, child)
    assert not {"ROUND", "REDUCE_MAX", "QUANTIZE", "CAST"} & set(kinds(found))
    assert {value.dtype.name for value in weights(found)} == {"int8"}
    assert len(found.verification.ran.placement.partitions) == 1


def test_the_scales_of_the_model_are_kept(tmp_path, child):
    path = dynamic(vectors, tmp_path, per_channel=True)
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    wanted = {array.tobytes() for name, array in constants.items() if name.endswith("_scale")}
    held = {np.asarray(v.quant.scale).tobytes() for v in weights(converted(path, child))}
    assert held == wanted


@pytest.mark.parametrize("build", [images, vectors], ids=["images", "vectors"])
def test_weights_that_do_not_fit_int8_are_floats(build, tmp_path, child):
    found = converted(dynamic(build, tmp_path, "U8"), child)
    assert {value.dtype.name for value in weights(found)} <= {"float32", "int8"}
    assert "ROUND" not in kinds(found)


def test_a_product_off_by_more_than_a_quantum_is_told(tmp_path, child):
    found = converted(dynamic(vectors, tmp_path), child)
    product = next(iter(hybrid.products(found.translation).values()))
    x = np.linspace(-1, 1, 60, dtype=np.float32).reshape(3, 20)
    slack = product.slack(x)
    want = np.ones((3, slack.size), np.float32)
    assert hybrid.near("y", want, want + (0.99 * slack).astype(np.float32), slack).equal
    assert not hybrid.near("y", want, want + (1.1 * slack).astype(np.float32), slack).equal
    assert not hybrid.near("y", want, want[:2], slack).equal


@pytest.mark.parametrize("place", [0, 2])
def test_wrong_weights_differ(place, tmp_path, child):
    path = dynamic(vectors, tmp_path)
    model = onnx.load(path)
    right = converted(path, child)
    tensor = [t for t in model.graph.initializer if t.name.endswith("_quantized")][place]
    array = onnx.numpy_helper.to_array(tensor)
    tensor.CopyFrom(onnx.numpy_helper.from_array(array[::-1].copy(), tensor.name))
    onnx.save(model, tmp_path / "other.onnx")
    sets = [make_inputs(right.translation.source, 0)]
    with scratch("right.tflite", right.data) as draft:
        proof = Proof(child=child, sets=sets, step=lambda _: None)
        assert not prove(tmp_path / "other.onnx", draft, right.translation, proof).equal
