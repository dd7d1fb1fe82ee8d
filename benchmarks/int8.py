"""`make bench-int8`: int8 by straightway, by onnxruntime's quantizer and by onnx2tf, in one run.

    python benchmarks/int8.py [--models a,b] [--samples 100] [--no-rival] [--no-race | --race-only]

Each gets the same calibration data; what onnxruntime writes is converted by straightway. Where ours
keeps nodes in floats, onnxruntime also quantizes once with the same nodes left out. Prints tables and
writes benchmarks/results/int8.json and, once it has all models, docs/int8.md. Models that are not asked
for stay in both as they were. `--race-only` times the files of an earlier run, on a quiet machine.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import corpus
import int8_page
import pictures
import rival as rivals
import straightway
from race import race_once
from straightway.errors import StraightwayError
from straightway.flow.borders import Border
from straightway.flow.candidate import describe
from straightway.run import litert, micro, ort, vela
from straightway.run.process import Child
from straightway.run.race import Entrant
from straightway.tflite.read import OperatorEntry, Subgraph, TensorEntry

Arrays = Mapping[str, np.ndarray]
OURS, PEER, RIVAL, FLOAT = "straightway", "onnxruntime", "onnx2tf", "float"
SAME, NO_FLOATS = "onnxruntime, our floats", "ours has no floats"
EVALUATION = 24
PER_CHANNEL_SINCE = 13
RACES = 3
BORDERS = ("QUANTIZE", "DEQUANTIZE")
PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
PER_TENSOR = "per-tensor"
RIVAL_TIMEOUT_S = 900
RESULTS = Path(__file__).with_name("results") / "int8.json"


@dataclass(slots=True, kw_only=True)
class File:
    """One int8 file: its numbers against float onnxruntime, its ops, its time."""

    label: str
    note: str = ""
    path: str = ""
    sqnr_db: float = float("nan")
    ops: int = 0
    borders: int = 0
    float_ops: int = 0
    hybrid_ops: int = 0
    partitions: int = 0
    outside: dict[str, int] = field(default_factory=dict)
    size_bytes: int = 0
    median_ns: float = float("nan")


@dataclass(slots=True, kw_only=True)
class Model:
    """All files of one model; `floats` (nodes by reason), `inside`, `micro` and `vela` are about ours.

    `inside` has the QUANTIZE and DEQUANTIZE that stand inside: op, what they are between, cause.
    """

    name: str
    files: list[File]
    floats: dict[str, int] = field(default_factory=dict)
    inside: list[dict[str, str]] = field(default_factory=list)
    micro: str = ""
    vela: str = ""

    def file(self, label: str) -> File | None:
        """The file of one converter."""
        return next((one for one in self.files if one.label == label and one.ops), None)


def sqnr_db(want: Sequence[np.ndarray], got: Sequence[np.ndarray]) -> float:
    """Signal to quantization noise over all elements, in decibels."""
    signal = sum(float((w.astype(np.float64) ** 2).sum()) for w in want)
    noise = sum(
        float(((w.astype(np.float64) - g) ** 2).sum()) for w, g in zip(want, got, strict=True)
    )
    return float(10 * np.log10(signal / max(noise, 1e-30)))


def real(array: np.ndarray, tensor: TensorEntry) -> np.ndarray:
    """What an output stands for."""
    if array.dtype.kind == "f" or tensor.quant is None:
        return array.astype(np.float64)
    return (array.astype(np.float64) - tensor.quant.zero_point) * tensor.quant.scale


def own(model: Path, entry: corpus.Entry, data: Sequence[Arrays], folder: Path) -> Path:
    """Quantize and convert by straightway."""
    made = folder / "own.onnx"
    found = straightway.quantize(model, made, calibration=lambda: iter(data), shapes=entry.shapes)
    (folder / "floats.json").write_text(json.dumps(dict(found.floats)))
    straightway.convert(made, folder / "own.tflite", verify=False)
    left = inside(found.borders, describe(folder / "own.tflite").main)
    (folder / "inside.json").write_text(json.dumps(left))
    return folder / "own.tflite"


def inside(plan: Sequence[Border], main: Subgraph) -> list[dict[str, str]]:
    """What the plan says of each conversion inside; raises ValueError where the file has others."""
    wanted = inner_borders(main)
    listed = [one for one in plan if one.operator in wanted]
    if sorted(one.operator for one in listed) != wanted:
        raise ValueError(
            f"the file has conversions {wanted} inside, the plan {[o.operator for o in listed]}"
        )
    return [{"op": one.op, "between": one.between, "cause": one.cause} for one in listed]


def same(model: Path, entry: corpus.Entry, data: Sequence[Arrays], folder: Path) -> Path:
    """Quantize by onnxruntime, and leave in floats what straightway did."""
    floats = list(json.loads((folder / "floats.json").read_text()))
    if not floats:
        raise rivals.NotMeasured(NO_FLOATS)
    return peer(model, entry, data, folder, floats)


def peer(
    model: Path,
    entry: corpus.Entry,
    data: Sequence[Arrays],
    folder: Path,
    floats: Sequence[str] = (),
) -> Path:
    """Quantize by onnxruntime's static quantizer (QDQ, per channel), convert by straightway.

    Per tensor where the model that it writes per channel is invalid.
    """
    try:
        return _peer(model, entry, data, folder, floats)
    except StraightwayError:
        return _peer(model, entry, data, folder, floats, per_channel=False)


def _peer(
    model: Path,
    entry: corpus.Entry,
    data: Sequence[Arrays],
    folder: Path,
    floats: Sequence[str],
    *,
    per_channel: bool = True,
) -> Path:
    from onnxruntime import quantization as q  # noqa: PLC0415 - slow to import
    from onnxruntime.quantization.shape_inference import quant_pre_process  # noqa: PLC0415

    class Reader(q.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(data)

        def get_next(self) -> Arrays | None:
            return next(self.left, None)

    fixed = fixed_copy(model, entry, folder / "fixed.onnx")
    name = f"{'same' if floats else 'peer'}{'' if per_channel else PER_TENSOR}"
    prepared, made = folder / "prepared.onnx", folder / f"{name}.onnx"
    quant_pre_process(str(fixed), str(prepared), skip_symbolic_shape=True)
    q.quantize_static(
        str(prepared), str(made), Reader(), quant_format=q.QuantFormat.QDQ, per_channel=per_channel,
        activation_type=q.QuantType.QInt8, weight_type=q.QuantType.QInt8,
        nodes_to_exclude=list(floats),
        # without the last it stops at a bias of one element (qdq_quantizer.py:490, version 1.32)
        extra_options={
            "WeightSymmetric": True,
            "ActivationSymmetric": False,
            "QDQDisableWeightAdjustForInt32Bias": entry.name == "magika_v3",
        },
    )  # fmt: skip
    straightway.convert(made, folder / f"{name}.tflite", verify=False, shapes=entry.shapes)
    return folder / f"{name}.tflite"


def fixed_copy(model: Path, entry: corpus.Entry, target: Path) -> Path:
    """The model with its inputs' shapes written into it."""
    import onnx.version_converter  # noqa: PLC0415 - here only

    proto = onnx.load(str(model))
    for one in proto.graph.input:
        if one.name in entry.shapes:
            dims = one.type.tensor_type.shape.dim
            del dims[:]
            for size in entry.shapes[one.name]:
                dims.add().dim_value = size
    for one in proto.graph.output:
        one.type.tensor_type.ClearField("shape")
    del proto.graph.value_info[:]
    if next(one.version for one in proto.opset_import if not one.domain) < PER_CHANNEL_SINCE:
        proto = onnx.version_converter.convert_version(proto, PER_CHANNEL_SINCE)
    onnx.save(proto, str(target))
    return target


