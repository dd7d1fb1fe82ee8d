"""A file of integers compared with a model that rounds, one stretch between two roundings at a time.

Integer kernels round by other means than floats, and may be off by one number stored. What follows
carries that on, and may blow it up, with nobody at fault. So the reference computes each stretch from
the numbers that the file itself has before it: there the bound is one quantum, and the tolerance of
floats where no rounding follows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from straightway.errors import NotYet
from straightway.flow.files import scratch
from straightway.flow.hybrid import Product, checks, products
from straightway.flow.reference import Oracle, Reference, references
from straightway.flow.tally import MOST_DB, nearness
from straightway.flow.tolerance import Check, compare
from straightway.flow.translate import Translation, read, translate
from straightway.flow.verify import (
    Carried,
    Feed,
    Verification,
    difference_at,
    output_checks,
    restored_outputs,
    run_written,
)
from straightway.ingest.shapes import ShapeRequest
from straightway.ir import Value
from straightway.onnx_io.cut import GIVEN, cut
from straightway.quant.edges import FLOAT32, shifts
from straightway.quant.scheme import INT16, scheme_of
from straightway.tflite.rows import ROWS
from straightway.tflite.write import write

STORED = tuple(np.dtype(kind) for kind in (np.int8, np.uint8, np.int16, np.uint16))
ROUNDINGS = ("QuantizeLinear", "DynamicQuantizeLinear")
SIGN = 128


def roundings(translation: Translation) -> dict[str, Value]:
    """The model's quantized integers that the file has, by name, in order.

    Integers that the model has as floats go by the name of these (passes/fake_quantize).
    """
    found = {
        name: value
        for name, value in translation.interior().items()
        if value.dtype in STORED
        and (translation.lowered.values[value].quant is not None or _is_rounded(value))
    }
    return found | _spelled(translation)


def _spelled(translation: Translation) -> dict[str, Value]:
    """Integers that no name of the model stands for, by the name of the floats that they stand for."""
    found = {}
    for node in translation.source.nodes:
        if node.op.name != "DequantizeLinear" or node.outputs[0].name not in translation.names:
            continue
        integers = node.operands()[0]
        logical = translation.lowered.values.get(integers)
        place = translation.layout.places.get(logical) if logical is not None else None
        if logical is None or logical.quant is None or place is None:
            continue
        is_written = place.tensor in translation.written.tensors and place.tensor.producer
        if is_written and integers.name not in translation.names:
            found[node.outputs[0].name] = integers
    return found


def _is_rounded(value: Value) -> bool:
    """Whether these are rounded floats, or their zero point, by whatever scale."""
    return value.producer is not None and value.producer.op.name in ROUNDINGS


def verify_rounded(
    oracle: Oracle, result: Path, translation: Translation, feeds: Sequence[Feed]
) -> Verification:
    """Compare the written file with the model on every set of inputs, stretch by stretch.

    A file of open dimensions is looked into through what the model becomes at each set's own sizes.
    """
    if not translation.layout.graph.signatures:
        return _compared(oracle, result, translation, feeds)
    found = [_compared(oracle, result, _sized(oracle, translation, f), [f]) for f in feeds]
    wrong = next((one for one in found if not one.equal), found[0])
    return replace(
        wrong,
        outputs=tuple(check for one in found for check in one.outputs),
        interior=tuple(check for one in found for check in one.interior),
        carried=_worst([end for one in found for end in one.carried]),
        seeds=len(feeds),
        ran=found[-1].ran,
    )


def _sized(oracle: Oracle, translation: Translation, feed: Feed) -> Translation:
    """What the model becomes at the sizes of these inputs."""
    shapes = {name: array.shape for name, array in feed.inputs.items()}
    return translate(read(oracle.model, ShapeRequest(shapes=shapes)), translation.form)


def _compared(
    oracle: Oracle, result: Path, translation: Translation, feeds: Sequence[Feed]
) -> Verification:
    """See `verify_rounded`."""
    hybrids = products(translation)
    values = roundings(translation) | {name: one.value for name, one in hybrids.items()}
    kinds = {n: (v.dtype if v.name == n else FLOAT32, v.shape) for n, v in values.items()}
    data, names = cut(oracle.model, kinds)
    values = {name: values[name] for name in names}
    hybrids = {name: one for name, one in hybrids.items() if name in values}
    given = [feed.inputs for feed in feeds]
    whole = references(oracle, given)
    named_outputs = set(translation.source.output_names)
    outputs: list[Check] = []
    interior: list[Check] = []
    carried: list[Carried] = []
    ran = None
    with scratch("cut.onnx", data) as path:
        for feed, expected in zip(feeds, whole, strict=True):
            ran = run_written(oracle.child, result, list(feed.stored.values()))
            look = _Look(
                oracle=oracle, translation=translation, values=values, hybrids=hybrids, feed=feed
            )
            seen = look.numbers()
            after, numbers = seen.outputs, seen.inside
            alone = look.expected(path, numbers)
            kept = Reference(plain=alone, optimised=alone)
            outputs += [c for c in output_checks(translation, kept, after) if c.name not in values]
            interior += _same(translation, after, ran.outputs)
            rounded = [n for n in values if n not in hybrids]
            for name in rounded:
                ends = outputs if name in named_outputs else interior
                ends.append(look.compared(name, alone[name], numbers[name]))
            for check in checks(hybrids, alone, numbers, seen.operands):
                (outputs if check.name in named_outputs else interior).append(check)
            carried += _carried(translation, expected, ran.outputs)
    if ran is None:
        raise ValueError("there are no inputs to compare on")
    wrong = next((c for c in (*interior, *outputs) if not c.equal), None)
    farthest = _worst(carried)
    return Verification(
        outputs=tuple(outputs),
        interior=tuple(interior),
        seeds=len(feeds),
        difference=None if wrong is None else difference_at(values, wrong),
        note="; ".join(filter(None, (oracle.note, _note(farthest)))),
        carried=farthest,
        ran=ran,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What the file has for one set of inputs: outputs, values inside, operands of hybrid kernels."""

    outputs: list[np.ndarray]
    inside: dict[str, np.ndarray]
    operands: dict[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The numbers inside the file for one set of inputs."""

    oracle: Oracle
    translation: Translation
    values: Mapping[str, Value]
    hybrids: Mapping[str, Product]
    feed: Feed

    def logical(self, name: str) -> Value:
        """The lowered value that holds the model's integers, perhaps less 128."""
        return self.translation.lowered.values[self.values[name]]

    def numbers(self) -> "Numbers":
        """The outputs, and what is compared, in the model's type and order."""
        layout = self.translation.layout
        logical = {name: self.logical(name) for name in self.values}
        operands = {name: one.op.operands()[0] for name, one in self.hybrids.items()}
        wanted = list(dict.fromkeys((*logical.values(), *operands.values())))
        tensors = [layout.places[value].tensor for value in wanted]
        with scratch("look.tflite", write(layout.graph, extra_outputs=tensors)) as path:
            ran = run_written(self.oracle.child, path, list(self.feed.stored.values()))
        count = len(ran.outputs) - len(tensors)
        arrays = dict(zip(wanted, ran.outputs[count:], strict=True))
        restored = {}
        for value, array in arrays.items():
            own = layout.restore(value, array)
            if own is None:
                raise NotYet(
                    f"roundings of '{value.name}' can't be compared at sizes other than it was made at",
                    remedy="--dim or --shape fixes the sizes",
                )
            restored[value] = own
        found = {}
        for name, value in logical.items():
            array = restored[value]
            if self.values[name].dtype != array.dtype:
                array = (array.astype(np.int16) + SIGN).astype(np.uint8)
            found[name] = array if self.values[name].name == name else scheme_of(value).real(array)
        return Numbers(
            outputs=list(ran.outputs[:count]),
            inside=found,
            operands={name: restored[value] for name, value in operands.items()},
        )

    def expected(self, path: Path, numbers: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What the model computes from these numbers, each stretch by itself."""
        given = {name + GIVEN: array for name, array in numbers.items()}
        stretches = Oracle(self.oracle.child, path, note=self.oracle.note)
        return stretches.run({**self.feed.inputs, **given})

    def compared(self, name: str, want: np.ndarray, got: np.ndarray) -> Check:
        """Compare numbers stored, or those that floats stand for."""
        if self.values[name].name != name:
            scale = scheme_of(self.logical(name)).scale
            want, got = (np.rint(array / scale).astype(np.int32) for array in (want, got))
        return compare(name, want, got, quanta=self.quanta(name))

    def quanta(self, name: str) -> int:
        """One quantum, and one of the scale in which an op gives its result before it is scaled anew.

        Kernels that interpolate in a table are off by what their row says. Those that sum in int64 multiply
        by 16 bits of the multiplier (LiteRT, kernels/internal/common.cc:65-68), of which the 15 or more
        that follow its sign are off by half of the last at most: 2^-15 of a result below 2^15, one quantum.
        """
        value = self.logical(name)
        maker = value.producer
        source = maker.operands()[0] if maker is not None and maker.op.name == "QUANTIZE" else None
        if source is None or source.quant is None or value.quant is None:
            return 1 + math.ceil(table_error(value))
        if maker is not None and shifts(maker):
            return 1
        if source in {self.logical(other) for other in self.values}:  # the model rounds there, too
            return 1
        ratio = float(source.quant.scale / value.quant.scale)
        return 1 + math.ceil(ratio * (1 + table_error(source)) - 0.5)


def table_error(value: Value) -> float:
    """By how many numbers the table of a 16-bit kernel may be off."""
    row = ROWS.get(value.producer.op.name) if value.producer is not None else None
    if row is None or row.table is None or value.dtype != INT16:
        return 0.0
    return row.table(value.producer)  # type: ignore[arg-type]


def _same(
    translation: Translation, looked: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
) -> list[Check]:
    """The file computes what its variant with more outputs does."""
    names = translation.source.output_names
    return [
        compare(f"{name} (without looking inside)", a, b, quanta=1)
        for name, a, b in zip(names, looked, outputs, strict=True)
    ]


def _carried(
    translation: Translation, expected: Reference, outputs: Sequence[np.ndarray]
) -> list[Carried]:
    """How far outputs are from onnxruntime's; whole numbers that are not rounded floats are left out."""
    found = []
    written = translation.layout.graph.outputs
    for value, (name, got) in zip(
        written, restored_outputs(translation, expected, outputs), strict=True
    ):
        source = value
        while source.producer is not None and source.producer.op.name in ("DEQUANTIZE", "RESHAPE"):
            source = source.producer.operands()[0]
        want = expected.plain[name]
        is_real = want.dtype.kind == "f"
        if source.quant is not None:
            scale = float(np.ravel(source.quant.scale)[0]) if is_real else 1.0
            error = compare(name, want, got).max_error
            found.append(Carried(name=name, quanta=error / scale))
        elif is_real and nearness(want, got) < MOST_DB:
            found.append(Carried(name=name, sqnr_db=nearness(want, got)))
    return found


def _worst(carried: Sequence[Carried]) -> tuple[Carried, ...]:
    """Each output once, where it is farthest."""
    by_name: dict[str, Carried] = {}
    for one in carried:
        by_name[one.name] = max(by_name.get(one.name, one), one, key=_far)
    return tuple(by_name.values())


def _far(one: Carried) -> tuple[float, float]:
    return (0.0 if one.quanta is None else one.quanta, -one.sqnr_db)


def _note(carried: Sequence[Carried]) -> str:
    """The farthest of the outputs that are rounded last, and of the others."""
    kinds = [[c for c in carried if (c.quanta is None) == is_real] for is_real in (False, True)]
    told = [str(max(kind, key=_far)) for kind in kinds if kind]
    if not told:
        return ""
    return f"each rounding is compared by itself; with all of them carried on, {', '.join(told)}"
