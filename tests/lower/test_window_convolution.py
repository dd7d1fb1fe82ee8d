"""Convolutions against their definition: pads, strides, dilations, groups, 1-D to 3-D."""

import numpy as np
import pytest
from window_cases import (
    children,
    close,
    draw,
    model_of,
    run_model,
    single,
    transposed_outs,
)
from window_reference import Slide, auto_pads, conv, conv_transpose

from straightway.lower.transposed import Growth
from straightway.lower.window import Span, Window

child = pytest.fixture(scope="module")(children)


def fed(drawn):
    return {n: a for n, a in drawn.operands.items() if n == "x" or not drawn.constant}


@pytest.mark.parametrize("seed", range(60))
def test_conv_is_its_definition(seed, child, tmp_path):
    drawn = draw("Conv", seed)
    found = run_model(child, model_of(drawn), fed(drawn), tmp_path)
    w, b = drawn.operands["w"], drawn.operands.get("b")
    assert close(found.y, conv(drawn.x, w, b, drawn.slide, drawn.attrs["group"]))


@pytest.mark.parametrize("seed", range(60))
def test_conv_transpose_is_its_definition(seed, child, tmp_path):
    drawn = draw("ConvTranspose", seed)
    outs = transposed_outs(drawn)
    if min(outs) < 1:
        pytest.skip("the pads crop everything")
    found = run_model(child, model_of(drawn), fed(drawn), tmp_path)
    w, b = drawn.operands["w"], drawn.operands.get("b")
    assert close(
        found.y, conv_transpose(drawn.x, w, b, drawn.slide, group=drawn.attrs["group"], outs=outs)
    )


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "NOTSET", "VALID"])
@pytest.mark.parametrize("shorter", [0, 1, 2, 3])
def test_output_shape_sets_the_pads(auto_pad, shorter, child, tmp_path):
    random = np.random.default_rng(3)
    x = random.standard_normal((2, 3, 5, 7)).astype(np.float32)
    w = random.standard_normal((3, 2, 4, 3)).astype(np.float32)
    outs = (2 * 4 + 4 - shorter, 3 * 6 + 3 - shorter)
    attrs = {"strides": (2, 3), "output_shape": outs, "auto_pad": auto_pad}
    found = run_model(child, single("ConvTranspose", {"x": x, "w": w}, attrs), {"x": x}, tmp_path)
    half = shorter // 2 if auto_pad == "SAME_UPPER" else shorter - shorter // 2
    crops = ((half, shorter - half),) * 2
    slide = Slide(kernel=(4, 3), strides=(2, 3), dilations=(1, 1), pads=crops)
    assert close(found.y, conv_transpose(x, w, None, slide, group=1, outs=outs))


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_transposed_same_gives_size_times_stride(auto_pad, child, tmp_path):
    random = np.random.default_rng(4)
    x = random.standard_normal((2, 3, 4, 6)).astype(np.float32)
    w = random.standard_normal((3, 2, 3, 4)).astype(np.float32)
    attrs = {"strides": (2, 3), "auto_pad": auto_pad}
    found = run_model(child, single("ConvTranspose", {"x": x, "w": w}, attrs), {"x": x}, tmp_path)
    assert found.y.shape == (2, 2, 8, 18)
    # full sizes are 9 and 19: one element is cropped, behind for SAME_UPPER
    crops = ((0, 1),) * 2 if auto_pad == "SAME_UPPER" else ((1, 0),) * 2
    slide = Slide(kernel=(3, 4), strides=(2, 3), dilations=(1, 1), pads=crops)
    assert close(found.y, conv_transpose(x, w, None, slide, group=1, outs=(8, 18)))


def weights(*shape):
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


X = np.random.default_rng(6).standard_normal((1, 6, 8, 10)).astype(np.float32)


@pytest.mark.parametrize(
    ("w", "attrs", "ops"),
    [
        (weights(4, 6, 3, 3), {"pads": (1, 1, 1, 1)}, ["CONV_2D"]),
        (weights(4, 6, 3, 3), {}, ["CONV_2D"]),
        (weights(4, 6, 3, 3), {"pads": (1, 1, 1, 1), "strides": (2, 2)}, ["PAD", "CONV_2D"]),
        (weights(4, 6, 3, 3), {"auto_pad": "SAME_UPPER", "strides": (2, 2)}, ["CONV_2D"]),
        (weights(4, 6, 3, 3), {"auto_pad": "SAME_LOWER", "strides": (2, 2)}, ["PAD", "CONV_2D"]),
        (weights(4, 6, 3, 3), {"pads": (2, 2, 2, 2), "dilations": (2, 2)}, ["CONV_2D"]),
        (weights(6, 1, 3, 3), {"group": 6}, ["DEPTHWISE_CONV_2D"]),
        (weights(12, 1, 3, 3), {"group": 6}, ["DEPTHWISE_CONV_2D"]),
        (weights(4, 3, 3, 3), {"group": 2}, ["CONV_2D"]),
    ],
)
def test_conv_takes_as_few_ops_as_can_be(w, attrs, ops, child, tmp_path):
    found = run_model(child, single("Conv", {"x": X, "w": w}, attrs), {"x": X}, tmp_path)
    assert [op for op in found.ops if op != "TRANSPOSE"] == ops
    assert found.partitions == 1


