"""Child side: ONNX models by onnxruntime."""

import ctypes
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

# It would upload names and hashes of the user's models, and keep a device identifier in ~/.cache;
# read when the library is loaded (onnxruntime v1.32, docs/Privacy.md, "Disabling Telemetry").
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as state

from straightway.errors import InvalidModel, InvalidRequest, ToolFailed
from straightway.run import clock
from straightway.run.wire import Array

_INVALID = (state.InvalidProtobuf, state.InvalidGraph, state.NoModel, state.NoSuchFile)
_FAILED = (
    state.Fail,
    state.EngineError,
    state.RuntimeException,
    state.NotImplemented,
    state.EPFail,
    RuntimeError,
)
_BAD_INPUTS = (state.InvalidArgument, ValueError, TypeError)
# A ModelProto without its external data may not be larger than this (protobuf's limit).
_PROTO_LIMIT_BYTES = 2**31 - 1
_ONNX_BFLOAT16 = 16  # onnx.TensorProto.BFLOAT16
_FATAL_ONLY = 4
# what it says of recurrent nodes whose batch comes first (onnxruntime/core/providers/cpu/rnn)
_BATCH_FIRST = "layout == 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    path: str
    optimise: bool
    extra_outputs: tuple[str, ...]
    threads: int = 1


def _field(number: int, payload: bytes) -> bytes:
    """One length-delimited protobuf field (wire type 2)."""
    size, varint = len(payload), bytearray()
    while size > 0x7F:
        varint.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *varint, size]) + payload


def output_fragment(names: Sequence[str]) -> bytes:
    """A ModelProto that adds graph outputs when it is appended to another one.

    Protobuf merges concatenated messages: ModelProto.graph is field 7, GraphProto.output 12,
    ValueInfoProto.name 1 (onnx.proto). onnxruntime infers the types.
    """
    return b"".join(_field(7, _field(12, _field(1, name.encode()))) for name in names)


def _options(wanted: _Wanted) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = wanted.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _FATAL_ONLY
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if wanted.optimise else levels.ORT_DISABLE_ALL
    )
    return options


def _session(wanted: _Wanted, options: Any, respelled: bytes = b"") -> Any:
    path = Path(wanted.path)
    model: Any = wanted.path
    if wanted.extra_outputs or respelled:
        if path.exists() and path.stat().st_size > _PROTO_LIMIT_BYTES:
            raise InvalidRequest(
                f"interior values of {path.name} need a file below 2 GiB; got {path.stat().st_size}"
            )
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(path.resolve().parent)
        )
        model = (respelled or path.read_bytes()) + output_fragment(wanted.extra_outputs)
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except _INVALID as error:
        raise InvalidModel(f"onnxruntime can't read {path.name}: {error}") from error
    except (*_FAILED, state.InvalidArgument) as error:
        raise ToolFailed(f"onnxruntime can't prepare {path.name}: {error}") from error


def _answering(wanted: _Wanted, options: Any) -> Any:
    """A session that is asked for numbers, not for time: it may run the model spelled otherwise."""
    try:
        return _session(wanted, options)
    except ToolFailed as error:
        if _BATCH_FIRST not in str(error):
            raise
    from straightway.onnx_io.respell_recurrent import time_first  # noqa: PLC0415 - seldom needed

    return _session(wanted, options, time_first(Path(wanted.path)))


class _Kept:
    """The last session: verification runs one model on several inputs."""

    wanted: _Wanted | None = None
    stamp: tuple[float, int] = (0.0, 0)
    session: Any = None


def forget() -> None:
    """Free the model that is kept for the next request."""
    _Kept.wanted = _Kept.session = None


def _kept_session(wanted: _Wanted) -> Any:
    path = Path(wanted.path)
    stamp = (path.stat().st_mtime, path.stat().st_size) if path.exists() else (0.0, 0)
    if (_Kept.wanted, _Kept.stamp) != (wanted, stamp):
        forget()  # before the new one is made
        options = _options(wanted)
        options.enable_cpu_mem_arena = False  # it is not timed, and an arena gives nothing back
        _Kept.session = _answering(wanted, options)
        _Kept.wanted, _Kept.stamp = wanted, stamp
    return _Kept.session


def open_session(path: str, extra_outputs: Sequence[str]) -> Any:
    """A session of its own that also returns interior values; the caller keeps it."""
    wanted = _Wanted(path=path, optimise=True, extra_outputs=tuple(extra_outputs))
    return _answering(wanted, _options(wanted))


def outputs(session: Any, names: Sequence[str], feeds: Mapping[str, Array]) -> list[Array]:
    """Some of a session's outputs; raises InvalidRequest or ToolFailed."""
    return _run(session, names, feeds)


def _value(array: Array) -> Any:
    if array.dtype == ml_dtypes.bfloat16:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
            array.view(np.uint16), _ONNX_BFLOAT16
        )
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def _array(value: Any) -> Array:
    if value.data_type() != "tensor(bfloat16)":
        result: Array = value.numpy()
        return result
    # onnxruntime has no numpy type for it; its memory is the value's, in C order.
    shape = tuple(value.shape())
    copied = ctypes.string_at(value.data_ptr(), 2 * int(np.prod(shape)))
    return np.frombuffer(copied, ml_dtypes.bfloat16).reshape(shape)


