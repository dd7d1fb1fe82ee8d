"""A difference may be the reference's: asked again of onnxruntime with its Sigmoids spelled out."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from straightway.errors import StraightwayError
from straightway.flow.files import scratch
from straightway.flow.verify import Verification
from straightway.onnx_io.respell import respelled

NOTE = (
    "compared with onnxruntime computing Sigmoid as 1 / (1 + exp(-x)); with its own kernel, which is "
    "off by up to 8e-8, '{name}' would differ by {error:.3g} where {bound:.3g} is allowed"
)


def asked_again(
    found: Verification, model: Path, verify: Callable[[Path], Verification]
) -> Verification:
    """The comparison with the model spelled out, if by that all is equal; else the one before.

    `verify` compares the same file with another reference.
    """
    data = respelled(model)
    if data is None:
        return found
    with scratch("respelled.onnx", data) as path:
        try:
            second = verify(path)
        except StraightwayError:  # the spelling is ours: what it can't run says nothing
            return found
    if not second.equal:
        return found
    worst = found.worst
    note = NOTE.format(name=worst.name, error=worst.max_error, bound=worst.bound)
    return replace(second, note=note)
