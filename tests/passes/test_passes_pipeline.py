"""The whole preparation: small, fast, typed, at rest, and the same numbers on real models."""

import os
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from evaluate_graph import evaluate, ingest_model, run
from models import assert_same, check, graph_of, model, names
from onnx import TensorProto, helper

from straightway.ingest.onnx import ShapeRequest, ingest
from straightway.ir import Graph, Node, Op, Source, Value, edit, tensor_type
from straightway.ir.text import to_text
from straightway.ir.verify import verify
from straightway.passes.pipeline import prepare
from straightway.passes.types import infer, nested, subgraphs

CORPUS = Path(os.environ.get("STRAIGHTWAY_CORPUS", "no corpus"))
RANDOM = np.random.default_rng(5)


def weights(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


BLOCK = """(float[1,3,8,8] x) => (y) {
    a = Conv<pads=[1,1,1,1]>(x, w)
    b = BatchNormalization(a, g, h, m, v)
    c = Add(b, three)  d = Clip(c, zero, six)  e = Mul(b, d)  f = Div(e, six)
    s = Shape(f)  n = Gather(s, zero_index)  k = Unsqueeze(n, axes)
    r = Concat<axis=0>(k, rest)  t = Reshape(f, r)
    u = Gemm<transB=1>(t, q, o)  i = Identity(u)  j = Dropout(i)
    y = Softmax<axis=-1>(j) }"""


def block():
    return {
        "w": weights(4, 3, 3, 3),
        "g": weights(4),
        "h": weights(4),
        "m": weights(4),
        "v": np.abs(weights(4)) + 0.1,
        "three": np.float32(3),
        "zero": np.float32(0),
        "six": np.float32(6),
        "zero_index": np.int64(0),
        "axes": np.array([0]),
        "rest": np.array([-1]),
        "q": weights(5, 256),
        "o": weights(5),
    }


def test_a_block_becomes_what_it_means():
    graph = check(BLOCK, **block())
    assert names(graph) == ["Conv", "HardSwish", "Reshape", "Gemm", "Softmax"]
    verify(graph, typed=True)


def test_no_origin_of_what_computes_is_lost():
    """Nodes about shapes and constants are gone; every other one stands for itself somewhere."""
    graph = graph_of(BLOCK, **block())
    prepare(graph)
    found = {source.node for node in graph.nodes for source in node.origins}
    assert found == set("abcdeftuijy")


def test_prepared_graphs_are_at_rest():
    graph = graph_of(BLOCK, **block())
    prepare(graph)
    before = to_text(graph)
    assert [remark for remark in prepare(graph) if remark.kind == "done"] == []
    assert to_text(graph) == before


def test_the_same_model_gives_the_same_graph():
    constants = block()
    texts = set()
    for _ in range(2):
        graph = graph_of(BLOCK, **constants)
        prepare(graph)
        texts.add(to_text(graph))
    assert len(texts) == 1


def test_remarks_are_not_repeated():
    graph = graph_of(BLOCK, **block())
    remarks = prepare(graph)
    assert len(remarks) == len({(r.step, r.node, r.text) for r in remarks})
    assert {remark.kind for remark in remarks} == {"done"}


def test_composites_come_before_weights_take_their_numbers():
    """The 1/6 belongs to the HardSwish, not to the convolution after it."""
    text = """(float[1,3,8,8] x) => (y) {
        a = Conv(x, w)  c = Add(a, three)  d = Clip(c, zero, six)  e = Mul(a, d)  f = Div(e, six)
        y = Conv(f, k) }"""
    numbers = {name: value for name, value in block().items() if name in ("three", "zero", "six")}
    graph = check(text, w=weights(4, 3, 1, 1), k=weights(2, 4, 1, 1), **numbers)
    assert names(graph) == ["Conv", "HardSwish", "Conv"]


def chain(count):
    """A model of `count` nodes: a third each of identities, sums and pairs of transposes."""
    graph = Graph(opsets={"": 17})
    value = edit.add_input(graph, Value("x", tensor_type("float32", (2, 3, 4))))
    one = edit.constant(graph, np.ones(4, np.float32))

    def add(name, *inputs, **attrs):
        label = graph.fresh("n")
        result = Value(label, None)
        op = Op(dialect="onnx", name=name, version=17)
        origins = frozenset({Source(node=label, op=name)})
        return edit.append(graph, Node(op, inputs, [result], attrs, origins=origins)).output

    while count > 0:
        value = add("Identity", value)
        value = add("Relu", value)
        value = add("Add", value, one)
        turned = add("Transpose", value, perm=(0, 2, 1))
        value = add("Transpose", turned, perm=(0, 2, 1))
        count -= 5
    edit.set_outputs(graph, [value])
    return graph


def hub(count):
    """`count` equal nodes and identities of one value, and one sum of all."""
    graph = Graph(opsets={"": 17})
    x = edit.add_input(graph, Value("x", tensor_type("float32", (4,))))
    op = Op(dialect="onnx", name="Relu", version=17)
    first = edit.append(graph, Node(op, [x], [Value(graph.fresh("r"), None)])).output
    results = []
    for index in range(count):
        name = ("Neg", "Identity")[index % 2]
        label = graph.fresh("n")
        op = Op(dialect="onnx", name=name, version=17)
        origins = frozenset({Source(node=label, op=name)})
        node = Node(op, [first], [Value(label, None)], origins=origins)
        results.append(edit.append(graph, node).output)
    op = Op(dialect="onnx", name="Sum", version=17)
    total = edit.append(graph, Node(op, results, [Value("y", None)]))
    edit.set_outputs(graph, [total.output])
    return graph


@pytest.mark.timed
def test_time_grows_with_the_nodes(least_cpu_s):
    """20,000 nodes take some seconds, and about four times as long as 5,000."""
    small, large = (least_cpu_s(prepare, lambda n=n: chain(n)) for n in (5_000, 20_000))
    assert large < 8
    assert large < 9 * small + 0.5


@pytest.mark.timed
def test_a_value_with_thousands_of_users_is_no_trap(least_cpu_s):
    assert least_cpu_s(prepare, lambda: hub(5_000)) < 5


def test_a_deep_chain_is_simplified():
    graph = chain(500)
    prepare(graph)
    assert set(names(graph)) == {"Relu", "Add"}
    assert len(names(graph)) == 200
    verify(graph, typed=True)


def test_hostile_growth_ends():
    """Doubling forty times would need a terabyte."""
    body = "a0 = Identity(x) " + " ".join(
        f"a{i + 1} = Concat<axis=0>(a{i}, a{i})" for i in range(40)
    )
    graph = graph_of(f"() => (a40) {{ {body} }}", x=np.ones(1024, np.float32))
    start = time.process_time()
    prepare(graph)
    assert time.process_time() - start < 10
    assert "Concat" in names(graph)
    largest = max(v.const.nbytes for v in graph.values() if v.const is not None)
    assert largest <= 2**28


def test_a_model_without_nodes_stays():
    graph = graph_of("(float[2] x) => (float[2] x) { }")
    assert prepare(graph) == []
    assert graph.outputs == graph.inputs


def test_an_initializer_may_be_an_output():
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
            [
                helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]),
                helper.make_tensor_value_info("w", TensorProto.FLOAT, [1]),
            ],
            [helper.make_tensor("w", TensorProto.FLOAT, [1], [3.0])],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=10,
    )
    graph = ingest_model(proto)
    prepare(graph)
    assert [value.name for value in graph.outputs] == ["y", "w"]
    feeds = [np.array([-1, 1], np.float32)]
    assert_same(evaluate(graph, feeds), run(proto, feeds))


