"""What a report shows of a conversion and its measurement."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version

from straightway.domains import plan
from straightway.flow.convert import Conversion
from straightway.flow.measure import Measurement
from straightway.flow.operator_rows import operator_rows
from straightway.flow.tolerance import Check
from straightway.flow.verify import Difference, Verification
from straightway.report.quantity import plural
from straightway.report.summary import category_times
from straightway.report.view import (
    Bandwidth,
    CategoryTime,
    FirstDifference,
    Latency,
    LayoutConversion,
    Machine,
    ModelFile,
    OperatorRow,
    Partition,
    Plan,
    ResultFile,
    StepTime,
    Timing,
    ValueCheck,
    Verdict,
    View,
)
from straightway.run.partition import Placement
from straightway.tflite.rows import ROWS
from straightway.trace.statistics import Spread

PACKAGES = ("straightway", "ai-edge-litert", "onnxruntime", "onnx", "numpy")


def view_of(
    conversion: Conversion,
    verification: Verification,
    measurement: Measurement | None,
    *,
    created: str,
    command: str = "",
) -> View:
    """Gather everything into the plain data of a report."""
    operators = operator_rows(conversion, verification.ran.placement, measurement)
    return View(
        title=conversion.model.name,
        created=created,
        command=command,
        model=_model(conversion),
        result=_result(conversion),
        verdict=verdict_of(verification),
        versions={name: version(name) for name in PACKAGES},
        machine=_machine(measurement),
        latency=_latency(measurement, conversion),
        categories=_categories(operators, measurement),
        operators=tuple(operators),
        partitions=_partitions(conversion, verification.ran.placement),
        plan=_plan(conversion, operators),
        # the plan shows its conversions itself
        remarks=tuple(r for r in conversion.remarks if r.step != plan.STEP),
        conversion_ns=sum(conversion.translation.steps_s.values()) * 1e9,
        steps=tuple(
            StepTime(name=name, time_ns=seconds * 1e9)
            for name, seconds in conversion.translation.steps_s.items()
        ),
        notes=_notes(measurement),
    )


def _notes(measurement: Measurement | None) -> tuple[str, ...]:
    """What is to be known of the measurement, the profiler's own doubts among it.

    Where nothing was measured by operator, the latency says why.
    """
    if measurement is None:
        return ()
    run = measurement.trace.run
    doubts = (f"operators by {run.runtime}'s profiler: {run.reason}",) if run.reason else ()
    return (*measurement.notes, *(doubts if run.operator_level else ()))


def _model(conversion: Conversion) -> ModelFile:
    translation = conversion.translation
    opset = translation.source.opsets.get("", translation.source.opsets.get("ai.onnx", 0))
    return ModelFile(
        name=conversion.model.name,
        bytes=conversion.model.stat().st_size,
        opset=str(opset),
        nodes=translation.node_count,
    )


def _result(conversion: Conversion) -> ResultFile:
    name = conversion.path.name if conversion.path is not None else "(in memory)"
    ops = len(conversion.translation.written.operators)
    return ResultFile(name=name, bytes=conversion.size_bytes, ops=ops)


def verdict_of(found: Verification) -> Verdict:
    """Equal or different, with every comparison."""
    worst = found.worst
    if found.equal:
        note = f"; {found.note}" if found.note else ""
        text = (
            f"{plural(len(found.outputs) // found.seeds, 'output')} on "
            f"{plural(found.seeds, 'set')} of inputs and "
            f"{plural(len(found.interior), 'interior value')} equal those of onnxruntime{note}"
        )
    else:
        text = f"'{worst.name}' {worst.reason}"
    return Verdict(
        status="equal" if found.equal else "different",
        text=text,
        worst_error=worst.max_error,
        tolerance=worst.bound,
        seeds=found.seeds,
        outputs=_outputs(found),
        interior_count=len(found.interior),
        interior=tuple(_check(c) for c in found.interior),
        first_difference=_difference(found.difference),
    )


def _outputs(found: Verification) -> tuple[ValueCheck, ...]:
    """Each output once: `found` lists all of them for each set of inputs in turn."""
    count = len(found.outputs) // found.seeds
    by_output = [found.outputs[place::count] for place in range(count)]
    return tuple(
        replace(_check(max(sets, key=_error)), sets=tuple(_check(one) for one in sets))
        for sets in by_output
    )


def _error(check: Check) -> tuple[bool, float]:
    return not check.equal, check.max_error


def _check(check: Check) -> ValueCheck:
    return ValueCheck(
        name=check.name,
        shape=check.shape,
        dtype=check.dtype,
        max_error=float(check.max_error),
        bound=float(check.bound),
        equal=bool(check.equal),
    )


def _difference(found: Difference | None) -> FirstDifference | None:
    if found is None:
        return None
    return FirstDifference(
        node=found.node,
        op=found.op,
        element=f"{found.check.name}{list(found.check.place) if found.check.place else ''}",
        expected=found.check.expected,
        got=found.check.found,
        source=found.source,
    )


def _machine(measurement: Measurement | None) -> Machine | None:
    if measurement is None:
        return None
    run, peak = measurement.trace.run, measurement.peak
    return Machine(
        cpu=run.cpu or run.device,
        threads=run.threads,
        clock=run.clock,
        peak_gmacs=peak.gmacs.get("float32") if peak is not None else None,
        bandwidths=tuple(
            Bandwidth(bytes=moved, gbs=rate)
            for moved, rate in (peak.bandwidths if peak is not None else ())
        ),
    )


def _latency(measurement: Measurement | None, conversion: Conversion) -> Latency | None:
    if measurement is None:
        return None
    notes = ["CPU time of one thread; both taken in turns in one process"]
    if device := conversion.translation.form.device:
        notes.append(f"of this machine, not of the target ({device})")
    if sizes := conversion.sizes:
        named = ", ".join(f"{symbol}={size}" for symbol, size in sizes.items())
        notes.append(f"measured at {named}, which stay open; --inputs NPZ measures other sizes")
    if not measurement.trace.run.operator_level:
        notes.append(f"no time per operator: {measurement.trace.run.reason}")
    return Latency(
        ours=_timing("LiteRT with XNNPACK", measurement.ours_ns),
        reference=_timing("onnxruntime", measurement.reference_ns),
        notes=tuple(notes),
    )


def _timing(engine: str, samples: Sequence[int]) -> Timing:
    spread = Spread.of(samples)
    return Timing(
        engine=engine,
        median_ns=spread.median,
        p10_ns=spread.p10,
        p90_ns=spread.p90,
        runs=len(samples),
    )


def _categories(
    rows: Sequence[OperatorRow], measurement: Measurement | None
) -> tuple[CategoryTime, ...]:
    if measurement is None or not measurement.trace.run.operator_level:
        return ()
    return category_times(rows, measurement.trace.median_ns)


def _partitions(conversion: Conversion, placement: Placement) -> tuple[Partition, ...]:
    nodes = {index: node for node, index in conversion.translation.written.operators.items()}
    found = []
    for k, members in enumerate(placement.partitions):
        following = [op for op in placement.outside if op > max(members)] if members else []
        cut = nodes[following[0]] if following and k + 1 < len(placement.partitions) else None
        found.append(
            Partition(
                index=k,
                ops=len(members),
                place="xnnpack",
                cut_by=f"{cut.op.name} '{cut.name}'" if cut is not None else "",
                reason=ROWS[cut.op.name].refused_by_xnnpack(cut) if cut is not None else "",
            )
        )
    return tuple(found)


def _plan(conversion: Conversion, rows: Sequence[OperatorRow]) -> Plan:
    found = conversion.translation.layout.plan
    operators = conversion.translation.written.operators
    times = {row.index: row.time_ns for row in rows}
    return Plan(
        minimal=found.minimal,
        bound_bytes=None if found.minimal else found.bound_bytes,
        text=found.verdict(),
        conversions=tuple(
            LayoutConversion(
                value=c.value,
                from_order=c.given,
                to_order=c.wanted,
                bytes=c.size_bytes,
                cause=f"stored so by {c.made_by}",
                demanded_by=c.demanded_by,
                shape=c.shape,
                operator=operators[c.node],
                time_ns=times.get(operators[c.node]),
            )
            for c in found.conversions
        ),
    )
