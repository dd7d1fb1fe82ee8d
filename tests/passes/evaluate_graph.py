"""Graphs back to ONNX, and through onnxruntime: the judge of what passes did.

A model has one opset; a node that a pass made may be newer than it. Such nodes are written in their
parts, which every opset has.
"""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

from straightway.ingest.onnx import ShapeRequest, ingest
from straightway.ir import Graph
from straightway.onnx_io.schema import schema
from straightway.passes.arguments import onnx_op

DOMAINS = {"onnx": ""}


class Writer:
    """Writes one graph; subgraphs share its counter of names."""

    def __init__(self, opset, names=None):
        self.opset = opset
        self.names = {}
        self.count = names or itertools.count()
        self.nodes = []
        self.constants = []

    def name(self, value):
        if value is None:
            return ""
        if value not in self.names:
            self.names[value] = f"v{next(self.count)}"
            if value.const is not None:
                self.constants.append(self.tensor(value.const, self.names[value]))
        return self.names[value]

    def tensor(self, array, name):
        return numpy_helper.from_array(np.array(array), name)

    def const(self, array):
        name = f"v{next(self.count)}"
        self.constants.append(self.tensor(array, name))
        return name

    def emit(self, op, *inputs, **attrs):
        name = f"v{next(self.count)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attrs))
        return name

    def node(self, node):
        inputs = [self.name(value) for value in node.inputs]
        expand = EXPANSIONS.get(node.op.name)
        if expand is not None and (node.op.version > self.opset or node.op.dialect != "onnx"):
            made = expand(self, node, *inputs)
            outputs = [self.name(node.outputs[0])]
            self.nodes.append(helper.make_node("Identity", [made], outputs))
            return
        then = schema(node.op)
        now = schema(onnx_op(node.op.name, self.opset)) if node.op.dialect == "onnx" else then
        assert then is None or then.inputs[: len(inputs)] == now.inputs[: len(inputs)], node
        proto = onnx.NodeProto(op_type=node.op.name)
        proto.domain = DOMAINS.get(node.op.dialect, node.op.dialect)
        proto.input.extend(inputs)
        proto.output.extend(self.name(value) for value in node.outputs)
        proto.attribute.extend(self.attribute(k, v) for k, v in node.attrs.items())
        self.nodes.append(proto)

    def attribute(self, key, value):
        if isinstance(value, Graph):
            return helper.make_attribute(key, self.subgraph(value))
        if isinstance(value, np.ndarray):
            return helper.make_attribute(key, numpy_helper.from_array(value))
        kind = onnx.AttributeProto.INTS if value == () else None
        return helper.make_attribute(key, value, attr_type=kind)

    def subgraph(self, graph):
        inner = Writer(self.opset, self.count)
        inner.names = self.names
        inner.constants = self.constants
        return inner.graph(graph, own_constants=False)

    def graph(self, graph, *, own_constants=True, also=()):
        inputs = [self.info(value) for value in graph.inputs]
        for node in graph.nodes:
            self.node(node)
        outputs = []
        for value in (*graph.outputs, *also):
            out = self.emit("Identity", self.name(value))
            outputs.append(helper.make_empty_tensor_value_info(out))
        constants = self.constants if own_constants else []
        return helper.make_graph(self.nodes, "written", inputs, outputs, constants)

    def info(self, value):
        kind = value.type
        if kind is None:
            return helper.make_empty_tensor_value_info(self.name(value))
        element = helper.np_dtype_to_tensor_dtype(kind.dtype)
        return helper.make_tensor_value_info(self.name(value), element, list(kind.shape))


def _number(w, node, value):
    return w.const(np.array(value, node.outputs[0].dtype))


def _mean(w, node, x, axes):
    if w.opset < 18:
        return w.emit("ReduceMean", x, axes=axes, keepdims=1)
    return w.emit("ReduceMean", x, w.const(np.array(axes, np.int64)), keepdims=1)


