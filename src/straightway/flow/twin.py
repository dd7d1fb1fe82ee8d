"""Weights of one value prove little: any permutation of them computes the same.

Such a model is checked a second time as its twin, the same graph with varied weights.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from straightway.errors import Unsupported
from straightway.flow.files import failed, scratch
from straightway.flow.reference import Oracle
from straightway.flow.respelled import asked_again
from straightway.flow.tolerance import Check
from straightway.flow.translate import Translation, read, translate
from straightway.flow.verify import Feed, Verification, verify_file
from straightway.ingest.onnx import ShapeRequest
from straightway.ir import Node
from straightway.onnx_io.vary import is_uniform, varied

WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
SEED = 0
# Half a unit in the last place of a float32: what adding one number rounds by, relatively.
ROUNDING = 2.0**-24
NOTE = (
    "all {count:,} numbers of a sum are equal, and each addition rounds the same way: '{name}' differs by "
    "{error:.3g}; with varied weights all is equal"
)


def needs_twin(translation: Translation) -> bool:
    """Whether some product is taken with weights that are all equal."""
    return bool(_equal_sums(translation))


def _equal_sums(translation: Translation) -> list[int]:
    """How many equal weights each sum has, of the nodes whose weights are all equal."""
    return [
        _summed(node, value.const)
        for node in translation.source.nodes
        if node.op.name in WEIGHTED
        for value in node.operands()[1:2]
        if value.const is not None and is_uniform(value.const)
    ]


def _summed(node: Node, weights: np.ndarray) -> int:
    """How many products one output of the node is the sum of."""
    if node.op.name == "MatMul":
        return int(weights.shape[-2] if weights.ndim > 1 else weights.size)
    outputs = 1 if node.op.name == "ConvTranspose" else 0
    if node.op.name == "Gemm" and not node.attrs.get("transB", 0):
        outputs = 1
    return int(weights.size // weights.shape[outputs])


def with_twin(
    found: Verification, oracle: Oracle, translation: Translation, feeds: Sequence[Feed]
) -> Verification:
    """Add the comparison of the twin, its values marked as such.

    Sums of equal numbers round alike instead of at random, up to their count times half a unit in the
    last place; where the twin is equal on every set of inputs, such a difference is not the file's.
    """
    model = oracle.model
    shapes = {v.name: v.shape for v in translation.source.inputs}
    with TemporaryDirectory(prefix="straightway-") as folder:
        path = _varied(model, Path(folder))
        if path is None:
            return found
        try:
            twin = translate(read(path, ShapeRequest(shapes=shapes)), translation.form)
        except Unsupported:
            return found
        with scratch("twin.tflite", twin.written) as draft:
            again = feeds[:1] if found.equal else feeds

            def verify(other: Oracle) -> Verification:
                return verify_file(other, draft, twin, again)

            reference = Oracle(oracle.child, path, note=oracle.note)
            second = asked_again(verify(reference), reference, verify)
    if second.equal and not found.equal:
        found = _rounded_alike(found, max(_equal_sums(translation)))
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


def _rounded_alike(found: Verification, count: int) -> Verification:
    """The comparison with the bound of float32 sums of equal numbers, if that explains all of it."""

    def judged(check: Check) -> Check:
        bound = count * ROUNDING * check.scale
        if check.equal or check.dtype != "float32" or not check.max_error <= bound:
            return check
        return replace(check, bound=bound, reason="")

    worst = found.worst
    again = replace(
        found,
        outputs=tuple(map(judged, found.outputs)),
        interior=tuple(map(judged, found.interior)),
        difference=None,
        note=NOTE.format(count=count, name=worst.name, error=worst.max_error),
    )
    return again if again.equal else found


def _marked(check: Check) -> Check:
    return replace(check, name=f"{check.name} (weights varied)")
