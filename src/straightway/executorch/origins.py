"""Where a node of an exported program comes from: module path, file, line, code."""

import functools
import re
from pathlib import Path
from typing import Any

import torch

from straightway.ir.source import Source

_FRAME = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+), in .+$')
# passes of torch give their own files as "torch/fx/...", and a name in the place of modules
_LIBRARY = (str(Path(torch.__file__).parent), "torch/")
_NO_MODULE = "_empty_nn_module_stack"


def source_of(node: torch.fx.Node) -> Source:
    """The user's own line that a node stands for: the innermost frame outside of torch."""
    file, line, code = _place(node.meta.get("stack_trace") or "")
    return Source(
        node=node.name, op=target_name(node), file=file, line=line, code=code, module=_module(node)
    )


@functools.cache
def _place(trace: str) -> tuple[str, int, str]:
    best = ("", 0, "")
    lines = trace.splitlines()
    for number, text in enumerate(lines):
        frame = _FRAME.match(text)
        if frame is None or frame["file"].startswith(_LIBRARY):
            continue
        following = lines[number + 1].strip() if number + 1 < len(lines) else ""
        code = "" if _FRAME.match(following) else following
        best = (frame["file"], int(frame["line"]), code)
    return best


def _module(node: torch.fx.Node) -> str:
    """The path of the innermost module, as `named_modules` calls it."""
    stack: dict[str, Any] = node.meta.get("nn_module_stack") or {}
    paths = [str(path) for path, _ in stack.values()]
    if not paths or paths[-1].startswith(_NO_MODULE):
        return ""
    return paths[-1].removeprefix("L['self'].")


def target_name(node: torch.fx.Node) -> str:
    """The operator as users know it: "aten.convolution.default"."""
    name = getattr(node.target, "__name__", None) or str(node.target)
    schema = getattr(getattr(node.target, "_op", node.target), "_schema", None)
    if schema is None:
        return str(name)
    overload = schema.overload_name or "default"
    return f"{schema.name.replace('::', '.')}.{overload}"
