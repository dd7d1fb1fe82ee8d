"""Child side: LiteRT's compiled model through the C API of `libLiteRt.so`, for its profiler.

The wheel's Python classes have no profiler. Layouts and signatures are those of LiteRT 2.x
(litert/c/litert_profiler_event.h, litert_model_types.h, litert_layout.h, litert_compiled_model.h);
`check_events` refuses what does not look like them.
"""

import ctypes as c
import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ai_edge_litert
import numpy as np

from straightway.run.wire import Array, dtype_named

TESTED_VERSION = "2.3."

_LIBRARY = "libLiteRt.so"
_CPU = 1  # kLiteRtHwAcceleratorCpu
_READ, _WRITE = 0, 1  # kLiteRtTensorBufferLockModeRead, ...Write
_MAX_RANK = 8  # LITERT_TENSOR_MAX_RANK

# Event types of tflite/core/api/profiler.h.
DEFAULT, OPERATOR, DELEGATE_OPERATOR, TELEMETRY = 1, 2, 8, 32
_TYPES = frozenset(1 << bit for bit in range(9))

# LiteRtElementType is TfLiteType by number (litert/c/litert_model_types.h).
_DTYPES: Mapping[int, str] = {
    1: "float32",
    2: "int32",
    3: "uint8",
    4: "int64",
    6: "bool",
    7: "int16",
    8: "complex64",
    9: "int8",
    10: "float16",
    11: "float64",
    12: "complex128",
    13: "uint64",
    16: "uint32",
    17: "uint16",
    18: "int4",
    19: "bfloat16",
}


class _Memory(c.Structure):
    _fields_ = (("total", c.c_size_t), ("in_use", c.c_size_t), ("private", c.c_size_t))


class _Event(c.Structure):
    _fields_ = (
        ("tag", c.c_char_p),
        ("type", c.c_int),
        ("start_us", c.c_uint64),
        ("elapsed_us", c.c_uint64),
        ("memory_before", _Memory),
        ("memory_after", _Memory),
        ("index", c.c_uint64),
        ("subgraph", c.c_uint64),
        ("source", c.c_int),
    )


class _Layout(c.Structure):
    _fields_ = (
        ("rank", c.c_uint, 7),
        ("has_strides", c.c_uint, 1),
        ("dimensions", c.c_int32 * _MAX_RANK),
        ("strides", c.c_uint32 * _MAX_RANK),
    )


class _TensorType(c.Structure):
    _fields_ = (("element", c.c_int), ("layout", _Layout))


class Refused(Exception):
    """The C API is absent, refuses the file, or does not behave as known; says what and why."""


@dataclass(frozen=True, slots=True)
class RawEvent:
    """One profiler event; times are in the profiler's microseconds."""

    name: str
    type: int
    index: int
    subgraph: int
    start: int
    elapsed: int


def check_events(events: Sequence[RawEvent]) -> None:
    """Raise Refused unless the events look like events: the struct's layout is an ABI we copied."""
    for event in events:
        sane = event.type in _TYPES and event.name.isprintable() and event.name
        if not sane:
            raise Refused(f"profiler events look damaged: type {event.type}, name {event.name!r}")
    if not any(event.type in (OPERATOR, DELEGATE_OPERATOR) for event in events):
        raise Refused("the profiler reports no operators")


def litert_version() -> str:
    """The version of the installed wheel."""
    return importlib.metadata.version("ai-edge-litert")


def _library() -> c.CDLL:
    path = Path(next(iter(ai_edge_litert.__path__))) / _LIBRARY
    try:
        return c.CDLL(str(path))
    except OSError as error:
        raise Refused(f"the wheel's {_LIBRARY} can't be loaded: {error}") from error


def _leave_to_python(_payload: int) -> None:
    """The payload belongs to Python."""


_keep = c.CFUNCTYPE(None, c.c_void_p)(_leave_to_python)


