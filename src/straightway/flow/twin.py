"""Weights of one value prove little: any permutation of them computes the same.

Such a model is checked a second time as its twin, the same graph with varied weights.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from straightway.errors import Unsupported
from straightway.flow.files import failed, scratch
from straightway.flow.tolerance import Check
from straightway.flow.translate import Translation, read, translate
from straightway.flow.verify import Feed, Verification, verify_file
from straightway.ingest.onnx import ShapeRequest
from straightway.onnx_io.vary import is_uniform, varied
from straightway.run.process import Child

WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
SEED = 0


def needs_twin(translation: Translation) -> bool:
    """Whether some product is taken with weights that are all equal."""
    return any(
        node.op.name in WEIGHTED
        and any(v.const is not None and is_uniform(v.const) for v in node.operands()[1:2])
        for node in translation.source.nodes
    )


def with_twin(
    found: Verification, child: Child, model: Path, translation: Translation, feeds: Sequence[Feed]
) -> Verification:
    """Add the comparison of the twin, its values marked as such."""
    shapes = {v.name: v.shape for v in translation.source.inputs}
    with TemporaryDirectory(prefix="straightway-") as folder:
        path = _varied(model, Path(folder))
        if path is None:
            return found
        try:
            twin = translate(
                read(path, ShapeRequest(shapes=shapes)),
                channels_last_io=translation.layout.channels_last_io,
            )
        except Unsupported:
            return found
        with scratch("twin.tflite", twin.written.data) as draft:
            second = verify_file(child, path, draft, twin, feeds[:1])
    return replace(
        found,
        interior=(*found.interior, *map(_marked, (*second.outputs, *second.interior))),
        difference=found.difference or second.difference,
    )


def _varied(model: Path, folder: Path) -> Path | None:
    try:
        return varied(model, SEED, folder)
    except OSError as error:
        raise failed(folder, error, 0) from error


def _marked(check: Check) -> Check:
    return replace(check, name=f"{check.name} (weights varied)")
