"""Child side: rows that the weights of an op are multiplied with, some of each sample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from straightway.errors import ToolFailed
from straightway.run import onnx_engine
from straightway.run.wire import Array

Floats = NDArray[np.float32]


@dataclass(slots=True)
class Reservoir:
    """Rows [groups, rows, weights] drawn evenly from all that were offered, at most `most`."""

    most: int
    kept: Floats | None = None
    filled: int = 0
    offered: int = 0

    def add(self, rows: Floats, rng: np.random.Generator) -> None:
        """Keep rows while there is room; then each takes a place at random, ever less often."""
        if self.kept is None:
            self.kept = np.zeros((rows.shape[0], self.most, rows.shape[2]), np.float32)
        room = min(self.most - self.filled, rows.shape[1])
        self.kept[:, self.filled : self.filled + room] = rows[:, :room]
        self.filled += room
        self.offered += room
        late = rows[:, room:]
        places = rng.integers(0, self.offered + 1 + np.arange(late.shape[1]))
        inside = places < self.most
        self.kept[:, places[inside]] = late[:, inside]
        self.offered += late.shape[1]

    def rows(self) -> Floats:
        """What was kept."""
        return np.zeros((1, 0, 0), np.float32) if self.kept is None else self.kept[:, : self.filled]


def drawn(spec: Mapping[str, Any], x: Array, rng: np.random.Generator) -> Floats:
    """At most `share` rows of one tensor, as `quant.rows.spec` describes what the op reads."""
    if spec["axis"] is not None:
        flat = np.moveaxis(x, spec["axis"], -1).reshape(-1, x.shape[spec["axis"]])
        return flat[None, _some(len(flat), spec["share"], rng)].astype(np.float32)
    (high, wide), (down, right) = spec["window"], spec["strides"]
    steps_down, steps_right = spec["dilations"]
    count, (rows, columns) = x.shape[0], spec["result"]
    picked = _some(count * rows * columns, spec["share"], rng)
    n, p, q = np.unravel_index(picked, (count, rows, columns))
    i = (p * down - spec["before"][0])[:, None] + np.arange(high) * steps_down
    j = (q * right - spec["before"][1])[:, None] + np.arange(wide) * steps_right
    inside = ((i >= 0) & (i < x.shape[2]))[:, :, None] & ((j >= 0) & (j < x.shape[3]))[:, None, :]
    i, j = i.clip(0, x.shape[2] - 1), j.clip(0, x.shape[3] - 1)
    taken = x[n[:, None, None], :, i[:, :, None], j[:, None, :]] * inside[..., None]
    grouped = taken.reshape(len(picked), high * wide, spec["groups"], -1)
    rows_first = grouped.transpose(2, 0, 3, 1).reshape(spec["groups"], len(picked), -1)
    return np.ascontiguousarray(rows_first, np.float32)


def _some(total: int, share: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Numbers below `total`, at most `share` of them, each once."""
    if total <= share:
        return np.arange(total)
    return rng.choice(total, share, replace=False, shuffle=False)


class _Kept:
    """The model whose rows are drawn: a session for each group of tensors, a reservoir for each op."""

    path: str = ""
    sessions: dict[int, Any] = {}  # noqa: RUF012 - of the one process
    reservoirs: dict[int, Reservoir] = {}  # noqa: RUF012 - as above


def forget() -> None:
    """Free what is kept."""
    _Kept.path, _Kept.sessions, _Kept.reservoirs = "", {}, {}


def add(params: Mapping[str, Any], arrays: Sequence[Array]) -> tuple[dict[str, Any], list[Array]]:
    """Run one group's session on a sample, and draw rows of its tensors."""
    if params["fresh"]:
        forget()
        _Kept.path = params["path"]
    elif params["path"] != _Kept.path:
        raise ToolFailed("the rows drawn so far are lost: another model ran in between")
    group, names = params["group"], params["names"]
    if group not in _Kept.sessions:
        _Kept.sessions[group] = onnx_engine.open_session(params["path"], names)
    feeds = dict(zip(params["inputs"], arrays, strict=True))
    values = onnx_engine.outputs(_Kept.sessions[group], names, feeds)
    found = dict(zip(names, values, strict=True))
    for number, spec in params["specs"].items():
        rng = np.random.default_rng((int(number), params["sample"]))
        kept = _Kept.reservoirs.setdefault(int(number), Reservoir(spec["most"]))
        kept.add(drawn(spec, np.asarray(found[spec["value"]]), rng), rng)
    return {}, []


def result(_: Mapping[str, Any], __: Sequence[Array]) -> tuple[dict[str, Any], list[Array]]:
    """The rows kept of each op asked for, by its number."""
    return {"numbers": list(_Kept.reservoirs)}, [r.rows() for r in _Kept.reservoirs.values()]
