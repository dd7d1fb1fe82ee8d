"""A difference may be the reference's: another one is asked before the file is called wrong."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from straightway.errors import StraightwayError, ToolFailed
from straightway.flow.files import scratch
from straightway.flow.reference import NO_KERNEL, Oracle, one_line
from straightway.flow.verify import Verification
from straightway.onnx_io.respell import Change, respelled, sigmoids
from straightway.onnx_io.respell_casts import casts
from straightway.onnx_io.respell_floats import all_floats, narrow_floats
from straightway.onnx_io.respell_pads import same_pads, valid_pads
from straightway.onnx_io.respell_recurrent import recurrent
from straightway.onnx_io.respell_windows import windows


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """Another spelling of a model, and what onnxruntime then does.

    `narrow`: it computes more precisely, so that what changes by it is the reference's uncertainty.
    """

    change: Change
    text: str
    narrow: bool = False


SPELLINGS = (
    Spelling(
        change=narrow_floats,
        text="computing float16 and bfloat16 in float32, as LiteRT does",
        narrow=True,
    ),
    Spelling(
        change=casts,
        text="whose Casts to whole numbers give the nearest where the type has not the number, as LiteRT's "
        "do (ONNX leaves that undefined)",
    ),
    Spelling(
        change=recurrent,
        text="leaving out what DynamicQuantizeLSTM rounds as it runs, as the file does",
    ),
    Spelling(
        change=sigmoids,
        text="computing Sigmoid as 1 / (1 + exp(-x)), whose own kernel is off by up to 8e-8",
    ),
    Spelling(change=valid_pads, text="with pads of zero for auto_pad VALID"),
    Spelling(
        change=windows,
        text="computing window functions in float64, whose own kernels are off by up to 2e-8",
        narrow=True,
    ),
)
# where onnxruntime has no kernels for the model's own types
ALL_FLOATS = Spelling(change=all_floats, text="computing other floats in float32, as LiteRT does")
# and where it has none for the windows
SAME = Spelling(change=same_pads, text="with pads for auto_pad SAME")
NOTE = "compared with onnxruntime {spelling}; else '{name}' would differ: {reason}"
INSTEAD = "compared with onnxruntime {spelling}, since {reason}"
EVALUATOR = (
    "compared with ONNX's reference evaluator; onnxruntime gives other numbers: with it '{name}' would "
    "differ: {reason}"
)


def answered(oracle: Oracle, verify: Callable[[Oracle], Verification]) -> Verification:
    """The comparison; where no reference has a kernel for the model as it is, with it spelled otherwise."""
    try:
        return verify(oracle)
    except ToolFailed as error:
        spellings = ((one, respelled(oracle.model, [one.change])) for one in (ALL_FLOATS, SAME))
        one, data = next((pair for pair in spellings if pair[1] is not None), (ALL_FLOATS, None))
        if data is None or not any(limit in str(error) for limit in NO_KERNEL):
            raise
        with scratch("respelled.onnx", data) as path:
            found = verify(Oracle(oracle.child, path, widens=True))
        note = INSTEAD.format(spelling=one.text, reason=one_line(error))
        return replace(found, note="; ".join(filter(None, (note, found.note))))


def asked_again(
    found: Verification, oracle: Oracle, verify: Callable[[Oracle], Verification]
) -> Verification:
    """The comparison with another reference, if by that all is equal; else the one before.

    onnxruntime with the model spelled otherwise, each way and in all, then the standard's own
    evaluator, unless that was asked first. `verify` compares the same file with it.
    """
    if found.equal:
        return found
    worst = found.worst
    with ExitStack() as stack:
        for other, note in _others(oracle, stack):
            try:
                second = verify(other)
            except StraightwayError:  # what another reference can't run says nothing
                continue
            if second.equal:
                return replace(second, note=note.format(name=worst.name, reason=worst.reason))
    return found


def _others(oracle: Oracle, stack: ExitStack) -> Iterator[tuple[Oracle, str]]:
    found = []
    for spelling in (ALL_FLOATS, *SPELLINGS[1:]) if oracle.note else SPELLINGS:
        data = respelled(oracle.model, [spelling.change])
        if data is not None:
            found.append(spelling)
            yield _spelled(oracle, data, [spelling], stack)
    data = respelled(oracle.model, [one.change for one in found]) if len(found) > 1 else None
    if data is not None:
        yield _spelled(oracle, data, found, stack)
    if not oracle.note:
        yield Oracle(oracle.child, oracle.model, note=EVALUATOR), EVALUATOR


def _spelled(
    oracle: Oracle, data: bytes, spellings: Sequence[Spelling], stack: ExitStack
) -> tuple[Oracle, str]:
    """A reference that runs the changed model; where onnxruntime runs the other one, it tells the doubt."""
    path = stack.enter_context(scratch("respelled.onnx", data))
    narrow = any(one.narrow for one in spellings) and not oracle.note
    text = NOTE.replace("{spelling}", ", and ".join(one.text for one in spellings))
    doubted = oracle.model if narrow else None
    return Oracle(oracle.child, path, doubted=doubted, widens=True), text
