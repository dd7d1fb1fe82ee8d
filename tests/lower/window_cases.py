"""Random window cases from a seed: attributes, operands, and the slide that they mean."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
from window_reference import Slide, auto_pads

from straightway.domains.layout import lay_out
from straightway.ingest.onnx import ingest
from straightway.ir import Graph, Value, edit, tensor_type
from straightway.ir.verify import verify
from straightway.lower.builder import Builder
from straightway.lower.lowering import lower_graph
from straightway.passes.pipeline import prepare
from straightway.run import litert
from straightway.run.process import Child
from straightway.tflite.write import write

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One random case; `constant`: the operands after the first are initializers."""

    op: str
    operands: Arrays
    attrs: dict[str, Any]
    slide: Slide
    constant: bool = True

    @property
    def x(self) -> np.ndarray:
        return self.operands["x"]


def draw(op: str, seed: int, spatial: tuple[int, ...] = (1, 2, 2, 2, 3)) -> Drawn:
    """Draw a window op; sizes all differ more often than not, batch 1 or 2."""
    random = np.random.default_rng(seed)
    count = int(random.choice(spatial))
    slide, attrs, sizes = _slide(random, op, count)
    if op == "Conv":
        operands, extra = _conv_operands(random, sizes, slide)
    elif op == "ConvTranspose":
        operands, extra = _transposed_operands(random, sizes, slide)
    else:
        shape = (int(random.integers(1, 3)), int(random.integers(1, 5)), *sizes)
        # all negative, so that padding with zero would show
        operands = {"x": (random.standard_normal(shape) - 3).astype(np.float32)}
        extra = {"kernel_shape": slide.kernel}
    return Drawn(
        op=op,
        operands=operands,
        attrs={**attrs, **extra},
        slide=slide,
        constant=bool(random.random() < 0.75),
    )


