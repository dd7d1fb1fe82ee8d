"""The benchmark's figures follow from what was measured, and a miss is called a miss."""

import dataclasses

import pytest

import results
import tables
from results import OURS, OURS_LAST, REFERENCE, RIVAL, File, Model, Ratio, Report


def races(*medians):
    return tuple((one - 1, one, one + 5) for one in medians)


OUR_FILE = File(label=OURS, equal=True, ops=9, transposes=1, races_ns=races(100, 110, 90, 95, 105))
RIVAL_FILE = File(label=RIVAL, equal=True, ops=20, races_ns=races(200, 220, 180, 190, 210))
FOUND = results.Conversion(
    wall_s=0.2,
    cpu_s=0.1,
    weights_bytes=1_000_000,
    peak_bytes=120_000_000,
    verifying_peak_bytes=100_000_000,
    layout="1 layout conversion",
)
MODEL = Model(
    name="net",
    size_bytes=1_000_000,
    files=(OUR_FILE, RIVAL_FILE),
    reference_ns=races(50, 55, 45, 47, 53),
    commands={OURS: results.Command(wall_s=1.0, cpu_s=1.0, peak_bytes=1)},
    conversion=FOUND,
)


def report(*models, import_cpu_s=0.02):
    return Report(
        created="2026-01-01",
        machine="a machine",
        versions={"straightway": "0"},
        import_cpu_s=import_cpu_s,
        rival="",
        models=models,
    )


def missed(model, **options):
    found = results.aims(report(model, **options))
    return {aim.text: aim.missed for aim in found if aim.missed}


def change(model, label, **fields):
    files = tuple(
        dataclasses.replace(one, **fields) if one.label == label else one for one in model.files
    )
    return dataclasses.replace(model, files=files)


def test_a_ratio_pairs_the_rounds_of_each_race():
    ratio = Ratio.of(((10, 20, 30), (40, 40, 40)), ((10, 10, 10), (10, 10, 10)))
    assert (ratio.median, ratio.low, ratio.high) == (3.0, 2.0, 4.0)


def test_ratios_are_ours_by_theirs():
    assert MODEL.ratio(OURS, RIVAL).median == pytest.approx(0.5, abs=0.01)
    assert MODEL.ratio(OURS, REFERENCE).median == pytest.approx(2.0, abs=0.05)
    assert MODEL.ratio(OURS_LAST, RIVAL) is None


def test_a_wrong_file_wins_nothing():
    wrong = change(MODEL, RIVAL, equal=False)
    assert wrong.ratio(OURS, RIVAL) is None
    assert wrong.median_ns(RIVAL) == 200
    assert "**wrong**" in tables.latency(report(wrong))[0][-1]


def test_the_mean_is_geometric():
    twice = dataclasses.replace(MODEL, reference_ns=races(25, 27, 23, 24, 26))
    mean = report(MODEL, twice).geometric_mean(REFERENCE)
    assert mean**2 == pytest.approx(
        MODEL.ratio(OURS, REFERENCE).median * twice.ratio(OURS, REFERENCE).median
    )
    assert report().geometric_mean(REFERENCE) is None


def test_misses_are_named():
    assert set(missed(MODEL)) == {
        "geometric mean at most 0.95 × onnxruntime's CPU time",
        "no more TRANSPOSE than onnx2tf",
    }
    assert missed(MODEL)["no more TRANSPOSE than onnx2tf"] == (
        "net: 1, with --io nhwc 1; onnx2tf 0",
    )


def test_the_same_arrangement_is_compared_where_it_was_made():
    last = dataclasses.replace(OUR_FILE, label=OURS_LAST, transposes=0)
    model = dataclasses.replace(MODEL, files=(*MODEL.files, last))
    assert "no more TRANSPOSE than onnx2tf" not in missed(model)


@pytest.mark.parametrize(
    ("change_of", "aim"),
    [
        ({"commands": {OURS: results.Command(wall_s=1.6, cpu_s=1, peak_bytes=1)}}, "command"),
        ({"conversion": dataclasses.replace(FOUND, cpu_s=0.31)}, "conversion at most"),
        ({"conversion": dataclasses.replace(FOUND, peak_bytes=153_000_001)}, "converting in"),
        (
            {"conversion": dataclasses.replace(FOUND, verifying_peak_bytes=155_000_001)},
            "verifying in",
        ),
        ({"files": ()}, "every file"),
        ({"files": (dataclasses.replace(OUR_FILE, equal=False, note="y differs"),)}, "every file"),
        (
            {"files": (dataclasses.replace(OUR_FILE, races_ns=races(*[900] * 5)), RIVAL_FILE)},
            "CPU time",
        ),
    ],
)
def test_every_aim_can_be_missed(change_of, aim):
    changed = missed(dataclasses.replace(MODEL, **change_of))
    assert [text for text in changed if text.startswith(aim)]
    assert not [text for text in missed(MODEL) if text.startswith(aim)]


def test_without_the_rival_nothing_is_said_to_be_met():
    alone = dataclasses.replace(report(MODEL), rival="no Python 3.12")
    rows = [row for row in tables.aim_rows(results.aims(alone)) if "onnx2tf" in row[0]]
    assert len(rows) == 2
    assert {row[1:] for row in rows} == {("not measured: no Python 3.12", tables.NOTHING)}


def test_a_slow_import_is_a_miss():
    assert "import straightway in at most 150 ms of CPU time" in missed(MODEL, import_cpu_s=0.16)


def test_within_noise_is_no_miss():
    near = change(MODEL, OURS, races_ns=races(201, 221, 181, 191, 205))
    assert near.ratio(OURS, RIVAL).low < 1 < near.ratio(OURS, RIVAL).high
    assert not [text for text in missed(near) if text.startswith("CPU time")]


def test_the_page_tells_all():
    shares = (results.Share(name="matrix", ours_ns=3000.0, other_ns=1000.0),)
    loss = results.Loss(other=REFERENCE, categories=shares, operators=shares)
    whole = report(
        dataclasses.replace(MODEL, losses=(loss,)),
        Model(name="absent", skipped="no network"),
    )
    page = tables.page(whole, results.aims(whole))
    for text in ("| matrix | 3.0 | 1.0 | 2.0 |", "absent: not measured: no network", "0.50×"):
        assert text in page


def test_all_tables_are_rectangular():
    whole = report(MODEL)
    for header, rows in (
        (tables.LATENCY, tables.latency(whole)),
        (tables.STRUCTURE, tables.structure(whole)),
        (tables.COST, tables.costs(whole)),
    ):
        assert {len(row) for row in rows} == {len(header)}
        assert tables.terminal("t", header, rows).row_count == len(rows)
