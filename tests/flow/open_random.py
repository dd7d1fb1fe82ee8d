"""Random models with open dimensions: of images and of sequences, as exporters write them."""

from collections.abc import Callable

import numpy as np
from onnx import TensorProto
from onnx.helper import make_node, make_tensor

IMAGE = {"x": ["N", 3, "H", "W"]}
SEQUENCE = {"x": ["N", "T", 8]}


class Model:
    """A chain of nodes on one value, with its constants."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes = []
        self.constants = {}
        self.last = "x"
        self.count = 0

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def const(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def ints(self, *values):
        return self.const(np.array(values, np.int64))

    def floats(self, *shape):
        return self.const((self.rng.standard_normal(shape) * 0.3).astype(np.float32))

    def node(self, op, *operands, **attrs):
        result = self.name()
        self.nodes.append(make_node(op, list(operands), [result], **attrs))
        return result

    def chain(self, op, *operands, **attrs):
        self.last = self.node(op, self.last, *operands, **attrs)

    def pick(self, *options):
        return options[self.rng.integers(len(options))]

    def size(self, value, axis):
        """The size of one dimension, as a vector."""
        shape = self.node("Shape", value)
        return self.node("Gather", shape, self.ints(axis), axis=0)


class Images(Model):
    """On [N, C, H, W]; the number of channels is known."""

    def __init__(self, seed):
        super().__init__(seed)
        self.channels = 3

    def conv(self):
        k, s, out = self.pick(1, 2, 3), self.pick(1, 1, 2), self.pick(2, 3, 4)
        window = self.pick(
            {"pads": [k // 2] * 4}, {"auto_pad": "SAME_UPPER"}, {"pads": [0, 1, 1, 0]}
        )
        self.chain("Conv", self.floats(out, self.channels, k, k), strides=[s, s], **window)
        self.channels = out

    def deconv(self):
        k, s, out = self.pick(2, 3, 4), 2, self.pick(2, 3)
        self.chain("ConvTranspose", self.floats(self.channels, out, k, k), strides=[s, s])
        self.channels = out

    def pool(self):
        op = self.pick("MaxPool", "AveragePool")
        self.chain(op, kernel_shape=[2, 2], strides=[self.pick(1, 2)] * 2, pads=[0, 0, 1, 1])

    def activation(self):
        self.chain(self.pick("Relu", "Sigmoid", "HardSwish", "Tanh", "Softplus"))

    def branch(self):
        before = self.last
        self.chain("Conv", self.floats(self.channels, self.channels, 3, 3), pads=[1] * 4)
        self.last = self.node(self.pick("Add", "Mul"), before, self.last)

    def upsample(self):
        mode = self.pick("nearest", "linear")
        scales = self.const(np.array([1, 1, 2, 2], np.float32))
        self.chain("Resize", "", scales, mode=mode)

    def like_the_input(self):
        """Resized to the input's size, as a decoder does."""
        sizes = self.node("Concat", self.size(self.last, 0), self.ints(self.channels),
                          self.size("x", 2), self.size("x", 3), axis=0)  # fmt: skip
        self.chain(
            "Resize", "", "", sizes, mode="linear", coordinate_transformation_mode="half_pixel"
        )

    def squeeze_excite(self):
        mean = self.node("GlobalAveragePool", self.last)
        gate = self.node("Conv", mean, self.floats(self.channels, self.channels, 1, 1))
        self.last = self.node("Mul", self.last, self.node("Sigmoid", gate))

    def cut(self):
        self.chain(
            "Slice", self.ints(1), self.ints(self.pick(-1, 1000)), self.ints(self.pick(2, 3))
        )

    def every_other(self):
        self.chain("Slice", self.ints(0), self.ints(1000), self.ints(2), self.ints(2))

    def pad(self):
        self.chain("Pad", self.ints(0, 0, 1, 0, 0, 0, 0, 2), mode=self.pick("constant", "reflect"))

    def normalize(self):
        scale = self.floats(self.channels)
        self.chain("InstanceNormalization", scale, self.floats(self.channels))

    def shuffle(self):
        """Channels in groups, through a shape that is computed."""
        n, h, w = (self.size(self.last, axis) for axis in (0, 2, 3))
        split = self.node("Concat", n, self.ints(1), self.ints(self.channels), h, w, axis=0)
        five = self.node("Reshape", self.last, split)
        turned = self.node("Transpose", five, perm=[0, 2, 1, 3, 4])
        whole = self.node("Concat", n, self.ints(self.channels), h, w, axis=0)
        self.last = self.node("Reshape", turned, whole)

    def tokens(self):
        """Flattened to a sequence, attended to, and back."""
        n, h, w = (self.size(self.last, axis) for axis in (0, 2, 3))
        flat = self.node("Reshape", self.last, self.ints(0, self.channels, -1))
        turned = self.node("Transpose", flat, perm=[0, 2, 1])
        weights = self.node("Softmax", self.node("MatMul", turned, flat), axis=-1)
        mixed = self.node("Transpose", self.node("MatMul", weights, turned), perm=[0, 2, 1])
        whole = self.node("Concat", n, self.ints(self.channels), h, w, axis=0)
        self.last = self.node("Reshape", mixed, whole)

    def end(self):
        kind = self.pick("as it is", "mean", "flat")
        if kind == "mean":
            self.chain("ReduceMean", axes=[2, 3], keepdims=0)
        elif kind == "flat":
            self.chain("GlobalMaxPool")
            self.chain("Flatten")
            self.chain("Gemm", self.floats(self.channels, 5))

    STEPS = (
        conv, conv, deconv, pool, activation, branch, upsample, like_the_input, squeeze_excite, cut,
        every_other, pad, normalize, shuffle, tokens,
    )  # fmt: skip


