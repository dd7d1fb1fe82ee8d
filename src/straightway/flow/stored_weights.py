"""A verified file of floats with its weights stored in fewer bits, proven in two steps.

Each weight is off by at most half a step of its storage, as it is made. The file that stores them so is
then compared with the same file that holds the rounded numbers as floats (or int8 where the kernel
rounds its operand), within the bound of floats: so unpacking, scales and their order are right. How far
the outputs moved from the file of float32 weights is measured and told.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from straightway.errors import InvalidRequest
from straightway.flow.files import scratch
from straightway.flow.tolerance import Check, compare
from straightway.flow.translate import Translation
from straightway.flow.verify import Verification, run_written
from straightway.quant import blocks, weights_only
from straightway.remark import Remark
from straightway.run.litert import Ran
from straightway.run.process import Child
from straightway.tflite.write import Written, write

STEP = "flow.stored_weights"
NOTE = (
    "compared with float32 weights first; the file then gives what its rounded weights do, within the bound of "
    "floats"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The translation whose file stores its weights anew; without a child nothing was compared or run."""

    translation: Translation
    checks: tuple[Check, ...]
    ran: Ran | None

    def told(self, found: Verification | None) -> Verification | None:
        """What was verified before, of this file; what differs among its checks."""
        if found is None or self.ran is None:
            return found
        if not all(check.equal for check in self.checks):
            return replace(found, outputs=(*found.outputs, *self.checks))
        return replace(found, ran=self.ran, note="; ".join(filter(None, (found.note, NOTE))))


def check_kind(kind: str, block: int = 0) -> None:
    """Raise InvalidRequest for weights that nobody stores, or not in such blocks."""
    if kind not in weights_only.KINDS:
        raise InvalidRequest(f"weights are {', '.join(weights_only.KINDS)}; got '{kind}'")
    blocks.check(block, kind)


def shrunk(
    translation: Translation,
    kind: str,
    child: Child | None,
    feeds: Sequence[Mapping[str, np.ndarray]],
    block: int = 0,
) -> Shrunk:
    """Store the weights of a file of floats as `kind`; `feeds` are inputs as the file takes them.

    Of int4, `block` weights of a row share a scale; 0: all of them.

    Changes the written graph of the translation.
    """
    graph = translation.layout.graph
    before = translation.written
    choice = weights_only.choose(graph, kind, block)
    weights_only.put_plain(choice)
    spread = [] if child is None else weights_only.spread(graph, choice)
    plain = write(graph)
    for one in spread:
        blocks.gather(one)
    weights_only.put_small(graph, choice)
    small = write(graph)
    remarks = [*translation.remarks, *weights_only.remarks(choice)]
    checks: list[Check] = []
    ran = None
    names = translation.source.output_names
    if child is not None and choice.stored:
        for feed in feeds:
            runs = [_run(child, file, feed) for file in (before, plain, small)]
            ran = runs[-1]
            first, second, third = (one.outputs for one in runs)
            checks += [
                compare(f"{name} (weights as {kind})", want, got)
                for name, want, got in zip(names, second, third, strict=True)
            ]
            if feed is feeds[0]:
                remarks += _moved(names, first, third)
    made = replace(translation, written=small, remarks=tuple(remarks))
    return Shrunk(translation=made, checks=tuple(checks), ran=ran)


def _run(child: Child, file: Written, feed: Mapping[str, np.ndarray]) -> Ran:
    with scratch("weights.tflite", file) as path:
        return run_written(child, path, list(feed.values()))


def _moved(
    names: Sequence[str], before: Sequence[np.ndarray], after: Sequence[np.ndarray]
) -> list[Remark]:
    """How far each output of floats is from what it was with float32 weights."""
    found = []
    for name, want, got in zip(names, before, after, strict=True):
        if want.dtype.kind != "f" or not want.size:
            continue
        error = got.astype(np.float64) - want
        power, noise = float(np.square(want, dtype=np.float64).sum()), float(np.square(error).sum())
        if power > 0 and noise > 0:
            ratio = 10 * np.log10(power / noise)
            text = f"'{name}' is {ratio:.1f} dB from what float32 weights give"
            numbers = {"sqnr_db": float(ratio), "max_error": float(np.abs(error).max())}
            found.append(Remark(kind="measured", step=STEP, text=text, numbers=numbers))
    return found