@pytest.mark.parametrize(
    ("w", "attrs", "ops"),
    [
        (weights(6, 4, 2, 2), {"strides": (2, 2)}, ["TRANSPOSE_CONV"]),
        (weights(6, 4, 4, 4), {"strides": (2, 2), "pads": (1, 1, 1, 1)}, ["TRANSPOSE_CONV"]),
        (
            weights(6, 4, 3, 3),
            {"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)},
            ["TRANSPOSE_CONV", "SLICE"],
        ),
        (weights(6, 4, 2, 2), {"strides": (3, 3)}, ["TRANSPOSE_CONV"]),
        (weights(6, 4, 2, 2), {"dilations": (2, 3)}, ["TRANSPOSE_CONV"]),
        (
            weights(6, 4, 2, 2),
            {"strides": (3, 3), "output_padding": (2, 1)},
            ["TRANSPOSE_CONV"],
        ),
    ],
)
def test_conv_transpose_takes_as_few_ops_as_can_be(w, attrs, ops, child, tmp_path):
    found = run_model(child, single("ConvTranspose", {"x": X, "w": w}, attrs), {"x": X}, tmp_path)
    assert [op for op in found.ops if op != "TRANSPOSE"] == ops
    assert found.partitions == 1


@pytest.mark.parametrize("seed", range(200))
def test_same_is_tflites_same(seed):
    """TFLite pads half of what the last window lacks before: kernels/padding.h."""
    random = np.random.default_rng(seed)
    size, kernel, stride, dilation = (int(n) for n in random.integers(1, [20, 6, 5, 4]))
    slide = Slide(kernel=(kernel,), strides=(stride,), dilations=(dilation,), pads=((0, 0),))
    ((before, after),) = auto_pads("SAME_UPPER", (size,), slide)
    out = -(-size // stride)
    declared = {"size": size, "kernel": kernel, "stride": stride, "dilation": dilation}
    span = Span(**declared, before=before, after=after, out=out)
    assert span.is_same
    assert not Span(**declared, before=before + 1, after=after, out=out).is_same
    assert span.is_valid == (before == after == 0 and -stride < span.lacking)


def test_auto_pad_valid_pads_nothing():
    (span,) = Window(auto_pad="VALID", strides=(2,)).spans((9,), (3,), (4,))
    assert (span.before, span.after) == (0, 0)
    assert span.is_valid


def test_a_window_counts_declared_padding_only():
    span = Span(size=5, kernel=3, stride=2, before=1, after=0, out=3)
    assert span.counts(0, 0).tolist() == [2, 3, 2]
    assert span.counts(1, 0).tolist() == [3, 3, 2]
    assert span.lacking == 1


def test_growth_by_hand():
    """Size 3, stride 2, kernel 4: 8 elements; SAME gives 6 and crops one on each side."""
    grown = {"size": 3, "kernel": 4, "stride": 2}
    assert Growth(**grown, before=1, out=6).is_same
    assert not Growth(**grown, before=0, out=6).is_same
    assert not Growth(**grown, before=0, out=8).is_same
    assert Growth(**grown, before=0, out=8).full == 8
    assert Growth(**grown, before=1, out=9).behind == -2
    # XNNPACK's delegate wants the kernel to reach the next stride
    assert not Growth(size=3, kernel=1, stride=2, before=0, out=5).is_same


def test_padding_takes_at_most_five_dimensions(child, tmp_path):
    """Taps side by side leave dimensions of size 1, which TFLite's PAD has no room for."""
    x = np.random.default_rng(9).standard_normal((2, 1, 5, 8, 10)).astype(np.float32)
    attrs = {"strides": (2, 2, 2), "pads": (2, 0, 3, 3, 3, 0)}
    w = weights(5, 1, 2, 4, 3)
    found = run_model(child, single("Conv", {"x": x, "w": w}, attrs), {"x": x}, tmp_path)
    slide = Slide(
        kernel=(2, 4, 3), strides=(2, 2, 2), dilations=(1, 1, 1), pads=((2, 3), (0, 3), (3, 0))
    )
    assert close(found.y, conv(x, w, None, slide, 1))
