"""Requests for LiteRT: run a .tflite file, or profile it. Give them to a `Child`.

with Child(engines=["litert"], measure=True) as child:
    ran = child.call(litert.run("m.tflite", [x]))
    trace = litert.measure(child, "m.tflite", [x])
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from straightway.errors import InvalidRequest, ToolFailed
from straightway.run import litert_trace
from straightway.run.litert_trace import Marker, RawProfile
from straightway.run.partition import Placement
from straightway.run.process import Call, Child
from straightway.run.wire import Array
from straightway.trace.schema import Op, Tensor, Trace

Inputs = Sequence[Array] | Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What one run gave: outputs in the file's order, and where its ops ran.

    `names` are those of the file's only signature, else of the tensors; `interior` holds the
    tensors asked for by index. `ops` and `placement` are the main subgraph's.
    """

    outputs: tuple[Array, ...]
    names: tuple[str, ...]
    interior: tuple[Array, ...] = ()
    ops: tuple[Op, ...] = ()
    placement: Placement = field(default_factory=Placement)

    def named(self) -> dict[str, Array]:
        """The outputs by name."""
        return dict(zip(self.names, self.outputs, strict=True))


def run(
    path: Path | str,
    inputs: Inputs,
    *,
    delegate: bool = True,
    interior: Sequence[int] = (),
) -> Call[Ran]:
    """Run a file once, single-threaded, by XNNPACK or (`delegate=False`) by the built-in kernels.

    `inputs` stand in the file's order, or under signature or tensor names; open dimensions take the
    arrays' sizes. `interior` are indices of tensors to return as well; a delegate does not keep
    those, so they imply `delegate=False`.
    """
    names, arrays = _split(inputs)
    return Call(
        verb="tflite.run",
        subject=f"LiteRT on {Path(path).name}",
        params={
            "path": str(path),
            "inputs": names,
            "delegate": delegate,
            "interior": [int(index) for index in interior],
        },
        arrays=arrays,
        decode=_ran,
    )


def profile(
    path: Path | str,
    inputs: Inputs,
    *,
    runs: int = 30,
    warmup: int = 5,
    threads: int = 1,
    operators: bool = True,
) -> Call[RawProfile]:
    """Time a file operator by operator; `litert_trace.to_trace` makes a `Trace` of the answer.

    Without `operators`, or where the profiler refuses the file, only the whole model is timed.
    """
    if runs < 1 or warmup < 0:
        raise InvalidRequest(f"a profile needs at least one run; got {runs}, warm-up {warmup}")
    names, arrays = _split(inputs)
    return Call(
        verb="tflite.profile",
        subject=f"LiteRT's profiler on {Path(path).name}",
        params={
            "path": str(path),
            "inputs": names,
            "runs": runs,
            "warmup": warmup,
            "threads": threads,
            "operators": operators,
        },
        arrays=arrays,
        decode=lambda answer, arrays: _raw(answer, arrays, Path(path).name, warmup, threads),
    )


def measure(
    child: Child,
    path: Path | str,
    inputs: Inputs,
    *,
    runs: int = 30,
    warmup: int = 5,
    threads: int = 1,
) -> Trace:
    """Profile a file; if the profiler takes its process down, time the whole model instead.

    Threads beyond the first are invisible to the CPU-time clock: use a child without `measure`.
    """
    if threads > 1 and child.has_cpu_clock:
        raise InvalidRequest(f"the CPU-time clock sees one thread; got threads={threads}")
    call = profile(path, inputs, runs=runs, warmup=warmup, threads=threads)
    try:
        return litert_trace.to_trace(child.call(call), child.clock_reason)
    except ToolFailed as error:
        whole = profile(path, inputs, runs=runs, warmup=warmup, threads=threads, operators=False)
        first_line = str(error).partition("\n")[0]
        return litert_trace.to_trace(child.call(whole), first_line)


def _split(inputs: Inputs) -> tuple[list[str] | None, tuple[Array, ...]]:
    if isinstance(inputs, Mapping):
        return list(inputs), tuple(np.asarray(array) for array in inputs.values())
    return None, tuple(np.asarray(array) for array in inputs)


def _tensor(data: Mapping[str, Any]) -> Tensor:
    return Tensor(**{**data, "shape": tuple(data.get("shape", ()))})


def _ops(answer: Mapping[str, Any]) -> tuple[Op, ...]:
    return tuple(
        Op(
            index=op["index"],
            kind=op["kind"],
            name=next((one.get("name", "") for one in op["outputs"]), ""),
            inputs=tuple(_tensor(one) for one in op["inputs"]),
            outputs=tuple(_tensor(one) for one in op["outputs"]),
        )
        for op in answer["ops"]
    )


def _placement(answer: Mapping[str, Any]) -> Placement:
    placed = answer["placement"]
    return Placement(
        partitions=tuple(tuple(members) for members in placed["partitions"]),
        outside=tuple(placed["outside"]),
    )


def _ran(answer: dict[str, Any], arrays: list[Array]) -> Ran:
    count = len(answer["names"])
    return Ran(
        outputs=tuple(arrays[:count]),
        names=tuple(answer["names"]),
        interior=tuple(arrays[count:]),
        ops=_ops(answer),
        placement=_placement(answer),
    )


def _raw(
    answer: dict[str, Any], arrays: list[NDArray[np.int64]], model: str, warmup: int, threads: int
) -> RawProfile:
    return RawProfile(
        markers=tuple(
            Marker(name=name, type=kind, index=index, subgraph=subgraph)
            for name, kind, index, subgraph in answer["events"]
        ),
        elapsed=arrays[0],
        total_ns=tuple(answer["total_ns"]),
        ops=_ops(answer),
        placement=_placement(answer),
        bodies=tuple(tuple(kinds) for kinds in answer["bodies"]),
        clock=answer["clock"],
        versions=answer["versions"],
        reason=answer["reason"],
        model=model,
        warmup=warmup,
        threads=threads,
    )
