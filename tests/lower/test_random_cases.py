"""Ops with axes on a tensor that a convolution stores channels last: shapes and axes drawn at random.

The convolution has identity weights, so that the op's operand is the input itself, in another order.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
from hypothesis import HealthCheck, given, settings

from straightway.flow.tolerance import compare
from straightway.flow.translate import read, translate
from straightway.run import litert, ort
from straightway.run.process import Child

EXAMPLES = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
SHAPES = st.tuples(st.just(2), *(st.integers(2, 7) for _ in range(3)))
AXES = st.integers(-4, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One op after the convolution: its constants, attributes and number of results."""

    op: str
    shape: Sequence[int]
    constants: Sequence[np.ndarray | None] = ()
    attrs: dict[str, Any]
    results: int = 1
    opset: int = 18


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child(engines=["onnxruntime", "litert"]) as made:
        yield made


def model(sample: Sample) -> onnx.ModelProto:
    channels = sample.shape[1]
    weights = np.eye(channels, dtype=np.float32).reshape(channels, channels, 1, 1)
    names = [f"c{k}" if c is not None else "" for k, c in enumerate(sample.constants)]
    outputs = [f"y{k}" for k in range(sample.results)]
    operands = ["stored", "stored"] if sample.op == "Concat" else ["stored", *names]
    constants = {"w": weights, **dict(zip(names, sample.constants, strict=True))}
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Conv", ["x", "w"], ["stored"]),
            onnx.helper.make_node(sample.op, operands, outputs, **sample.attrs),
        ],
        "random",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, sample.shape)],
        [onnx.helper.make_empty_tensor_value_info(name) for name in outputs],
        [onnx.numpy_helper.from_array(a, n) for n, a in constants.items() if a is not None],
    )
    opsets = [onnx.helper.make_opsetid("", sample.opset)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)


def check(child: Child, sample: Sample) -> None:
    x = np.random.default_rng(1).standard_normal(sample.shape).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path, written = Path(folder, "m.onnx"), Path(folder, "m.tflite")
        onnx.save(model(sample), path)
        wanted = child.call(ort.run(path, {"x": x}, optimise=False))
        written.write_bytes(translate(read(path)).written.data)
        found = child.call(litert.run(written, [x])).outputs
    for (name, want), got in zip(wanted.items(), found, strict=True):
        compared = compare(name, want, got)
        assert compared.equal, compared.reason


def ints(values: Sequence[int]) -> np.ndarray:
    return np.array(values, np.int64)


@EXAMPLES
@given(shape=SHAPES, data=st.data())
def test_slice(child: Child, shape: tuple[int, ...], data: st.DataObject) -> None:
    axes = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True))
    picked = []
    for axis in axes:
        size = shape[axis]
        step = data.draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
        start, end = data.draw(st.tuples(st.integers(-size, size), st.integers(-size - 1, size)))
        start, end = (
            (0, size) if step > 0 and not len(range(size)[start:end:step]) else (start, end)
        )
        start, end = (-1, -99) if not len(range(size)[start:end:step]) else (start, end)
        picked.append((start, end, step))
    constants = [ints(column) for column in zip(*picked, strict=True)]
    constants.insert(2, ints(axes))
    check(child, Sample(op="Slice", shape=shape, constants=constants, attrs={}))


@EXAMPLES
@given(shape=SHAPES, mode=st.sampled_from(["constant", "reflect", "edge", "wrap"]), data=st.data())
def test_pad(child: Child, shape: tuple[int, ...], mode: str, data: st.DataObject) -> None:
    least = -1 if mode == "constant" else 0
    pads = [data.draw(st.integers(least, n - 1)) for n in shape]
    pads += [data.draw(st.integers(0, n - 1)) for n in shape]
    constants = [ints(pads)]
    if mode == "constant":
        constants.append(np.array(data.draw(st.sampled_from([0.0, -1.5])), np.float32))
    opset = 19 if mode == "wrap" else 18
    attrs = {"mode": mode}
    check(child, Sample(op="Pad", shape=shape, constants=constants, attrs=attrs, opset=opset))


@EXAMPLES
@given(
    shape=SHAPES,
    op=st.sampled_from(["ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp", "ReduceProd"]),
    axes=st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True),
    keep=st.booleans(),
)
def test_reduce(child: Child, shape: tuple[int, ...], op: str, axes: list[int], keep: bool) -> None:
    constants = [ints(axes)]
    check(child, Sample(op=op, shape=shape, constants=constants, attrs={"keepdims": int(keep)}))


