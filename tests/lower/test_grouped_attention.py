"""GroupQueryAttention as exporters surround it: lengths out of a mask, past keys that grow."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import pytest

from straightway.errors import Unsupported
from straightway.flow.convert import convert
from straightway.run.process import Child

HEADS, SHARED, WIDTH = 4, 2, 16
Shape = list[int | str]


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child(engines=["onnxruntime", "litert"]) as made:
        yield made


def decoder(length: int | str, past: int | str, total: int | str) -> onnx.ModelProto:
    """A layer that asks a mask for its lengths, as onnxruntime-genai's builder writes it."""
    floats, wholes = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    states: dict[str, Shape] = {
        "q": [1, length, HEADS * WIDTH],
        "k": [1, length, SHARED * WIDTH],
        "v": [1, length, SHARED * WIDTH],
        "past_k": [1, SHARED, past, WIDTH],
        "past_v": [1, SHARED, past, WIDTH],
    }
    kept: Shape = [1, SHARED, total, WIDTH]
    angles = np.outer(np.arange(4096), np.linspace(0.5, 0.01, WIDTH // 2)).astype(np.float32)
    tensors = {
        "one": np.array([1], np.int64),
        "cos": np.cos(angles),
        "sin": np.sin(angles),
        "axis": np.array(1, np.int64),
    }
    make = onnx.helper.make_node
    nodes = [
        make("ReduceSum", ["mask", "one"], ["sums"], keepdims=0),
        make("Sub", ["sums", "one"], ["last"]),
        make("Cast", ["last"], ["lengths"], to=onnx.TensorProto.INT32),
        make("Shape", ["mask"], ["shape"]),
        make("Gather", ["shape", "axis"], ["width"], axis=0),
        make("Cast", ["width"], ["total"], to=onnx.TensorProto.INT32),
        make(
            "GroupQueryAttention",
            ["q", "k", "v", "past_k", "past_v", "lengths", "total", "cos", "sin"],
            ["y", "new_k", "new_v"],
            domain="com.microsoft",
            num_heads=HEADS,
            kv_num_heads=SHARED,
            do_rotary=1,
        ),
    ]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "decoder",
        [
            *(value(name, floats, shape) for name, shape in states.items()),
            value("mask", wholes, [1, total]),
        ],
        [
            value("y", floats, states["q"]),
            value("new_k", floats, kept),
            value("new_v", floats, kept),
        ],
        [onnx.numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize(("length", "past"), [(1, 6), (3, 4)])
def test_lengths_out_of_a_mask(child: Child, tmp_path: Path, length: int, past: int) -> None:
    onnx.save(decoder(length, past, length + past), tmp_path / "m.onnx")
    assert convert(tmp_path / "m.onnx", child=child).verification is not None


def test_a_prompt_of_any_length_with_padding(child: Child, tmp_path: Path) -> None:
    made = decoder("S", 1, "S")
    (node,) = (n for n in made.graph.node if n.domain)
    node.input[3] = node.input[4] = ""
    del made.graph.input[3:5]
    onnx.save(made, tmp_path / "m.onnx")
    found = convert(tmp_path / "m.onnx", child=child)
    assert found.verification is not None


def test_what_no_kernel_here_computes_is_refused(tmp_path: Path) -> None:
    made = decoder(1, 6, 7)
    (node,) = (n for n in made.graph.node if n.domain)
    node.input.extend(["", "", "", "", "", "one", "one"])  # of norms before the turns
    onnx.save(made, tmp_path / "m.onnx")
    with pytest.raises(Unsupported, match="operand 14, 'one', is not supported"):
        convert(tmp_path / "m.onnx", verify=False)