# Floating point models of the corpus: shapes of inputs, and values of inputs that steer.
MODELS = {
    "ppocrv4_det": ({"x": (1, 3, 96, 128)}, {}),
    "ppocrv4_rec": ({"x": (1, 3, 48, 160)}, {}),
    "ppocr_cls": ({"x": (1, 3, 48, 192)}, {}),
    "captcha_crnn_unrolled": ({"image": (1, 3, 60, 160)}, {}),
    "nudenet_yolov8n": ({"images": (1, 3, 160, 160)}, {}),
    "mtcnn_pnet": ({"input_1": (1, 48, 64, 3)}, {}),
    "mtcnn_onet": ({"input_3": (1, 48, 48, 3)}, {}),
    "opennsfw_resnet": ({"input:0": (1, 224, 224, 3)}, {}),
    "mnist_cntk": ({}, {}),
    "light_shufflenet": ({}, {}),
    "light_inception_v2": ({}, {}),
    "silero_vad_v6": ({"input": (1, 576), "state": (2, 1, 128)}, {"sr": 16000}),
    "silero_vad_ifless18": ({"input": (1, 576), "state": (2, 1, 128)}, {"sr": 16000}),
    "silero_vad_seq16": ({"input": (8, 576)}, {}),
    "akiki_vad_gru": ({}, {}),
    "oww_melspec": ({"input": (1, 1760)}, {}),
    "oww_embedding": ({"input_1": (1, 76, 32, 1)}, {}),
    "oww_hey_jarvis": ({"x.1": (1, 16, 96)}, {}),
    "basic_pitch": ({"serving_default_input_2:0": (1, 43844, 1)}, {}),
    "dfn3_enc": ({"feat_erb": (1, 1, 16, 32), "feat_spec": (1, 2, 16, 96)}, {}),
    "dfn3_erb_dec": (
        {
            "emb": (1, 16, 512),
            "e3": (1, 64, 16, 8),
            "e2": (1, 64, 16, 8),
            "e1": (1, 64, 16, 16),
            "e0": (1, 64, 16, 32),
        },
        {},
    ),
    "dfn3_df_dec": ({"emb": (1, 16, 512), "c0": (1, 64, 16, 96)}, {}),
    "khmer_seg_transformer/model": ({"x": (1, 32), "mask": (1, 32)}, {}),
    "lac_bigru": ({"token_ids": (1, 20), "length": (1,)}, {"length": 20}),
    "attacut_sc": ({"input": (1, 2, 40)}, {}),
    "slovorez_fp16": ({"input_layer": (1, 24)}, {}),
    "chars2vec_loop": ({"lstm_input": (1, 12, 59)}, {}),
    "magika_v3": ({"bytes": (1, 2048)}, {}),
    "eeg_spindle_unet1d": (
        {"raw_signal": (1, 1, 7500), "spectrogram": (1, 15, 7500)},
        {},
    ),
    "superres_core": ({"_ppp5_expanded": (1, 1, 224, 224)}, {}),
    "mlperf_ad01": ({}, {}),
    "mlperf_kws": ({}, {}),
    "mlperf_resnet8": ({}, {}),
    "mlperf_vww": ({}, {}),
}