def onnx2tf(
    rival: rivals.Rival, model: Path, entry: corpus.Entry, data: Sequence[Arrays], folder: Path
) -> Path:
    """Quantize by onnx2tf with the same data; per tensor where it can't by channel."""
    try:
        return _onnx2tf(rival, model, entry, data, folder, "per-channel")
    except rivals.NotMeasured:
        return _onnx2tf(rival, model, entry, data, folder, PER_TENSOR)


def _onnx2tf(  # noqa: PLR0917 - as above, and how
    rival: rivals.Rival,
    model: Path,
    entry: corpus.Entry,
    data: Sequence[Arrays],
    folder: Path,
    kind: str,
) -> Path:
    copy = Path(shutil.copy(model, folder / "model.onnx"))
    command: list[str | Path] = [rival.programs / "onnx2tf", "-i", copy, "-o", folder / kind]
    command += ["-ois", *(f"{n}:{','.join(map(str, d))}" for n, d in entry.shapes.items())]
    command += ["-oiqt", "-qt", kind]
    for name in entry.shapes:
        array = np.concatenate([one[name] for one in data])
        if array.ndim == 4 and array.shape[1] in (1, 3):
            array = array.transpose(0, 2, 3, 1)
        elif array.ndim == 4:  # its channels are last already, and it must be told so
            command += ["-kat", name]
        np.save(folder / "data.npy", array)
        command += ["-cind", name, folder / "data.npy", "[[[[0]]]]", "[[[[1]]]]"]
    path = f"{rival.programs}:/usr/local/bin:/usr/bin:/bin"
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=RIVAL_TIMEOUT_S, check=False,
        env={"PATH": path, "HOME": str(Path.home()), "TF_CPP_MIN_LOG_LEVEL": "3"},
    )  # fmt: skip
    found = sorted((folder / kind).glob("*full_integer_quant.tflite"))
    found = [one for one in found if "int16" not in one.name]
    if not found:
        said = (ran.stdout + ran.stderr).splitlines()
        errors = [line.strip() for line in said if "Error: " in line] or [""]
        raise rivals.NotMeasured(f"exit code {ran.returncode}: {errors[0][-300:]}")
    return found[0]


