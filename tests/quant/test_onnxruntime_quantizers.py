"""Models of onnxruntime's quantizers, in all their options, compute with integers within one quantum."""

import numpy as np
import onnx
import pytest
from quantizer_models import images, static, vectors
from test_qdq_integer import float_ops

from straightway.flow.convert import Request, convert

SYMMETRIC = {"ActivationSymmetric": True}


def converted(path, child):
    return convert(path, request=Request(seeds=(0, 1)), child=child)


@pytest.fixture(params=[images, vectors], ids=["images", "vectors"])
def build(request):
    return request.param


EIGHT_BITS = {
    "S8S8": ("S8", "S8", {}),
    "S8S8 per channel": ("S8", "S8", {"per_channel": True}),
    "U8S8 per channel": ("U8", "S8", {"per_channel": True}),
    "U8U8 per channel, reduced": ("U8", "U8", {"per_channel": True, "reduce_range": True}),
    "U8S8 reduced": ("U8", "S8", {"reduce_range": True}),
}


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("kind", EIGHT_BITS)
def test_static_models_are_equal(build, form, kind, tmp_path, child):
    activations, weights, options = EIGHT_BITS[kind]
    path = static(build, tmp_path, form, activations, weights, **options)
    found = converted(path, child)
    if form == "QDQ":
        assert float_ops(found) == []
    else:  # the quantizer itself leaves these in floats
        assert set(float_ops(found)) <= {"GELU", "TRANSPOSE_CONV", "TANH", "MEAN"}


SIXTEEN_BITS = {
    "S16S8": ("S16", "S8", SYMMETRIC),
    "S16S16": ("S16", "S16", SYMMETRIC),
    "U16U8": ("U16", "U8", {}),
    "S16S8 with zero points": ("S16", "S8", {}),
}


@pytest.mark.parametrize("kind", SIXTEEN_BITS)
def test_16_bits_are_equal(build, kind, tmp_path, child):
    activations, weights, options = SIXTEEN_BITS[kind]
    path = static(build, tmp_path, "QDQ", activations, weights, extra_options=options)
    found = converted(path, child)
    if kind == "S16S8":
        assert float_ops(found) == []


def test_every_scale_of_activations_is_kept(build, tmp_path, child):
    path = static(build, tmp_path)
    model = onnx.load(path)
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    wanted = {
        float(constants[node.input[1]])
        for node in model.graph.node
        if node.op_type == "QuantizeLinear" and constants[node.input[1]].size == 1
    }
    found = converted(path, child)
    held = {
        float(np.ravel(value.quant.scale)[0])
        for value in found.translation.layout.graph.values()
        if value.quant is not None
    }
    hidden = {1 / 255}  # of activations that joined the operator before
    assert len(wanted - held - hidden) <= 2
    assert len(wanted & held) >= 5
