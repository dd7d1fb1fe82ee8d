"""`verify`: a TFLite file from anywhere against the ONNX model that it should compute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from straightway.errors import InvalidRequest, StraightwayError
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
from straightway.flow.inputs import pinned_inputs, read_arrays
from straightway.flow.open import Options, translate_open
from straightway.flow.reference import Oracle, Reference, one_line, references
from straightway.flow.tolerance import Check, compare
from straightway.flow.translate import (
    UNFORESEEN,
    Form,
    Translation,
    fitting,
    read,
    translate,
)
from straightway.flow.verify import Verification
from straightway.ingest.shapes import ShapeRequest, open_dims
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
    says why. Inputs and outputs of other converters may have their channels last. Sizes that the
    model leaves open are those of the user's arrays, else of the file, else such as fit. Raises Mismatch where the
    file's inputs or number of outputs are not the model's.
    """
    _check_order(model, candidate)
    description = describe(candidate)
    if _is_open(description) and request.inputs is None:
        kept = _kept_open(model, candidate, request)
        if kept is not None:
            return kept
    shapes = _sized(model, candidate, description, request)
    source = read(model, shapes)
    check(candidate, description, source)
    pinned = pinned_inputs(source)
    forms = _forms(io_type_of(candidate, description), request)
    own = _own(model, candidate, shapes, forms)
    with Child(engines=["litert", "onnxruntime"]) as child:
        oracle = Oracle(child, model)
        graph = own.translation.source if own.translation is not None else source
        sets = input_sets(graph, request, pinned)  # ours tells which tables its integers index
        if request.inputs is None:
            sets = accepted(oracle, graph, sets)
        if own.translation is not None:
            proof = Proof(child=child, sets=sets, step=request.step)
            return prove(model, candidate, own.translation, proof)
        checks: list[Check] = []
        for arrays, expected in zip(sets, references(oracle, sets), strict=True):
            ran = child.call(litert.run(candidate, feeds(candidate, description, arrays)))
            checks += _checks(source, description, ran, expected)
    note = "; ".join(filter(None, (own.reason, oracle.note)))
    return Verification(outputs=tuple(checks), interior=(), seeds=len(sets), ran=ran, note=note)


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


def _is_open(description: Description) -> bool:
    """Whether the file leaves a dimension of its inputs open."""
    tensors = description.main.tensors
    return any(-1 in tensors[index].signature for index in description.main.inputs)


def _kept_open(model: Path, candidate: Path, request: Request) -> Verification | None:
    """Compare at all sizes that conversion compares, if the file is ours with open dimensions."""
    declared = read(model, request.declared)
    if not open_dims(declared):
        return None
    for form in _forms(io_type_of(candidate, describe(candidate)), request):
        try:
            made = translate_open(model, declared, Options(form=form))
        except (StraightwayError, *UNFORESEEN):
            return None  # then it is of someone else, and the outputs can still be compared
        if _is_written(candidate, made.translation.written):
            with Child(engines=["litert", "onnxruntime"]) as child:
                proof = Proof(child=child, sets=made.sets, step=request.step)
                return prove(model, candidate, made.translation, proof)
    return None


def _sized(
    model: Path, candidate: Path, description: Description, request: Request
) -> ShapeRequest:
    """What was asked for, and for open inputs the sizes of the user's arrays or of the file."""
    fixed = request.fixed
    declared = read(model, replace(fixed, keep_open=True))
    check(candidate, description, declared)
    still_open = {name for uses in open_dims(declared).values() for name, _ in uses}
    if not still_open:
        return fixed
    found: Mapping[str, tuple[int, ...]] = sizes(candidate, description, declared)
    if request.inputs is not None:
        arrays = read_arrays(Path(request.inputs))
        found = {name: tuple(arrays[name].shape) for name in still_open if name in arrays}
    sized = replace(fixed, shapes={**found, **fixed.shapes}, keep_open=True)
    declared = read(model, sized)
    shapes = fitting(declared) if open_dims(declared) else sized.shapes
    return replace(sized, shapes=shapes, keep_open=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    """What straightway makes of the model, if that is the candidate; else why not."""

    translation: Translation | None = field(default=None)
    reason: str = ""


def _forms(io_type: str, request: Request) -> list[Form]:
    """What may have been asked of the file: either layout, spelled for this target."""
    asked = replace(request.form, io_type=io_type)
    return [replace(asked, channels_last_io=last) for last in (False, True)]


def _own(model: Path, candidate: Path, shapes: ShapeRequest, forms: Sequence[Form]) -> _Own:
    """Translate in each form, and look whether the candidate is one of them."""
    for form in forms:
        try:
            made = translate(read(model, shapes), form)
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