def feeds_of(path: Path, arrays: Arrays) -> list[np.ndarray]:
    """Float inputs as a file takes them: in its order of dimensions and its types."""
    main = describe(path).main
    pairs = zip(main.inputs, arrays.values(), strict=True)
    return [_stored(array, main.tensors[index]) for index, array in pairs]


def _stored(array: np.ndarray, tensor: TensorEntry) -> np.ndarray:
    made = array
    if array.shape != tuple(tensor.shape):
        made = array.transpose(0, *range(2, array.ndim), 1)
    if np.dtype(tensor.dtype).kind == "i" and array.dtype.kind == "f" and tensor.quant:
        low, high = np.iinfo(tensor.dtype).min, np.iinfo(tensor.dtype).max
        made = np.clip(np.round(made / tensor.quant.scale) + tensor.quant.zero_point, low, high)
    return np.ascontiguousarray(made, tensor.dtype)


def examine(file: File, path: Path, child: Child, data: Sequence[Arrays], want: list) -> None:
    """Run a file on the evaluation's inputs, and count what is in it."""
    main = describe(path).main
    got = []
    ran = None
    for arrays in data:
        ran = child.call(litert.run(path, feeds_of(path, arrays)))
        outputs = [real(a, main.tensors[i]) for a, i in zip(ran.outputs, main.outputs, strict=True)]
        got += matched(outputs, want[len(got) : len(got) + len(outputs)])
    file.sqnr_db = sqnr_db(want, got)
    file.ops, file.borders = len(ran.ops), len(inner_borders(main))
    file.hybrid_ops = sum(_is_hybrid(op, main) for op in main.operators)
    file.float_ops = sum(_is_float(op, main) for op in main.operators) - file.hybrid_ops
    file.path = str(path)
    file.note = "per tensor" if PER_TENSOR in str(path) else ""
    file.partitions = len(ran.placement.partitions)
    file.outside = dict(Counter(ran.ops[index].kind for index in ran.placement.outside))
    file.size_bytes = path.stat().st_size


