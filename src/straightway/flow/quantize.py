"""`quantize`: a float ONNX model and typical inputs in, a model that rounds as TFLite does out."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy as np

from straightway.errors import Bug, InvalidRequest
from straightway.flow import files, limits, mixed, recurrent, sides
from straightway.flow.accuracy import Accuracy, accuracy
from straightway.flow.borders import Border, borders
from straightway.flow.calibration import Sample, Samples, open_data
from straightway.flow.quantize_request import QuantizeRequest
from straightway.flow.reopening import NEUTRAL, keep_words, lowered_open, sized
from straightway.flow.resumption import observer, watched
from straightway.flow.surprises import FAR, clipped, is_constant, surprises
from straightway.flow.translate import (
    LoweredTwice,
    Translation,
    form_for,
    lowered_twice,
    read,
    translate,
)
from straightway.flow.tuning import (
    AUTO,
    QUICK,
    Made,
    Recipe,
    Trial,
    best,
    equalized,
)
from straightway.ingest.shapes import ShapeRequest, open_dims
from straightway.ir import Node
from straightway.onnx_io.write import to_bytes
from straightway.quant import (
    assignment,
    filters,
    respelling,
    rounded_model,
)
from straightway.quant.assignment import ASKED, UNLIKE_RANGES, Asked, Assignment, Range
from straightway.quant.fitting import Fitted, fitted
from straightway.quant.needed import needed
from straightway.quant.placement import ALLOWED, ISLAND, Errors
from straightway.quant.ranges import EVERYTHING, range_of
from straightway.quant.spelling import OPSET, opset_for
from straightway.remark import Remark
from straightway.run.observe import Observed, Observer
from straightway.run.process import Child
from straightway.targets import known
from straightway.targets.target import Target

MOST_COMPARED = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """A model that rounds, how it came to be, and how near it is to the float model.

    `floats` says why a node stays in floats, `borders` has each QUANTIZE and DEQUANTIZE that the file
    made of it will have, `wide` names the nodes with int16 among int8; `bits` has a value
    of the others. `is_constant`: each input is one number everywhere in the data, so that ranges say nothing.
    """

    model: Path
    path: Path | None
    data: bytes = field(repr=False)
    calibration: str
    is_random: bool
    is_constant: bool
    samples: int
    stored: int
    accuracy: Accuracy = field(repr=False)
    floats: Mapping[str, str]
    borders: tuple[Border, ...] = field(repr=False)
    remarks: tuple[Remark, ...] = field(repr=False)
    wide: tuple[str, ...] = ()
    bits: int = 8


def quantize(
    model: str | Path, output: str | Path | None = None, request: QuantizeRequest | None = None
) -> Quantization:
    """Observe the model on the data, give every value TFLite's scheme, and write the QDQ model.

    Raises InvalidModel, Unsupported, InvalidRequest (no data, data that don't fit, a model that is quantized
    already), ToolFailed.
    """
    asked = request or QuantizeRequest()
    path, target = Path(model), None if output is None else Path(output)
    if target is not None:
        files.check_model_output(target, path)
    shapes = ShapeRequest(dims=asked.dims, shapes=asked.shapes)
    if asked.random and asked.calibration is not None:
        raise InvalidRequest(
            "--random makes up inputs where there are no data; got --calibration, too"
        )
    asked.step("reading")
    declared = read(path, replace(shapes, keep_open=True))
    shapes = sized(
        declared, shapes, asked.calibration, pictures=asked.pictures, random=asked.random
    )
    samples = open_data(
        asked.calibration, read(path, shapes), pictures=asked.pictures, random=asked.random
    )
    if asked.method != AUTO:
        range_of(NOTHING_SEEN, asked.method, percentile=asked.percentile)  # checks them
    respell = respelling.run if asked.is_respelled else keep_words
    if asked.int16 and not asked.is_respelled:  # int16 has fewer kernels
        respell = partial(respelling.run, names=frozenset(asked.int16))
    opening = lowered_open(declared, read(path, shapes), respell) if open_dims(declared) else None
    lowered = opening.lowered if opening else lowered_twice(read(path, shapes), respell, NEUTRAL)
    limits.check_floats(path, lowered.source)
    sides.check_names(path, lowered.lowered.graph, asked.keep_float, asked.int16)
    with Child(engines=["onnxruntime"]) as child:
        found = _quantized(path, lowered, samples, asked, child)
    if opening is not None:
        data, remark = opening.applied(path, found.data)
        found = replace(found, data=data, remarks=(remark, *found.remarks))
    if target is not None:
        with files.written(target, found.data):
            pass
    return replace(found, path=target)


NOTHING_SEEN = Observed(
    low=0.0,
    high=0.0,
    low_sample=0,
    high_sample=0,
    elements=0,
    not_finite=0,
    not_finite_sample=0,
    span=1.0,
    histogram=np.zeros(2, np.int64),
)


def _quantized(
    path: Path, lowered: LoweredTwice, samples: Samples, asked: QuantizeRequest, child: Child
) -> Quantization:
    source, graph = lowered.source, lowered.lowered.graph
    asked.step("equalizing channels")
    evened = _equalized(lowered, samples, asked, child)
    plain = rounded_model.floats_of(source, lowered.lowered)
    with files.scratch("float.onnx", to_bytes(plain.graph, OPSET, {})) as float_path:
        asked.step("observing")
        groups = watched(plain, lowered.hidden)
        seen, first = _observe(observer(child, float_path, groups, asked.kept()), samples, asked)
        stray = surprises(seen, first)
        rounder = Rounder(lowered=lowered, plain=plain, seen=seen, asked=asked)
        trial = Trial(child=child, path=float_path, lowered=lowered, plain=plain)
        rounder, tried = _by_the_best(rounder, trial, samples, first)
        asked = rounder.asked
        ends = _cut_off(seen, {v.name: plain.names[v] for v in graph.inputs}, asked)
        if ends:  # what follows never sees the values that the inputs' ranges leave out
            asked.step("observing without stray inputs")
            again = observer(child, float_path, groups, asked.kept(".cut"))
            seen, _ = _observe(again, clipped(samples, ends), asked)
            rounder = replace(rounder, seen=seen)

        def compared(given: Assignment) -> Rounded:
            stored, made = rounder.made(given)
            opset = opset_for(given.dtypes)
            data = to_bytes(made.graph, opset, _notes(path, samples, asked))
            asked.step("comparing with the float model")
            with files.scratch("rounded.onnx", data) as rounded_path:
                paths = (path, float_path, rounded_path)
                near = accuracy(child, paths, first, (plain, made), given)
            kept = sides.floats(given, graph, asked.keep_float)
            told = (*kept, *sides.wide(given, graph, asked.int16, asked.device))
            if asked.lacks_hybrids:
                told = (*told, *sides.without_hybrids(given))
            remarks = (*given.remarks, *stored.remarks, *made.remarks, *told)
            return Rounded(data=data, given=given, accuracy=near, remarks=remarks)

        done = _mixed(rounder, compared, first, child)
    given, made = done.given, _translated(done, asked.device)
    return Quantization(
        model=path,
        path=None,
        data=done.data,
        calibration=samples.description,
        is_random=samples.is_random,
        is_constant=is_constant(seen, [plain.names[v] for v in graph.inputs]),
        samples=samples.count or len(first),
        stored=len(given.schemes),
        accuracy=done.accuracy,
        borders=_borders(done, made),
        floats={n.name: why for n, why in given.floats.items() if n not in given.hybrids},
        remarks=(
            *(*evened, *stray, *tried),
            *recurrent.remarks(lowered.lowered, given, done.accuracy),
            *sides.told(done.remarks, made),
        ),
        wide=tuple(dict.fromkeys(node.name for node in graph.nodes if node in given.wide)),
        bits=8 * asked.stored_as.itemsize,
    )


def _by_the_best(
    rounder: "Rounder", trial: Trial, samples: Samples, first: Sequence[Sample]
) -> tuple["Rounder", list[Remark]]:
    """Round by the recipe that was asked for, or that does best on samples held out."""
    asked = rounder.asked
    recipe = Recipe(method=asked.method, fit=asked.fit, percentile=asked.percentile)
    tried: list[Remark] = []
    if asked.method == AUTO or asked.fit:
        rows, held = trial.rows(samples) if asked.fit else ({}, [])
        rounder = replace(rounder, rows=rows)
        asked.step("trying ranges and weights")
        recipe, tried = best(trial, held or first, recipe, rounder.tried)
    return replace(rounder, asked=by(recipe, asked)), tried


def _equalized(
    lowered: LoweredTwice, samples: Samples, asked: QuantizeRequest, child: Child
) -> list[Remark]:
    """Scale channels where it is asked for, or where it serves."""
    # the same for every method and target: what --resume keeps serves them all
    usual = QuantizeRequest(shapes=asked.shapes, dims=asked.dims)

    def score_db(first: Sequence[Sample]) -> float:
        plain = rounded_model.floats_of(lowered.source, lowered.lowered)
        with files.scratch("float.onnx", to_bytes(plain.graph, OPSET, {})) as path:
            trial = Trial(child=child, path=path, lowered=lowered, plain=plain)
            watch = Observer(child, path, watched(plain, lowered.hidden))
            for sample in first:
                watch.add(sample.inputs)
            rounder = Rounder(lowered=lowered, plain=plain, seen=watch.result(), asked=usual)
            recipe = Recipe(method=AUTO, fit=False)
            _, (told,) = best(trial, first, recipe, rounder.tried, QUICK)
        return float(told.numbers["sqnr_db"])

    if asked.equalize is False:
        return []
    return equalized(lowered, samples, child, None if asked.equalize else score_db)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounder:
    """Rounds a lowered graph by what was observed of it as floats; `rows` are those of each op's operand."""

    lowered: LoweredTwice
    plain: rounded_model.Model
    seen: Mapping[str, Observed]
    asked: QuantizeRequest
    rows: Mapping[Node, np.ndarray] = field(default_factory=dict)
    fits: dict[Hashable, Fitted] = field(default_factory=dict)

    def tried(self, recipe: Recipe) -> Made:
        """The model by a recipe."""
        one = replace(self, asked=by(recipe, self.asked))
        given = one.assigned()
        found = one.made(given)[1]
        data = to_bytes(found.graph, opset_for(given.dtypes), {})
        return Made(data=data, names=found.names)

    def assigned(self, errors: Errors | None = None) -> Assignment:
        """Schemes of values; with `errors`, what loses too much stays in floats."""
        lowered, names = self.lowered, self.plain.names
        told = needed(lowered.lowered.graph)
        ranges = {
            v.name: asked_range(self.seen, names[v], self.asked, told.get(v, EVERYTHING))
            for v in names
        }
        return assignment.assign(
            lowered.lowered.graph,
            ranges,
            lowered.hidden,
            lowered.lowered.makers,
            Asked(
                dtype=self.asked.stored_as,
                hybrid=self.asked.has_hybrids,
                keep_float=frozenset(self.asked.keep_float),
                wide=frozenset(self.asked.int16),
                widens=self.asked.widens,
            ),
            errors=errors,
        )

    def made(self, given: Assignment) -> tuple[filters.Filters, rounded_model.Model]:
        """Weights by the schemes, and the model."""
        lowered = self.lowered.lowered
        device = self.asked.device
        stored = filters.store(
            lowered.graph,
            given,
            per_channel=self.asked.per_channel and device.per_channel,
            single_scale=device.single_scale,
        )
        if self.asked.fit:
            stored = fitted(stored, given, self.rows, self.fits)
        return stored, rounded_model.rounded(
            self.lowered.source, lowered, given, stored, float_inputs=device.io_type == "float"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounded:
    """A rounded model, compared with the float one."""

    data: bytes
    given: Assignment
    accuracy: Accuracy
    remarks: tuple[Remark, ...]


def by(recipe: Recipe, asked: QuantizeRequest) -> QuantizeRequest:
    """What is asked for, the recipe being chosen."""
    return replace(asked, method=recipe.method, fit=recipe.fit, percentile=recipe.percentile)


# what the file does not tell: who asked, and what would be lost
CHOSEN = (ASKED, ALLOWED, ISLAND, UNLIKE_RANGES)


def _translated(done: Rounded, device: Target) -> Translation:
    """What `convert` makes of the model, without running anything."""
    with files.scratch("rounded.onnx", done.data) as path:
        return translate(read(path), form_for(device))


def _borders(done: Rounded, made: Translation) -> tuple[Border, ...]:
    """What `convert` leaves of QUANTIZE and DEQUANTIZE."""
    chosen = {n.name: why for n, why in done.given.floats.items() if why.startswith(CHOSEN)}
    return borders(made, chosen)


def _mixed(
    rounder: Rounder,
    compared: Callable[[Assignment], Rounded],
    first: Sequence[Sample],
    child: Child,
) -> Rounded:
    """Round everything that can be; with a greatest loss, as little less as keeps it.

    Where it is asked for, the roundings are measured alone.
    """
    asked, given = rounder.asked, rounder.assigned()
    count = asked.sensitivity or (mixed.SAMPLES if asked.max_loss is not None else 0)
    if not count:
        return compared(given)
    asked.step("measuring each rounding alone")
    _, made = rounder.made(given)
    with mixed.measured(child, made, given, first[:count], asked.advance) as found:
        if asked.max_loss is None:
            done = compared(given)
        else:
            asked.step("choosing what stays in floats")
            graph = rounder.lowered.lowered.graph
            plans = mixed.within(found, graph, rounder.assigned, asked.max_loss)
            kept = (one for one in map(compared, plans) if one.accuracy.loss <= asked.max_loss)
            done = next(kept, None) or _nothing_left(asked.max_loss)
    return replace(done, accuracy=mixed.shared(done.accuracy, found.sensitivity, done.given))


def _nothing_left(allowed: float) -> NoReturn:
    raise Bug(f"with nothing rounded, a model still loses more than {allowed:.3g}")


def asked_range(
    seen: Mapping[str, Observed], name: str, asked: QuantizeRequest, within: Range = EVERYTHING
) -> Range:
    """The range of a value by the method asked for; nothing where it was not seen."""
    if name not in seen:
        return 0.0, 0.0
    return range_of(seen[name], asked.method, percentile=asked.percentile, within=within)


def _cut_off(
    seen: Mapping[str, Observed], names: Mapping[str, str], asked: QuantizeRequest
) -> dict[str, Range]:
    """Ranges of the inputs that leave out stray values, by the method asked for."""
    found = {}
    for name, inside in names.items():
        low, high = asked_range(seen, inside, asked)
        if inside in seen and seen[inside].high - seen[inside].low > FAR * (high - low) > 0:
            found[name] = (low, high)
    return found


def _observe(
    watch: Observer, samples: Samples, asked: QuantizeRequest
) -> tuple[dict[str, Observed], list[Sample]]:
    """Watch every sample; returns what was seen, and the first samples."""
    first: list[Sample] = []
    for number, sample in enumerate(samples):
        watch.add(sample.inputs)
        if len(first) < MOST_COMPARED:
            first.append(sample)
        asked.advance(number + 1, samples.count)
    if not watch.samples:
        raise InvalidRequest(f"{samples.description}: there is no sample in it")
    return watch.result(), first


def _notes(path: Path, samples: Samples, asked: QuantizeRequest) -> dict[str, str]:
    """What the file says about itself."""
    brand = {"straightway.random": "calibrated on random inputs: ranges and accuracy say little"}
    return {
        "straightway.quantized": path.name,
        "straightway.calibration": samples.description,
        "straightway.method": asked.method,
        known.NOTE: asked.device.name,
        **(brand if samples.is_random else {}),
    }