@EXAMPLES
@given(
    shape=SHAPES,
    op=st.sampled_from(["Softmax", "LogSoftmax", "Hardmax"]),
    axis=AXES,
    opset=st.sampled_from([11, 13]),
)
def test_softmax(child: Child, shape: tuple[int, ...], op: str, axis: int, opset: int) -> None:
    check(child, Sample(op=op, shape=shape, attrs={"axis": axis}, opset=opset))


@EXAMPLES
@given(shape=SHAPES, axis=AXES, data=st.data())
def test_gather(child: Child, shape: tuple[int, ...], axis: int, data: st.DataObject) -> None:
    size = shape[axis]
    rank = data.draw(st.integers(0, 2))
    dims = [data.draw(st.integers(1, 3)) for _ in range(rank)]
    count = int(np.prod(dims))
    flat = [data.draw(st.integers(-size, size - 1)) for _ in range(count)]
    indices = ints(flat).reshape(dims)
    check(child, Sample(op="Gather", shape=shape, constants=[indices], attrs={"axis": axis}))


@EXAMPLES
@given(shape=SHAPES, axis=AXES, op=st.sampled_from(["ArgMax", "ArgMin"]), last=st.booleans())
def test_arg(child: Child, shape: tuple[int, ...], axis: int, op: str, last: bool) -> None:
    attrs = {"axis": axis, "select_last_index": int(last), "keepdims": 0}
    check(child, Sample(op=op, shape=shape, attrs=attrs))


@EXAMPLES
@given(shape=SHAPES, axis=AXES, data=st.data())
def test_split_and_concat(
    child: Child, shape: tuple[int, ...], axis: int, data: st.DataObject
) -> None:
    check(child, Sample(op="Concat", shape=shape, attrs={"axis": axis}))
    cut = data.draw(st.integers(1, shape[axis] - 1))
    sizes = ints([cut, shape[axis] - cut])
    check(
        child, Sample(op="Split", shape=shape, constants=[sizes], attrs={"axis": axis}, results=2)
    )


@EXAMPLES
@given(shape=SHAPES, axis=AXES, largest=st.booleans(), data=st.data())
def test_top_k(
    child: Child, shape: tuple[int, ...], axis: int, largest: bool, data: st.DataObject
) -> None:
    k = ints([data.draw(st.integers(1, shape[axis]))])
    attrs = {"axis": axis, "largest": int(largest)}
    check(child, Sample(op="TopK", shape=shape, constants=[k], attrs=attrs, results=2))


@EXAMPLES
@given(shape=SHAPES, repeats=st.lists(st.integers(1, 6), min_size=4, max_size=4))
def test_tile(child: Child, shape: tuple[int, ...], repeats: list[int]) -> None:
    check(child, Sample(op="Tile", shape=shape, constants=[ints(repeats)], attrs={}))


@EXAMPLES
@given(shape=SHAPES, columns=st.integers(1, 5), vector=st.booleans())
def test_matmul(child: Child, shape: tuple[int, ...], columns: int, vector: bool) -> None:
    dims = (shape[-1],) if vector else (shape[-1], columns)
    weights = np.random.default_rng(2).standard_normal(dims).astype(np.float32)
    check(child, Sample(op="MatMul", shape=shape, constants=[weights], attrs={}))


@EXAMPLES
@given(shape=SHAPES, operand=st.lists(st.booleans(), min_size=1, max_size=4))
def test_broadcast(child: Child, shape: tuple[int, ...], operand: list[bool]) -> None:
    whole = zip(shape[-len(operand) :], operand, strict=True)
    dims = [size if full else 1 for size, full in whole]
    other = np.random.default_rng(3).standard_normal(dims).astype(np.float32)
    check(child, Sample(op="Mul", shape=shape, constants=[other], attrs={}))


@EXAMPLES
@given(shape=SHAPES, axis=st.integers(1, 3))
def test_layer_normalization(child: Child, shape: tuple[int, ...], axis: int) -> None:
    scale = np.random.default_rng(4).standard_normal(shape[axis:]).astype(np.float32)
    attrs = {"axis": axis}
    check(child, Sample(op="LayerNormalization", shape=shape, constants=[scale], attrs=attrs))
