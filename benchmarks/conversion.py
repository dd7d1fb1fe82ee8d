"""Measured in a process of its own: one conversion, imports loaded, and what memory it takes.

    python benchmarks/conversion.py MODEL.onnx '{"x": [1, 3, 48, 192]}' OUT.tflite [keep|nhwc]

Prints JSON: seconds of the conversion alone (reading the file until the bytes are made), the peak
memory of a verified conversion in this process and in the child that holds the engines, and the
bytes of the model's constants.
"""

import json
import sys
import time
from pathlib import Path

from straightway.errors import StraightwayError
from straightway.flow.convert import Request, convert
from straightway.flow.translate import read, translate
from straightway.ingest.onnx import ShapeRequest
from straightway.run.process import Child


def peak_bytes(pid: int | str = "self") -> int:
    """The most memory that a living process has held."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields["VmHWM"].split()[0]) * 1024


def main() -> int:
    """Convert without, then with verification."""
    model, target = Path(sys.argv[1]), Path(sys.argv[3])
    shapes = json.loads(sys.argv[2])
    nhwc = sys.argv[4:] == ["nhwc"]
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    source = read(model, ShapeRequest(dims={}, shapes=shapes))
    made = translate(source, channels_last_io=nhwc)
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    constants = {value for node in source.nodes for value in node.operands()}
    found = {
        "cpu_s": cpu_s,
        "wall_s": wall_s,
        "nodes": made.node_count,
        "weights_bytes": sum(v.const.nbytes for v in constants if v.const is not None),
        "layout": made.layout.plan.verdict(),
        "layout_conversions": len(made.layout.plan.conversions),
        "minimal": made.layout.plan.minimal,
    }
    del made, source, constants
    try:
        with Child(engines=["litert", "onnxruntime"]) as child:
            request = Request(shapes=shapes, io="nhwc" if nhwc else "keep")
            convert(model, target, request=request, child=child)
            found["verifying_peak_bytes"] = peak_bytes(child.pid)
    except StraightwayError as error:
        found["error"] = str(error)
    found["peak_bytes"] = peak_bytes()
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