def _clip(w, node, x, low, high):
    x = w.emit("Max", x, _number(w, node, low))
    return w.emit("Min", x, _number(w, node, high))


def expand_gelu(w, node, x):
    n = lambda value: _number(w, node, value)  # noqa: E731
    if node.attrs.get("approximate", "none") == "tanh":
        cube = w.emit("Mul", w.emit("Mul", x, x), x)
        inner = w.emit("Add", x, w.emit("Mul", cube, n(0.044715)))
        bell = w.emit("Tanh", w.emit("Mul", inner, n((2 / np.pi) ** 0.5)))
    else:
        bell = w.emit("Erf", w.emit("Div", x, n(2**0.5)))
    return w.emit("Mul", w.emit("Mul", x, n(0.5)), w.emit("Add", bell, n(1)))


def expand_hard_swish(w, node, x):
    n = lambda value: _number(w, node, value)  # noqa: E731
    gate = _clip(w, node, w.emit("Add", w.emit("Mul", x, n(1 / 6)), n(0.5)), 0, 1)
    return w.emit("Mul", x, gate)


def expand_mish(w, node, x):
    return w.emit("Mul", x, w.emit("Tanh", w.emit("Softplus", x)))


def _last_axes(node):
    rank = node.outputs[0].rank
    return list(range(node.attrs.get("axis", -1) % rank, rank))


def expand_layer_normalization(w, node, x, scale, bias=""):
    axes = _last_axes(node)
    less = w.emit("Sub", x, _mean(w, node, x, axes))
    variance = _mean(w, node, w.emit("Mul", less, less), axes)
    root = w.emit("Sqrt", w.emit("Add", variance, _number(w, node, node.attrs["epsilon"])))
    y = w.emit("Mul", w.emit("Div", less, root), scale)
    return w.emit("Add", y, bias) if bias else y


def expand_rms_normalization(w, node, x, scale):
    square = _mean(w, node, w.emit("Mul", x, x), _last_axes(node))
    root = w.emit("Sqrt", w.emit("Add", square, _number(w, node, node.attrs["epsilon"])))
    return w.emit("Mul", w.emit("Div", x, root), scale)


def expand_softmax(w, node, x):
    """Before opset 13 only the last axis means the same."""
    rank = node.outputs[0].rank
    axis = node.attrs.get("axis", -1) % rank
    perm = [*(a for a in range(rank) if a != axis), axis]
    y = w.emit("Softmax", w.emit("Transpose", x, perm=perm), axis=rank - 1)
    return w.emit("Transpose", y, perm=np.argsort(perm).tolist())


EXPANSIONS = {
    "Gelu": expand_gelu,
    "HardSwish": expand_hard_swish,
    "LayerNormalization": expand_layer_normalization,
    "Mish": expand_mish,
    "RMSNormalization": expand_rms_normalization,
    "Softmax": expand_softmax,
}


def write(graph, also=()):
    """Write a prepared graph as a model that also returns some more values."""
    opset = graph.opsets.get("", graph.opsets.get("ai.onnx", 1))
    writer = Writer(max(opset, 7))
    proto = writer.graph(graph, also=also)
    imports = [helper.make_opsetid(d, v) for d, v in graph.opsets.items()]
    return helper.make_model(proto, opset_imports=imports, ir_version=10)


def run(model, feeds, *, optimised=False):
    """Run a model, without optimisation unless told; returns its outputs in order."""
    options = ort.SessionOptions()
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    source = model if isinstance(model, str) else model.SerializeToString()
    session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return session.run(None, {n: np.asarray(v) for n, v in zip(names, feeds, strict=True)})


def evaluate(graph, feeds, also=()):
    """Compute the outputs of a graph, and more values, by onnxruntime from its inputs in order."""
    return run(write(graph, also), feeds)


def ingest_model(model, shapes=None):
    """Read a model that is made in memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        return ingest(path, ShapeRequest(shapes=shapes or {}))
