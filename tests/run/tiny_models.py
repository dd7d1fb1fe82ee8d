"""Small .tflite and .onnx files, built here so that the tests need no corpus."""

from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from onnx import TensorProto, helper, numpy_helper, save_model

B = schema.BuiltinOperator
_TYPES = {
    "float32": schema.TensorType.FLOAT32,
    "int32": schema.TensorType.INT32,
    "int8": schema.TensorType.INT8,
    "bool": schema.TensorType.BOOL,
}


class Tiny:
    """One subgraph of a model under construction; tensors are named by their index."""

    def __init__(self):
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.buffers = [schema.BufferT()]
        self.model.operatorCodes = []
        self.model.subgraphs = []
        self.begin()

    def begin(self):
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = [], []
        self.model.subgraphs.append(self.graph)

    def tensor(self, shape, dtype="float32", *, name=None, signature=None, scale=None):
        one = schema.TensorT()
        one.shape, one.type, one.buffer = list(shape), _TYPES[dtype], 0
        one.name = name or f"t{len(self.graph.tensors)}"
        if signature:
            one.shapeSignature = list(signature)
        if scale:
            one.quantization = schema.QuantizationParametersT()
            one.quantization.scale, one.quantization.zeroPoint = [scale], [0]
        self.graph.tensors.append(one)
        return len(self.graph.tensors) - 1

    def const(self, array, **options):
        array = np.ascontiguousarray(array)
        index = self.tensor(array.shape, array.dtype.name, **options)
        buffer = schema.BufferT()
        buffer.data = array.reshape(-1).view(np.uint8)
        self.model.buffers.append(buffer)
        self.graph.tensors[index].buffer = len(self.model.buffers) - 1
        return index

    def op(self, kind, inputs, outputs, options=None, *, version=1, custom=None):
        code = schema.OperatorCodeT()
        code.builtinCode, code.version, code.customCode = kind, version, custom
        code.deprecatedBuiltinCode = min(kind, 127)
        self.model.operatorCodes.append(code)
        one = schema.OperatorT()
        one.opcodeIndex = len(self.model.operatorCodes) - 1
        one.inputs, one.outputs = list(inputs), list(outputs)
        if options is not None:
            name = type(options).__name__.removesuffix("T")
            one.builtinOptionsType = getattr(schema.BuiltinOptions, name)
            one.builtinOptions = options
        self.graph.operators.append(one)

    def save(self, path: Path) -> Path:
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), file_identifier=b"TFL3")
        path.write_bytes(bytes(builder.Output()))
        return path


def options(name, **values):
    made = getattr(schema, f"{name}T")()
    for key, value in values.items():
        setattr(made, key, value)
    return made


RELU = schema.ActivationFunctionType.RELU


