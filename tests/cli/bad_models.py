"""Everything that may be given as a model and is none: how to make it, and what must be said."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnx_io.small_models import convolutions, dense, model, node, relu_model, save, tensor, weights
from straightway.errors import InvalidModel, InvalidRequest, StraightwayError, Unsupported

X, Y = [tensor("x", [2, 3])], [tensor("y", None)]
STRING = TensorProto.STRING
Make = Callable[[Path], Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """One bad input: `make` writes it into a folder; `words` must all be in the one message.

    `flags` go to the command, `options` to the function; both ask for the same.
    """

    name: str
    make: Make
    error: type[StraightwayError]
    words: Sequence[str]
    flags: Sequence[str] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name.replace(" ", "_")


def file_of(data: bytes, name: str = "m.onnx") -> Make:
    """A file of these bytes."""

    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(data)
        return path

    return make


def model_of(proto: onnx.ModelProto) -> Make:
    """A file of this model."""
    return lambda folder: save(proto, folder / "m.onnx")


def folder_named_like_a_model(folder: Path) -> Path:
    path = folder / "m.onnx"
    path.mkdir()
    return path


def tflite_file(folder: Path) -> Path:
    from straightway import convert

    made = convert(save(relu_model(), folder / "source.onnx"), verify=False)
    return file_of(made.data)(folder)


def changed(proto: onnx.ModelProto, change: Callable[[onnx.ModelProto], Any]) -> onnx.ModelProto:
    """The model after `change`."""
    change(proto)
    return proto


def one(op: str, shape: Sequence[int], constants: dict[str, np.ndarray], **attributes: Any) -> Make:
    """A model of one node on `x` and constants."""
    nodes = [node(op, " ".join(["x", *constants]), "y", **attributes)]
    return model_of(model(nodes, [tensor("x", shape)], Y, constants))


def sized(**sizes: int) -> dict[str, np.ndarray]:
    return {name: np.array([size, size], np.int64) for name, size in sizes.items()}


def wrong_dims(*dims: int) -> onnx.ModelProto:
    """An initializer whose six numbers do not fit its dimensions."""
    proto = model([node("MatMul", "x w", "y")], X, Y, {"w": weights(3, 2)})
    proto.graph.initializer[0].ClearField("dims")
    proto.graph.initializer[0].dims.extend(dims)
    return proto


def symbolic(shape: Sequence[int | str | None] = ("N", 3, "H", "W")) -> onnx.ModelProto:
    return model([node("Relu", "x", "y")], [tensor("x", shape)], Y)


FILES = [
    Bad(name="garbage", make=file_of(bytes(range(256)) * 8), error=InvalidModel, words=["not an ONNX model"]),
    Bad(name="zeros", make=file_of(bytes(4096)), error=InvalidModel, words=["not an ONNX model"]),
    Bad(name="empty", make=file_of(b""), error=InvalidModel, words=["is empty"]),
    Bad(name="text", make=file_of(b"the model is in the other folder\n"), error=InvalidModel, words=["not an ONNX model"]),
    Bad(name="directory", make=folder_named_like_a_model, error=InvalidRequest, words=["is a directory"]),
    Bad(name="no file", make=lambda folder: folder / "m.onnx", error=InvalidRequest, words=["no such file"]),
    Bad(name="name too long", make=lambda folder: folder / ("m" * 300 + ".onnx"), error=InvalidRequest, words=["cannot be read"]),
    Bad(name="truncated", make=file_of(convolutions().SerializeToString()[:-100]), error=InvalidModel, words=["truncated"]),
    Bad(name="tflite", make=tflite_file, error=InvalidModel, words=["not an ONNX model", "TFLite file"]),
    Bad(name="zip", make=file_of(b"PK\x03\x04" + bytes(100), "m.pt"), error=InvalidModel, words=["PyTorch"]),
    Bad(name="lfs pointer", make=file_of(b"version https://git-lfs.github.com/spec/v1\noid 0\n"), error=InvalidModel, words=["Git LFS"]),
    Bad(name="no graph", make=model_of(onnx.ModelProto(ir_version=8, producer_name="p")), error=InvalidModel, words=["no graph"]),
    Bad(
        name="no opset",
        make=model_of(changed(relu_model(), lambda m: m.ClearField("opset_import"))),
        error=InvalidModel,
        words=["no opset"],
    ),
    Bad(
        name="no outputs",
        make=model_of(changed(relu_model(), lambda m: m.graph.ClearField("output"))),
        error=InvalidModel,
        words=["no output"],
    ),
]  # fmt: skip

GRAPHS = [
    Bad(
        name="cycle",
        make=model_of(model([node("Add", "x b", "a"), node("Relu", "a", "b"), node("Neg", "b", "y")], X, Y)),
        error=InvalidModel,
        words=["wait for each other", "'n_a'", "'n_b'"],
    ),
    Bad(
        name="reads itself",
        make=model_of(model([node("Add", "x y", "y")], X, Y)),
        error=InvalidModel,
        words=["'n_y'", "wait for each other"],
    ),
    Bad(
        name="dangling input",
        make=model_of(model([node("Add", "x nope", "y")], X, Y)),
        error=InvalidModel,
        words=["node 'n_y' (Add) uses 'nope', which nothing makes"],
    ),
    Bad(
        name="dangling output",
        make=model_of(model([node("Relu", "x", "y")], X, [tensor("z", [2, 3])])),
        error=InvalidModel,
        words=["nothing makes the output 'z'"],
    ),
    Bad(
        name="result made twice",
        make=model_of(model([node("Relu", "x", "y"), node("Neg", "x", "y")], X, Y)),
        error=InvalidModel,
        words=["two nodes make 'y'"],
    ),
    Bad(
        name="input made by a node",
        make=model_of(model([node("Relu", "x", "x")], X, X)),
        error=InvalidModel,
        words=["a node makes 'x', which the graph is given"],
    ),
    Bad(
        name="two inputs of one name",
        make=model_of(model([node("Relu", "x", "y")], X + X, Y)),
        error=InvalidModel,
        words=["two inputs are called 'x'"],
    ),
    Bad(
        name="dangling in a branch",
        make=model_of(
            model(
                [
                    node(
                        "If",
                        "c",
                        "y",
                        then_branch=helper.make_graph([node("Relu", "gone", "t")], "then", [], [tensor("t", None)]),
                        else_branch=helper.make_graph([node("Neg", "x", "e")], "else", [], [tensor("e", None)]),
                    )
                ],
                [*X, tensor("c", [], TensorProto.BOOL)],
                Y,
            )
        ),
        error=InvalidModel,
        words=["node 'n_t' (Relu) uses 'gone'"],
    ),
    Bad(
        name="unknown operators",
        make=model_of(
            model(
                [
                    helper.make_node("Fancy", ["x"], ["a"], domain="com.acme", name="first"),
                    helper.make_node("Fancier", ["a"], ["b"], domain="com.acme", name="second"),
                    helper.make_node("Relu", ["b"], ["c"], name="plain"),
                    helper.make_node("Relulu", ["c"], ["y"], name="third"),
                ],
                X,
                Y,
            )
        ),
        error=Unsupported,
        words=["3 of 4 nodes", "com.acme.Fancy@1: 'first'", "com.acme.Fancier@1: 'second'", "Relulu@17: 'third'"],
    ),
    Bad(
        name="future opset",
        make=model_of(changed(relu_model(), lambda m: setattr(m.opset_import[0], "version", 9999))),
        error=Unsupported,
        words=["opset 9999 is newer than the newest known"],
    ),
    Bad(
        name="opset zero",
        make=model_of(changed(relu_model(), lambda m: setattr(m.opset_import[0], "version", 0))),
        error=InvalidModel,
        words=["opset", "got 0"],
    ),
    Bad(
        name="future IR version",
        make=model_of(changed(relu_model(), lambda m: setattr(m, "ir_version", 9999))),
        error=Unsupported,
        words=["IR version 9999 is newer than the newest known"],
    ),
    Bad(
        name="function that calls itself",
        make=model_of(
            changed(
                model([helper.make_node("F", ["x"], ["y"], domain="own")], X, Y),
                lambda m: (
                    m.opset_import.append(helper.make_opsetid("own", 1)),
                    m.functions.append(
                        helper.make_function(
                            "own", "F", ["a"], ["b"],
                            [helper.make_node("F", ["a"], ["b"], domain="own")],
                            [helper.make_opsetid("own", 1)],
                        )
                    ),
                ),
            )
        ),
        error=InvalidModel,
        words=["in a ring", "'own::F'"],
    ),
    Bad(
        name="sparse weights",
        make=model_of(
            changed(
                model([node("MatMul", "x w", "y")], X, Y),
                lambda m: m.graph.sparse_initializer.append(
                    helper.make_sparse_tensor(
                        helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0]),
                        helper.make_tensor("at", TensorProto.INT64, [1], [2]),
                        [3, 2],
                    )
                ),
            )
        ),
        error=Unsupported,
        words=["'w' is sparse"],
    ),
]  # fmt: skip

SHAPES = [
    Bad(name="matrices that do not fit", make=one("MatMul", [2, 3], {"w": weights(4, 2)}), error=InvalidModel, words=["'n_y'", "matrix multiplication"]),
    Bad(name="shapes that do not broadcast", make=one("Add", [2, 3], {"w": weights(4)}), error=InvalidModel, words=["'n_y'", "Incompatible dimensions"]),
    Bad(name="axis out of range", make=one("Softmax", [2, 3], {}, axis=7), error=InvalidModel, words=["'n_y'", "axis"]),
    Bad(name="attribute of another type", make=one("Softmax", [2, 3], {}, axis=b"one"), error=InvalidModel, words=["'n_y'", "axis"]),
    Bad(name="too many operands", make=one("Relu", [2, 3], {"w": weights(3)}), error=InvalidModel, words=["'n_y'", "input size 2"]),
    Bad(name="initializer too short", make=model_of(wrong_dims(5, 2)), error=InvalidModel, words=["'w'", "do not fit", "[5, 2]"]),
    Bad(name="initializer without end", make=model_of(wrong_dims(10**15, 2)), error=InvalidModel, words=["'w'", "do not fit"]),
    Bad(name="initializer of negative size", make=model_of(wrong_dims(-3, -2)), error=InvalidModel, words=["'w'", "negative dimension"]),
    Bad(name="negative fill", make=model_of(model([node("ConstantOfShape", "s", "c"), node("Add", "x c", "y")], X, Y, {"s": np.array([-2, 3])})), error=InvalidModel, words=["'n_c'", "non-negative"]),
    Bad(name="kernel larger than the image", make=one("Conv", [1, 1, 2, 2], {"w": weights(1, 1, 9, 1)}), error=InvalidModel, words=["'n_y'", "window of 9", "2 elements"]),
]  # fmt: skip

HUGE = [
    Bad(name="nothing in a row", make=model_of(model([node("Relu", "x", "y")], [tensor("x", [2**40, 0])], Y)), error=Unsupported, words=["'x'", "2,147,483,647 elements"]),
    Bad(name="fill", make=model_of(model([node("ConstantOfShape", "s", "c"), node("ReduceSum", "c", "d"), node("Add", "x d", "y")], X, Y, sized(s=10**6))), error=Unsupported, words=["'n_c'", "2,147,483,647 elements"]),
    Bad(name="expansion", make=model_of(model([node("Expand", "x s", "c"), node("ReduceSum", "c", "y")], [tensor("x", [1, 1])], Y, sized(s=10**6))), error=Unsupported, words=["'n_c'", "2,147,483,647 elements"]),
    Bad(name="tiles", make=model_of(model([node("Tile", "x s", "c"), node("ReduceSum", "c", "y")], X, Y, sized(s=10**6))), error=Unsupported, words=["'n_c'", "2,147,483,647 elements"]),
    Bad(
        name="range",
        make=model_of(
            model(
                [node("Range", "from to by", "r"), node("Cast", "r", "f", to=1), node("ReduceSum", "f", "s"), node("Add", "x s", "y")],
                X,
                Y,
                {"from": np.array(0), "to": np.array(10**12), "by": np.array(1)},
            )
        ),
        error=Unsupported,
        words=["'n_", "2,147,483,647 elements"],
    ),
    Bad(name="pads", make=one("Pad", [2, 3], {"p": np.array([10**6, 10**6, 0, 0])}), error=Unsupported, words=["'n_y'", "2,147,483,647 elements"]),
    Bad(name="input", make=model_of(model([node("Relu", "x", "y")], [tensor("x", [10**6, 10**6])], Y)), error=Unsupported, words=["'x'", "2,147,483,647 elements"]),
    Bad(name="input by flag", make=model_of(symbolic(["N", 3])), error=Unsupported, words=["'x'", "2,147,483,647 elements"], flags=["--dim", f"N={10**12}"], options={"dims": {"N": 10**12}}),
]  # fmt: skip

TYPES = [
    Bad(name="text in", make=model_of(model([node("Identity", "x", "y")], [tensor("x", [2], STRING)], [tensor("y", [2], STRING)])), error=Unsupported, words=["'x'", "str[2]"]),
    Bad(name="text constant out", make=model_of(changed(model([node("Identity", "s", "z"), node("Relu", "x", "y")], X, [*Y, tensor("z", [1], STRING)]), lambda m: m.graph.initializer.append(helper.make_tensor("s", STRING, [1], [b"a"])))), error=Unsupported, words=["str[1]"]),
    Bad(name="complex", make=model_of(model([node("Identity", "x", "y")], [tensor("x", [2], TensorProto.COMPLEX64)], [tensor("y", [2], TensorProto.COMPLEX64)])), error=Unsupported, words=["complex64"]),
    Bad(name="sequence in", make=model_of(model([node("ConcatFromSequence", "s", "y", axis=0)], [helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2, 3])], Y)), error=Unsupported, words=["'s' is no tensor"]),
    Bad(name="optional in", make=model_of(model([node("OptionalGetElement", "o", "y")], [helper.make_value_info("o", helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [2])))], Y)), error=Unsupported, words=["'o' is no tensor"]),
    Bad(name="sequence inside", make=model_of(model([node("SequenceConstruct", "x x", "s"), node("SequenceAt", "s i", "y")], [*X, tensor("i", [], TensorProto.INT64)], Y)), error=Unsupported, words=["SequenceConstruct", "SequenceAt"]),
    Bad(name="sequence out", make=model_of(model([node("SequenceConstruct", "x x", "s")], X, [helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2, 3])])), error=Unsupported, words=["SequenceConstruct"]),
]  # fmt: skip


def ceiled(shape: Sequence[int | str | None] = ("N", 3, "H", "W")) -> onnx.ModelProto:
    """Windows of which the size says whether the last one is cut off: they have one size."""
    pool = node("AveragePool", "x", "y", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    return model([pool], [tensor("x", shape)], Y)


REQUESTS = [
    Bad(name="symbols", make=model_of(ceiled()), error=Unsupported, words=["'x' has symbolic dimensions [N, 3, H, W]", "ceil_mode", "what works: --dim 'H=", "--dim 'W="]),
    Bad(name="symbols in part", make=model_of(ceiled()), error=Unsupported, words=["'x' has symbolic dimensions [N, 3, 2, W]", "--dim 'W="], flags=["--dim", "H=2"], options={"dims": {"H": 2}}),
    Bad(name="unnamed dimensions", make=model_of(ceiled([None, 3, -1, 2])), error=Unsupported, words=["[?, 3, ?, 2]", "--dim 'x:2="]),
    Bad(name="no shape", make=model_of(model([node("Relu", "x", "y")], [tensor("x", None)], Y)), error=Unsupported, words=["'x' has no declared shape", "--shape 'x="]),
    Bad(name="unknown symbol", make=model_of(symbolic()), error=InvalidRequest, words=["--dim Q", "['H', 'N', 'W']"], flags=["--dim", "Q=2"], options={"dims": {"Q": 2}}),
    Bad(name="symbol of a static model", make=model_of(dense()), error=InvalidRequest, words=["--dim N", "no open dimensions"], flags=["--dim", "N=2"], options={"dims": {"N": 2}}),
    Bad(name="unknown input", make=model_of(symbolic()), error=InvalidRequest, words=["--shape q", "['x']"], flags=["--shape", "q=2"], options={"shapes": {"q": [2]}}),
    Bad(name="wrong rank", make=model_of(symbolic()), error=InvalidRequest, words=["--shape x", "[2, 3]", "[N, 3, H, W]"], flags=["--shape", "x=2,3"], options={"shapes": {"x": [2, 3]}}),
    Bad(name="against a fixed size", make=model_of(symbolic()), error=InvalidRequest, words=["--shape x", "[1, 4, 5, 6]"], flags=["--shape", "x=1,4,5,6"], options={"shapes": {"x": (1, 4, 5, 6)}}),
    Bad(name="size that is no number", make=model_of(symbolic()), error=InvalidRequest, words=["--dim"], flags=["--dim", "N=two"], options={"dims": {"N": "two"}}),
    Bad(name="negative size", make=model_of(symbolic()), error=InvalidRequest, words=["--dim"], flags=["--dim", "N=-2"], options={"dims": {"N": -2}}),
    Bad(name="fraction", make=model_of(symbolic()), error=InvalidRequest, words=["--dim"], flags=["--dim", "N=1.5"], options={"dims": {"N": 1.5}}),
    Bad(name="size without a name", make=model_of(symbolic([None, 3])), error=InvalidRequest, words=["--dim"], flags=["--dim", "=2"], options={"dims": {"": 2}}),
    Bad(name="shape that is no list", make=model_of(symbolic()), error=InvalidRequest, words=["--shape"], flags=["--shape", "x=1x3"], options={"shapes": {"x": "1x3"}}),
    Bad(name="negative shape", make=model_of(symbolic()), error=InvalidRequest, words=["--shape"], flags=["--shape", "x=-1,3,2,2"], options={"shapes": {"x": [-1, 3, 2, 2]}}),
    Bad(name="symbol against shape", make=model_of(symbolic()), error=InvalidRequest, words=["--dim N=2", "--shape x=1,3,5,6", "two sizes"], flags=["--dim", "N=2", "--shape", "x=1,3,5,6"], options={"dims": {"N": 2}, "shapes": {"x": [1, 3, 5, 6]}}),
    Bad(name="shape of nothing", make=model_of(symbolic()), error=InvalidRequest, words=["--shape x=0,3,5,6", "size of 0"], flags=["--shape", "x=0,3,5,6"], options={"shapes": {"x": [0, 3, 5, 6]}}),
    Bad(name="symbol of nothing", make=model_of(symbolic(["N", 3])), error=InvalidRequest, words=["--dim N=0", "size of 0"], flags=["--dim", "N=0"], options={"dims": {"N": 0}}),
    Bad(name="unknown layout", make=model_of(relu_model()), error=InvalidRequest, words=["nchw"], flags=["--io", "nchw"], options={"io": "nchw"}),
]  # fmt: skip
