"""Resizing: TFLite's own maps as LiteRT computes them, and ONNX's as onnxruntime does."""

import numpy as np
import onnx
import pytest
from window_cases import built, children, close, run_graph, run_model, single

from straightway.errors import InvalidRequest, ToolFailed
from straightway.ingest.onnx import ingest
from straightway.lower.interpolation import (
    BILINEAR_CENTERS,
    NEAREST,
    NEAREST_CENTERS,
    Interpolation,
    Stretch,
    tflite_bilinear,
    tflite_nearest,
)
from straightway.lower.lowering import lower_graph
from straightway.passes.pipeline import prepare
from straightway.run import litert, ort

child = pytest.fixture(scope="module")(children)

SIZES = [(5, 10), (6, 9), (7, 3), (1, 4), (4, 1), (3, 8), (13, 29), (8, 8)]
MODES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")


def ramp(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("centers", NEAREST_CENTERS, ids=str)
@pytest.mark.parametrize(("size", "out"), SIZES)
def test_litert_picks_the_predicted_neighbours(centers, size, out, child, tmp_path):
    options = {
        "align_corners": centers.align_corners,
        "half_pixel_centers": centers.half_pixel_centers,
    }
    graph, names = built(
        (1, 1, size, 3), lambda g, x: g.RESIZE_NEAREST_NEIGHBOR(x, size=(out, 3), **options)
    )
    x = np.repeat(ramp(size), 3).reshape(1, 1, size, 3)
    predicted = tflite_nearest(centers, size, out)
    got = run_graph(child, graph, names, [x], tmp_path).y[0, 0, :, 0].astype(int)
    assert predicted is None or got.tolist() == predicted.tolist()


@pytest.mark.parametrize("centers", BILINEAR_CENTERS, ids=str)
@pytest.mark.parametrize("delegate", [True, False])
@pytest.mark.parametrize("sizes", SIZES)
def test_litert_weighs_by_the_predicted_coordinates(centers, delegate, sizes, child, tmp_path):
    size, out = sizes
    options = {
        "align_corners": centers.align_corners,
        "half_pixel_centers": centers.half_pixel_centers,
    }
    graph, names = built(
        (1, size, size, 1), lambda g, x: g.RESIZE_BILINEAR(x, size=(out, 1), **options)
    )
    # channel k is 1 at row k: the result is the matrix
    x = np.eye(size, dtype=np.float32).reshape(1, size, size, 1)
    run_graph(child, graph, names, [x], tmp_path)
    ran = child.call(litert.run(tmp_path / "model.tflite", [x], delegate=delegate))
    got = ran.outputs[0][0, :, :, 0].T
    apart = np.abs(tflite_bilinear(centers, size, out)[:, None] - np.arange(size))
    assert np.allclose(got, np.maximum(1 - apart, 0), atol=1e-5)


def sized(size, out, by_scale):
    """The operand that asks for a size, and the axis that it means."""
    if not by_scale:
        axis = Stretch(size=size, out=out, scale=float(np.float32(out) / np.float32(size)))
        return axis, {"sizes": np.array([1, 1, 1, out], np.int64)}
    scale = np.float32(out / size + 1e-3)
    axis = Stretch(size=size, out=int(np.floor(scale * np.float32(size))), scale=float(scale))
    return axis, {"scales": np.array([1, 1, 1, scale], np.float32)}


NONE = np.zeros(0, np.float32)


def resize_model(x, operands, attrs, opset=19):
    every = {"x": x, "roi": NONE, "scales": NONE, **operands}
    return single("Resize", every, attrs, opset=opset)


def onnxruntime(child, model, x, tmp_path):
    onnx.save(model, tmp_path / "reference.onnx")
    path = tmp_path / "reference.onnx"
    return child.call(ort.run(path, {"x": x}, optimise=False))["y"]


@pytest.mark.parametrize("by_scale", [True, False])
@pytest.mark.parametrize("nearest_mode", [m for m in NEAREST if m != "simple"])
@pytest.mark.parametrize("mode", MODES)
def test_indices_are_onnxruntimes(mode, nearest_mode, by_scale, child, tmp_path):
    how = Interpolation(coordinate_transformation_mode=mode, nearest_mode=nearest_mode)
    for size, out in [*SIZES, (20, 6), (28, 19), (25, 72)]:
        axis, operands = sized(size, out, by_scale)
        if axis.out == axis.size:
            continue
        x = ramp(1, 1, 1, size)
        attrs = {"coordinate_transformation_mode": mode, "nearest_mode": nearest_mode}
        want = onnxruntime(child, resize_model(x, operands, attrs), x, tmp_path)
        assert how.indices(axis).tolist() == want.ravel().astype(int).tolist(), axis


def draw_resize(seed):
    """A random Resize of the spatial axes that onnxruntime can run."""
    random = np.random.default_rng(seed)
    mode = str(random.choice(["nearest", "linear", "cubic"]))
    sizes = [int(n) for n in random.integers(2, 9, 2)]
    x = random.standard_normal((int(random.integers(1, 3)), 3, *sizes)).astype(np.float32)
    attrs = {"mode": mode, "coordinate_transformation_mode": str(random.choice(MODES))}
    if mode == "nearest":
        attrs["nearest_mode"] = str(random.choice([m for m in NEAREST if m != "simple"]))
    elif random.random() < 0.3:
        attrs["antialias"] = 1
    if mode == "cubic":
        attrs |= {"exclude_outside": int(random.integers(0, 2)), "cubic_coeff_a": -0.6}
    if random.random() < 0.5:
        scales = random.choice([0.5, 0.75, 1, 1.5, 2, 3, 3.7], 2).astype(np.float32)
        return x, {"scales": np.array([1, 1, *scales], np.float32)}, attrs
    attrs["axes"] = (2, 3)
    if random.random() < 0.3:
        attrs["keep_aspect_ratio_policy"] = str(random.choice(["not_larger", "not_smaller"]))
    return x, {"sizes": random.integers(1, 14, 2)}, attrs


def is_refused(model, tmp_path):
    onnx.save(model, tmp_path / "model.onnx")
    source = ingest(tmp_path / "model.onnx")
    prepare(source)
    return [remark.text for remark in lower_graph(source).refusals]


@pytest.mark.parametrize("seed", range(80))
def test_resize_is_onnxruntimes(seed, child, tmp_path):
    x, operands, attrs = draw_resize(seed)
    model = resize_model(x, operands, attrs)
    refusals = is_refused(model, tmp_path)
    if refusals:
        assert "ONNX Runtime agree" in refusals[0]
        return
    try:
        want = onnxruntime(child, model, x, tmp_path)
    except (ToolFailed, InvalidRequest):
        pytest.skip("onnxruntime does not run it")
    assert close(run_model(child, model, {"x": x}, tmp_path).y, want)


IMAGE = np.random.default_rng(3).standard_normal((2, 3, 4, 6)).astype(np.float32)


@pytest.mark.parametrize(
    ("operands", "attrs", "ops"),
    [
        (
            {"scales": np.array([1, 1, 2, 3], np.float32)},
            {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"},
            ["MUL", "MUL"],
        ),
        (
            {"scales": np.array([1, 1, 8, 1], np.float32)},
            {"coordinate_transformation_mode": "half_pixel"},
            ["MUL"],
        ),
        (
            {"scales": np.array([1, 1, 1.5, 2.5], np.float32)},
            {"coordinate_transformation_mode": "half_pixel"},
            ["RESIZE_NEAREST_NEIGHBOR"],
        ),
        (
            {"sizes": np.array([2, 3, 7, 5])},
            {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
            ["RESIZE_BILINEAR"],
        ),
        (
            {"sizes": np.array([2, 3, 7, 5])},
            {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
            ["RESIZE_BILINEAR"],
        ),
        (
            {"sizes": np.array([2, 3, 7, 5])},
            {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
            ["RESIZE_BILINEAR"],
        ),
        (
            {"sizes": np.array([2, 3, 7, 6])},
            {"mode": "cubic"},
            ["BATCH_MATMUL"],
        ),
        ({"sizes": np.array([2, 3, 4, 6])}, {"mode": "linear"}, []),
    ],
)
def test_resize_takes_the_cheapest_ops_that_are_exact(operands, attrs, ops, child, tmp_path):
    model = resize_model(IMAGE, operands, attrs)
    found = run_model(child, model, {"x": IMAGE}, tmp_path)
    assert [op for op in found.ops if op not in ("TRANSPOSE", "RESHAPE")] == ops
    assert close(found.y, onnxruntime(child, model, IMAGE, tmp_path))


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_every_axis_can_be_resized(axis, mode, child, tmp_path):
    """Onnxruntime interpolates images only, so the definition is the oracle: one matrix."""
    sizes = list(IMAGE.shape)
    sizes[axis] = 5
    model = resize_model(IMAGE, {"sizes": np.array(sizes)}, {"mode": mode})
    found = run_model(child, model, {"x": IMAGE}, tmp_path)
    stretch = Stretch(size=IMAGE.shape[axis], out=5, scale=5 / IMAGE.shape[axis])
    matrix = Interpolation(mode=mode).matrix(stretch)
    assert np.allclose(matrix.sum(1), 1)
    assert close(found.y, np.moveaxis(np.moveaxis(IMAGE, axis, -1) @ matrix.T, -1, axis))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("value", [0.0, 7.5])
@pytest.mark.parametrize("rows", [5, 1])
def test_crop_and_resize_extrapolates(mode, value, rows, child, tmp_path):
    operands = {
        "roi": np.array([0, 0, -0.21, 0.33, 1, 1, 0.61, 1.17], np.float32),
        "sizes": np.array([2, 3, rows, 7]),
    }
    attrs = {
        "mode": mode,
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": value,
    }
    model = resize_model(IMAGE, operands, attrs)
    found = run_model(child, model, {"x": IMAGE}, tmp_path)
    assert close(found.y, onnxruntime(child, model, IMAGE, tmp_path))
    assert (found.y == value).any()


@pytest.mark.parametrize("nearest_mode", [m for m in NEAREST if m != "simple"])
def test_half_pixel_for_nearest_of_opset_11(nearest_mode, child, tmp_path):
    attrs = {
        "coordinate_transformation_mode": "tf_half_pixel_for_nn",
        "nearest_mode": nearest_mode,
    }
    model = resize_model(IMAGE, {"sizes": np.array([2, 3, 9, 4])}, attrs, opset=11)
    found = run_model(child, model, {"x": IMAGE}, tmp_path)
    assert close(found.y, onnxruntime(child, model, IMAGE, tmp_path))


@pytest.mark.parametrize(
    ("op", "opset", "mode"),
    [("Upsample", 7, "nearest"), ("Upsample", 9, "linear"), ("Resize", 10, "nearest")],
)
def test_old_opsets_have_one_way_only(op, opset, mode, child, tmp_path):
    scales = np.array([1, 1, 2, 1.5] if op == "Upsample" else [1, 1, 0.5, 1.5], np.float32)
    attrs = {"mode": mode}
    if opset == 7:
        model = single(op, {"x": IMAGE}, {**attrs, "scales": scales.tolist()}, opset=opset)
    else:
        model = single(op, {"x": IMAGE, "scales": scales}, attrs, opset=opset)
    found = run_model(child, model, {"x": IMAGE}, tmp_path)
    assert close(found.y, onnxruntime(child, model, IMAGE, tmp_path))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("antialias", [0, 1])
@pytest.mark.parametrize("transform", MODES)
def test_weights_add_up_to_one(mode, antialias, transform):
    how = Interpolation(
        mode=mode, antialias=antialias, coordinate_transformation_mode=transform, exclude_outside=1
    )
    for size, out in SIZES:
        matrix = how.matrix(Stretch(size=size, out=out, scale=out / size))
        assert matrix.shape == (out, size)
        assert np.allclose(matrix.sum(1), 1)
