"""A loss is explained by the operators that make the same value."""

import losses
from straightway.trace.schema import Event, Op, Trace


def trace(*times):
    """A trace of (operator name, result or None, nanoseconds)."""
    ops = tuple(
        Op(index=index, kind="CONV_2D", name=result, inputs=(), outputs=())
        for index, (_, result, _) in enumerate(times)
        if result is not None
    )
    events = tuple(
        Event(
            id=index,
            name=name,
            kind="CONV_2D",
            op_index=None if result is None else index,
            place="xnnpack",
            samples_ns=(float(duration_ns),),
        )
        for index, (name, result, duration_ns) in enumerate(times)
    )
    return Trace(run=None, events=events, total_ns=(1.0,), ops=ops)


def test_operators_are_joined_by_what_they_make():
    ours = trace(("GEMM", "a", 100), ("GEMM", "a", 20), ("IGEMM", "b", 50))
    theirs = trace(("a_nchwc", None, 90), ("ReorderOutput", None, 70))
    found = losses._loss("onnxruntime", ours, theirs)
    assert [(one.name, one.ours_ns, one.other_ns) for one in found.operators] == [
        ("b", 50, 0),
        ("a", 120, 90),
        ("ReorderOutput", 0, 70),
    ]
    assert sum(one.ours_ns for one in found.categories) == 170
