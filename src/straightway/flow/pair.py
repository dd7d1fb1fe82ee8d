"""`verify`: a TFLite file from anywhere against the ONNX model that it should compute."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from straightway.errors import InvalidModel, InvalidRequest, Unsupported
from straightway.flow.blame import UNFORESEEN
from straightway.flow.candidate import as_model_has, describe, feeds
from straightway.flow.convert import Request, input_sets, stored_inputs
from straightway.flow.reference import references
from straightway.flow.tolerance import Check, compare
from straightway.flow.translate import Translation, read, translate
from straightway.flow.verify import Feed, Verification, verify_file
from straightway.ingest.onnx import ShapeRequest
from straightway.ir import Graph
from straightway.run import litert
from straightway.run.process import Child


def verify_pair(model: Path, candidate: Path, request: Request) -> Verification:
    """Compare outputs on every set of inputs.

    Where the candidate is, byte for byte, what straightway makes of the model, interior values are
    compared too and the first differing node is named; else only the outputs can be. Inputs and
    outputs of other converters may have their channels last.
    """
    description = describe(candidate)
    shapes = request.fixed
    source = read(model, shapes)
    sets = input_sets(source, request)
    translation = _own(model, candidate, shapes, request)
    with Child(engines=["litert", "onnxruntime"]) as child:
        if translation is not None:
            fed = [Feed(inputs=a, stored=stored_inputs(translation, a)) for a in sets]
            return verify_file(child, model, candidate, translation, fed)
        checks: list[Check] = []
        for arrays, expected in zip(sets, references(child, model, sets), strict=True):
            given = feeds(candidate, description, arrays)
            ran = child.call(litert.run(candidate, given, resize=True))
            checks += _checks(source, ran, expected.plain, expected.optimised)
    return Verification(outputs=tuple(checks), interior=(), seeds=len(sets), ran=ran)


def _own(
    model: Path, candidate: Path, shapes: ShapeRequest, request: Request
) -> Translation | None:
    """What straightway makes of the model, if that is the candidate, in whichever layout."""
    data = candidate.read_bytes()
    for channels_last in (request.io == "nhwc", request.io != "nhwc"):
        try:
            made = translate(read(model, shapes), channels_last_io=channels_last)
        except (Unsupported, InvalidModel, *UNFORESEEN):
            return None  # then it is of someone else, and the outputs can still be compared
        if made.written.data == data:
            return made
    return None


def _checks(
    source: Graph,
    ran: litert.Ran,
    plain: Mapping[str, np.ndarray],
    optimised: Mapping[str, np.ndarray],
) -> list[Check]:
    """Match outputs by name, or by position where the names are others."""
    named = ran.named()
    names = source.output_names
    if len(ran.outputs) != len(names):
        raise InvalidRequest(f"the file has {len(ran.outputs)} outputs, the model {len(names)}")
    by_name = all(name in named for name in names)
    found = [named[n] for n in names] if by_name else list(ran.outputs)
    return [
        compare(name, plain[name], as_model_has(got, plain[name].shape), optimised[name])
        for name, got in zip(names, found, strict=True)
    ]
