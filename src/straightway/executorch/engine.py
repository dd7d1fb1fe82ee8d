"""Child side: ExecuTorch programs by the wheel's bindings."""

import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from straightway.errors import InvalidModel, InvalidRequest, ToolFailed
from straightway.executorch import isa
from straightway.executorch.model import first_line
from straightway.executorch.tensors import array_of, tensor_of
from straightway.run import clock
from straightway.run.wire import Array

_STDERR = 2
_MOST_BYTES = 65_536


def _bindings() -> Any:
    """ExecuTorch's own library: as it is loaded, XNNPACK chooses its kernels."""
    from executorch.extension.pybindings import portable_lib  # noqa: PLC0415 - after `isa.cap`

    return portable_lib


class _Kept:
    """The last program: verification runs one on several inputs, tracing one many times."""

    key: tuple[Any, ...] | None = None
    module: Any = None
    # with the tracer, without it, and what both are run on
    traced: tuple[Any, Any, list[torch.Tensor]] | None = None


class _Capped:
    """What was capped in this process; it can't be undone once a program is loaded."""

    features: tuple[str, ...] | None = None


def forget() -> None:
    """Free the programs that are kept for the next request."""
    _Kept.key = _Kept.module = _Kept.traced = None


def _open(params: Mapping[str, Any], *, traced: bool = False) -> Any:
    features = tuple(params.get("cap", ()))
    if _Capped.features is None:
        if features:
            isa.cap(features)
        _Capped.features = features
    elif features != _Capped.features:
        raise InvalidRequest("one process has one instruction set; start another for another cap")
    path = Path(params["path"])
    if not path.is_file():
        raise InvalidRequest(f"{path}: there is no such file")
    _check_kernels(path, params.get("kernels", ()))
    library = _bindings()
    library._unsafe_reset_threadpool(int(params.get("threads", 1)))  # noqa: SLF001 - the only way
    try:
        return library._load_for_executorch(str(path), enable_etdump=traced)  # noqa: SLF001 - its name
    except RuntimeError as error:
        raise InvalidModel(f"ExecuTorch can't load {path.name}: {first_line(error)}") from error


def _check_kernels(path: Path, wanted: Sequence[str]) -> None:
    """Raise InvalidModel for operators that this runtime has no kernel for outside of delegates."""
    known = {name.replace("::", ".") for name in _bindings()._get_operator_names()}  # noqa: SLF001 - its name
    missing = [name for name in wanted if name.rstrip(".") not in known]
    if missing:
        raise InvalidModel(
            f"{path.name}: ExecuTorch's library has no kernel for {', '.join(missing)}; write it in "
            "other operators, or leave it to the caller"
        )


def _tensors(params: Mapping[str, Any], arrays: Sequence[Array]) -> list[torch.Tensor]:
    """The inputs as tensors; those named in "channels_last" are stored so, as their program wants."""
    found = []
    for place, array in enumerate(arrays):
        tensor = tensor_of(array)
        if place in params.get("channels_last", ()):
            tensor = tensor.contiguous(memory_format=torch.channels_last)
        found.append(tensor)
    return found


def _forward(module: Any, inputs: list[torch.Tensor], *, clone: bool = True) -> list[Any]:
    try:
        return list(module.forward(inputs, clone_outputs=clone))
    except RuntimeError as error:
        raise ToolFailed(f"ExecuTorch can't run the program: {first_line(error)}") from error


def run(params: Mapping[str, Any], arrays: Sequence[Array]) -> tuple[dict[str, Any], list[Array]]:
    """Run a program once; outputs that are no tensors are left out."""
    path = Path(params["path"])
    found = path.stat() if path.exists() else None
    key = (params["path"], found and found.st_mtime_ns, found and found.st_size)
    if _Kept.key != key:
        forget()
        _Kept.module, _Kept.key = _open(params), key
    size_bytes = _messages_bytes()
    try:
        outputs = _Kept.module.forward(_tensors(params, arrays), clone_outputs=True)
    except RuntimeError as error:
        return {"failed": first_line(error), "messages": _messages(size_bytes)}, []
    return {}, [array_of(one) for one in outputs if isinstance(one, torch.Tensor)]


def _messages_bytes() -> int:
    """How much this process has printed, where that goes into a file."""
    info = os.fstat(_STDERR)
    return info.st_size if stat.S_ISREG(info.st_mode) else -1


def _messages(start_bytes: int) -> str:
    """What was printed since: ExecuTorch tells there which kernel failed, and why."""
    length_bytes = _messages_bytes() - start_bytes
    if start_bytes < 0 or length_bytes <= 0:
        return ""
    return os.pread(_STDERR, min(length_bytes, _MOST_BYTES), start_bytes).decode(errors="replace")


def prepare(params: Mapping[str, Any], arrays: Sequence[Array]) -> Callable[[], Any]:
    """A function that runs the program once, for timing."""
    module, inputs = _open(params), _tensors(params, arrays)
    return lambda: _forward(module, inputs, clone=False)


def begin(params: Mapping[str, Any], arrays: Sequence[Array]) -> tuple[dict[str, Any], list[Array]]:
    """Open a program twice, to be traced and to be run as it is beside that."""
    forget()
    inputs = _tensors(params, arrays)
    traced, plain = _open(params, traced=True), _open(params)
    if not traced.has_etdump():
        raise ToolFailed("this executorch was built without its event tracer")
    _Kept.traced = (traced, plain, inputs)
    return {"clock": clock.active().facts()}, []


def turn(_: Mapping[str, Any], __: Sequence[Array]) -> tuple[dict[str, Any], list[Array]]:
    """One run untraced and one traced of what `begin` opened: what the tracing costs."""
    traced, plain, inputs = _being_traced()
    times: dict[str, int] = {}
    for name, module in (("plain_ns", plain), ("traced_ns", traced)):
        start_ns = time.thread_time_ns()
        _forward(module, inputs, clone=False)
        times[name] = time.thread_time_ns() - start_ns
    return times, []


def end(params: Mapping[str, Any], _: Sequence[Array]) -> tuple[dict[str, Any], list[Array]]:
    """Write all traced runs into the file "etdump"."""
    traced, _plain, _inputs = _being_traced()
    traced.write_etdump_result_to_file(params["etdump"])
    forget()
    return {"versions": {name: version(name) for name in ("executorch", "torch")}}, []


def _being_traced() -> tuple[Any, Any, list[torch.Tensor]]:
    if _Kept.traced is None:
        raise ToolFailed("the process that traced the program has ended meanwhile")
    return _Kept.traced