class Sequences(Model):
    """On [N, T, 8]."""

    def dense(self):
        self.chain("MatMul", self.floats(8, 8))
        self.chain("Add", self.floats(8))

    def activation(self):
        self.chain(self.pick("Relu", "Sigmoid", "Tanh", "Erf"))

    def norm(self):
        self.chain("LayerNormalization", self.floats(8), self.floats(8))

    def heads(self):
        """Self-attention of two heads, with a causal mask or none."""
        n, t = self.size(self.last, 0), self.size(self.last, 1)
        split = self.node("Concat", n, t, self.ints(2), self.ints(4), axis=0)
        heads = self.node("Transpose", self.node("Reshape", self.last, split), perm=[0, 2, 1, 3])
        keys = self.node("Transpose", heads, perm=[0, 1, 3, 2])
        scores = self.node("MatMul", heads, keys)
        if self.pick(True, False):
            length = self.node("Squeeze", t, self.ints(0))
            places = self.node("Range", self.const(np.int64(0)), length, self.const(np.int64(1)))
            mask = self.node("LessOrEqual", places, self.node("Unsqueeze", places, self.ints(1)))
            scores = self.node("Where", mask, scores, self.const(np.float32(-1e4)))
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), heads)
        whole = self.node("Concat", n, t, self.ints(8), axis=0)
        joined = self.node("Reshape", self.node("Transpose", mixed, perm=[0, 2, 1, 3]), whole)
        self.last = self.node("Add", self.last, joined)

    def positions(self):
        t = self.size(self.last, 1)
        rows = self.node("Slice", self.floats(64, 8), self.ints(0), t, self.ints(0))
        self.last = self.node("Add", self.last, rows)

    def recurrent(self):
        op, gates = self.pick(("LSTM", 4), ("GRU", 3))
        turned = self.node("Transpose", self.last, perm=[1, 0, 2])
        weights = self.floats(1, gates * 8, 8), self.floats(1, gates * 8, 8)
        found = self.node(op, turned, *weights, hidden_size=8)
        self.last = self.node(
            "Transpose", self.node("Squeeze", found, self.ints(1)), perm=[1, 0, 2]
        )

    def convolve(self):
        turned = self.node("Transpose", self.last, perm=[0, 2, 1])
        strides = [self.pick(1, 2)]
        made = self.node("Conv", turned, self.floats(8, 8, 3), pads=[1, 1], strides=strides)
        self.last = self.node("Transpose", made, perm=[0, 2, 1])

    def token(self):
        """One more step before the others."""
        n = self.size(self.last, 0)
        shape = self.node("Concat", n, self.ints(1), self.ints(8), axis=0)
        first = self.node("Expand", self.floats(1, 1, 8), shape)
        self.last = self.node("Concat", first, self.last, axis=1)

    def zeros(self):
        """Steps of zeros behind the others."""
        shape = self.node("Concat", self.size(self.last, 0), self.ints(2), self.ints(8), axis=0)
        value = make_tensor("v", TensorProto.FLOAT, [1], [0.25])
        state = self.node("ConstantOfShape", shape, value=value)
        self.last = self.node("Concat", self.last, state, axis=1)

    def scaled(self):
        length = self.node("Cast", self.size(self.last, 1), to=TensorProto.FLOAT)
        self.last = self.node("Div", self.last, self.node("Sqrt", length))

    def summed(self):
        self.chain("CumSum", self.const(np.int64(1)))

    def backwards(self):
        self.chain("Slice", self.ints(-1), self.ints(-1000), self.ints(1), self.ints(-1))

    def in_pairs(self):
        """Two batches of rows as one, and back."""
        n, t = self.size(self.last, 0), self.size(self.last, 1)
        flat = self.node("Reshape", self.last, self.ints(-1, 8))
        made = self.node("Gemm", flat, self.floats(8, 8))
        self.last = self.node("Reshape", made, self.node("Concat", n, t, self.ints(8), axis=0))

    def end(self):
        kind = self.pick("as it is", "last", "mean", "greatest")
        if kind == "last":
            self.chain("Gather", self.const(np.int64(-1)), axis=1)
        elif kind == "mean":
            self.chain("ReduceMean", axes=[1], keepdims=0)
        elif kind == "greatest":
            self.chain("ReduceMax", axes=[1], keepdims=1)

    STEPS = (
        dense, activation, norm, heads, positions, recurrent, convolve, token, zeros, scaled, summed,
        backwards, in_pairs,
    )  # fmt: skip


def random_model(kind: Callable[[int], Model], seed: int) -> Model:
    """A few steps, in any order."""
    model = kind(seed)
    for _ in range(int(model.rng.integers(2, 6))):
        step = kind.STEPS[model.rng.integers(len(kind.STEPS))]
        step(model)
    model.end()
    return model