class CompiledModel:
    """A model that is ready to run with its profiler, on one buffer for each input and output."""

    def __init__(self, path: str, arrays: Mapping[str, Array], *, threads: int = 1) -> None:
        """Compile `path` for inputs of the arrays' shapes, given by signature or tensor name."""
        if not litert_version().startswith(TESTED_VERSION):
            raise Refused(
                f"the profiler is tested with LiteRT {TESTED_VERSION}x; got {litert_version()}"
            )
        self._library = _library()
        self._payloads: list[object] = []
        environment, model, options = c.c_void_p(), c.c_void_p(), c.c_void_p()
        self._call("CreateEnvironment", 0, None, c.byref(environment))
        self._call("CreateModelFromFile", environment, path.encode(), c.byref(model))
        self._call("CreateOptions", c.byref(options))
        self._call("SetOptionsHardwareAccelerators", options, _CPU)
        self._add_option(options, "runtime_options_string", "enable_profiling = true\n")
        self._add_option(options, "xnnpack", f"num_threads = {threads}\n")
        self._environment, self._model = environment, model
        self._compiled = c.c_void_p()
        self._call("CreateCompiledModel", environment, model, options, c.byref(self._compiled))
        signature = c.c_void_p()
        self._call("GetModelSignature", model, c.c_size_t(0), c.byref(signature))
        self._inputs = self._input_buffers(signature, self._ordered(signature, arrays))
        self._outputs = self._output_buffers(signature)
        self._profiler = c.c_void_p()
        self._call("CompiledModelGetProfiler", self._compiled, c.byref(self._profiler))

    def _call(self, function: str, *arguments: object) -> None:
        try:
            status = getattr(self._library, f"LiteRt{function}")(*arguments)
        except AttributeError as error:
            raise Refused(f"{_LIBRARY} has no LiteRt{function}") from error
        if status:
            raise Refused(f"LiteRt{function} answers status {status}")

    def _add_option(self, options: c.c_void_p, name: str, text: str) -> None:
        payload, identifier = c.create_string_buffer(text.encode()), c.c_char_p(name.encode())
        self._payloads += [payload, identifier]
        option = c.c_void_p()
        self._call(
            "CreateOpaqueOptions", identifier, c.cast(payload, c.c_void_p), _keep, c.byref(option)
        )
        self._call("AddOpaqueOptions", options, option)

    def _type(self, signature: c.c_void_p, side: str, index: int) -> _TensorType:
        tensor, described = c.c_void_p(), _TensorType()
        self._call(
            f"GetSignature{side}TensorByIndex", signature, c.c_size_t(index), c.byref(tensor)
        )
        self._call("GetRankedTensorType", tensor, c.byref(described))
        return described

    def _count(self, signature: c.c_void_p, side: str) -> int:
        count = c.c_size_t()
        self._call(f"GetNumSignature{side}s", signature, c.byref(count))
        return count.value

    def _buffer(self, side: str, index: int, described: _TensorType) -> c.c_void_p:
        requirements, buffer = c.c_void_p(), c.c_void_p()
        self._call(
            f"GetCompiledModel{side}BufferRequirements",
            self._compiled,
            c.c_size_t(0),
            c.c_size_t(index),
            c.byref(requirements),
        )
        self._call(
            "CreateManagedTensorBufferFromRequirements",
            self._environment,
            c.byref(described),
            requirements,
            c.byref(buffer),
        )
        return buffer

    def _ordered(self, signature: c.c_void_p, arrays: Mapping[str, Array]) -> list[Array]:
        """The arrays in the signature's order, which need not be the model's."""
        count, name = self._count(signature, "Input"), c.c_char_p()
        names = []
        for index in range(count):
            self._call("GetSignatureInputName", signature, c.c_size_t(index), c.byref(name))
            names.append((name.value or b"").decode(errors="replace"))
        if set(names) != set(arrays):
            raise Refused(f"the signature's inputs are {names}; the model's are {list(arrays)}")
        return [arrays[name] for name in names]

    def _input_buffers(self, signature: c.c_void_p, arrays: Sequence[Array]) -> list[c.c_void_p]:
        types = [self._type(signature, "Input", index) for index in range(len(arrays))]
        for index, (described, array) in enumerate(zip(types, arrays, strict=True)):
            self._fit(index, described, array)
        buffers = [self._buffer("Input", index, one) for index, one in enumerate(types)]
        for buffer, array in zip(buffers, arrays, strict=True):
            self._fill(buffer, array)
        return buffers

    def _fit(self, index: int, described: _TensorType, array: Array) -> None:
        """Resize an input whose shape the file leaves open, in the model and in `described`."""
        dtype = _DTYPES.get(described.element)
        if dtype is None or dtype_named(dtype) != array.dtype:
            raise Refused(f"input {index} has type {dtype or described.element}; got {array.dtype}")
        shape = tuple(described.layout.dimensions[: described.layout.rank])
        if shape == array.shape:
            return
        sizes = (c.c_int * array.ndim)(*array.shape)
        self._call(
            "CompiledModelResizeInputTensor",
            self._compiled,
            c.c_size_t(0),
            c.c_size_t(index),
            sizes,
            c.c_size_t(array.ndim),
        )
        for axis, size in enumerate(array.shape):
            described.layout.dimensions[axis] = size

    def _fill(self, buffer: c.c_void_p, array: Array) -> None:
        packed, address = np.ascontiguousarray(array), c.c_void_p()
        self._call("LockTensorBuffer", buffer, c.byref(address), _WRITE)
        c.memmove(address, packed.ctypes.data, packed.nbytes)
        self._call("UnlockTensorBuffer", buffer)

    def _output_buffers(self, signature: c.c_void_p) -> list[c.c_void_p]:
        count = self._count(signature, "Output")
        layouts = (_Layout * count)()
        self._call(
            "GetCompiledModelOutputTensorLayouts",
            self._compiled,
            c.c_size_t(0),
            c.c_size_t(count),
            layouts,
            c.c_bool(True),  # update_allocation
        )
        buffers = []
        for index, layout in enumerate(layouts):
            described = self._type(signature, "Output", index)
            described.layout = layout
            buffers.append(self._buffer("Output", index, described))
        return buffers

    def run(self) -> None:
        """Run the model once."""
        inputs = (c.c_void_p * len(self._inputs))(*self._inputs)
        outputs = (c.c_void_p * len(self._outputs))(*self._outputs)
        self._call(
            "RunCompiledModel",
            self._compiled,
            c.c_size_t(0),
            c.c_size_t(len(inputs)),
            inputs,
            c.c_size_t(len(outputs)),
            outputs,
        )

    def profiled_run(self) -> list[RawEvent]:
        """Run the model once and return its events, in the order in which they began."""
        self._call("ResetProfiler", self._profiler)
        self._call("StartProfiler", self._profiler)
        self.run()
        self._call("StopProfiler", self._profiler)
        count = c.c_int()
        self._call("GetNumProfilerEvents", self._profiler, c.byref(count))
        events = (_Event * count.value)()
        self._call("GetProfilerEvents", self._profiler, count, events)
        return [_raw(event) for event in events]

    def close(self) -> None:
        """Free the compiled model, its buffers, the model and the environment."""
        for buffer in (*self._inputs, *self._outputs):
            self._library.LiteRtDestroyTensorBuffer(buffer)
        self._library.LiteRtDestroyCompiledModel(self._compiled)
        self._library.LiteRtDestroyModel(self._model)
        self._library.LiteRtDestroyEnvironment(self._environment)


def _raw(event: _Event) -> RawEvent:
    return RawEvent(
        name=(event.tag or b"").decode(errors="replace"),
        type=event.type,
        index=event.index,
        subgraph=event.subgraph,
        start=event.start_us,
        elapsed=event.elapsed_us,
    )
