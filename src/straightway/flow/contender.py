"""Models that stand for one float model, whatever format: their outputs and inner values by its names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from straightway.errors import InvalidModel, Mismatch
from straightway.flow.accuracy import read_as
from straightway.flow.candidate import describe, inputs_of
from straightway.flow.inputs import Arrays
from straightway.flow.tally import nearness
from straightway.flow.translate import read
from straightway.ingest.shapes import ShapeRequest
from straightway.ir import Graph, Quant
from straightway.ir.scheme import aligned
from straightway.passes import qlinear
from straightway.run import litert, ort
from straightway.run.process import Child
from straightway.tflite.read import Description, TensorEntry, is_tflite

# what is put behind the names of a model's values when they are rounded or moved; the last three by
# onnxruntime's quantizers, in quant_utils.py and qdq_quantizer.py of v1.23
ENDINGS = (
    "/quantized",
    "/dequantized",
    "/moved",
    "/transpose",
    "/switched",
    "/quantize",
    "/float",
    "_QuantizeLinear_Output",
    "_DequantizeLinear_Output",
    "_quantized",
)


class Contender(Protocol):
    """A model that computes nearly what a float model does."""

    @property
    def inner(self) -> Sequence[str]:
        """The inner values of the float model that it has, too."""

    def outputs(self, child: Child, inputs: Arrays, want: Arrays) -> Arrays:
        """Its outputs as floats, under the float model's names, shaped as `want`."""

    def inside(self, child: Child, inputs: Arrays, want: Arrays) -> Arrays:
        """Its inner values as floats, likewise, as far as they can be told apart."""


def contender(path: Path, reference: Graph) -> Contender:
    """Open a file; raises InvalidModel or InvalidRequest for what is none."""
    names = {
        value.name
        for node in reference.nodes
        for value in node.outputs
        if value.type is not None and value.dtype.kind == "f"
    } - set(reference.output_names)
    if is_tflite(path):
        return TfliteContender.opened(path, reference, names)
    return OnnxContender.opened(path, reference, names)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxContender:
    """An ONNX model; `read_as_` has the name under which others read a value, rounded if it is.

    `integers` has those that nothing makes floats of, and how to read them: scale, zero point.
    """

    path: Path
    inner: tuple[str, ...]
    read_as_: Mapping[str, str]
    integers: Mapping[str, tuple[float, int]] = field(default_factory=dict)

    @classmethod
    def opened(cls, path: Path, reference: Graph, names: set[str]) -> "OnnxContender":
        """Read the graph."""
        graph = read(path, ShapeRequest(keep_open=True))
        given, wanted = [v.name for v in graph.inputs], [v.name for v in reference.inputs]
        if set(given) != set(wanted) or set(graph.output_names) != set(reference.output_names):
            raise Mismatch(
                f"{path}: is another model's: it has inputs {given} and outputs "
                f"{graph.output_names}; the float model {wanted} and {reference.output_names}"
            )
        made = {v.name for node in graph.nodes for v in node.outputs}
        places = {name: name for name in made} | read_as(graph)
        integers = _stored_integers(graph, made)
        for name in integers:
            real = _stem(name, names)
            if real in names and places.get(real, real) == real:
                places[real] = name
        inner = tuple(name for name in _in_order(reference) if name in names & places.keys())
        return cls(path=path, inner=inner, read_as_=places, integers=integers)

    def outputs(self, child: Child, inputs: Arrays, want: Arrays) -> Arrays:
        """See `Contender`."""
        # as the model says: onnxruntime's optimiser moves roundings of what is partly in floats
        got = child.call(ort.run(self.path, inputs, optimise=False))
        for name, array in want.items():
            if got[name].shape != array.shape:
                raise Mismatch(
                    f"{self.path}: is another model's: output '{name}' is {list(got[name].shape)}; the "
                    f"float model's {list(array.shape)}"
                )
        return got

    def inside(self, child: Child, inputs: Arrays, want: Arrays) -> Arrays:
        """See `Contender`."""
        names = {name: self.read_as_[name] for name in self.inner}
        extra = list(dict.fromkeys(names.values()))
        got = child.call(ort.run(self.path, inputs, optimise=False, extra_outputs=extra))
        found = {
            name: self.real(other, got[other]) for name, other in names.items() if other in got
        }
        return {n: a for n, a in found.items() if n in want and a.shape == want[n].shape}

    def real(self, name: str, array: np.ndarray) -> np.ndarray:
        """The floats that an array stands for."""
        if name not in self.integers:
            return array
        scale, zero_point = self.integers[name]
        return np.asarray((array.astype(np.float64) - zero_point) * scale)