@pytest.fixture(params=MODELS)
def corpus_model(request):
    """A model's path, graph and operands; skipped where the corpus is not there."""
    path = CORPUS / f"{request.param}.onnx"
    if not path.is_file():
        pytest.skip("STRAIGHTWAY_CORPUS names no folder with this model")
    shapes, steering = MODELS[request.param]
    graph = ingest(path, ShapeRequest(shapes=shapes))
    random = np.random.default_rng(0)
    return path, graph, [_operand(value, steering, random) for value in graph.inputs]


def _operand(value, steering, random):
    if value.name in steering:
        return np.full(value.shape, steering[value.name], value.dtype)
    if value.dtype.kind == "f":
        return random.standard_normal(value.shape).astype(value.dtype)
    return random.integers(0, 2, value.shape).astype(value.dtype)


def test_real_models_compute_the_same(corpus_model):
    """Outputs, and ten values inside that still have the model's names."""
    path, graph, operands = corpus_model
    known = {value.name for node in graph.nodes for value in node.outputs}
    prepare(graph)
    verify(graph)
    made = [v for node in graph.nodes for v in node.outputs if v.name in known]
    made = [v for v in made if v not in graph.outputs and v.type is not None]
    made = made[:: max(1, len(made) // 10)]
    reference = with_outputs(path, [value.name for value in made])
    expected, other = (run(reference, operands, optimised=o) for o in (False, True))
    for found, one, two in zip(evaluate(graph, operands, made), expected, other, strict=True):
        found, one, two = (np.asarray(a, np.float64) for a in (found, one, two))  # noqa: PLW2901
        slack = 4 * np.max(np.abs(one - two), initial=0)
        assert np.max(np.abs(found - one), initial=0) <= max(1e-4 * np.max(np.abs(one)), slack)


def with_outputs(path, more):
    """The model, returning some more of its values."""
    proto = onnx.load(path)
    proto.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in more)
    return proto


def test_types_of_real_models_are_those_of_inference(corpus_model):
    """What passes wrote as types, ONNX infers from the operands as they are now."""
    _, graph, _ = corpus_model
    prepare(graph)
    for inner in nested(graph)[:1]:
        for node in inner.nodes:
            if subgraphs(node):
                continue
            kinds = [value.type for value in node.outputs]
            for value in node.outputs:
                value.type = None
            found = infer(node, graph.opsets)
            for value, kind, again in zip(node.outputs, kinds, found, strict=True):
                value.type = kind
                assert again is None or again == kind or not again.is_static, node


def test_features_of_a_vector_are_a_row():
    text = (
        "(float[4] x) => (float[1,2] z) "
        "{ y = ai.onnx.ml.ArrayFeatureExtractor(x, places)  z = Neg(y) }"
    )
    built = model(text, places=np.array([2, 0]))
    built.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    graph = ingest_model(built)
    prepare(graph)
    extracted, _ = graph.nodes
    assert extracted.output.shape == (1, 2)
