"""Models with open dimensions, rounded: observed at the sizes of the data, open again afterwards."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from straightway.errors import InvalidModel, NotYet, Unsupported
from straightway.flow import counted
from straightway.flow.calibration import Pictures, shapes_of
from straightway.flow.samples import Symbols, at, is_batch
from straightway.flow.translate import Form, LoweredTwice, fitting, twice
from straightway.ingest.shapes import ShapeRequest, open_dims
from straightway.ir import Graph
from straightway.lower import preparation
from straightway.onnx_io.reopen import reopened
from straightway.onnx_io.write import to_bytes
from straightway.passes import opening
from straightway.quant import rounded_model
from straightway.quant.spelling import OPSET
from straightway.remark import Remark

STEP = "flow.reopening"
# `convert` chooses among equal spellings of an op
NEUTRAL = Form(delegate=False)
Data = str | Path | Callable[[], Iterable[object]] | None
Respell = Callable[[Graph], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A model lowered at the data's sizes; its floats there and at other sizes, if that can be."""

    lowered: LoweredTwice
    symbols: Symbols
    sizes: tuple[Mapping[str, int], ...]
    shapes: Mapping[str, tuple[int | str, ...]]
    samples: tuple[bytes, ...]
    reason: str = ""

    def applied(self, path: Path, data: bytes) -> tuple[bytes, Remark]:
        """The rounded model with its dimensions open, or as it is; and which of both."""
        names = ", ".join(self.symbols)
        reason = self.reason
        if not reason:
            try:
                sizes = [[one[name] for one in self.sizes] for name in self.symbols]
                made = reopened(data, self.samples, self.shapes, sizes)
            except NotYet as error:
                reason = str(error)
            else:
                text = f"{names} stay open, observed at {_shown(self.sizes[0])}"
                return made, Remark(kind="done", step=STEP, text=text)
        text = f"{path.name}: {names} can't stay open: {reason}; fixed at {_shown(self.sizes[0])}"
        return data, Remark(kind="missed", step=STEP, text=text)


def _shown(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def keep_words(_: Graph) -> None:
    """Respell nothing."""


def sized(
    declared: Graph, shapes: ShapeRequest, data: Data, *, pictures: Pictures | None, random: int
) -> ShapeRequest:
    """The shapes asked for; of what is open besides, those of the data.

    For `random` samples, such as the model takes. Raises InvalidRequest where there are no data.
    """
    if not open_dims(declared):
        return shapes
    found = fitting(declared) if random else shapes_of(data, declared, pictures)
    return replace(shapes, shapes={**shapes.shapes, **found})


def lowered_open(declared: Graph, fixed: Graph, respell: Respell) -> Opening:
    """Lower an ingested graph at the sizes of `fixed`, by ops that hold at others if there are such.

    Raises Unsupported where it can't be lowered at all.
    """
    form, shapes = NEUTRAL, {value.name: value.shape for value in fixed.inputs}
    symbols = open_dims(declared)
    own = {symbol: shapes[uses[0][0]][uses[0][1]] for symbol, uses in symbols.items()}
    others = [_larger(own, symbols, times) for times in (2, 3)]
    named = {
        value.name: tuple(
            size or f"{value.name}:{k}" if isinstance(size, str) else size
            for k, size in enumerate(value.known_type.shape)
        )
        for value in declared.inputs
    }
    reason = ""
    try:
        graphs = [at(declared, symbols, sizes) for sizes in (own, *others)]
        opening.note(graphs, [counted.copied(graph) for graph in graphs])
        for graph in graphs:
            preparation.before(graph)
        opening.mark(graphs)
        found = [twice(graph, respell, form) for graph in graphs]
        samples = tuple(
            to_bytes(rounded_model.floats_of(one.source, one.lowered).graph, OPSET, {})
            for one in found
        )
        lowered = found[0]
    except (NotYet, InvalidModel, Unsupported) as error:
        reason, samples = str(error).splitlines()[0], ()
        graph = at(declared, symbols, own)
        preparation.before(graph)
        lowered = twice(graph, respell, form)
    return Opening(
        lowered=lowered,
        symbols=symbols,
        sizes=(own, *others),
        shapes=named,
        samples=samples,
        reason=reason,
    )


def _larger(own: Mapping[str, int], symbols: Symbols, times: int) -> dict[str, int]:
    """Larger sizes: a batch by a few, others by a factor, which models that halve them take."""
    return {
        name: size + times - 1 if is_batch(symbols[name]) else times * size
        for name, size in own.items()
    }