def conv_net(path: Path, *, open_batch=False) -> Path:
    """Conv 3×3, PReLU-free residual add with ReLU, flatten, dense, softmax: all for XNNPACK."""
    rng = np.random.default_rng(1)
    tiny = Tiny()
    signature = (-1, 10, 12, 3) if open_batch else None
    x = tiny.tensor((1, 10, 12, 3), name="x", signature=signature)
    weights = tiny.const(rng.normal(size=(8, 3, 3, 3)).astype(np.float32))
    bias = tiny.const(rng.normal(size=8).astype(np.float32))
    window = {"strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1, "padding": 0}
    first = tiny.tensor((1, 10, 12, 8))
    tiny.op(B.CONV_2D, [x, weights, bias], [first], options("Conv2DOptions", **window))
    point = tiny.const(rng.normal(size=(8, 1, 1, 8)).astype(np.float32))
    second = tiny.tensor((1, 10, 12, 8))
    tiny.op(B.CONV_2D, [first, point, bias], [second], options("Conv2DOptions", **window))
    added = tiny.tensor((1, 10, 12, 8))
    tiny.op(B.ADD, [first, second], [added], options("AddOptions", fusedActivationFunction=RELU))
    flat_shape = tiny.const(np.array([-1, 960], np.int32))
    flat = tiny.tensor((1, 960))
    tiny.op(B.RESHAPE, [added, flat_shape], [flat], options("ReshapeOptions"))
    dense = tiny.const(rng.normal(size=(5, 960)).astype(np.float32))
    logits, y = tiny.tensor((1, 5)), tiny.tensor((1, 5), name="y")
    tiny.op(
        B.FULLY_CONNECTED, [flat, dense, -1], [logits], options("FullyConnectedOptions"), version=6
    )
    tiny.op(B.SOFTMAX, [logits], [y], options("SoftmaxOptions", beta=1.0))
    tiny.graph.inputs, tiny.graph.outputs = [x], [y]
    return tiny.save(path)


def split_net(path: Path, *, size=4096) -> Path:
    """abs → cumsum → neg, with a second result: XNNPACK can't run the cumsum in the middle."""
    tiny = Tiny()
    x, y = tiny.tensor((size,), name="x"), tiny.tensor((size,), name="y")
    first, summed = tiny.tensor((size,)), tiny.tensor((size,))
    axis = tiny.const(np.array(0, np.int32))
    tiny.op(B.ABS, [x], [first])
    tiny.op(B.CUMSUM, [first, axis], [summed], options("CumsumOptions"))
    tiny.op(B.NEG, [summed], [y])
    tiny.graph.inputs, tiny.graph.outputs = [x], [y]
    return tiny.save(path)


def lstm_net(path: Path) -> Path:
    """neg → LSTM over 5 steps of 3 numbers → abs → cumsum → exp: the LSTM has variable tensors."""
    rng = np.random.default_rng(3)
    tiny = Tiny()
    x, first = tiny.tensor((1, 5, 3), name="x"), tiny.tensor((1, 5, 3))
    tiny.op(B.NEG, [x], [first])

    def const(*shape):
        return tiny.const(rng.normal(size=shape).astype(np.float32))

    weights = [const(4, 3) for _ in range(4)] + [const(4, 4) for _ in range(4)]
    biases = [const(4) for _ in range(4)]
    states = [tiny.tensor((1, 4)), tiny.tensor((1, 4))]
    for state in states:
        tiny.graph.tensors[state].isVariable = True
    hidden, positive = tiny.tensor((1, 5, 4)), tiny.tensor((1, 5, 4))
    inputs = [first, *weights, -1, -1, -1, *biases, -1, -1, *states, -1, -1, -1, -1]
    tanh = schema.ActivationFunctionType.TANH
    settings = options("UnidirectionalSequenceLSTMOptions", fusedActivationFunction=tanh)
    tiny.op(B.UNIDIRECTIONAL_SEQUENCE_LSTM, inputs, [hidden], settings)
    summed, y = tiny.tensor((1, 5, 4)), tiny.tensor((1, 5, 4), name="y")
    tiny.op(B.ABS, [hidden], [positive])
    axis = tiny.const(np.array(1, np.int32))
    tiny.op(B.CUMSUM, [positive, axis], [summed], options("CumsumOptions"))
    tiny.op(B.EXP, [summed], [y], options("ExpOptions"))
    tiny.graph.inputs, tiny.graph.outputs = [x], [y]
    return tiny.save(path)


def if_net(path: Path) -> Path:
    """y = x + x if x[0] > 0 else exp(x): both bodies are subgraphs."""
    tiny = Tiny()
    x, zero = tiny.tensor((4,), name="x"), tiny.const(np.zeros(1, np.float32))
    begin, size = tiny.const(np.zeros(1, np.int32)), tiny.const(np.ones(1, np.int32))
    head, condition = tiny.tensor((1,)), tiny.tensor((1,), "bool")
    y = tiny.tensor((4,), name="y")
    tiny.op(B.SLICE, [x, begin, size], [head], options("SliceOptions"))
    tiny.op(B.GREATER, [head, zero], [condition], options("GreaterOptions"))
    bodies = options("IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    tiny.op(B.IF, [condition, x], [y], bodies)
    tiny.graph.inputs, tiny.graph.outputs = [x], [y]
    for kind, settings in ((B.ADD, options("AddOptions")), (B.EXP, options("ExpOptions"))):
        tiny.begin()
        a, b = tiny.tensor((4,)), tiny.tensor((4,))
        tiny.op(kind, [a, a] if kind == B.ADD else [a], [b], settings)
        tiny.graph.inputs, tiny.graph.outputs = [a], [b]
    return tiny.save(path)


def aborting_net(path: Path) -> Path:
    """An int8 ADD without quantization parameters: LiteRT aborts its process."""
    tiny = Tiny()
    a, b = tiny.tensor((4,), "int8", name="a"), tiny.tensor((4,), "int8", name="b")
    y = tiny.tensor((4,), "int8", name="y")
    tiny.op(B.ADD, [a, b], [y], options("AddOptions"), version=2)
    tiny.graph.inputs, tiny.graph.outputs = [a, b], [y]
    return tiny.save(path)


def custom_net(path: Path) -> Path:
    """A custom op that nobody knows."""
    tiny = Tiny()
    x, y = tiny.tensor((4,), name="x"), tiny.tensor((4,), name="y")
    tiny.op(B.CUSTOM, [x], [y], custom="Nobody")
    tiny.graph.inputs, tiny.graph.outputs = [x], [y]
    return tiny.save(path)


def onnx_file(path: Path, nodes, inputs, outputs, initializers=(), **save) -> Path:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    save_model(model, path, **save)
    return path


def onnx_net(path: Path, **save) -> Path:
    """y = relu(x · w) + b for x of [batch, 3]."""
    rng = np.random.default_rng(2)
    weights = numpy_helper.from_array(rng.normal(size=(3, 700)).astype(np.float32), "w")
    bias = numpy_helper.from_array(rng.normal(size=700).astype(np.float32), "b")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], name="multiply"),
        helper.make_node("Relu", ["product"], ["positive"], name="clip"),
        helper.make_node("Add", ["positive", "b"], ["y"], name="shift"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 700])
    return onnx_file(path, nodes, [x], [y], [weights, bias], **save)