def _run(session: Any, names: Sequence[str], feeds: Mapping[str, Array]) -> list[Array]:
    types = [one.type for one in session.get_outputs() if one.name in names]
    special = "tensor(bfloat16)" in types or any(
        array.dtype == ml_dtypes.bfloat16 for array in feeds.values()
    )
    try:
        if not special:
            results: list[Array] = session.run(names, feeds)
            return results
        values = session.run_with_ort_values(
            names, {name: _value(array) for name, array in feeds.items()}
        )
        return [_array(value) for value in values]
    except _BAD_INPUTS as error:
        raise InvalidRequest(f"onnxruntime refuses the inputs: {error}") from error
    except _FAILED as error:
        raise ToolFailed(f"onnxruntime can't run the model: {error}") from error


def _tensor_outputs(session: Any) -> list[str]:
    """The outputs that are tensors, once each; sequences and maps have no array."""
    tensors = [one.name for one in session.get_outputs() if one.type.startswith("tensor")]
    return list(dict.fromkeys(tensors))


def run(params: Mapping[str, Any], arrays: Sequence[Array]) -> tuple[dict[str, Any], list[Array]]:
    """Run the model once; the answer names the outputs, extra ones after the model's own."""
    wanted = _Wanted(
        path=params["path"],
        optimise=params["optimise"],
        extra_outputs=tuple(params["extra_outputs"]),
    )
    session = _kept_session(wanted)
    names = params["outputs"] or _tensor_outputs(session)
    results = _run(session, names, dict(zip(params["inputs"], arrays, strict=True)))
    return {"names": names}, results


def prepare(params: Mapping[str, Any], arrays: Sequence[Array]) -> Callable[[], None]:
    """A function that runs the model once, for timing; its inputs stay as they are."""
    wanted = _Wanted(path=params["path"], optimise=True, extra_outputs=())
    session = _session(wanted, _options(wanted))
    return _Bound(session, dict(zip(params["inputs"], arrays, strict=True)))


class _Bound:
    """A model's run whose inputs and outputs are bound beforehand, so that nothing else is timed.

    It has run once, unbound, which says what is wrong with the inputs. Texts can't be bound
    (`OrtValue` takes none), and an output whose size a random number decides outgrows its memory:
    such runs stay unbound.
    """

    def __init__(self, session: Any, feeds: Mapping[str, Array]) -> None:
        self._session, self._feeds, self._names = session, feeds, _tensor_outputs(session)
        results = _run(session, self._names, feeds)
        self._values = {}
        self._binding = None
        if not any(array.dtype.kind in "OUST" for array in (*feeds.values(), *results)):
            self._values = {name: _value(array) for name, array in feeds.items()}
            self._binding = self._bind()

    def _bind(self) -> Any:
        binding = self._session.io_binding()
        for name, value in self._values.items():
            binding.bind_ortvalue_input(name, value)
        for name in self._names:
            binding.bind_output(name)
        return binding._iobinding  # noqa: SLF001 - the wrapper spends time on each run

    def __call__(self) -> None:
        """Run once."""
        if self._binding is not None:
            try:
                self._session._sess.run_with_iobinding(self._binding, None)  # noqa: SLF001 - see above
            except RuntimeError:
                self._binding = None
            else:
                return
        _run(self._session, self._names, self._feeds)


def profile(
    params: Mapping[str, Any], arrays: Sequence[Array]
) -> tuple[dict[str, Any], list[Array]]:
    """Time the whole model, then run it under onnxruntime's own profiler.

    The answer holds the profile's events as onnxruntime writes them, its microseconds unscaled.
    """
    wanted = _Wanted(
        path=params["path"], optimise=True, extra_outputs=(), threads=params["threads"]
    )
    feeds = dict(zip(params["inputs"], arrays, strict=True))
    run_once = _Bound(_session(wanted, _options(wanted)), feeds)
    now_ns = clock.active().now_ns
    total_ns = []
    for _ in range(params["warmup"] + params["runs"]):
        start_ns = now_ns()
        run_once()
        total_ns.append(now_ns() - start_ns)
    del run_once
    return {
        "total_ns": total_ns[params["warmup"] :],
        "events": _profiled(wanted, feeds, params["warmup"] + params["runs"]),
        "clock": clock.active().facts(),
        "versions": {"onnxruntime": onnxruntime.__version__},
    }, []


def _profiled(wanted: _Wanted, feeds: Mapping[str, Array], runs: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        options = _options(wanted)
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(folder, "onnxruntime")  # noqa: PTH118 - a prefix
        session = _session(wanted, options)
        run_once = _Bound(session, feeds)
        for _ in range(runs - 1):  # binding runs once, too
            run_once()
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    return [event for event in events if _is_timing(event)]


def _is_timing(event: Mapping[str, Any]) -> bool:
    if event.get("cat") == "Node":
        return bool(event["name"].endswith("_kernel_time"))
    return event.get("name") == "model_run"
