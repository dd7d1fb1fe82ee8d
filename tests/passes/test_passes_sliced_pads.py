"""Slices of what is padded by amounts that come at run time."""

import numpy as np
import onnx
import pytest
from models import model

import straightway


def convert(tmp_path, proto, **feeds):
    """Convert and verify on these inputs."""
    onnx.save(proto, tmp_path / "m.onnx")
    random = np.random.default_rng(0)
    x = random.random((4, 6), np.float32)
    np.savez(tmp_path / "i.npz", x=x, **{name: np.array(v) for name, v in feeds.items()})
    return straightway.convert(tmp_path / "m.onnx", inputs=tmp_path / "i.npz").verification.equal


@pytest.mark.parametrize(
    ("pads", "start", "end"),
    [
        ([2, 1, 3, 4], [1, 0], [6, 9]),
        ([0, 3, 5, 1], [-6, -9], [-1, 100]),
        ([-1, 3, 2, 0], [0, 0], [5, 9]),
        ([1, 5, 0, -2], [-100, -9], [100, 9]),
        ([3, 0, -1, 4], [1, 1], [6, 10]),
    ],
)
def test_a_slice_of_a_padding_is_a_padding(pads, start, end, tmp_path):
    proto = model(
        """(float[4,6] x, int64[4] pads, int64[2] start, int64[2] end) => (float[5,9] y) {
            p = Pad(x, pads, fill)
            y = Slice(p, start, end)
        }""",
        fill=np.array(7, np.float32),
    )
    assert convert(tmp_path, proto, pads=pads, start=start, end=end)


def test_axes_and_sizes_between(tmp_path):
    """The slice ends one before the end, which only the padding's amounts tell."""
    proto = model(
        """(float[4,6] x, int64[2] pads) => (float[3,9] y) {
            p = Pad(x, pads, , columns)
            s = Shape(p)
            size = Gather(s, columns)
            end = Sub(size, one)
            ends = Concat<axis=0>(end, three)
            y = Slice(p, zeros, ends, both)
        }""",
        18,
        columns=np.array([-1]),
        one=np.array([1]),
        three=np.array([3]),
        zeros=np.array([0, 0]),
        both=np.array([1, 0]),
    )
    assert convert(tmp_path, proto, pads=[1, 3])
    assert convert(tmp_path, proto, pads=[4, 0])


@pytest.mark.parametrize("shape", [[3, 9], [5, 5], [4, 6]])
def test_a_spelled_out_center_crop_pad(shape, tmp_path):
    """Sizes that come at run time are tried out from the shape that the result has."""
    text = """(float[4,6] x, int64[2] shape) => (float[H,W] y) {
        own = Shape(x)
        most = Max(own, shape)
        more = Sub(most, own)
        left = Div(more, two)
        right = Sub(more, left)
        pads = Concat<axis=0>(left, right)
        p = Pad(x, pads)
        padded = Shape(p)
        less = Sub(padded, shape)
        start = Div(less, two)
        end = Add(start, shape)
        y = Slice(p, start, end)
    }"""
    proto = model(text.replace("H,W", ",".join(map(str, shape))), two=np.array([2]))
    assert convert(tmp_path, proto, shape=shape)
    assert straightway.convert(tmp_path / "m.onnx").verification.equal