def _stored_integers(graph: Graph, made: set[str]) -> dict[str, tuple[float, int]]:
    """Integers of one scale and where they begin to count, of QuantizeLinear and ops on integers alike."""
    qlinear.run(graph)
    found = {}
    for node in graph.nodes:
        if node.op.name != "QuantizeLinear" or node.output.name not in made:
            continue
        scale, zero_point = (*(v.const if v else None for v in node.inputs[1:]), None)[:2]
        if scale is not None and zero_point is not None and scale.size == 1:
            found[node.output.name] = float(scale.reshape(-1)[0]), int(zero_point.reshape(-1)[0])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TfliteContender:
    """A TFLite file; `tensors` has the index of the tensor that holds each inner value."""

    path: Path
    description: Description
    inner: tuple[str, ...]
    tensors: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def opened(cls, path: Path, reference: Graph, names: set[str]) -> "TfliteContender":
        """Read the file."""
        description = describe(path)
        found: dict[str, int] = {}
        main = description.main
        rounded = {
            op.inputs[0]: op.outputs[0]
            for op in main.operators
            if op.kind == "QUANTIZE" and main.tensors[op.inputs[0]].quant is None
        }
        for index in (k for op in main.operators for k in op.outputs):
            name = _stem(main.tensors[index].name, names)
            if name in names:
                found[name] = index
        # floats as others read them; integers that are scaled anew are those of another value
        found = {name: rounded.get(index, index) for name, index in found.items()}
        inner = tuple(name for name in _in_order(reference) if name in found)
        return cls(path=path, description=description, inner=inner, tensors=found)

    def outputs(self, child: Child, inputs: Arrays, want: Arrays) -> Arrays:
        """See `Contender`."""
        ran = child.call(litert.run(self.path, self.feeds(inputs)))
        named = ran.named()
        by_name = all(name in named for name in want)
        if not by_name and len(ran.outputs) != len(want):
            raise Mismatch(
                f"{self.path}: is another model's: it has outputs {list(named)}; the float model "
                f"{list(want)}"
            )
        arrays = [named[n] for n in want] if by_name else list(ran.outputs)
        main = self.description.main
        order = dict(zip(ran.names, main.outputs, strict=True))
        tensors = [order[n] for n in want] if by_name else list(main.outputs)
        found = {}
        for name, array, index in zip(want, arrays, tensors, strict=True):
            real = _reals(array, main.tensors[index])
            fitted = _fitted(real, want[name])
            if fitted is None:
                raise Mismatch(
                    f"{self.path}: is another model's: output '{name}' is {list(array.shape)}; the "
                    f"float model's {list(want[name].shape)}"
                )
            found[name] = fitted
        return found

    def inside(self, child: Child, inputs: Arrays, want: Arrays) -> Arrays:
        """See `Contender`."""
        indices = [self.tensors[name] for name in self.inner]
        ran = child.call(litert.run(self.path, self.feeds(inputs), interior=indices))
        found = {}
        for name, index, array in zip(self.inner, indices, ran.interior, strict=True):
            real = _reals(array, self.description.main.tensors[index])
            fitted = _fitted(real, want[name]) if name in want else None
            if fitted is not None:
                found[name] = fitted
        return found

    def feeds(self, inputs: Arrays) -> list[np.ndarray]:
        """The float model's inputs as the file takes them: by name or place, in its order and type."""
        own = inputs_of(self.path, self.description)
        if len(own) != len(inputs):
            raise Mismatch(
                f"{self.path}: is another model's: it takes {list(own)}; the float model {list(inputs)}"
            )
        by_name = own.keys() == inputs.keys()
        pairs = zip(own if by_name else inputs, own.values(), strict=True)
        return [_stored(self.path, name, inputs[name], tensor) for name, tensor in pairs]


def _in_order(reference: Graph) -> list[str]:
    return [value.name for node in reference.nodes for value in node.outputs]


def _stem(name: str, names: set[str]) -> str:
    """The model's name of a tensor: without what was put behind it."""
    while name not in names:
        ending = next((e for e in ENDINGS if name.endswith(e)), "")
        if not ending:
            return name
        name = name.removesuffix(ending)
    return name


def _reals(array: np.ndarray, tensor: TensorEntry) -> np.ndarray:
    """The floats that a tensor's numbers stand for."""
    quant = tensor.quant
    if quant is None or array.dtype.kind not in "iu" or not np.size(quant.scale):
        return array
    scale, zero_point = (_spread(v, quant, array) for v in (quant.scale, quant.zero_point))
    return np.asarray((array.astype(np.float64) - zero_point) * scale)


def _spread(numbers: np.ndarray, quant: Quant, array: np.ndarray) -> np.ndarray:
    return aligned(np.asarray(numbers, np.float64), quant, array.ndim)


def _stored(path: Path, name: str, array: np.ndarray, tensor: TensorEntry) -> np.ndarray:
    """An input as a file takes it."""
    moved = array
    if array.shape != tensor.signature and array.ndim > 2:
        turned = np.moveaxis(array, 1, -1)
        moved = turned if _fits(turned.shape, tensor.signature) else array
    if not _fits(moved.shape, tensor.signature):
        raise Mismatch(
            f"{path}: is another model's: input '{name}' is {list(tensor.signature)}; the float "
            f"model's {list(array.shape)}"
        )
    dtype = np.dtype(tensor.dtype)
    if moved.dtype.kind == "f" and dtype.kind in "iu":
        if tensor.quant is None or not np.size(tensor.quant.scale):
            raise InvalidModel(f"{path}: input '{name}' takes {dtype} and has no scale")
        scale, zero_point = (
            _spread(v, tensor.quant, moved) for v in (tensor.quant.scale, tensor.quant.zero_point)
        )
        limits = np.iinfo(dtype)
        whole = np.rint(moved / scale + zero_point)
        return np.asarray(np.clip(whole, limits.min, limits.max), dtype)
    return np.ascontiguousarray(moved, dtype)


def _fits(shape: Sequence[int], declared: Sequence[int]) -> bool:
    return len(shape) == len(declared) and all(
        d in (-1, s) for s, d in zip(shape, declared, strict=True)
    )


def _fitted(array: np.ndarray, want: np.ndarray) -> np.ndarray | None:
    """An array in the order of another: as it is, or its last dimension farther in front; the nearest one.

    Dimensions of one may be more or fewer. Where the others can't be told, they are taken as they are.
    """
    if array.size != want.size:
        return None
    plain, wanted = np.squeeze(array), np.squeeze(want)
    turned = [np.moveaxis(plain, -1, place) for place in range(plain.ndim)]
    found = [one.reshape(want.shape) for one in turned if one.shape == wanted.shape]
    return max(found, key=lambda one: nearness(want, one), default=array.reshape(want.shape))
