"""A slice of ONNX's backend tests, and that the whole run would see what is wrong.

`make conformance` runs all of them, and each with verification, too.
"""

import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from conformance import lists
from conformance.attempt import ENGINES, Wrong, attempt, check
from conformance.run import describe, jobs, keys, table
from conformance.suite import cases
from conformance.workers import Job, attempt_all
from straightway.run.process import Child

EVERY = 4
EVERY_VERIFIED = 40


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child(engines=ENGINES) as made:
        yield made


@pytest.fixture(scope="module")
def all_jobs() -> list[Job]:
    return list(jobs("", (False, True)))


def in_slice(job: Job) -> bool:
    return zlib.crc32(job.case.name.encode()) % (EVERY_VERIFIED if job.verify else EVERY) == 0


def problems(chosen: list[Job], child: Child, folder: Path) -> list[str]:
    """What a run of these jobs finds wrong, the lists included."""
    found, refused = [], {}
    for job in chosen:
        end = attempt(job.case, child, folder, verify=job.verify)
        if end.status == "refused":
            refused |= dict.fromkeys(keys(job), end.reason)
        elif end.status != "pass":
            found.append(describe(job, end))
    if onnx.__version__.startswith(lists.ONNX_VERSION):
        found += lists.complaints(refused, [key for job in chosen for key in keys(job)])
    return found


@pytest.mark.timeout(240)
def test_a_slice_passes_or_is_refused_as_listed(
    all_jobs: list[Job], child: Child, tmp_path: Path
) -> None:
    chosen = [job for job in all_jobs if in_slice(job)]
    assert len(chosen) > 100
    assert not problems(chosen, child, tmp_path)


def test_the_whole_suite_is_there(all_jobs: list[Job]) -> None:
    if onnx.__version__.startswith(lists.ONNX_VERSION):
        assert len({job.case.name for job in all_jobs}) == 1765
    assert {mode for job in all_jobs for mode in job.modes} == {"frozen", "as-is"}


def test_lists_are_told_apart_and_read_back(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(lists, "FOLDER", tmp_path)
    cannot, could = "TFLite's ABS takes f32; got f64 (kernels/abs.cc:12)", "no lowering so far"
    assert lists.is_impossible(cannot)
    assert not lists.is_impossible(could)
    lists.write("impossible", {("a", "frozen"): cannot, ("a", "as-is"): cannot})
    lists.write("not_yet", {("b", "as-is"): could})
    assert lists.read("impossible") == {("a", "frozen"): cannot, ("a", "as-is"): cannot}
    found = {("a", "frozen"): cannot, ("a", "as-is"): cannot, ("b", "as-is"): could}
    assert not lists.complaints(found, [*found, ("b", "frozen")])
    [gone] = lists.complaints({}, [("b", "as-is")])
    assert "not refused any more" in gone
    [new] = lists.complaints({("c", "frozen"): could}, [("c", "frozen")])
    assert "does not list" in new
    [moved] = lists.complaints({("a", "frozen"): could}, [("a", "frozen")])
    assert "does not list" in moved
    [other] = lists.complaints({("b", "as-is"): "no kernel"}, [("b", "as-is")])
    assert "another reason" in other


def test_a_wrong_value_type_or_shape_is_seen() -> None:
    want = np.array([1.0, np.nan], np.float32)
    check("y", want, want.copy())
    for got in (want + 1, want.astype(float), want.reshape(1, 2)):
        with pytest.raises(Wrong):
            check("y", want, got)
    with pytest.raises(Wrong):
        check("y", np.array([1, 2]), np.array([1, 3]))


def test_wrong_expected_values_are_wrong_not_refused(child: Child, tmp_path: Path) -> None:
    [case] = [case for case in cases() if case.name == "test_add"]
    given, wanted = case.sets[0]
    assert attempt(case, child, tmp_path, verify=False).status == "pass"
    other = replace(case, sets=[(given, [wanted[0] + 1])])
    assert attempt(other, child, tmp_path, verify=False).status == "wrong"
    renamed = onnx.ModelProto.FromString(case.model.SerializeToString())
    renamed.graph.output[0].name = renamed.graph.node[0].output[0] = "other"
    kept = attempt(replace(case, model=renamed), child, tmp_path, verify=False)
    assert kept.status == "pass"


def test_a_hang_or_a_death_loses_one_case_only() -> None:
    [case] = [case for case in cases() if case.name == "test_add"]
    good = Job(modes=("frozen", "as-is"), case=case, verify=False)
    dead = replace(good, case=None)  # it raises where nothing catches it
    ends = {(job.case is None): end for job, end in attempt_all([dead, good], 1, 60.0)}
    assert ends[True].status == "crash"
    assert ends[False].status == "pass"
    [(_, end)] = attempt_all([good], 1, 0.0)
    assert (end.status, end.reason) == ("crash", "took too long")
    assert "frozen, not verified: 0 of 1 pass" in table([(good, end)])
    assert "test_add, frozen and as-is: crash" in describe(good, end)
