"""`verify`: a TFLite file from anywhere against the ONNX model that it should compute."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from straightway.errors import InvalidRequest, Mismatch, StraightwayError, ToolFailed
from straightway.flow.accepted import accepted
from straightway.flow.candidate import (
    as_model_has,
    check,
    describe,
    feeds,
    io_type_of,
    real,
    sizes,
)
from straightway.flow.convert import Proof, Request, input_sets, prove
from straightway.flow.inputs import Arrays, pinned_inputs
from straightway.flow.open import given, runs_on, several, translate_open, with_usual_sizes
from straightway.flow.reference import Oracle, Reference, one_line, references
from straightway.flow.respelled import answered, asked_again
from straightway.flow.tolerance import Check, compare
from straightway.flow.translate import UNFORESEEN, Form, Translation, read, translate
from straightway.flow.verify import Verification
from straightway.ingest.shapes import open_dims
from straightway.ir import Graph
from straightway.run import litert
from straightway.run.process import Child
from straightway.tflite.read import Description, is_tflite
from straightway.tflite.write import Written

OTHER_BYTES = (
    "outputs only: the file is not, byte for byte, what this straightway makes of the model, so that "
    "its tensors can't be matched with the model's interior values"
)
NO_TRANSLATION = "outputs only: straightway does not convert the model: {why}"


def verify_pair(model: Path, candidate: Path, request: Request) -> Verification:
    """Compare outputs on every set of inputs.

    Where the candidate is, byte for byte, what straightway makes of the model, interior values are
    compared too and the first differing node is named; else only the outputs can be, and the note
    says why. Inputs and outputs of other converters may have their channels last. Dimensions that both
    leave open are compared at several sizes, or those of the user's arrays; what the model alone leaves
    open has the file's sizes. Raises Mismatch where the file's inputs or number of outputs are not
    the model's.
    """
    _check_order(model, candidate)
    description = describe(candidate)
    declared = read(model, request.declared)
    check(candidate, description, declared)
    dims = {**sizes(candidate, description, declared), **request.dims}
    asked = replace(request.of(declared), dims=dims)
    declared = read(model, asked.declared)
    check(candidate, description, declared)
    with Child(engines=["litert", "onnxruntime"]) as child:
        oracle = Oracle(child, model)
        if open_dims(declared):
            own, sets = _open_pair(oracle, candidate, declared, asked)
            sets = sets or _sets_of_others(
                oracle, candidate, description, declared, request.seeds[0]
            )
        else:
            own, sets = _fixed_pair(oracle, candidate, declared, asked)
        if own.translation is not None:
            return prove(
                model, candidate, own.translation, Proof(child=child, sets=sets, step=request.step)
            )
        verify = _outputs_only(candidate, description, declared, sets)
        found = asked_again(answered(oracle, verify), oracle, verify)
    return replace(found, note="; ".join(filter(None, (own.reason, found.note))))


def _outputs_only(
    candidate: Path, description: Description, source: Graph, sets: Sequence[Arrays]
) -> Callable[[Oracle], Verification]:
    """Runs the candidate on all sets and compares what it gives with what an oracle says."""

    def verify(oracle: Oracle) -> Verification:
        checks: list[Check] = []
        for arrays, expected in zip(sets, references(oracle, sets), strict=True):
            ran = oracle.child.call(litert.run(candidate, feeds(candidate, description, arrays)))
            checks += _checks(source, description, ran, expected)
        return Verification(
            outputs=tuple(checks), interior=(), seeds=len(sets), ran=ran, note=oracle.note
        )

    return verify


def _check_order(model: Path, candidate: Path) -> None:
    """Refuse arguments that stand in the wrong order, or two files of one format."""
    if not is_tflite(model):
        return
    if is_tflite(candidate):
        raise InvalidRequest(
            f"{model}: is a TFLite file, like {candidate}; verify takes MODEL.onnx and MODEL.tflite"
        )
    raise InvalidRequest(
        f"{model}: is a TFLite file: are the arguments swapped? Type: "
        f"straightway verify {candidate} {model}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    """What straightway makes of the model, if that is the candidate; else why not."""

    translation: Translation | None = field(default=None)
    reason: str = ""


def _forms(candidate: Path, request: Request) -> list[Form]:
    """What may have been asked of the file: either layout, spelled for this target."""
    asked = replace(request.form, io_type=io_type_of(candidate, describe(candidate)))
    return [replace(asked, channels_last_io=last) for last in (False, True)]


def _open_pair(
    oracle: Oracle, candidate: Path, declared: Graph, request: Request
) -> tuple[_Own, list[Arrays]]:
    """The user's arrays, or the sets that conversion compares; none for a file of others."""
    reason = OTHER_BYTES
    for form in _forms(candidate, request):
        try:
            made = translate_open(oracle.model, declared, replace(request.opening, form=form))
        except (StraightwayError, *UNFORESEEN) as error:
            reason = NO_TRANSLATION.format(why=one_line(error))
            break
        if _is_written(candidate, made.translation.written):
            if request.inputs is not None:
                return _Own(translation=made.translation), made.sets[-1:]
            return (
                _Own(translation=made.translation),
                with_usual_sizes(oracle, made.declared or declared, made).sets,
            )
    users = [] if request.inputs is None else [given(Path(request.inputs), declared)]
    return _Own(reason=reason), users