def _is_float(op: OperatorEntry, main: Subgraph) -> bool:
    kinds = {np.dtype(main.tensors[i].dtype).kind for i in op.outputs}
    return kinds == {"f"} and op.kind not in BORDERS


def _is_hybrid(op: OperatorEntry, main: Subgraph) -> bool:
    """Whether an op of floats multiplies with int8 weights."""
    weights = [main.tensors[i].dtype for i in op.inputs[1:2] if i >= 0]
    return _is_float(op, main) and op.kind in PRODUCTS and np.dtype(np.int8) in weights


def inner_borders(main: Subgraph) -> list[int]:
    """QUANTIZE and DEQUANTIZE ops that stand neither at an input nor at an output, by index."""
    return [
        index
        for index, op in enumerate(main.operators)
        if op.kind in BORDERS
        and not set(op.inputs) & set(main.inputs)
        and not set(op.outputs) & set(main.outputs)
    ]


def matched(outputs: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Outputs in the reference's order and order of dimensions."""
    left = list(outputs)
    found = []
    for one in want:
        for k, candidate in enumerate(left):
            moved = candidate
            if candidate.shape != one.shape and candidate.ndim == one.ndim > 2:
                moved = candidate.transpose(0, candidate.ndim - 1, *range(1, candidate.ndim - 1))
            if moved.shape == one.shape:
                found.append(moved)
                del left[k]
                break
        else:
            raise rivals.NotMeasured(f"no output of shape {one.shape}")
    return found


def measure(entry: corpus.Entry, model: Path, options: argparse.Namespace, folder: Path) -> Model:
    """One model by every quantizer."""
    calibration = list(pictures.drawn(entry.name, options.samples, calibration=True))
    data = list(pictures.drawn(entry.name, EVALUATION, calibration=False))
    paths = {FLOAT: folder / "float.tflite"}
    straightway.convert(model, paths[FLOAT], shapes=entry.shapes)
    makers = {OURS: own, PEER: peer, SAME: same}
    if options.rival is not None:
        makers[RIVAL] = lambda *given: onnx2tf(options.rival, *given)
    result = Model(name=entry.name, files=[])
    with Child(engines=["onnxruntime", "litert"]) as child:
        want = [y for x in data for y in child.call(ort.run(model, x)).values()]
        for label, make in {FLOAT: None, **makers}.items():
            result.files.append(File(label=label))
            try:
                if make is not None:
                    paths[label] = make(model, entry, calibration, folder)
                examine(result.files[-1], paths[label], child, data, want)
            except (StraightwayError, rivals.NotMeasured, ValueError, OSError) as error:
                result.files[-1].note = f"{type(error).__name__}: {str(error)[:300]}"
                paths.pop(label, None)
        if OURS in paths:
            devices(result, paths[OURS], child, data)
            reasons = json.loads((folder / "floats.json").read_text())
            result.floats = dict(Counter(reasons.values()))
            result.inside = json.loads((folder / "inside.json").read_text())
    result.files = [one for one in result.files if NO_FLOATS not in one.note]
    return result


def devices(result: Model, path: Path, child: Child, data: Sequence[Arrays]) -> None:
    """Whether a microcontroller's engine gives the same integers, and what Ethos-U takes."""
    feeds = [feeds_of(path, arrays) for arrays in data[:4]]
    try:
        worst = 0
        for feed in feeds:
            one = child.call(micro.run(path, feed))
            other = child.call(litert.run(path, feed, delegate=False)).outputs
            worst = max(worst, *(_gap(a, b) for a, b in zip(one, other, strict=True)))
        result.micro = f"{worst:g}"
    except StraightwayError as error:
        result.micro = str(error)[:200]
    try:
        made = vela.compile_for(path)
        left = Counter(layer.op for layer in made.layers if not layer.on_npu)
        result.vela = "whole" if made.whole else ", ".join(f"{n} {op}" for op, n in left.items())
    except StraightwayError as error:
        result.vela = str(error)[:200]


def _gap(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max(initial=0))


def race(result: Model) -> None:
    """Time all files in turns, several times in processes of their own."""
    (arrays,) = pictures.drawn(result.name, 1, calibration=False)
    paths = {one.label: Path(one.path) for one in result.files if one.ops}
    labels = list(paths)
    entrants = [
        Entrant(
            engine="litert",
            path=paths[label],
            inputs=dict(zip(names_of(paths[label]), feeds_of(paths[label], arrays), strict=True)),
        )
        for label in labels
    ]
    times: dict[str, list[float]] = {label: [] for label in labels}
    for _ in range(RACES):
        with Child(engines=["litert"]) as child:
            for label, found in zip(labels, race_once(child, entrants), strict=True):
                times[label].append(statistics.median(found))
    for file in result.files:
        if file.label in times:
            file.median_ns = min(times[file.label])


def names_of(path: Path) -> list[str]:
    """The names of a file's inputs: of its signature, else of the tensors."""
    found = describe(path)
    known = {k: name for one in found.signatures[:1] for name, k in one.inputs.items()}
    return [known.get(index, found.main.tensors[index].name) for index in found.main.inputs]


def show(models: Sequence[Model], console: Console) -> None:
    """Print the tables."""
    table = Table(
        "model", "file", "SQNR dB", "ops", "float", "Q/DQ inside", "XNNPACK", "x float", "note"
    )
    for model in models:
        base = model.file(FLOAT)
        for file in model.files:
            ratio = file.median_ns / base.median_ns if base else float("nan")
            table.add_row(
                model.name, file.label, f"{file.sqnr_db:.1f}", str(file.ops), str(file.float_ops),
                str(file.borders), str(file.partitions), f"{ratio:.2f}", file.note[:60],
            )  # fmt: skip
    console.print(table)
    devices_table = Table("model", "TFLite Micro, largest difference", "Ethos-U55 takes")
    for model in models:
        devices_table.add_row(model.name, model.micro, model.vela)
    console.print(devices_table)


def main() -> int:
    """Measure every model, print, and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--no-rival", action="store_true")
    parser.add_argument("--no-race", dest="race", action="store_false")
    parser.add_argument("--race-only", action="store_true")
    parser.add_argument("--cache", type=Path, default=Path("out/bench"))
    options = parser.parse_args()
    console = Console(stderr=True)
    options.rival = None
    if not options.no_rival and not options.race_only:
        try:
            options.rival = rivals.prepare(options.cache)
        except rivals.NotMeasured as error:
            console.print(str(error))
    names = options.models.split(",") if options.models else list(pictures.SOURCES)
    kept = earlier()
    for entry in corpus.entries():
        if entry.name not in names:
            continue
        console.print(entry.name)
        if not options.race_only:
            folder = options.cache / "int8" / entry.name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            path = corpus.find(entry, options.cache)
            kept[entry.name] = measure(entry, path, options, folder)
        if options.race and entry.name in kept:
            race(kept[entry.name])
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps([asdict(one) for one in kept.values()], indent=1) + "\n")
    models = [kept[name] for name in pictures.SOURCES if name in kept]
    if len(models) == len(pictures.SOURCES):
        int8_page.write([asdict(model) for model in models], options.samples)
    show([one for one in models if one.name in names], Console(width=150))
    return 0


def earlier() -> dict[str, Model]:
    """What earlier runs found, by model."""
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    models = [Model(**{**one, "files": [File(**file) for file in one["files"]]}) for one in found]
    return {model.name: model for model in models}


if __name__ == "__main__":
    sys.exit(main())
