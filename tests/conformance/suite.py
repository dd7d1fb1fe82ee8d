"""ONNX's backend tests as models and data: all that inference on static tensors can express.

Run as they are, every operand comes at run time. Frozen, those operands are constants that exporters
write as constants: weights, shapes, axes, pads, scales.
"""

import re
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
from onnx.backend.test import loader
from onnx.backend.test.runner import Runner

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted", "real")
# No tensor of these types goes into or out of LiteRT's interpreter.
FOREIGN = ("STRING", "FLOAT8", "FLOAT4", "FLOAT6", "INT4", "INT2", "COMPLEX", "UNDEFINED")
RANDOM = re.compile(r"Bernoulli|Multinomial|Random")
NO_TENSORS = re.compile(r"^Sequence|ToSequence|FromSequence|^Optional|^String|Regex|TfIdf")
# Operands that exporters write as constants, by position.
FROZEN = """
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd: 1
    ReduceSum ReduceSumSquare: 1
    Reshape Expand Tile Squeeze Unsqueeze Split TopK OneHot CumSum Trilu CenterCropPad: 1
    AffineGrid Upsample PRelu RMSNormalization: 1
    Slice: 1 2 3 4
    Pad Resize RNN GRU ConvInteger MatMulInteger: 1 2 3
    STFT: 1 2 3
    Clip Dropout Col2Im DFT Conv ConvTranspose Gemm QuantizeLinear DequantizeLinear: 1 2
    InstanceNormalization GroupNormalization LayerNormalization: 1 2
    NonMaxSuppression: 2 3 4
    MaxUnpool: 2
    DeformConv: 1 3
    BatchNormalization: 1 2 3 4
    LSTM: 1 2 3 7
    QLinearConv: 1 2 3 4 5 6 7 8
    QLinearMatMul: 1 2 3 4 5 6 7
"""
PLACES = {
    name: {int(place) for place in places.split()}
    for names, _, places in (line.partition(":") for line in FROZEN.strip().splitlines())
    for name in names.split()
}
Arrays = list[np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteCase:
    """A model, and for each data set its inputs and what it must give, in order."""

    name: str
    model: onnx.ModelProto
    sets: list[tuple[Arrays, Arrays]]

    @property
    def inputs(self) -> list[str]:
        """Inputs that come at run time."""
        known = {tensor.name for tensor in self.model.graph.initializer}
        return [value.name for value in self.model.graph.input if value.name not in known]


def cases() -> Iterator[SuiteCase]:
    """All cases, by kind and name."""
    for kind in KINDS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the cases overflow and divide by zero on purpose
            tests = sorted(loader.load_model_tests(kind=kind), key=lambda test: test.name)
        for test in tests:
            case = read(test)
            if case is not None:
                yield case


def read(test: object) -> SuiteCase | None:
    """One case; None where it is not inference on tensors, or where its data must be downloaded."""
    if test.model is not None:
        model, sets = test.model, test.data_sets
    elif test.model_dir is not None:
        folder = Path(test.model_dir)
        model = onnx.load(folder / "model.onnx")
        found = sorted(folder.glob("test_data_set_*"))
        sets = [(stored(data, "input"), stored(data, "output")) for data in found]
    else:
        path = Path(loader.DATA_DIR, "light", Path(test.url).name)
        if not path.exists():
            return None
        model = onnx.load(path)
        known = {tensor.name for tensor in model.graph.initializer}
        values = [value for value in model.graph.input if value.name not in known]
        given = [Runner.generate_dummy_data(value) for value in values]
        sets = [(given, stored(path.parent, f"{path.stem}_output"))]
    if not sets or not is_inference(model):
        return None
    plain = [tuple([array(value) for value in values] for values in pair[:2]) for pair in sets]
    return SuiteCase(name=test.name, model=model, sets=plain)


def stored(folder: Path, stem: str) -> Arrays:
    files = sorted(folder.glob(f"{stem}_*.pb"), key=lambda path: int(path.stem.rpartition("_")[2]))
    return [onnx.numpy_helper.to_array(onnx.load_tensor(path)) for path in files]


def array(value: object) -> np.ndarray:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value)


def is_inference(model: onnx.ModelProto) -> bool:
    """Whether all goes from tensors to tensors, and the same way every time."""
    for value in (*model.graph.input, *model.graph.output):
        if value.type.WhichOneof("value") != "tensor_type":
            return False
        name = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type)
        if any(part in name for part in FOREIGN):
            return False
    return not any(excluded(node) for node in nodes(model.graph))


def nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from nodes(inner)


def excluded(node: onnx.NodeProto) -> bool:
    """Training, chance, and what is no tensor."""
    trains = any(a.name == "training_mode" and a.i for a in node.attribute)
    drops = node.op_type == "Dropout" and len(node.input) > 2 and node.input[2] != ""
    odd = RANDOM.search(node.op_type) or NO_TENSORS.search(node.op_type)
    return trains or drops or "training" in node.domain or odd is not None


def frozen(case: SuiteCase) -> SuiteCase:
    """The case with those inputs as constants that only such operands read, if an input is left."""
    if len(case.sets) != 1:
        return case
    uses = defaultdict(list)
    for node in case.model.graph.node:
        for place, name in enumerate(node.input):
            uses[name].append(place in PLACES.get(node.op_type, ()))
    names = case.inputs
    chosen = {name for name in names if uses[name] and all(uses[name])}
    if not chosen or len(chosen) == len(names):
        return case
    (given, wanted), model = case.sets[0], onnx.ModelProto()
    model.CopyFrom(case.model)
    pairs = list(zip(names, given))
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(a, name) for name, a in pairs if name in chosen
    )
    kept = [value for value in model.graph.input if value.name not in chosen]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    left = [a for name, a in pairs if name not in chosen]
    return replace(case, model=model, sets=[(left, wanted)])