def _sets_of_others(
    oracle: Oracle, candidate: Path, description: Description, declared: Graph, seed: int
) -> list[Arrays]:
    """Sets of several sizes at which both run; raises Mismatch where there are none."""
    model_runs, refusal = runs_on(oracle, declared), ""

    def both_run(arrays: Arrays) -> bool:
        nonlocal refusal
        if not model_runs(arrays):
            return False
        try:
            oracle.child.call(litert.run(candidate, feeds(candidate, description, arrays)))
        except ToolFailed as error:
            refusal = f"{[list(a.shape) for a in arrays.values()]}: {one_line(error)}"
            return False
        return True

    found = several(declared, seed, both_run)
    if found:
        return found
    if refusal:
        raise Mismatch(f"{candidate}: leaves dimensions open, but does not run at {refusal}")
    raise InvalidRequest(
        f"{oracle.model}: runs at no size that was tried; --shape or --dim fixes "
        f"{', '.join(open_dims(declared))}"
    )


def _fixed_pair(
    oracle: Oracle, candidate: Path, source: Graph, request: Request
) -> tuple[_Own, list[Arrays]]:
    """Compare at the only sizes, on the user's arrays or seeded ones."""
    pinned = pinned_inputs(source)
    own = _own(oracle.model, candidate, request)
    graph = own.translation.source if own.translation is not None else source
    sets = input_sets(graph, request, pinned)  # ours tells which tables its integers index
    return own, accepted(
        oracle, graph, sets, likely=bool(pinned)
    ) if request.inputs is None else sets


def _own(model: Path, candidate: Path, request: Request) -> _Own:
    """Translate in each form, and look whether the candidate is one of them."""
    for form in _forms(candidate, request):
        try:
            made = translate(read(model, request.fixed), form)
        except (StraightwayError, *UNFORESEEN) as error:
            return _Own(reason=NO_TRANSLATION.format(why=one_line(error)))
        if _is_written(candidate, made.written):
            return _Own(translation=made)
    return _Own(reason=OTHER_BYTES)


def _is_written(candidate: Path, written: Written) -> bool:
    """Whether the candidate is this file, byte for byte."""
    if candidate.stat().st_size != written.size_bytes:
        return False
    with candidate.open("rb") as file:
        return all(file.read(len(piece)) == piece for piece in written.pieces())


def _checks(
    source: Graph, description: Description, ran: litert.Ran, expected: Reference
) -> list[Check]:
    """Match outputs by name, or by position where the names are others."""
    tensors = [description.main.tensors[index] for index in description.main.outputs]
    outputs = list(zip(tensors, ran.outputs, strict=True))
    named = dict(zip(ran.names, outputs, strict=True))
    names = source.output_names
    by_name = all(name in named for name in names)
    checks = []
    for place, name in enumerate(names):
        tensor, array = named[name] if by_name else outputs[place]
        plain = expected.plain[name]
        got = as_model_has(real(tensor, array, plain.dtype), plain.shape)
        checks.append(compare(name, plain, got, expected.optimised[name]))
    return checks
