"""Measured in a process of its own, imports loaded: one conversion, or the memory that it takes.

    python benchmarks/conversion.py time MODEL.onnx '{"x": [1, 3, 48, 192]}'
    python benchmarks/conversion.py memory MODEL.onnx '{"x": [1, 3, 48, 192]}' OUT.tflite

Prints JSON. `time`: seconds from the file until the bytes are made, without verification.
`memory`: the peak of a verified conversion, in this process and in the child that holds the engines.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from straightway.errors import StraightwayError
from straightway.flow.convert import Request, convert
from straightway.flow.translate import read, translate
from straightway.ingest.onnx import ShapeRequest
from straightway.run.process import Child

Shapes = Mapping[str, Sequence[int]]


def peak_bytes(pid: int | str = "self") -> int:
    """The most memory that a living process has held."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields["VmHWM"].split()[0]) * 1024


def timed(model: Path, shapes: Shapes) -> dict[str, Any]:
    """Convert once; the bytes of the constants that the result needs."""
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    source = read(model, ShapeRequest(dims={}, shapes=shapes))
    made = translate(source)
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    constants = {value for node in source.nodes for value in node.operands()}
    return {
        "cpu_s": cpu_s,
        "wall_s": wall_s,
        "weights_bytes": sum(v.const.nbytes for v in constants if v.const is not None),
        "layout": made.layout.plan.verdict(),
    }


def held(model: Path, shapes: Shapes, target: Path) -> dict[str, Any]:
    """Convert and verify; the most memory that both processes held."""
    with Child(engines=["litert", "onnxruntime"]) as child:
        convert(model, target, request=Request(shapes=shapes), child=child)
        return {"peak_bytes": peak_bytes(), "verifying_peak_bytes": peak_bytes(child.pid)}


def main() -> int:
    """Measure what the first argument says."""
    what, model, shapes = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    try:
        found = timed(model, shapes) if what == "time" else held(model, shapes, Path(sys.argv[4]))
    except StraightwayError as error:
        print(str(error).partition("\n")[0])
        return error.exit_code
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
