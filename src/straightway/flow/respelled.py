"""A difference may be the reference's: another one is asked before the file is called wrong."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

from straightway.errors import StraightwayError
from straightway.flow.files import scratch
from straightway.flow.reference import Oracle
from straightway.flow.verify import Verification
from straightway.onnx_io.respell import respelled

SIGMOIDS = (
    "compared with onnxruntime computing Sigmoid as 1 / (1 + exp(-x)); with its own kernel, which is "
    "off by up to 8e-8, '{name}' would differ by {error:.3g} where {bound:.3g} is allowed"
)
EVALUATOR = (
    "compared with ONNX's reference evaluator; onnxruntime gives other numbers: with it '{name}' would "
    "differ: {reason}"
)


def asked_again(
    found: Verification, oracle: Oracle, verify: Callable[[Oracle], Verification]
) -> Verification:
    """The comparison with another reference, if by that all is equal; else the one before.

    onnxruntime with its Sigmoids spelled out, then the standard's own evaluator, unless that was
    asked first. `verify` compares the same file with it.
    """
    worst = found.worst
    facts = {"name": worst.name, "error": worst.max_error, "bound": worst.bound}
    with ExitStack() as stack:
        for other, note in _others(oracle, stack):
            try:
                second = verify(other)
            except StraightwayError:  # what another reference can't run says nothing
                continue
            if second.equal:
                return replace(second, note=note.format(**facts, reason=worst.reason))
    return found


def _others(oracle: Oracle, stack: ExitStack) -> Iterator[tuple[Oracle, str]]:
    if oracle.note:
        return
    data = respelled(oracle.model)
    if data is not None:
        path = stack.enter_context(scratch("respelled.onnx", data))
        yield Oracle(oracle.child, path), SIGMOIDS
    yield Oracle(oracle.child, oracle.model, note=EVALUATOR), EVALUATOR
