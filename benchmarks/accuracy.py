"""What int8 costs on real tasks (words read, files told apart, digits), and what quantizing costs.

Part of `make bench-int8`.

    python benchmarks/accuracy.py [--pages 25] [--files 320] [--cache out/bench]

Calibration and evaluation use other words, files and pictures. Prints a table and writes
benchmarks/results/accuracy.json.
"""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

import corpus
import int8_page
import pictures
import straightway
import tasks
from costs import cost
from int8 import feeds_of, real
from straightway.flow.candidate import describe
from straightway.run import litert, ort
from straightway.run.process import Child

Arrays = Mapping[str, np.ndarray]
PAGE_SHAPE = (1, 3, *tasks.PAGE)
CALIBRATION = 60
# of which quantizing is timed, and with how many samples, of which so many differ
TIMED, MANY, DIFFERENT = "nudenet_yolov8n", 500, 50


class Int8:
    """An int8 file of a model, made here."""

    def __init__(self, child: Child, model: Path, data: list[Arrays], folder: Path) -> None:
        self.child = child
        self.path = folder / f"{model.stem}.int8.tflite"
        quantized = folder / f"{model.stem}.int8.onnx"
        shapes = {name: array.shape for name, array in data[0].items()}
        straightway.quantize(model, quantized, calibration=lambda: iter(data), shapes=shapes)
        straightway.convert(quantized, self.path, child=child)
        self.main = describe(self.path).main

    def __call__(self, inputs: Arrays) -> list[np.ndarray]:
        """Run it on float inputs; the outputs are what they stand for."""
        ran = self.child.call(litert.run(self.path, feeds_of(self.path, inputs)))
        pairs = zip(ran.outputs, self.main.outputs, strict=True)
        return [real(array, self.main.tensors[index]) for array, index in pairs]


class Float:
    """The model itself, by onnxruntime."""

    def __init__(self, child: Child, model: Path) -> None:
        self.child, self.model = child, model

    def __call__(self, inputs: Arrays) -> list[np.ndarray]:
        """Run it."""
        return list(self.child.call(ort.run(self.model, inputs)).values())


def model_path(name: str, cache: Path) -> Path:
    """The file of a model of the benchmark."""
    return corpus.find(next(e for e in corpus.entries() if e.name == name), cache)


def reading(child: Child, count: int, cache: Path) -> dict[str, float]:
    """Pages of eight words each: found, turned, read by three models; float and int8."""
    paths = {n: model_path(n, cache) for n in ("ppocrv4_det", "ppocr_cls", "ppocrv4_rec")}
    characters = tasks.alphabet(paths["ppocrv4_rec"])
    words = list(tasks.words(CALIBRATION, calibration=True))
    data = {
        "ppocrv4_det": [{"x": p.picture[None]} for p in tasks.pages(24, calibration=True)],
        "ppocr_cls": [{"x": _sides(word.picture, k)} for k, word in enumerate(words)],
        "ppocrv4_rec": [{"x": word.picture[None]} for word in words],
    }
    pages = list(tasks.pages(count, calibration=False))
    exact = [Float(child, path) for path in paths.values()]
    eight = [Int8(child, path, data[name], cache) for name, path in paths.items()]
    found = {}
    for label, engines in (("float", exact), ("int8", eight)):
        read = [tasks.read_page(page, *engines, characters) for page in pages]
        right, total = tasks.exact_matches(read, pages)
        found[label] = 100 * right / total
    return found | {"count": sum(len(page.texts) for page in pages)}


def _sides(picture: np.ndarray, k: int) -> np.ndarray:
    """The first part of a line, every other upside down."""
    part = picture[:, :, :192]
    return np.ascontiguousarray((part[:, ::-1, ::-1] if k % 2 else part)[None])


def files(child: Child, count: int, cache: Path) -> dict[str, float]:
    """Magika's label of real files: how often int8 says what float says."""
    path = model_path("magika_v3", cache)
    given = [
        {"bytes": tasks.file_bytes(one)[None]} for one in tasks.real_files(100, calibration=True)
    ]
    eight, exact = Int8(child, path, given, cache), Float(child, path)
    inputs = [
        {"bytes": tasks.file_bytes(one)[None]} for one in tasks.real_files(count, calibration=False)
    ]
    same = [int(eight(one)[0].argmax() == exact(one)[0].argmax()) for one in inputs]
    return {"agreement": 100 * sum(same) / len(same), "count": len(same)}


def digits(child: Child, cache: Path) -> dict[str, float]:
    """The classifier trained here: its accuracy as float and as int8."""
    task = tasks.digits()
    path = cache / "digits.onnx"
    onnx.save(task.model, path)
    eight = Int8(child, path, [{"x": one[None]} for one in task.calibration], cache)
    exact = Float(child, path)

    def accuracy(engine: Int8 | Float) -> float:
        found = [engine({"x": one[None]})[0].argmax() for one in task.pictures]
        return 100 * float((np.array(found) == task.labels).mean())

    return {"float": accuracy(exact), "int8": accuracy(eight), "count": len(task.labels)}


def calibration(cache: Path) -> dict[str, float]:
    """CPU seconds of `straightway quantize` on one core, with many samples of a model of 12 MB."""
    folder = cache / "samples"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    given = pictures.drawn(TIMED, DIFFERENT, calibration=True)
    for number, arrays in enumerate(given):
        (array,) = arrays.values()
        np.save(folder / f"{number}.npy", array)
        for again in range(number + DIFFERENT, MANY, DIFFERENT):
            os.link(folder / f"{number}.npy", folder / f"{again}.npy")
    entry = next(e for e in corpus.entries() if e.name == TIMED)
    command: list[str | Path] = ["taskset", "-c", "0"] if shutil.which("taskset") else []
    command += [sys.executable, "-m", "straightway", "quantize", corpus.find(entry, cache)]
    command += ["--calibration", folder, "-o", cache / "timed.onnx"]
    for name, dims in entry.shapes.items():
        command += ["--shape", f"{name}={','.join(map(str, dims))}"]
    spent = cost(command)
    shutil.rmtree(folder)
    if spent.returncode:
        raise RuntimeError(spent.tail)
    return {"cpu_s": spent.cpu_s, "peak_bytes": spent.peak_bytes, "count": MANY}


def main() -> int:
    """Run the tasks, print, and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=25)
    parser.add_argument("--files", type=int, default=320)
    parser.add_argument("--cache", type=Path, default=Path("out/bench"))
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    with Child(engines=["onnxruntime", "litert"]) as child:
        found = {
            "digits": digits(child, options.cache),
            "words": reading(child, options.pages, options.cache),
            "files": files(child, options.files, options.cache),
            "calibration": calibration(options.cache),
        }
    results = Path(__file__).with_name("results") / "accuracy.json"
    results.parent.mkdir(exist_ok=True)
    results.write_text(json.dumps(found, indent=1) + "\n")
    table = Table("task", "float", "int8", "agreement", "of")
    for row in int8_page.task_rows(found):
        table.add_row(*row)
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