def _slide(
    random: np.random.Generator, op: str, count: int
) -> tuple[Slide, dict[str, Any], tuple[int, ...]]:
    most = 7 if count == 3 else 12
    sizes = [int(n) for n in random.integers(4, most, count)]
    kernel = tuple(int(k) for k in random.integers(1, 4 if count == 3 else 5, count))
    dilated = random.random() < 0.3
    dilations = tuple(int(d) for d in random.integers(1, 4, count)) if dilated else (1,) * count
    strides = tuple(int(s) for s in random.integers(1, 4, count))
    mode = str(random.choice(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER"]))
    if mode != "NOTSET" and op != "ConvTranspose":
        # beyond that ONNX Runtime and the specification part
        strides = tuple(min(s, k) for s, k in zip(strides, kernel, strict=True))
        dilations = dilations if op == "Conv" else (1,) * count
    limits = [k if "Pool" in op else 4 for k in kernel]
    pads = tuple((int(random.integers(0, m)), int(random.integers(0, m))) for m in limits)
    slide = Slide(kernel=kernel, strides=strides, dilations=dilations, pads=pads)
    if op == "ConvTranspose":
        mode = "NOTSET"
    attrs: dict[str, Any] = {"strides": strides}
    if dilations != (1,) * count:
        attrs["dilations"] = dilations
    if mode == "NOTSET":
        attrs["pads"] = (*(p[0] for p in pads), *(p[1] for p in pads))
        sizes = [max(n, e - sum(p) + 1) for n, e, p in zip(sizes, slide.extents, pads, strict=True)]
    else:
        attrs["auto_pad"] = mode
        slide = replace(slide, pads=auto_pads(mode, sizes, slide))
    if "Pool" in op and mode == "NOTSET" and random.random() < 0.5:
        attrs["ceil_mode"] = 1
        slide = replace(slide, ceil=True)
    return slide, attrs, tuple(sizes)


def _groups(random: np.random.Generator) -> tuple[int, int, int]:
    """Groups, and channels in and out of each: plain, depthwise, grouped."""
    kind = random.choice(["plain", "depthwise", "grouped"])
    if kind == "plain":
        return 1, int(random.integers(1, 5)), int(random.integers(1, 5))
    if kind == "depthwise":
        return int(random.integers(2, 5)), 1, int(random.integers(1, 4))
    return int(random.integers(2, 4)), int(random.integers(2, 4)), int(random.integers(1, 4))


def _normal(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def _conv_operands(
    random: np.random.Generator, sizes: tuple[int, ...], slide: Slide
) -> tuple[Arrays, dict[str, Any]]:
    group, width, each = _groups(random)
    operands = {
        "x": _normal(random, int(random.integers(1, 3)), group * width, *sizes),
        "w": _normal(random, group * each, width, *slide.kernel),
    }
    if random.random() < 0.5:
        operands["b"] = _normal(random, group * each)
    attrs: dict[str, Any] = {"group": group}
    if random.random() < 0.5:
        attrs["kernel_shape"] = slide.kernel
    return operands, attrs


def _transposed_operands(
    random: np.random.Generator, sizes: tuple[int, ...], slide: Slide
) -> tuple[Arrays, dict[str, Any]]:
    group, width, each = _groups(random)
    operands = {
        "x": _normal(random, int(random.integers(1, 3)), group * width, *sizes),
        "w": _normal(random, group * width, each, *slide.kernel),
    }
    if random.random() < 0.5:
        operands["b"] = _normal(random, group * each)
    attrs: dict[str, Any] = {"group": group}
    if random.random() < 0.4:
        attrs["output_padding"] = tuple(int(random.integers(0, s)) for s in slide.strides)
    return operands, attrs


def transposed_outs(drawn: Drawn) -> tuple[int, ...]:
    """Sizes of a transposed convolution's result."""
    slide = drawn.slide
    extra = drawn.attrs.get("output_padding", (0,) * len(slide.kernel))
    return tuple(
        (n - 1) * s + e - b - a + more
        for n, s, e, (b, a), more in zip(
            drawn.x.shape[2:], slide.strides, slide.extents, slide.pads, extra, strict=True
        )
    )


def model_of(drawn: Drawn, opset: int = 21) -> onnx.ModelProto:
    """One node with its operands, the first fed, the others as the case says."""
    return single(drawn.op, drawn.operands, drawn.attrs, opset=opset, constant=drawn.constant)


def single(
    op: str, operands: Arrays, attrs: dict[str, Any], *, opset: int = 21, constant: bool = True
) -> onnx.ModelProto:
    """Make a model of one node; empty arrays stand for absent operands, which opset 11 asks for."""
    names = [name if array.size or opset < 13 else "" for name, array in operands.items()]
    fed = [n for n in names if n and (n == "x" or not constant)]
    held = [n for n in names if n and n not in fed]
    node = onnx.helper.make_node(op, names, ["y"], name="node", **attrs)
    graph = onnx.helper.make_graph(
        [node],
        "case",
        [_info(name, operands[name]) for name in fed],
        [onnx.helper.make_empty_tensor_value_info("y")],
        [onnx.numpy_helper.from_array(operands[name], name) for name in held],
    )
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10
    )


def _info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, element, array.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """What came out of a model: the result, and the ops of the file."""

    y: np.ndarray
    ops: list[str]
    partitions: int


def run_model(child: Child, model: onnx.ModelProto, feeds: Arrays, folder: Path) -> Converted:
    """Prepare, lower, lay out, write and run a model."""
    path = folder / "model.onnx"
    onnx.save(model, path)
    source = ingest(path)
    prepare(source)
    found = lower_graph(source)
    if found.refusals:
        pytest.fail(found.refusals[0].text)
    verify(found.graph, typed=True)
    return run_graph(child, found.graph, found.outputs, list(feeds.values()), folder)


def run_graph(
    child: Child, graph: Graph, outputs: tuple[str, ...], feeds: list[np.ndarray], folder: Path
) -> Converted:
    """Lay out, write and run a graph of logical ops."""
    layout = lay_out(graph, outputs)
    verify(layout.graph, typed=True)
    path = folder / "model.tflite"
    path.write_bytes(write(layout.graph).data)
    ran = child.call(litert.run(path, feeds))
    return Converted(
        y=ran.outputs[0],
        ops=[node.op.name for node in layout.graph.nodes],
        partitions=len(ran.placement.partitions),
    )


def built(
    shape: tuple[int, ...], body: Callable[[Builder, Value], Value]
) -> tuple[Graph, tuple[str, ...]]:
    """A graph of logical ops that a function writes."""
    graph = Graph(name="built")
    x = edit.add_input(graph, Value("x", tensor_type(np.float32, shape)))
    y = body(Builder(graph), x)
    edit.set_outputs(graph, [y])
    graph.output_names = ["y"]
    return graph, ("y",)


def children() -> Iterator[Child]:
    """One child process that has both engines loaded."""
    with Child(engines=["onnxruntime", "litert"]) as made:
        yield made


def close(got: np.ndarray, want: np.ndarray) -> bool:
    """The project's bound for float32: 1e-4 of the larger of range and greatest magnitude."""
    if got.shape != want.shape:
        return False
    scale = max(float(np.ptp(want)), float(np.abs(want).max()), 1e-6)
    return math.isfinite(scale) and float(np.abs(got - want).max()) <= 1e-4 * scale
