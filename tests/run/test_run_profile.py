"""Profiling: every operator joined to its op, the parts beside the whole, honest fallbacks."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_models as tiny

from straightway.errors import InvalidRequest, ToolFailed
from straightway.run import capi, litert, ort, peak, pieces_engine, profile_engine
from straightway.run.litert_trace import Marker, RawProfile, to_trace
from straightway.run.partition import Placement
from straightway.run.process import Call, Child
from straightway.run.race import Entrant, race
from straightway.trace import join, work
from straightway.trace.schema import Op

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="CPU-time clock")


@pytest.fixture(scope="module")
def child():
    with Child(engines=["litert"], measure=True) as one:
        yield one


X = np.ones((1, 10, 12, 3), np.float32)


def test_each_operator_is_joined_to_its_op(child, tmp_path):
    trace = litert.measure(child, tiny.conv_net(tmp_path / "m.tflite"), [X], runs=7, warmup=1)
    assert trace.run.operator_level, trace.run.reason
    assert (trace.run.runs, trace.run.warmup, trace.run.model) == (7, 1, "m.tflite")
    assert len(trace.total_ns) == 7
    assert join.joined_share(trace) == 1.0
    by_kind = {event.kind: event for event in trace.events}
    assert by_kind["CONV_2D"].place == "xnnpack"
    assert [e.op_index for e in trace.events if "Convolution" in e.name] == [0]
    assert [e.op_index for e in trace.events if e.kernel == "GEMM"] == [1, 4]
    assert sum(event.macs or 0 for event in trace.events) == 120 * 8 * (27 + 8) + 5 * 960
    assert trace.events[-1].place == "unaccounted"
    assert [event.id for event in trace.events] == list(range(len(trace.events)))


@linux
def test_small_operators_have_nanoseconds(child, tmp_path):
    assert child.has_cpu_clock, child.clock_reason
    trace = litert.measure(child, tiny.conv_net(tmp_path / "m.tflite"), [X], runs=5)
    assert (trace.run.clock, trace.run.tick_ns) == ("thread CPU", 1.0)
    assert trace.run.clock_cost_ns > 0
    convolution = next(event for event in trace.events if event.op_index == 0)
    assert 0 < convolution.median_ns < trace.median_ns * 1.5


def test_ops_outside_the_delegate_stand_between_its_partitions(child, tmp_path):
    path = tiny.split_net(tmp_path / "m.tflite")
    trace = litert.measure(child, path, [np.ones(4096, np.float32)], runs=3)
    rows = [(e.place, e.partition, e.op_index, e.kind) for e in trace.events[:-1]]
    assert rows == [
        ("xnnpack", 0, 0, "ABS"),
        ("builtin", None, 1, "CUMSUM"),
        ("xnnpack", 1, 2, "NEG"),
    ]
    starts = [event.start_ns for event in trace.events[:-1]]
    assert starts == sorted(starts)


def test_control_flow_is_not_counted_twice(child, tmp_path):
    path = tiny.if_net(tmp_path / "m.tflite")
    trace = litert.measure(child, path, [np.ones(4, np.float32)], runs=3)
    kinds = {event.kind: event for event in trace.events if event.subgraph == 0}
    bodies = [event for event in trace.events if event.subgraph == 1]
    assert len(bodies) == 1
    assert (bodies[0].kind, bodies[0].op_index) == ("ADD", 0)
    assert join.joined_share(trace) == 1.0
    assert bodies[0].owner == kinds["IF"].op_index
    # an IF does hardly more than to call a body
    assert kinds["IF"].median_ns < trace.median_ns
    assert trace.accounted < 1.1 or "the operators sum to" in trace.run.reason


def test_open_dimensions_are_profiled_at_the_given_size(child, tmp_path):
    path = tiny.conv_net(tmp_path / "m.tflite", open_batch=True)
    trace = litert.measure(child, path, [np.ones((2, 10, 12, 3), np.float32)], runs=2)
    assert trace.run.operator_level, trace.run.reason
    assert trace.ops[0].outputs[0].shape == (2, 10, 12, 8)


def test_variable_tensors_are_timed_piece_by_piece(child, tmp_path):
    path = tiny.lstm_net(tmp_path / "m.tflite")
    trace = litert.measure(child, path, [np.ones((1, 5, 3), np.float32)], runs=3)
    assert trace.run.operator_level
    assert trace.run.reason.startswith("timed piece by piece: LiteRtCreateModelFromFile")
    rows = [(e.place, e.partition, e.op_index, e.kind) for e in trace.events[:-1]]
    assert rows == [
        ("xnnpack", 0, 0, "NEG"),
        ("builtin", None, 1, "UNIDIRECTIONAL_SEQUENCE_LSTM"),
        ("xnnpack", 1, 2, "ABS"),
        ("builtin", None, 3, "CUMSUM"),
        ("xnnpack", 2, 4, "EXP"),
    ]
    assert trace.events[1].macs == 5 * (4 * 12 + 4 * 16)
    assert 0.5 < trace.operator_ns / trace.median_ns < 1.5


def test_control_flow_has_no_pieces(tmp_path):
    path = tiny.if_net(tmp_path / "m.tflite")
    placed = {"partitions": [], "outside": [0, 1, 2]}
    params = {"path": str(path), "inputs": None}
    with pytest.raises(capi.Refused, match="control flow"):
        list(pieces_engine.pieces(params, [np.ones(4, np.float32)], placed, tmp_path))


def test_without_the_shim_the_trace_says_wall(tmp_path):
    path = tiny.split_net(tmp_path / "m.tflite")
    with Child() as plain:
        trace = litert.measure(plain, path, [np.ones(4096, np.float32)], runs=2)
        assert (trace.run.clock, trace.run.tick_ns) == ("wall", 1000.0)
        threads = litert.measure(plain, path, [np.ones(4096, np.float32)], runs=2, threads=2)
        assert threads.run.threads == 2


def test_a_missing_compiler_is_told_in_the_trace(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    path = tiny.split_net(tmp_path / "m.tflite")
    with Child(measure=True) as plain:
        trace = litert.measure(plain, path, [np.ones(4096, np.float32)], runs=2)
    assert trace.run.clock == "wall"
    assert "C compiler" in trace.run.reason


@linux
def test_more_threads_need_the_wall_clock(child, tmp_path):
    with pytest.raises(InvalidRequest, match="one thread"):
        litert.measure(child, tmp_path / "m.tflite", [], threads=2)


def test_only_the_whole_model_where_operators_are_not_asked_for(child, tmp_path):
    path = tiny.split_net(tmp_path / "m.tflite")
    raw = child.call(litert.profile(path, [np.ones(4096, np.float32)], runs=2, operators=False))
    assert raw.markers == ()
    assert len(raw.total_ns) == 2
    assert "whole model" in raw.reason


def test_zero_runs_are_refused(tmp_path):
    for make in (litert.profile, ort.profile):
        with pytest.raises(InvalidRequest, match="at least one run; got 0"):
            make(tmp_path / "m", {}, runs=0)


class _DyingChild(Child):
    """A child whose operator profile takes the process down, as a changed library might."""

    def call(self, call: Call, *, timeout_s=None):
        if call.params.get("operators"):
            raise ToolFailed("it ended with signal SIGSEGV", output="and said this")
        return super().call(call, timeout_s=timeout_s)


def test_a_crash_of_the_profiler_leaves_the_time_of_the_whole(tmp_path):
    path = tiny.split_net(tmp_path / "m.tflite")
    with _DyingChild() as child:
        trace = litert.measure(child, path, [np.ones(4096, np.float32)], runs=2)
    assert not trace.run.operator_level
    assert trace.run.reason == "only the whole model was asked for; it ended with signal SIGSEGV"
    assert trace.events == ()
    assert trace.median_ns > 0


@pytest.mark.parametrize(
    ("breakage", "says"),
    [
        (("litert_version", lambda: "3.0.0"), "tested with LiteRT 2.3.x; got 3.0.0"),
        (("_LIBRARY", "libMissing.so"), "libMissing.so can't be loaded"),
    ],
)
def test_an_unknown_c_api_is_refused(monkeypatch, tmp_path, breakage, says):
    monkeypatch.setattr(capi, *breakage)
    path = str(tiny.split_net(tmp_path / "m.tflite"))
    params = {
        "path": path, "inputs": None, "runs": 2, "warmup": 0, "threads": 1, "operators": True,
    }  # fmt: skip
    answer, arrays = profile_engine.profile(params, [np.ones(4096, np.float32)])
    assert says in answer["reason"]
    assert answer["events"] == []
    assert arrays[0].size == 0
    assert len(answer["total_ns"]) == 2


def _event(**changes):
    fields = {"name": "ADD", "type": 2, "index": 0, "subgraph": 0, "start": 0, "elapsed": 1}
    return capi.RawEvent(**{**fields, **changes})


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([_event(type=3)], "damaged: type 3"),
        ([_event(name="\x02\x03")], "damaged"),
        ([_event(name="")], "damaged"),
        ([_event(type=16)], "no operators"),
        ([], "no operators"),
    ],
)
def test_events_that_look_wrong_are_refused(events, says):
    with pytest.raises(capi.Refused, match=says):
        capi.check_events(events)


class _FakeModel:
    """Runs once in full, as a compiled model with dynamic outputs does."""

    made = 0

    def __init__(self):
        type(self).made += 1
        self.runs = 0

    def run(self):
        self.profiled_run()

    def profiled_run(self):
        self.runs += 1
        if self.runs > 1:
            raise capi.Refused("LiteRtRunCompiledModel answers status 3")
        return [_event()]

    def close(self):
        pass


def test_dynamic_outputs_are_profiled_on_fresh_models():
    operators = profile_engine._Operators(_FakeModel)
    operators.measure(3)
    operators.measure(2)
    assert len(operators.runs) == 5
    assert operators.reason == (
        "each profiled run is a first one: LiteRtRunCompiledModel answers status 3"
    )


def test_the_turns_of_a_loop_are_added_and_its_op_keeps_only_its_own_time():
    def marker(name, kind, index, subgraph=0):
        return Marker(name=name, type=kind, index=index, subgraph=subgraph)

    turn = [marker("Invoke", 1, 0, 1), marker("Add (ND)", 8, 0, 0), marker("CUMSUM", 2, 1, 1),
            marker("Exp (NC)", 8, 0, 0), marker("Invoke", 32, 2**64 - 1, 1)]  # fmt: skip
    turn = [replace(one, subgraph=1) if one.type == 8 else one for one in turn]
    markers = [marker("Invoke", 1, 0), marker("Negate (NC)", 8, 0), marker("WHILE", 2, 1), *turn,
               *turn, marker("Invoke", 32, 2**64 - 1), marker("LiteRT::Run[Buffer sync]", 1, 0)]  # fmt: skip
    elapsed = [999, 10, 1000, *[999, 20, 30, 40, 0] * 2, 0, 7]
    raw = RawProfile(
        markers=tuple(markers),
        elapsed=np.array([elapsed, elapsed]),
        total_ns=(1000.0,),
        ops=(Op(index=0, kind="NEG"), Op(index=1, kind="WHILE")),
        placement=Placement(partitions=((0,),), outside=(1,)),
        bodies=(("NEG", "WHILE"), ("ADD", "CUMSUM", "EXP")),
        clock={"name": "thread CPU", "tick_ns": 1.0, "cost_ns": 0.0},
    )
    trace = to_trace(raw)
    rows = {
        event.kind: (event.subgraph, event.partition, event.median_ns) for event in trace.events
    }
    assert rows == {
        "NEG": (0, 0, 10.0),
        # 1000 less two turns of 20 + 30 + 40, less two readings of 7 around each inner "Invoke"
        "WHILE": (0, None, 1000.0 - 180.0 - 28.0),
        "ADD": (1, 0, 40.0),
        "CUMSUM": (1, None, 60.0),
        "EXP": (1, 1, 80.0),
        "": (0, None, 1000.0 - 10.0 - 792.0 - 180.0),
    }


def test_parts_beyond_the_whole_are_doubted():
    raw = RawProfile(
        markers=(Marker(name="CUMSUM", type=2, index=0, subgraph=0),),
        elapsed=np.array([[5000]]),
        total_ns=(1000.0,),
        ops=(Op(index=0, kind="CUMSUM"),),
        placement=Placement(outside=(0,)),
        clock={"name": "thread CPU", "tick_ns": 1.0, "cost_ns": 0.0},
    )
    trace = to_trace(raw, "a doubt")
    # The profiler's own bookkeeping explains one tick.
    assert trace.run.reason == "a doubt; the operators sum to 4999 ns, the whole model to 1000 ns"
    assert trace.events[-1].median_ns == -3999.0
    assert trace.accounted == 4.999


def _built_in(elapsed, *, total_ns, cost_ns):
    """A profile of one run of CUMSUMs, with what each took before the cost of the clock."""
    count = len(elapsed)
    return RawProfile(
        markers=tuple(Marker(name="CUMSUM", type=2, index=i, subgraph=0) for i in range(count)),
        elapsed=np.array([elapsed]) + cost_ns,
        total_ns=(total_ns,),
        ops=tuple(Op(index=i, kind="CUMSUM") for i in range(count)),
        placement=Placement(outside=tuple(range(count))),
        clock={"name": "thread CPU", "tick_ns": 1.0, "cost_ns": float(cost_ns)},
    )


def test_what_the_profiler_spends_on_each_event_is_taken_off_and_told():
    trace = to_trace(_built_in([400, 50, 1000], total_ns=1200.0, cost_ns=200))
    # 250 too much: half of the smallest, the same from each of the others.
    assert [event.median_ns for event in trace.events] == [287.5, 25.0, 887.5, 0.0]
    assert trace.run.reason == "took off 112 ns an event, the profiler's own bookkeeping"
    assert trace.accounted == 1.0


def test_a_loop_and_what_runs_in_it_may_lose_all_of_their_time():
    def marker(name, kind, index, subgraph=0):
        return Marker(name=name, type=kind, index=index, subgraph=subgraph)

    turn = [marker("Invoke", 1, 0, 1), marker("CUMSUM", 2, 0, 1), marker("Invoke", 32, 0, 1)]
    raw = RawProfile(
        markers=(marker("WHILE", 2, 0), *turn, *turn),
        elapsed=np.array([[450, 0, 180, 0, 0, 180, 0]]),
        total_ns=(150.0,),
        ops=(Op(index=0, kind="WHILE"),),
        placement=Placement(outside=(0,)),
        bodies=(("WHILE",), ("CUMSUM",)),
        clock={"name": "thread CPU", "tick_ns": 1.0, "cost_ns": 50.0},
    )
    trace = to_trace(raw)
    rows = {event.kind: event.median_ns for event in trace.events}
    # 150 too much, of 40 of the loop's own and 2 · 130 of its body's
    assert rows == {"WHILE": 0.0, "CUMSUM": 150.0, "": 0.0}
    assert trace.run.reason == "took off 55 ns an event, the profiler's own bookkeeping"


def test_nothing_is_taken_off_where_the_parts_are_within_the_whole():
    trace = to_trace(_built_in([400, 50, 1000], total_ns=1500.0, cost_ns=200))
    assert [event.median_ns for event in trace.events] == [400.0, 50.0, 1000.0, 50.0]
    assert trace.run.reason == ""


def test_loops_that_share_a_body_keep_apart_what_ran_in_it():
    def marker(name, kind, index, subgraph=0):
        return Marker(name=name, type=kind, index=index, subgraph=subgraph)

    turn = [marker("Invoke", 1, 0, 1), marker("Exp (NC)", 8, 0, 1),
            marker("IF", 2, 1, 1), marker("Invoke", 1, 0, 2), marker("CUMSUM", 2, 0, 2),
            marker("Invoke", 32, 0, 2), marker("Invoke", 32, 0, 1)]  # fmt: skip
    markers = [marker("WHILE", 2, 0), *turn, marker("WHILE", 2, 1), *turn, *turn]
    spent = [0, 20, 100, 0, 60, 0, 0]
    raw = RawProfile(
        markers=tuple(markers),
        elapsed=np.array([[200, *spent, 300, *spent, *spent]]),
        total_ns=(500.0,),
        ops=(Op(index=0, kind="WHILE"), Op(index=1, kind="WHILE")),
        placement=Placement(outside=(0, 1)),
        bodies=(("WHILE", "WHILE"), ("EXP", "IF"), ("CUMSUM",)),
        clock={"name": "thread CPU", "tick_ns": 1.0, "cost_ns": 0.0},
    )
    trace = to_trace(raw)
    rows = {(e.owner, e.kind, e.op_index): e.median_ns for e in trace.events[:-1]}
    assert rows == {
        (None, "WHILE", 0): 80.0, (0, "EXP", 0): 20.0, (0, "IF", 1): 40.0, (0, "CUMSUM", 0): 60.0,
        (None, "WHILE", 1): 60.0, (1, "EXP", 0): 40.0, (1, "IF", 1): 80.0, (1, "CUMSUM", 0): 120.0,
    }  # fmt: skip
    assert trace.accounted == 1.0
    nodes = {0: ["a"], 1: ["b"]}
    assert {row.nodes: row.duration_ns for row in join.by_node(trace, nodes)} == {
        ("a",): 200.0, ("b",): 300.0,
    }  # fmt: skip


def test_another_number_of_partitions_is_aligned_all_at_once():
    raw = RawProfile(
        markers=tuple(
            Marker(name=name, type=8, index=index, subgraph=0)
            for index, name in enumerate(["Add (ND)", "Exp (NC)"])
        ),
        elapsed=np.array([[5, 6]]),
        total_ns=(11.0,),
        ops=(Op(index=0, kind="ADD"), Op(index=1, kind="CUMSUM"), Op(index=2, kind="EXP")),
        placement=Placement(partitions=((0,), (2,)), outside=(1,)),
        clock={"name": "thread CPU", "tick_ns": 1.0, "cost_ns": 0.0},
    )
    events = to_trace(raw).events
    assert [(event.op_index, event.partition) for event in events[:2]] == [(0, 0), (2, 1)]


def test_runs_of_another_shape_are_dropped():
    usual, other = [_event(), _event(index=1)], [_event()]
    events, elapsed = profile_engine._alike([other, usual, usual])
    assert len(events) == 2
    assert elapsed.shape == (2, 2)


def test_onnxruntime_node_by_node(tmp_path):
    path = tiny.onnx_net(tmp_path / "m.onnx")
    x = np.ones((64, 3), np.float32)
    with Child(engines=["onnxruntime"], measure=True) as child:
        trace = child.call(ort.profile(path, {"x": x}, runs=4, warmup=2))
    assert trace.run.runtime == "onnxruntime"
    assert len(trace.total_ns) == 4
    assert {event.place for event in trace.events} == {"onnxruntime", "unaccounted"}
    product = next(event for event in trace.events if "MatMul" in event.kind)
    assert (product.macs, product.moved_bytes) == (64 * 3 * 700, None)
    assert len(product.samples_ns) == 4
    assert join.by_category(trace)["matrix"] == product.median_ns


def test_a_race_takes_samples_in_turns(tmp_path):
    path = tiny.onnx_net(tmp_path / "m.onnx")
    other = tiny.conv_net(tmp_path / "m.tflite")
    entrants = [
        Entrant(engine="onnxruntime", path=path, inputs={"x": np.ones((4, 3), np.float32)}),
        Entrant(engine="litert", path=other, inputs={"x": X}),
    ]
    with Child() as child:
        samples = child.call(race(entrants, rounds=5))
        assert [len(one) for one in samples] == [5, 5]
        assert all(sample > 0 for one in samples for sample in one)
        with pytest.raises(InvalidRequest, match="got tvm"):
            child.call(race([Entrant(engine="tvm", path=path, inputs={})]))
    with pytest.raises(InvalidRequest, match="entrants and rounds"):
        race([], rounds=1)


def test_the_peak_is_above_what_one_op_reaches(child):
    got = child.call(peak.measure())
    assert got.gmacs["int8"] > 0
    assert got.gmacs["float32"] > 1
    sizes, rates = zip(*got.bandwidths, strict=True)
    assert list(sizes) == sorted(sizes)
    assert list(rates) == sorted(rates, reverse=True)
    assert rates[-1] > 0.5
    assert got.limit_ns(10**9, 10, "float32") == pytest.approx(1e9 / got.gmacs["float32"])


CORPUS = Path(os.environ.get("STRAIGHTWAY_CORPUS", "no corpus"))


@pytest.mark.skipif(not CORPUS.is_dir(), reason="STRAIGHTWAY_CORPUS names no folder of models")
@pytest.mark.parametrize("name", ["vww_mobilenetv1_fp32", "oww_hey_jarvis_tfl", "selfie_seg_fp16"])
def test_real_models_are_joined(child, name):
    path = CORPUS / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"the corpus lacks {name}")
    shapes = {"vww": (1, 96, 96, 3), "oww": (1, 16, 96), "sel": (1, 256, 256, 3)}
    x = np.random.default_rng(0).random(shapes[name[:3]]).astype(np.float32)
    trace = litert.measure(child, path, [x], runs=5)
    assert join.joined_share(trace) >= 0.95
    assert work.macs(trace.ops[0]) is not None
