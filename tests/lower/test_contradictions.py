"""What damaged models have shown: nodes that contradict their operators, or that engines disagree on."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from ai_edge_litert.interpreter import Interpreter
from case_models import build

from straightway.errors import InvalidModel, StraightwayError, Unsupported
from straightway.flow.convert import convert
from straightway.flow.translate import read, translate
from straightway.lower.declare import LOWERINGS, Case, case, run
from straightway.onnx_io.reference import Evaluator

F4 = np.float32
BOXES, SCORES = run(np.zeros((1, 3, 4))), run(np.zeros((1, 2, 3)))
HEADS = (2, 4, 3, 8)
KEPT = run([True, False, True], bool)


def mel(**given: np.ndarray) -> Case:
    edges = {"lower_edge_hertz": np.array(0, F4), "upper_edge_hertz": np.array(4096, F4)}
    counts = {"num_mel_bins": 8, "dft_length": 16, "sample_rate": 8192}
    arrays = {name: np.array(count) for name, count in counts.items()}
    return case(**{**arrays, **edges, **given}, opset=17)


def saved(op: str, given: Case, folder: Path, domain: str = "onnx") -> Path:
    path = folder / "m.onnx"
    onnx.save(build(LOWERINGS[domain, op], given).model, path)
    return path


@pytest.mark.parametrize(
    ("op", "given", "text"),
    [
        ("Add", case(a=(2, 3, 5), b=np.ones(3, F4), axis=1, opset=6), "do not fit"),
        ("Add", case(a=(2, 3), b=np.ones(3, F4), axis=7, broadcast=1, opset=6), "no place at axis"),
        ("PRelu", case(x=(3,), slope=np.ones((2, 3), F4), opset=6), "the slope broadcasts"),
        ("Softmax", case(input=(2, 3), axis=-(2**63)), "none of 2 dimensions"),
        (
            "LogSoftmax",
            case(input=np.ones((2, 3), F4), axis=2**63 - 1, opset=9),
            "none of 2 dimensions",
        ),
        (
            "RotaryEmbedding",
            case(
                x=(2, 3, 2, 4),
                cosine=(6, 2),
                sine=(6, 1),
                positions=run(np.zeros((2, 2)), np.int64),
                opset=23,
            ),
            "columns",
        ),
        ("Gemm", case(a=(1, 3), b=(1, 4), c=(4,), broadcast=1, opset=6), "factors do not fit"),
        ("MeanVarianceNormalization", case(x=(2, 4), axes=(1, 2)), "axis 2 is none of 2"),
        ("CumSum", case(x=run(1.5), axis=run(0, np.int64)), "has no axis"),
        ("Compress", case(input=(4, 3), condition=run(True, bool), axis=0), "one dimension"),
        ("GatherElements", case(data=(2, 3, 4), indices=np.zeros((1, 2), np.int64)), "dimensions"),
        (
            "GatherND",
            case(data=(3, 4, 5), indices=run([[[0]], [[1]]], np.int64), batch_dims=1),
            "same",
        ),
        ("Transpose", case(data=(2, 3, 4, 5, 6), perm=(0, 1, 2, 3)), "each of 5 dimensions once"),
        ("Squeeze", case(data=(2, 1), axes=np.zeros(0, np.int64)), "list of axes is empty"),
        ("AveragePool", case(x=(1, 2, 5), kernel_shape=(100,), opset=1), "does not fit"),
        (
            "Attention",
            case(q=HEADS, k=HEADS, v=HEADS, attn_mask=(3, 8), opset=23),
            "a mask broadcasts",
        ),
        (
            "ScatterND",
            case(data=(4, 3, 5), indices=run([[1], [2]], np.int64), updates=(2, 3, 5, 2)),
            "are scattered",
        ),
        (
            "ScatterND",
            case(data=(4, 3, 5), indices=np.array(-1), updates=(2, 3, 5)),
            "a dimension at least",
        ),
        ("Einsum", case(inputs=[(), (3,)], equation="!?", opset=21), "equation has letters"),
        (
            "Col2Im",
            case(
                input=(2, 3, 12),
                image_shape=np.array([5, 4]),
                block_shape=np.array([2**31, 2]),
                opset=18,
            ),
            "do not lie in",
        ),
        (
            "ScatterElements",
            case(data=(4, 3), indices=run([[1, 2]], np.int64), updates=(1, 3), opset=18),
            "are scattered",
        ),
        (
            "STFT",
            case(signal=(1, 20, 1), frame_step=np.array(4), window=np.ones(0, F4), opset=17),
            "have elements",
        ),
        (
            "STFT",
            case(signal=(1, 20, 2, 3), frame_step=np.array(4), frame_length=np.array(8), opset=17),
            "signals are",
        ),
        (
            "DeformConv",
            case(x=(1, 2, 5, 5), w=np.ones((3, 2, 2, 2), F4), offset=(1, 8, 4, 5), opset=19),
            "a number for each tap",
        ),
        (
            "ConvInteger",
            case(
                x=run(np.zeros((1, 2, 4, 4)), np.uint8),
                w=np.ones((3, 2, 2, 2), np.uint8),
                w_zero_point=np.ones((3, 2), np.uint8),
            ),
            "a zero point for each filter",
        ),
        (
            "BatchNormalization",
            case(
                x=(2, 3),
                scale=np.ones(3, F4),
                b=np.ones((3, 1), F4),
                mean=np.ones(3, F4),
                var=np.ones(3, F4),
                opset=6,
            ),
            "alike in shape",
        ),
        (
            "ReverseSequence",
            case(
                input=(3, 4), sequence_lens=np.array([1, 2, 1, 2]), batch_axis=-(2**63), time_axis=0
            ),
            "none of 2 dimensions",
        ),
        (
            "RoiAlign",
            case(
                x=(1, 3, 6, 8),
                rois=np.ones((3, 4), F4),
                batch_indices=np.zeros(3, np.int64),
                output_height=0,
                sampling_ratio=2,
            ),
            "at least one part",
        ),
        ("TopK", case(x=(4,), k=np.array([-9]), outputs=2), "no -9 largest"),
        ("LayerNormalization", case(x=(2, 3, 4), scale=np.ones(3, F4)), "broadcasts to"),
        (
            "GroupNormalization",
            case(x=(2, 6, 4), scale=np.ones(6, F4), bias=np.array(0, F4), num_groups=3),
            "has one dimension",
        ),
        (
            "GroupNormalization",
            case(x=(6,), scale=np.ones(3, F4), bias=np.ones(3, F4), num_groups=3, opset=18),
            "can't be made of",
        ),
        (
            "DequantizeLinear",
            case(x=run(np.zeros((2, 4)), np.uint8), x_scale=np.ones((2, 1), F4), block_size=2),
            "blocks of 2",
        ),
        (
            "DequantizeLinear",
            case(x=run(np.zeros((2, 4)), np.uint8), x_scale=np.ones(3, F4), axis=1),
            "axis 1",
        ),
        (
            "NonMaxSuppression",
            case(
                boxes=BOXES,
                scores=SCORES,
                max_output_boxes_per_class=np.array([1]),
                score_threshold=np.ones((2, 1), F4),
            ),
            "is one number",
        ),
        (
            "NonMaxSuppression",
            case(boxes=BOXES, scores=(2, 2, 3), max_output_boxes_per_class=np.array([1])),
            "boxes are",
        ),
        (
            "NonMaxSuppression",
            case(
                boxes=BOXES,
                scores=SCORES,
                max_output_boxes_per_class=np.array([1]),
                iou_threshold=np.ones((0, 1), F4),
            ),
            "operand 3 is one number",
        ),
        (
            "Gemm",
            case(a=run(np.ones((3, 4)), np.uint32), b=np.ones((3, 4), np.uint32), opset=12),
            "factors do not fit",
        ),
        ("MelWeightMatrix", mel(upper_edge_hertz=np.array(np.nan, F4)), "has no mels"),
        (
            "Einsum",
            case(inputs=[(1, 3), (2, 4)], equation="bi,bj->bij"),
            "by ONNX's shape function",
        ),
        ("Split", case(input=(2, 4), axis=1, num_outputs=6, outputs=6, opset=18), "no result is"),
        ("Einsum", case(inputs=[(2, 3), (5, 4)], equation="bi,bj->bij"), "'b' is one size"),
        (
            "RNN",
            case(
                x=(2, 1, 3),
                w=np.ones((1, 4, 3), F4),
                r=np.ones((1, 4, 4), F4),
                clip=-1.0,
                hidden_size=4,
            ),
            "both sides of zero",
        ),
        (
            "AffineGrid",
            case(theta=(2, 2, 3, 1), size=np.array([2, 3, 4, 5]), opset=20),
            "a matrix for each image",
        ),
        ("MelWeightMatrix", mel(sample_rate=np.array(0)), "has no mels"),
        ("MelWeightMatrix", mel(upper_edge_hertz=np.array(1e30, F4)), "not among those"),
        (
            "TensorScatter",
            case(past_cache=(2, 3, 4), update=(2, 5, 4), axis=1, opset=24),
            "into a cache",
        ),
        ("Attention", case(q=HEADS, k=HEADS, v=(2, 4, 5, 8), opset=23), "do not fit together"),
        (
            "STFT",
            case(signal=(1, 20), frame_step=np.array([4, 4]), window=np.ones(8, F4), opset=17),
            "operand 1 is one number",
        ),
        (
            "STFT",
            case(signal=(1, 20, 1), frame_step=np.array(-1), window=np.ones(8, F4), opset=17),
            "steps of|greater than 0",
        ),
        ("Pad", case(data=run(1.5), pads=run([1, 2, 3, 4], np.int64)), "2 amounts for 0 dim"),
        (
            "Attention",
            case(q=HEADS, k=HEADS, v=HEADS, past_key=(1, 4, 3, 8), past_value=HEADS, opset=23),
            "can't come before",
        ),
        ("Resize", case(x=(2, 0), sizes=np.array([2, 3])), "must not be empty"),
    ],
)
def test_a_contradiction_is_named(op: str, given: Case, text: str, tmp_path: Path) -> None:
    with pytest.raises(StraightwayError, match=text):
        translate(read(saved(op, given, tmp_path)))


@pytest.mark.parametrize(
    ("op", "given", "text"),
    [
        ("Elu", case(x=(2, 3), alpha=float("nan")), "'alpha' must be a finite number"),
        ("Selu", case(x=(2, 3), alpha=float("-inf")), "'alpha' must be a finite number"),
        ("Attention", case(q=HEADS, k=HEADS, v=HEADS, softcap=np.inf, opset=23), "'softcap'"),
        ("Resize", case(x=(1, 2, 3), scales=np.ones(3, F4), cubic_coeff_a=np.nan), "finite"),
        (
            "OneHot",
            case(indices=run([1.0, 2.0]), depth=np.array(3), values=np.array([0, 5e-324])),
            "float32 has not",
        ),
        ("QuantizeLinear", case(x=(2, 3), y_scale=np.array(np.nan, F4)), "a positive number"),
        (
            "OneHot",
            case(indices=np.array([0.5, 1], F4), depth=np.array(3), values=run([0, 1])),
            "no whole numbers",
        ),
        ("Conv", case(x=(1, 2, 9), w=np.full((3, 2, 2), np.inf, F4)), "infinite or NaN"),
        (
            "DeformConv",
            case(
                x=(1, 2, 5, 5),
                w=np.ones((3, 2, 2, 2), F4),
                offset=np.full((1, 8, 4, 4), np.inf, F4),
                opset=19,
            ),
            "offsets that are infinite",
        ),
        (
            "GridSample",
            case(x=(1, 2, 5, 5), grid=np.full((1, 3, 3, 2), np.nan, F4)),
            "points that are infinite",
        ),
        (
            "ConvTranspose",
            case(x=(1, 2, 9), w=np.full((2, 3, 2), np.nan, F4)),
            "infinite or NaN",
        ),
        (
            "Attention",
            case(
                q=HEADS,
                k=HEADS,
                v=HEADS,
                attn_mask=np.eye(3, dtype=np.int64),
                nonpad_kv_seqlen=run([2, 3], np.int64),
                opset=24,
            ),
            "cast the mask",
        ),
    ],
)
def test_what_engines_disagree_on_is_refused(
    op: str, given: Case, text: str, tmp_path: Path
) -> None:
    with pytest.raises(Unsupported, match=text):
        translate(read(saved(op, given, tmp_path)))


@pytest.mark.parametrize(
    ("op", "given"),
    [
        (
            "QLinearMatMul",
            case(
                a=run(np.arange(24).reshape(2, 3, 4), np.uint8),
                a_scale=np.array([np.inf], F4),
                a_zero_point=np.array(7, np.uint8),
                b=np.arange(20, dtype=np.uint8).reshape(4, 5),
                b_scale=np.array(0.05, F4),
                b_zero_point=np.array(9, np.uint8),
                y_scale=np.array(0.9, F4),
                y_zero_point=np.array(100, np.uint8),
                opset=21,
            ),
        ),
        ("Celu", case(x=np.linspace(-2, 2, 6, dtype=F4), alpha=-1.0)),
        ("Unsqueeze", case(data=(2, 4), axes=(-1,), opset=8)),
        ("STFT", case(signal=(1, 20), frame_step=np.array(4), window=np.ones(8, F4), opset=17)),
        ("Compress", case(input=(2, 3), condition=KEPT, axis=0)),
        ("Swish", case(x=(2, 3), alpha=1e30, opset=24)),
        ("Resize", case(x=(2, 3), sizes=np.array([[2], [5]]), mode="linear")),
        ("Sign", case(input=run([[0, 3]], np.uint32))),
        (
            "Slice",
            case(
                data=(2, 7),
                starts=np.array([-(2**31)]),
                ends=np.array([-100]),
                axes=np.array([1]),
                steps=np.array([-1]),
            ),
        ),
        ("Pad", case(data=(2, 3), pads=(0, 1, 0, 1), value=float("-inf"), opset=10)),
        ("Pow", case(x=run([[3, 5]], np.int32), y=np.array(8, np.int32))),
        ("Pow", case(x=np.array([[2, 3]], np.int32), y=run([[3], [2]], np.int32))),
        ("Pow", case(x=run([[3, 5]], np.int32), y=run([[3], [2]], np.int32))),
        ("Pow", case(x=run([[0, 1, -1]], np.int64), y=np.array([[1e30, 5, 1]], F4))),
        ("DFT", case(input=(1, 2**15, 1), dft_length=np.array(8), axis=np.array(1), opset=20)),
        ("ReduceProd", case(data=run(np.ones((2, 30)), np.int64), axes=np.array([1]))),
        (
            "Attention",
            case(q=HEADS, k=HEADS, v=HEADS, attn_mask=np.eye(3, dtype=np.int64) - 1, opset=23),
        ),
    ],
)
def test_what_only_looks_odd_is_converted(op: str, given: Case, tmp_path: Path) -> None:
    assert convert(saved(op, given, tmp_path)).verification is not None


def test_a_sigmoid_behind_a_number_that_xnnpack_does_not_take(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    made = build(LOWERINGS["onnx", "Add"], case(a=(2, 3), b=np.array([0, 1e30, -1e30], F4))).model
    made.graph.node.append(onnx.helper.make_node("Sigmoid", ["y0"], ["y"]))
    made.graph.output[0].name = "y"
    onnx.save(made, path)
    assert convert(path).verification is not None


def test_an_operator_older_than_its_first_schema_has_the_defaults_of_that(tmp_path: Path) -> None:
    path = saved("ThresholdedRelu", case(x=(2, 3)), tmp_path)
    made = onnx.load(path)
    made.opset_import[0].version = 4
    onnx.save(made, path)
    assert convert(path).verification is not None


def test_an_lstm_whose_states_pass_what_xnnpack_takes(tmp_path: Path) -> None:
    weights = {
        "w": np.full((1, 8, 3), 0.5, F4),
        "r": np.full((1, 8, 2), -0.5, F4),
        "activations": ["Sigmoid", "Elu", "LeakyRelu"],
        "activation_alpha": [1e30, 0.2],
    }
    given = case(x=run(np.linspace(-3, 1, 12).reshape(4, 1, 3)), hidden_size=2, **weights)
    assert convert(saved("LSTM", given, tmp_path)).verification is not None


@pytest.mark.parametrize(
    ("op", "given", "text"),
    [
        ("Trilu", case(x=(2, 4, 5), upper=7), "upper is 0 or 1"),
        ("Pad", case(data=(2, 3), pads=run([0, 1, 0, 1], np.int64)), "is not known"),
        (
            "MultiHeadAttention",
            case(query=(2, 3, 4), key=(2, 3, 4), value=(2, 3, 4), num_heads=2, unidirectional=-2),
            "unidirectional is 0 or 1",
        ),
        (
            "Attention",
            case(x=(2, 3, 6), weights=np.ones((6, 12), F4), past=np.ones(12, F4), num_heads=2),
            "have 3, 2 and 5 dimensions",
        ),
    ],
)
def test_what_no_schema_checks(op: str, given: Case, text: str, tmp_path: Path) -> None:
    path = saved(op, given, tmp_path, "com.microsoft")
    made = onnx.load(path)
    made.graph.output[0].ClearField("type")
    onnx.save(made, path)
    with pytest.raises(StraightwayError, match=text):
        translate(read(path))


def test_outputs_without_a_type_have_that_of_the_model(tmp_path: Path) -> None:
    """No runtime has this operator for them: a reference in float32 is asked."""
    path = saved("GlobalLpPool", case(x=(2, 3, 5)), tmp_path)
    made = onnx.load(path)
    made.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    made.graph.output[0].ClearField("type")
    onnx.save(made, path)
    assert convert(path).verification is not None


def test_text_that_is_none(tmp_path: Path) -> None:
    path = saved("Pad", case(data=(2, 3), pads=np.array([0, 1, 0, 1]), mode="edge"), tmp_path)
    made = onnx.load(path)
    made.graph.node[0].attribute[0].s = b"\xff\xfe"
    path.write_bytes(made.SerializeToString())
    with pytest.raises(InvalidModel, match="no text"):
        translate(read(path))


def test_types_that_the_file_alone_declares(tmp_path: Path) -> None:
    path = saved("LayerNormalization", case(x=(2, 3), scale=np.ones(3, F4), opset=17), tmp_path)
    made = onnx.load(path)
    made.opset_import[0].version = 6
    made.graph.output[0].CopyFrom(
        onnx.helper.make_tensor_value_info("y0", onnx.TensorProto.FLOAT, [4, 3])
    )
    onnx.save(made, path)
    with pytest.raises(InvalidModel, match=r"gives f32\[2,3\] for 'y0'"):
        translate(read(path))


def test_a_table_of_weights_that_does_not_fit_in_memory(tmp_path: Path) -> None:
    scales = np.array([1, 1.5], F4)
    path = saved("Resize", case(x=(2, 3), roi=None, scales=scales, mode="linear"), tmp_path)
    made = onnx.load(path)
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 2**20
    onnx.save(made, path)
    with pytest.raises(Unsupported, match="table of weights too large"):
        translate(read(path))


def test_the_evaluator_is_not_asked_for_a_loop_without_a_condition(tmp_path: Path) -> None:
    body = (
        "body (int64 i, bool c, float[2] a) => (bool d, float[2] b) {d = Identity(c)  b = Neg(a)}"
    )
    loop = case(M=run(3, np.int64), cond=None, v_initial=[(2,)], body=body)
    with pytest.raises(ValueError, match="no turn"):
        Evaluator(saved("Loop", loop, tmp_path))


def test_weights_for_another_size(tmp_path: Path) -> None:
    asked = case(x=(2, 3, 5), weights=np.ones((4, 12), F4), bias=None, num_heads=2)
    path = tmp_path / "m.onnx"
    onnx.save(build(LOWERINGS["com.microsoft", "Attention"], asked).model, path)
    with pytest.raises(InvalidModel, match="factors do not fit"):
        translate(read(path))


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_coefficients_that_are_no_numbers(number: float, tmp_path: Path) -> None:
    asked = case(x=(2, 2), coefficients=(1.0, number), intercepts=(0.5,))
    path = tmp_path / "m.onnx"
    onnx.save(build(LOWERINGS["ai.onnx.ml", "LinearRegressor"], asked).model, path)
    with pytest.raises(Unsupported, match="must be finite"):
        translate(read(path))


@pytest.mark.parametrize("given", [{"offset": (0.5, 1.0)}, {"scale": (2.0,) * 6}])
def test_parameters_of_other_features(given: dict[str, tuple[float, ...]], tmp_path: Path) -> None:
    asked = case(x=(2, 3, 5), **{"offset": (0.5,), "scale": (2.0,), **given})
    path = tmp_path / "m.onnx"
    onnx.save(build(LOWERINGS["ai.onnx.ml", "Scaler"], asked).model, path)
    with pytest.raises(InvalidModel, match="Scaler has"):
        translate(read(path))


@pytest.mark.parametrize(
    ("op", "given", "text"),
    [
        ("LRN", case(x=(2, 7, 5, 4), size=3), "as many channels"),
        ("PRelu", case(x=(2, 3, 1), slope=(3,), opset=6), "aligned otherwise"),
        ("Div", case(a=(2, 3, 4), b=np.ones(3, F4), axis=1, broadcast=1, opset=6), "aligned"),
    ],
)
def test_what_the_evaluator_gets_wrong(op: str, given: Case, text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=text):
        Evaluator(saved(op, given, tmp_path))


@pytest.mark.parametrize("power", [2**32, 2**32 + 1, 2**62 + 1, -(2**33), 1e30, -1e30, 3.0])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("given", [np.array, run])
def test_powers_whose_exponents_the_base_has_no_room_for(dtype, power, given, tmp_path):
    """Of 1, 0 and -1 they are known, whatever else overflows."""
    kind = np.float32 if isinstance(power, float) else np.int64
    bases = np.array([[1, -1, 0] if power > 0 else [1, -1, 1]], dtype)
    path = saved("Pow", case(x=run(bases, dtype), y=given([[power]], kind)), tmp_path)
    interpreter = Interpreter(model_content=convert(path, verify=False).data)
    feeds = {"X": bases, "Y": np.array([[power]], kind)}
    interpreter.allocate_tensors()
    for one in interpreter.get_input_details():
        interpreter.set_tensor(one["index"], feeds[one["name"]])
    interpreter.invoke()
    (result,) = interpreter.get_output_details()
    odd = power % 2
    wanted = [[1, -1 if odd else 1, 0 if power > 0 else 1]]
    assert interpreter.get_tensor(result["index"]).tolist() == wanted


def test_slopes_of_channels_by_the_evaluator(tmp_path: Path) -> None:
    slope = np.array([-1, 0.5, 2], F4)
    path = saved("PRelu", case(x=(3, 3, 3), slope=slope, opset=6), tmp_path)
    x = np.linspace(-3, 1, 27, dtype=F4).reshape(3, 3, 3)
    (found,) = Evaluator(path).run({"X": x}).values()
    assert np.array_equal(found, np.where(x > 0, x, x * slope[:, None]))


def test_a_result_without_a_name_is_not_compared(tmp_path: Path) -> None:
    given = case(q=HEADS, k=HEADS, v=HEADS, past_key=HEADS, past_value=HEADS, outputs=4, opset=23)
    path = saved("Attention", given, tmp_path)
    made = onnx.load(path)
    made.graph.node[0].output[3] = ""
    del made.graph.output[3]
    onnx.save(made, path)
    assert convert(path).verification is not None


def test_the_evaluator_gets_floats_where_it_would_round_weights(tmp_path):
    attrs = {"coefficients": [0.5, -1.0, 2.0], "intercepts": [0.5]}
    node = onnx.helper.make_node("LinearRegressor", ["x"], ["y"], domain="ai.onnx.ml", **attrs)
    info = [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.INT32, [2, 3])]
    out = [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    graph = onnx.helper.make_graph([node], "g", info, out)
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("ai.onnx.ml", 1)]
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets), path)
    (found,) = Evaluator(path).run({"x": np.arange(6, dtype=np.int32).reshape(2, 3)}).values()
    assert found.dtype == np.float32
    assert found.tolist() == [[3.5], [8.0]]


def test_several_numbers_for_one_are_named(tmp_path: Path) -> None:
    given = case(a=(2, 3), b=np.ones((3, 4), F4), activation="LeakyRelu", activation_alpha=[0.5])
    path = saved("FusedGemm", given, tmp_path, "com.microsoft")
    with pytest.raises(InvalidModel, match="'activation_alpha' is one number"):
        translate(read(path))


def test_a_resize_to_less_than_nothing_has_no_type(tmp_path: Path) -> None:
    given = case(
        x=np.ones((2, 3, 4, 6), np.int64),
        sizes=np.array([-1, 0]),
        axes=(2, 3),
        keep_aspect_ratio_policy="not_smaller",
        mode="linear",
        opset=19,
    )
    with pytest.raises(StraightwayError, match="is not known"):
        translate(read(saved("Resize", given, tmp_path)))
