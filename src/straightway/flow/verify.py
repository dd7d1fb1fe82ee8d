"""Does the written file compute the same numbers? Asked of the engines, in a child process."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from straightway.errors import Bug, InvalidModel, InvalidRequest, Mismatch, ToolFailed
from straightway.flow.files import scratch
from straightway.flow.inputs import Arrays
from straightway.flow.reference import Oracle, Reference, references
from straightway.flow.tally import MOST_DB
from straightway.flow.tolerance import Check, compare, kind_of
from straightway.flow.translate import Translation
from straightway.ir import Value
from straightway.quant.scheme import scheme_of
from straightway.remark import Remark
from straightway.run import litert
from straightway.run.litert import Ran
from straightway.run.process import Child
from straightway.tflite.write import write

STEP = "flow.verify"
# what is said of a run that takes too long, or that the system or the user ends, or without memory left
MACHINE_LIMITS = ("no answer in time", "SIGKILL", "SIGTERM", "SIGINT", "bad_alloc", "memory")
INTERIOR_VALUES = 12
BISECT_BATCH = 64
# memory is for the model, not for looking at it
BATCH_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first node whose result differs, in the order of the model."""

    node: str
    op: str
    source: str
    check: Check

    def __str__(self) -> str:
        place = f" at {list(self.check.place)}" if self.check.place else ""
        return (
            f"first differing node: {self.op} '{self.node}': '{self.check.name}'{place} is "
            f"{self.check.found}, should be {self.check.expected}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """How far an output is from onnxruntime's when every rounding is carried on, the worst of all sets.

    In quanta where it is rounded last, else as signal to error in dB.
    """

    name: str
    quanta: float | None = None
    sqnr_db: float = MOST_DB

    def __str__(self) -> str:
        if self.quanta is not None:
            unit = "quantum" if self.quanta == 1 else "quanta"
            return f"'{self.name}' is {self.quanta:.3g} {unit} from onnxruntime's"
        return (
            f"'{self.name}' is as far from onnxruntime's as {self.sqnr_db:.1f} dB signal to error"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Every comparison made: outputs for each seed, interior values, and where it first differs.

    `carried`: the outputs of a model that rounds, as wholes.
    """

    outputs: tuple[Check, ...]
    interior: tuple[Check, ...]
    seeds: int
    difference: Difference | None = None
    note: str = ""
    carried: tuple[Carried, ...] = ()
    ran: Ran

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """How far each output is as a whole, where stretches are compared."""
        return tuple(
            Remark(
                kind="measured",
                step=STEP,
                text=f"with every rounding carried on, {one}",
                numbers={"sqnr_db": one.sqnr_db} if one.quanta is None else {"quanta": one.quanta},
            )
            for one in self.carried
        )

    @property
    def equal(self) -> bool:
        """Whether everything compared is equal by the table of tolerances."""
        return all(check.equal for check in (*self.outputs, *self.interior))

    @property
    def worst(self) -> Check:
        """The comparison that comes nearest its bound, or passes it farthest."""
        return max((*self.outputs, *self.interior), key=_nearness)


def _nearness(check: Check) -> tuple[bool, float]:
    share = check.max_error / check.bound if check.bound else check.max_error
    return (not check.equal, share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """One set of inputs: as the model takes them, and as the file does."""

    inputs: Arrays
    stored: Arrays


def run_written(child: Child, path: Path, arrays: Sequence[np.ndarray]) -> Ran:
    """Run a file that we wrote; whatever LiteRT has against it is a fault of ours, not the machine's limits."""
    try:
        return child.call(litert.run(path, arrays))
    except (InvalidModel, InvalidRequest, ToolFailed) as error:
        if isinstance(error, ToolFailed) and any(limit in str(error) for limit in MACHINE_LIMITS):
            raise
        raise Bug(
            f"LiteRT does not run the written file, which is a fault of straightway: {error}"
        ) from error


def verify_file(
    oracle: Oracle,
    result: Path,
    translation: Translation,
    feeds: Sequence[Feed],
    *,
    search: bool = True,
) -> Verification:
    """Compare the written file with what the model computes, on every set of inputs.

    Outputs on all sets, interior values on the first. Where something differs, `search`
    looks at all interior values until the first differing node is found.
    """
    checks: list[Check] = []
    ran = None
    given = [feed.inputs for feed in feeds]
    for feed, expected in zip(feeds, references(oracle, given), strict=True):
        ran = run_written(oracle.child, result, list(feed.stored.values()))
        checks += output_checks(translation, expected, ran.outputs)
    if ran is None:
        raise ValueError("there are no inputs to compare on")
    look = _Inside(oracle, translation, feeds[0])
    interior = look.sample(INTERIOR_VALUES)
    difference = None
    if search and not all(c.equal for c in (*checks, *interior)):
        difference = look.first_difference()
    return Verification(
        outputs=tuple(checks),
        interior=tuple(interior),
        seeds=len(feeds),
        difference=difference,
        note=oracle.note,
        ran=ran,
    )


def output_checks(
    translation: Translation, expected: Reference, outputs: Sequence[np.ndarray]
) -> list[Check]:
    """Compare the file's outputs, brought to the model's order."""
    checks = []
    restored = restored_outputs(translation, expected, outputs)
    for value, (name, found) in zip(translation.lowered.graph.outputs, restored, strict=True):
        plain, optimised = expected.plain[name], expected.optimised[name]
        if expected.widened and kind_of(plain) == kind_of(found):
            plain, optimised = plain.astype(value.dtype), optimised.astype(value.dtype)
        checks.append(compare(name, plain, found, optimised, computed_in=expected.computed_in))
    return checks


def restored_outputs(
    translation: Translation, expected: Reference, outputs: Sequence[np.ndarray]
) -> Iterator[tuple[str, np.ndarray]]:
    """The file's outputs by name, in the model's order, as floats where the model has floats."""
    for value, name, got in zip(
        translation.lowered.graph.outputs, translation.source.output_names, outputs, strict=True
    ):
        order = translation.layout.io_dims(value)
        found = got.transpose(np.argsort(order)) if got.ndim == len(order) else got
        want = expected.plain[name].dtype
        if want.kind == "f" and found.dtype.kind in "iu" and value.quant is not None:
            found = scheme_of(value).real(found)
        if want == np.int64 and found.dtype == np.int32:  # as the target's engine has it
            found = found.astype(np.int64)
        yield name, found


def choose(values: Mapping[str, Value], count: int) -> list[str]:
    """Pick values evenly from the whole depth of the model, small ones rather than large ones."""
    names = list(values)
    if len(names) <= count:
        return names
    step = len(names) / count
    chosen = []
    for k in range(count):
        stretch = names[int(k * step) : max(int((k + 1) * step), int(k * step) + 1)]
        chosen.append(min(stretch, key=lambda name: values[name].known_type.size_bytes))
    return chosen


class _Inside:
    """Looks at interior values: of the model by extra outputs, of the file by a variant of it."""

    def __init__(self, oracle: Oracle, translation: Translation, feed: Feed) -> None:
        self.oracle = oracle
        self.translation = translation
        self.feed = feed
        self.values = translation.interior()

    def sample(self, count: int) -> list[Check]:
        """Compare values from the whole depth of the model."""
        found = []
        for batch in batches(choose(self.values, count), self.size_bytes):
            found += self.checks(batch)
        return found

    def size_bytes(self, name: str) -> int:
        """Bytes of an interior value."""
        return self.values[name].known_type.size_bytes

    def checks(self, names: Sequence[str]) -> list[Check]:
        """Compare some interior values; where one differs, ask how sure the reference is of it."""
        plain = self.oracle.run(self.feed.inputs, extra=names)
        present = [name for name in names if name in plain]
        if not present:
            return []
        shapes = [plain[name].shape for name in present]
        # what is computed in float32 instead of a narrower type is compared in that type
        found = {
            name: array.astype(plain[name].dtype)
            for name, array in zip(present, self.run_variant(present, shapes), strict=True)
            if array is not None
        }
        present = list(found)
        checks = [compare(name, plain[name], found[name]) for name in present]
        if all(check.equal for check in checks):
            return checks
        optimised = self.oracle.run(self.feed.inputs, optimise=True, extra=present)
        return [
            check
            if check.equal
            else compare(check.name, plain[check.name], found[check.name], optimised[check.name])
            for check in checks
        ]

    def run_variant(
        self, names: Sequence[str], shapes: Sequence[tuple[int, ...]]
    ) -> list[np.ndarray | None]:
        """Run the file with more outputs, and bring these to the model's dimension order and shapes."""
        lowered, layout = self.translation.lowered.values, self.translation.layout
        logical = [lowered[self.values[name]] for name in names]
        tensors = [layout.places[value].tensor for value in logical]
        with scratch("look.tflite", write(layout.graph, extra_outputs=tensors)) as path:
            ran = run_written(self.oracle.child, path, list(self.feed.stored.values()))
        arrays = ran.outputs[-len(tensors) :]
        triples = zip(logical, arrays, shapes, strict=True)
        return [layout.restore(value, array, shape) for value, array, shape in triples]

    def first_difference(self) -> Difference | None:
        """Compare everything, in order, until something differs."""
        names = list(self.values)
        for batch in batches(names, self.size_bytes):
            for check in self.checks(batch):
                if not check.equal:
                    return self.difference(check)
        return None

    def difference(self, check: Check) -> Difference:
        """Name the node that makes a value, with its source."""
        return difference_at(self.values, check)


def difference_at(values: Mapping[str, Value], check: Check) -> Difference:
    """Name the node that makes a value, with its source."""
    value = values.get(check.name)
    node = value.producer if value is not None else None
    source = min(node.origins, default=None) if node is not None else None
    return Difference(
        node=node.name if node is not None else "",
        op=str(node.op) if node is not None else "",
        source=str(source or ""),
        check=check,
    )


def batches(names: Sequence[str], size_of: Callable[[str], int]) -> Iterator[list[str]]:
    """Cut into runs of at most 64 values and 8 MB."""
    batch: list[str] = []
    total = 0
    for name in names:
        size = size_of(name)
        if batch and (len(batch) == BISECT_BATCH or total + size > BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(name)
        total += size
    if batch:
        yield batch


def mismatch(model: Path, kept: Path | None, found: Verification) -> Mismatch:
    """Put a failed verification into an error: a fault of ours."""
    wrong = [check for check in (*found.outputs, *found.interior) if not check.equal]
    lines = [f"{model}: the written file computes other numbers; this is a fault of straightway"]
    lines += [f"  '{check.name}' {check.reason}" for check in wrong[:6]]
    if found.difference is not None:
        lines.append(f"  {found.difference}")
    if kept is not None:
        lines.append(f"  the file is kept as {kept}")
    remarks = [
        Remark(
            kind="missed",
            step=STEP,
            node=found.difference.node if found.difference else "",
            text=f"'{check.name}' {check.reason}",
            numbers={"max_error": check.max_error, "bound": check.bound},
        )
        for check in wrong
    ]
    return Mismatch("\n".join(lines), remarks)


__all__ = ["Difference", "ToolFailed", "Verification", "mismatch", "verify_file"]
