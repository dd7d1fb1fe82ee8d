"""Memory of a conversion against the size of the weights: the most that is anonymous, by Linux's count.

    python benchmarks/memory.py [GIGABYTES ...]

Pages of mapped files are not counted: the system takes them back as it likes. The models are rows of
MatMul, bias and Gelu, of Conv and BatchNormalization, and of Gemm on transposed weights, with their
weights in a file beside them, and one lookup in a table that is multiplied by, too. Nothing is compared.
Needs twice the size on the disk.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import BinaryIO

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, save

from straightway.flow.convert import convert

FLOAT = TensorProto.FLOAT
SIZES_GB = (0.5, 2.5)
WIDTH, CHANNELS, ROWS = 4096, 1024, 8
BLOCK = 1 << 22
INTERVAL_S = 0.01


class Weights:
    """Seeded numbers in a file beside the model."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.tensors: list[TensorProto] = []
        self.rng = np.random.default_rng(0)

    def add(self, *shape: int) -> str:
        """Write a tensor; its name is its number."""
        name, count = f"w{len(self.tensors)}", int(np.prod(shape))
        made = TensorProto(name=name, dims=shape, data_type=FLOAT)
        made.data_location = TensorProto.EXTERNAL
        where = {"location": "w.bin", "offset": self.file.tell(), "length": 4 * count}
        for key, value in where.items():
            made.external_data.add(key=key, value=str(value))
        for start in range(0, count, BLOCK):
            part = self.rng.random(min(BLOCK, count - start), np.float32)
            self.file.write((part - np.float32(0.5)).data)
        self.tensors.append(made)
        return name


def matmul(weights: Weights, size_bytes: int) -> tuple[list[NodeProto], list[list[int]]]:
    """Matrix products, biases, Gelu."""
    made, x = [], "x"
    for k in range(max(1, size_bytes // (4 * WIDTH * WIDTH))):
        made.append(helper.make_node("MatMul", [x, weights.add(WIDTH, WIDTH)], [f"m{k}"]))
        made.append(helper.make_node("Add", [f"m{k}", weights.add(WIDTH)], [f"a{k}"]))
        made.append(helper.make_node("Gelu", [f"a{k}"], [x := f"g{k}"]))
    return made, [[ROWS, WIDTH], [ROWS, WIDTH]]


def gemm(weights: Weights, size_bytes: int) -> tuple[list[NodeProto], list[list[int]]]:
    """Products by weights stored turned."""
    made, x = [], "x"
    for k in range(max(1, size_bytes // (4 * WIDTH * WIDTH))):
        operands = [x, weights.add(WIDTH, WIDTH), weights.add(WIDTH)]
        made.append(helper.make_node("Gemm", operands, [x := f"g{k}"], transB=1))
    return made, [[ROWS, WIDTH], [ROWS, WIDTH]]


def conv(weights: Weights, size_bytes: int) -> tuple[list[NodeProto], list[list[int]]]:
    """Convolutions that take in a normalisation: all weights are computed anew."""
    made, x, filters = [], "x", (CHANNELS, CHANNELS, 3, 3)
    for k in range(max(1, size_bytes // (4 * int(np.prod(filters))))):
        made.append(helper.make_node("Conv", [x, weights.add(*filters)], [f"c{k}"], pads=[1] * 4))
        channel = [weights.add(CHANNELS) for _ in range(3)]
        made.append(helper.make_node("Abs", [weights.add(CHANNELS)], [f"v{k}"]))
        made.append(
            helper.make_node("BatchNormalization", [f"c{k}", *channel, f"v{k}"], [x := f"b{k}"])
        )
    return made, [[1, CHANNELS, ROWS, ROWS]] * 2


def table(weights: Weights, size_bytes: int) -> tuple[list[NodeProto], list[list[int]]]:
    """Rows of one table, multiplied by all its rows."""
    count = size_bytes // (4 * CHANNELS)
    name = weights.add(count, CHANNELS)
    made = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
        helper.make_node("Gather", [name, "i"], ["g"]),
        helper.make_node("Transpose", [name], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["g", "t"], ["y"]),
    ]
    return made, [[ROWS], [ROWS, count]]


KINDS = {"matmul": matmul, "gemm": gemm, "conv": conv, "table": table}


def model(kind: str, folder: Path, size_bytes: int) -> Path:
    """Write a model of so many bytes of weights."""
    path = folder / "m.onnx"
    with (folder / "w.bin").open("wb") as file:
        weights = Weights(file)
        nodes, shapes = KINDS[kind](weights, size_bytes)
    save(whole(nodes, shapes, weights), path)
    return path


def whole(nodes: list[NodeProto], shapes: list[list[int]], weights: Weights) -> ModelProto:
    """A model of nodes from x to what the last one gives."""
    ends: list[ValueInfoProto] = [
        helper.make_tensor_value_info(name, FLOAT, shape)
        for name, shape in zip(("x", nodes[-1].output[0]), shapes, strict=True)
    ]
    graph = helper.make_graph(nodes, "memory", ends[:1], ends[1:], weights.tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def anonymous_bytes() -> int:
    """What this process holds that no file holds."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


def measure(path: Path) -> None:
    """Convert, and print the file's size and the most anonymous memory seen, in bytes."""
    seen, done = [anonymous_bytes()], threading.Event()

    def watch() -> None:
        while not done.wait(INTERVAL_S):
            seen.append(anonymous_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        size_bytes = convert(path, path.with_suffix(".tflite"), verify=False).size_bytes
    finally:
        done.set()
        watcher.join()
    print(size_bytes, max(seen))


def main() -> None:
    """Print a line for each model and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", metavar="GIGABYTES", nargs="*", type=float, default=SIZES_GB)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        measure(asked.measure)
        return
    for size_gb in asked.sizes:
        for kind in KINDS:
            with tempfile.TemporaryDirectory() as folder:
                path = model(kind, Path(folder), int(size_gb * 1e9))
                command = [sys.executable, __file__, "--measure", str(path)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
            size_bytes, peak_bytes = map(int, done.stdout.split())
            print(f"{kind:7} {size_bytes / 1e9:5.2f} GB: {peak_bytes / 1e6:4.0f} MB anonymous")


if __name__ == "__main__":
    main()
