"""The measuring clock: built on demand, atomically, and only where it can be."""

import ctypes
import os
import stat
import subprocess
import sys
import time

import pytest

from straightway.run import clock

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="LD_PRELOAD is Linux's")


@linux
def test_the_shim_is_built_once(tmp_path):
    first = clock.shim(tmp_path)
    assert first.path is not None, first.reason
    stamp = first.path.stat().st_mtime_ns
    assert clock.shim(tmp_path).path == first.path
    assert first.path.stat().st_mtime_ns == stamp
    assert list(tmp_path.iterdir()) == [first.path]


@linux
def test_the_shim_counts_cpu_time_a_thousandfold(tmp_path):
    code = (
        "import time\n"
        "cpu, wall = time.thread_time_ns(), time.monotonic_ns()\n"
        "sum(range(200_000))\n"
        "wall, cpu = time.monotonic_ns() - wall, time.thread_time_ns() - cpu\n"
        "print(wall / cpu)\n"
        "from straightway.run import clock\n"
        "print(clock.active().name, clock.active().profiler_ns, clock.active().cost_ns > 0)\n"
    )
    environment = {**os.environ, "LD_PRELOAD": str(clock.shim(tmp_path).path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    ratio, facts = done.stdout.splitlines()
    assert 950 < float(ratio) < 1050
    assert facts == "thread CPU 1.0 True"


def test_without_the_shim_time_is_wall_time():
    clock.active.cache_clear()
    active = clock.active()
    assert (active.name, active.profiler_ns, active.cost_ns) == ("wall", 1000.0, 0.0)
    assert abs(active.now_ns() - time.perf_counter_ns()) < 1e9


@linux
def test_no_compiler_is_a_reason_not_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    assert clock.shim(tmp_path).path is None
    assert "found no cc" in clock.shim(tmp_path).reason


@linux
def test_a_failing_compiler_is_a_reason_not_an_error(tmp_path, monkeypatch):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\nexit 3\n")
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(compiler))
    got = clock.shim(tmp_path / "cache")
    assert got.path is None
    assert "exit status 3" in got.reason
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_a_reason(tmp_path):
    (tmp_path / "file").write_text("")
    got = clock.shim(tmp_path / "file")
    assert got.path is None
    assert got.reason


@linux
@pytest.mark.parametrize("name", ["two words", "a:b"])
def test_a_folder_that_divides_the_preload_list_is_a_reason(tmp_path, name):
    assert f"preloaded from {tmp_path / name}" in clock.shim(tmp_path / name).reason


def test_other_systems_have_no_shim(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "got darwin" in clock.shim().reason


def test_the_cache_folder_follows_xdg(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert clock.cache_folder() == tmp_path / "straightway"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert clock.cache_folder() == tmp_path / ".cache" / "straightway"


@linux
def test_one_reading_has_a_plausible_cost(tmp_path):
    library = ctypes.CDLL(str(clock.shim(tmp_path).path))
    library.straightway_clock_cost_ns.restype = ctypes.c_double
    assert library.straightway_clock_scale() == 1000
    # Loaded without preloading, it still measures itself, through its own clock_gettime or libc's.
    assert library.straightway_clock_cost_ns(100) >= 0


@linux
def test_the_shim_spares_the_profiler_its_questions_for_memory(tmp_path):
    other = tmp_path / "file"
    other.write_text("text")
    code = (
        "import ctypes, resource\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.fopen64.restype = ctypes.c_void_p\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, libc.fopen64(b'/proc/self/status', b'r'))\n"
        f"print(libc.fopen64({str(other).encode()!r}, b'r') is not None)\n"
    )
    environment = {**os.environ, "LD_PRELOAD": str(clock.shim(tmp_path).path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["0 None", "True"]
