"""Caps the instruction set that XNNPACK may use in this process, to see what a feature brings.

XNNPACK chooses its kernels by cpuinfo's flags, which the wheel's thread-pool library exports; clearing
some hides the feature, if ExecuTorch's bindings are not loaded yet: they choose as they are. For x86-64 only.
"""

import ctypes
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import files
from pathlib import Path

import torch

from straightway.errors import Bug, InvalidRequest, ToolFailed

_POOL = "libexecutorch_threadpool.so"
_BINDINGS = "executorch.extension.pybindings._portable_lib"
# struct cpuinfo_x86_isa of cpuinfo.h, one byte each, as built for x86-64.
_NAMES = """rdtscp rdpid sysenter msr clzero clflush clflushopt mwait mwaitx fxsave xsave three_d_now
    three_d_now_plus prefetch prefetchw prefetchwt1 sse3 ssse3 sse4_1 sse4_2 sse4a misaligned_sse avx
    avxvnni fma3 fma4 xop f16c avx2 avx512f avx512pf avx512er avx512cd avx512dq avx512bw avx512vl
    avx512ifma avx512vbmi avx512vbmi2 avx512bitalg avx512vpopcntdq avx512vnni avx512bf16 avx512fp16
    avx512vp2intersect avx512_4vnniw avx512_4fmaps avx10_1 avx10_2 amx_bf16 amx_tile amx_int8
    amx_fp16 amx_fp8 avx_vnni_int8 avx_vnni_int16 avx_ne_convert"""
FIELDS = tuple(_NAMES.split())
# How /proc/cpuinfo spells those that tell whether the struct is the one described here.
_WITNESSES = {
    "sse4_1": "sse4_1",
    "avx": "avx",
    "fma3": "fma",
    "f16c": "f16c",
    "avx2": "avx2",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16",
}


def cap(features: Sequence[str]) -> dict[str, bool]:
    """Clear features ("avx512vnni", "avx512*") and return what the processor has.

    Call it before the bindings are imported. Raises InvalidRequest for an unknown feature,
    ToolFailed where the flags can't be found.
    """
    if _BINDINGS in sys.modules:
        raise Bug("XNNPACK has chosen its kernels; what is capped now is not hidden")
    flags = _flags()
    has = {name: bool(flags[place]) for place, name in enumerate(FIELDS)}
    for feature in features:
        hit = [name for name in FIELDS if _matches(name, feature)]
        if not hit:
            known = ", ".join(
                name
                for name in FIELDS
                if has[name] and name.startswith(("avx", "fma", "amx", "f16c", "sse4"))
            )
            raise InvalidRequest(
                f"no feature of x86 is called '{feature}'; this processor has {known}"
            )
        for name in hit:
            flags[FIELDS.index(name)] = 0
    return has


def _matches(name: str, feature: str) -> bool:
    return name.startswith(feature[:-1]) if feature.endswith("*") else name == feature


def _flags() -> "ctypes.Array[ctypes.c_uint8]":
    if platform.machine() != "x86_64":
        raise ToolFailed(
            f"instruction sets can be capped on x86-64 only; this is {platform.machine()}"
        )
    _ = torch.__version__  # its libraries must be there first
    try:
        (library,) = (one for one in files("executorch") or () if one.name == _POOL)
        pool = ctypes.CDLL(str(library.locate()), ctypes.RTLD_GLOBAL)
        if not pool.cpuinfo_initialize():
            raise ToolFailed("cpuinfo can't tell this processor's features")
        flags = (ctypes.c_uint8 * len(FIELDS)).in_dll(pool, "cpuinfo_isa")
    except (OSError, ValueError, AttributeError) as error:
        raise ToolFailed(f"this executorch does not export cpuinfo's flags: {error}") from error
    _check(flags)
    return flags


def _check(flags: "ctypes.Array[ctypes.c_uint8]") -> None:
    """The struct is an ABI: compare it with what the kernel says before anything is cleared."""
    told = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    words = set(next((x for x in told.splitlines() if x.startswith("flags")), "").split())
    for name, spelled in _WITNESSES.items():
        if bool(flags[FIELDS.index(name)]) != (spelled in words):
            raise ToolFailed(
                f"cpuinfo's flags have another order in this executorch: {name} is wrong"
            )
