"""What was observed, kept in a file as it goes on: a later run goes on from there.

The file says of which model and of which samples, by their bytes; both must be the same again. Another
method, or another target, finds all that it needs in it.
"""

import hashlib
import io
import json
import time
import zipfile
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from straightway.errors import InvalidRequest
from straightway.flow import files
from straightway.ir import Value
from straightway.quant.edges import FLOAT32
from straightway.quant.rounded_model import Model
from straightway.run.observe import Observed, Observer
from straightway.run.process import Child
from straightway.run.wire import Array

SAVED_EVERY_S = 10.0
# memory is for the model, not for looking at it
GROUP_BYTES = 256 * 2**20
FACTS = tuple(one.name for one in fields(Observed) if one.name != "histogram")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What stands in the file: sums of the model's and the samples' bytes, and what was seen."""

    model: str
    data: str
    samples: int
    seen: Mapping[str, Observed]


def read(path: Path) -> Kept | None:
    """Read the file; None where there is none. Raises InvalidRequest for another kind of file."""
    if not path.exists():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            head = json.loads(str(found["head"]))
            seen = {
                name: Observed(**facts, histogram=counts)
                for (name, facts), counts in zip(head.pop("seen"), found["histograms"], strict=True)
            }
            return Kept(**head, seen=seen)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidRequest(
            f"--resume {path}: holds nothing that was observed: {error}"
        ) from error


def write(path: Path, kept: Kept) -> None:
    """Write the file, whole or not at all."""
    facts = [
        (name, {fact: getattr(one, fact) for fact in FACTS}) for name, one in kept.seen.items()
    ]
    head = {"model": kept.model, "data": kept.data, "samples": kept.samples, "seen": facts}
    held = io.BytesIO()
    histograms = np.stack([one.histogram for one in kept.seen.values()]) if facts else np.zeros(0)
    np.savez(held, head=np.array(json.dumps(head)), histograms=histograms)
    files.write(path, held.getvalue())


class ResumedObserver(Observer):
    """An observer that leaves out what a file says of the first samples, and keeps the file up."""

    def __init__(
        self, child: Child, path: Path, groups: Sequence[Sequence[str]], kept: Path
    ) -> None:
        """Raises InvalidRequest where the file is of another model."""
        super().__init__(child, path, groups)
        self._file = kept
        self._model = hashlib.sha256(path.read_bytes()).hexdigest()
        self._digest = hashlib.sha256()
        self._before = read(kept)
        self._saved_s = time.monotonic()
        if self._before is not None and self._before.model != self._model:
            raise InvalidRequest(
                f"--resume {kept}: was observed on another model, or at other sizes; "
                "delete it, or name another file"
            )

    def add(self, inputs: Mapping[str, Array]) -> None:
        """Run the model on one sample that the file does not know."""
        for name in sorted(inputs):
            self._digest.update(np.ascontiguousarray(inputs[name]).tobytes())
        before = self._before
        if before is not None and self.samples < before.samples:
            self.samples += 1
            if self.samples == before.samples:
                self._go_on(before)
            return
        super().add(inputs)
        if time.monotonic() - self._saved_s > SAVED_EVERY_S:
            self._save(super().result())

    def result(self) -> dict[str, Observed]:
        """What was seen, in this run and before; raises InvalidRequest for fewer samples than before."""
        before = self._before
        if before is not None and self.samples < before.samples:
            raise self._other_data(before)
        found = super().result()
        self._save(found)
        return found

    def _go_on(self, before: Kept) -> None:
        if self._digest.hexdigest() != before.data:
            raise self._other_data(before)
        self.restore(before.seen)

    def _other_data(self, before: Kept) -> InvalidRequest:
        return InvalidRequest(
            f"--resume {self._file}: the first {before.samples} samples are not those observed "
            "before; delete it, or name another file"
        )

    def _save(self, seen: Mapping[str, Observed]) -> None:
        write(
            self._file,
            Kept(model=self._model, data=self._digest.hexdigest(), samples=self.samples, seen=seen),
        )
        self._saved_s = time.monotonic()


def observer(
    child: Child, path: Path, groups: Sequence[Sequence[str]], kept: Path | None
) -> Observer:
    """An observer, one that goes on from the file `kept` where that is asked for."""
    if kept is None:
        return Observer(child, path, groups)
    return ResumedObserver(child, path, groups, kept)


def watched(plain: Model, hidden: Container[str]) -> list[list[str]]:
    """The names of all values of floats, in groups that fit in memory together."""
    values = [v for v in plain.names if v.dtype == FLOAT32 and v.name not in hidden]
    return [[plain.names[v] for v in group] for group in _groups(values)]


def _groups(values: Sequence[Value]) -> Iterable[list[Value]]:
    """Runs of values that fit in memory together."""
    total = 0
    group: list[Value] = []
    for value in values:
        size = value.known_type.size_bytes
        if group and total + size > GROUP_BYTES:
            yield group
            group, total = [], 0
        group.append(value)
        total += size
    yield group
