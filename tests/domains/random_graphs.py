"""Random logical graphs of TFLite ops, with sizes that differ, and what LiteRT makes of them."""

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from logical_reference import evaluate

from straightway.ir import Graph, Value, edit, tensor_type
from straightway.lower.builder import Builder
from straightway.tflite.write import write

KINDS = (
    "conv", "pointwise", "depthwise", "pool", "relu", "add", "constant", "reshape", "transpose",
    "softmax", "slice", "pad", "concat", "split", "reduce", "gather", "matrix", "batch_matrix",
    "tile", "conv1d", "stride", "broadcast", "reverse", "arg",
)  # fmt: skip


class Maker:
    """Appends random ops to a graph; an op that does not fit what is there is left out."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = Graph(name="random")
        self.g = Builder(self.graph)
        self.values: list[Value] = []
        batch, channels = self.one_of(1, 2), self.one_of(6, 4, 8)
        height, width = self.one_of(5, 6, 1), self.one_of(7, 3)
        self.input(batch, channels, height, width)
        if self.rng.random() < 0.4:
            self.input(batch, height * width, channels)

    def one_of(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def input(self, *shape: int) -> None:
        value = Value(f"in{len(self.values)}", tensor_type(np.float32, shape))
        self.values.append(edit.add_input(self.graph, value))

    def floats(self, *shape: int) -> Value:
        return self.g.const(self.rng.standard_normal(shape).astype(np.float32))

    def recent(self, fits=lambda _: True) -> Value:
        found = [v for v in self.values if fits(v)]
        if not found:
            raise ValueError("nothing fits")
        return found[int(self.rng.integers(max(0, len(found) - 4), len(found)))]

    def map(self, rank: int) -> Value:
        return self.recent(lambda v: v.rank == rank)

    def axis(self, x: Value) -> int:
        return int(self.rng.integers(x.rank))

    def grow(self, count: int) -> Graph:
        tries = 0
        while count and tries < 200:
            tries += 1
            kind = KINDS[int(self.rng.integers(len(KINDS)))]
            try:
                made = getattr(self, kind)()
            except ValueError:  # shapes that do not fit each other
                continue
            for value in made if isinstance(made, list) else [made]:
                if 1 <= value.rank <= 5 and 0 < np.prod(value.shape) <= 20000:
                    self.values.append(value)
            count -= 1
        outputs = [self.values[-1]]
        if self.rng.random() < 0.6:
            outputs.append(self.recent())
        edit.set_outputs(self.graph, dict.fromkeys(outputs))
        for node in reversed(list(self.graph.nodes)):
            if not any(v.uses for v in node.outputs):
                edit.remove(node)
        return self.graph

    def conv(self):
        x = self.map(4)
        kernel = tuple(int(k) for k in self.rng.integers(1, 4, 2))
        strides = tuple(int(k) for k in self.rng.integers(1, 3, 2))
        return self.convolve(x, kernel, strides, self.one_of("SAME", "VALID"))

    def convolve(self, x, kernel, strides, padding):
        out = self.one_of(4, 6, 12)
        weights, bias = self.floats(out, x.shape[1], *kernel), self.floats(out)
        ones = (1,) * len(kernel)
        return self.g.CONV_2D(x, weights, bias, strides=strides, dilations=ones, padding=padding)

    def pointwise(self):
        return self.convolve(self.map(4), (1, 1), (1, 1), "VALID")

    def conv1d(self):
        return self.convolve(self.map(3), (2,), (1,), "SAME")

    def depthwise(self):
        x = self.map(4)
        weights, bias = self.floats(x.shape[1], 1, 3, 2), self.floats(x.shape[1])
        attrs = {"strides": (1, 1), "dilations": (1, 1), "padding": "SAME", "multiplier": 1}
        return self.g.DEPTHWISE_CONV_2D(x, weights, bias, **attrs)

    def pool(self):
        name = self.one_of("MAX_POOL_2D", "AVERAGE_POOL_2D")
        attrs = {"filter": (2, 2), "strides": (1, 2), "padding": "SAME"}
        return self.g.emit(name, [self.map(4)], attrs)

    def relu(self):
        return self.g.RELU(self.recent())

    def add(self):
        other = self.recent()
        if self.rng.random() < 0.5:
            keep = bool(self.rng.random() < 0.5)
            other = self.g.MEAN(other, axes=(self.axis(other),), keep_dims=keep)
        return self.g.ADD(self.recent(), other)

    def constant(self):
        x = self.recent()
        shape = [d if self.rng.random() < 0.5 else 1 for d in x.shape]
        other = self.floats(*shape[int(self.rng.integers(len(shape) + 1)) :])
        pair = [x, other] if self.rng.random() < 0.5 else [other, x]
        return self.g.emit(self.one_of("ADD", "MUL"), pair, {})

    def reshape(self):
        x = self.recent()
        shape = list(x.shape)
        k = self.axis(x)
        if self.rng.random() < 0.5 and k + 1 < len(shape):
            shape[k : k + 2] = [shape[k] * shape[k + 1]]
        elif shape[k] % 2 == 0:
            shape[k : k + 1] = [2, shape[k] // 2] if self.rng.random() < 0.5 else [shape[k] // 2, 2]
        else:
            shape.insert(k, 1)
        if len(shape) > 5:
            raise ValueError("too many dimensions")
        return self.g.reshape(x, shape)

    def transpose(self):
        x = self.recent()
        return self.g.transpose(x, [int(p) for p in self.rng.permutation(x.rank)])

    def softmax(self):
        x = self.recent()
        return self.g.SOFTMAX(x, axis=self.axis(x))

    def slice(self):
        x = self.recent(lambda v: max(v.shape) > 1)
        k = int(np.argmax(x.shape))
        begin, size = [0] * x.rank, list(x.shape)
        begin[k], size[k] = 1, size[k] - 1
        return self.g.SLICE(x, begin=tuple(begin), size=tuple(size))

    def stride(self):
        x = self.recent()
        strides = [1] * x.rank
        strides[self.axis(x)] = 2
        zeros = (0,) * x.rank
        attrs = {"begin": zeros, "end": x.shape, "strides": tuple(strides), "end_mask": zeros}
        return self.g.STRIDED_SLICE(x, **attrs)

    def pad(self):
        x = self.recent()
        k = self.axis(x)
        return self.g.pad(x, [(1, 2) if d == k else (0, 0) for d in range(x.rank)])

    def concat(self):
        x = self.recent()
        k = self.axis(x)
        rest = [d for d in range(x.rank) if d != k]
        other = self.recent(
            lambda v: v.rank == x.rank and all(v.shape[d] == x.shape[d] for d in rest)
        )
        return self.g.CONCATENATION(x, other, axis=k)

    def split(self):
        x = self.recent(lambda v: any(d % 2 == 0 for d in v.shape))
        k = next(d for d, size in enumerate(x.shape) if size % 2 == 0)
        return self.g.SPLIT(x, axis=k, num_splits=2)

    def reduce(self):
        x = self.recent()
        count = min(x.rank, int(self.rng.integers(1, 3)))
        axes = tuple(sorted(int(k) for k in self.rng.choice(x.rank, size=count, replace=False)))
        keep = bool(self.rng.random() < 0.5)
        return self.g.emit(
            self.one_of("MEAN", "REDUCE_MAX"), [x], {"axes": axes, "keep_dims": keep}
        )

    def arg(self):
        x = self.recent(lambda v: v.rank > 1)
        index = self.g.ARG_MAX(x, axis=self.axis(x), output_type="INT32")
        return self.g.CAST(index, dtype=np.dtype(np.float32))

    def gather(self):
        x = self.recent()
        k = self.axis(x)
        indices = self.rng.integers(0, x.shape[k], size=self.one_of((), (3,), (2, 2), (1,)))
        return self.g.GATHER(x, self.g.const(indices.astype(np.int32)), axis=k)

    def matrix(self):
        x = self.recent()
        k = self.axis(x)
        out = self.one_of(4, 6)
        bias = self.floats(out) if self.rng.random() < 0.5 else None
        return self.g.FULLY_CONNECTED(x, self.floats(out, x.shape[k]), bias, axis=k)

    def batch_matrix(self):
        x = self.recent(lambda v: v.rank > 1)
        perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
        other = self.g.transpose(self.g.RELU(x), perm)
        return self.g.BATCH_MATMUL(x, other)

    def tile(self):
        x = self.recent()
        k = self.axis(x)
        return self.g.TILE(x, multiples=tuple(2 if d == k else 1 for d in range(x.rank)))

    def broadcast(self):
        x = self.recent()
        shape = tuple(3 if d == 1 and self.rng.random() < 0.5 else d for d in x.shape)
        return self.g.BROADCAST_TO(x, shape=shape)

    def reverse(self):
        x = self.recent()
        return self.g.REVERSE_V2(x, axes=(self.axis(x),))


def random_graph(seed: int, count: int = 8) -> Graph:
    """The same graph for the same seed."""
    return Maker(seed).grow(count)


def random_inputs(graph: Graph, seed: int) -> dict[Value, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {v: rng.standard_normal(v.shape).astype(np.float32) for v in graph.inputs}


def run_written(graph: Graph, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Run a written graph on LiteRT."""
    interpreter = Interpreter(model_content=bytes(write(graph).data), num_threads=1)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def assert_same(graph: Graph, written: Graph, seed: int) -> None:
    """The written graph computes what the logical one does."""
    inputs = random_inputs(graph, seed)
    expected = evaluate(graph, inputs)
    for got, want in zip(run_written(written, list(inputs.values())), expected, strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4 * max(1, np.abs(want).max()))
