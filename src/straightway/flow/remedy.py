"""Where dimensions can't stay open: why, and the line that fixes as few of them as needed."""

from collections.abc import Sequence
from pathlib import Path

from straightway.errors import Unsupported
from straightway.flow.samples import (
    CONTRADICTIONS,
    Sizes,
    Symbols,
    at,
    checked,
    is_batch,
    join,
    ladders,
)
from straightway.flow.translate import fitting, translate
from straightway.ingest.shapes import quote, shown, symbols_of
from straightway.ir import Graph
from straightway.remark import Remark

STEP = "flow.open"


def refused(path: Path, declared: Graph, symbols: Symbols, reason: Exception) -> Unsupported:
    """Say what can't stay open and what to type; or what is refused at every size."""
    remedy = _remedy(declared, symbols)
    if isinstance(remedy, Unsupported):
        return remedy
    if not remedy:
        return Unsupported(f"{path}: no size that was tried makes a valid model of it: {reason}")
    opened = [value for value in declared.inputs if not value.known_type.is_static]
    texts = [f"has symbolic dimensions {shown(value.known_type.shape)}" for value in opened]
    named = ", ".join(f"'{v.name}' {text}" for v, text in zip(opened, texts, strict=True))
    remarks = [
        Remark(kind="missed", step=STEP, node=value.name, text=text, remedy=remedy)
        for value, text in zip(opened, texts, strict=True)
    ]
    return Unsupported(
        f"{path}: {named}; they can't stay open: {reason}\n  what works: {remedy}", remarks
    )


def _remedy(declared: Graph, symbols: Symbols) -> str | Unsupported:
    """What to type; or the refusal, where no size makes the model convert; "" where it has none."""
    refusal: Unsupported | None = None
    for samples in ladders(symbols):
        sizes = checked(symbols, samples)
        try:
            translate(at(declared, symbols, sizes))
        except Unsupported as error:
            if refusal is None and any(remark.op for remark in error.remarks):
                refusal = error
        except CONTRADICTIONS:
            continue
        else:
            return _line(declared, symbols, samples, sizes)
    shapes = fitting(declared)
    sizes = {symbol: shapes[uses[0][0]][uses[0][1]] for symbol, uses in symbols.items()}
    failure = _failure(declared, symbols, sizes)
    if failure is not None:
        return refusal or (failure if isinstance(failure, Unsupported) else "")
    return f"sizes that the model takes: {_by_name(declared, symbols, sizes)}"


def _failure(declared: Graph, symbols: Symbols, sizes: Sizes) -> Exception | None:
    """What stands against these sizes."""
    try:
        translate(at(declared, symbols, sizes))
    except CONTRADICTIONS as error:
        return error
    return None


def _line(declared: Graph, symbols: Symbols, samples: Sequence[Sizes], sizes: Sizes) -> str:
    """Fix one symbol if that is enough, else as few as that needs, the batch last."""

    def keeps(fixed: Sequence[str]) -> bool:
        left = {s: uses for s, uses in symbols.items() if s not in fixed}
        partly = at(declared, {s: symbols[s] for s in fixed}, sizes)
        try:
            join(partly, left, samples)
        except CONTRADICTIONS:
            return False
        return True

    fixed = next(([s] for s in symbols if len(symbols) > 1 and keeps([s])), None)
    if fixed is None:
        fixed = list(symbols)
        for symbol in sorted(symbols, key=lambda s: not is_batch(symbols[s])):
            fewer = [s for s in fixed if s != symbol]
            fixed = fewer if fewer and keeps(fewer) else fixed
    left = [s for s in symbols if s not in fixed]
    line = _by_name(declared, {s: symbols[s] for s in fixed}, sizes)
    return f"{line}, which leaves {', '.join(left)} open" if left else line


def _by_name(declared: Graph, symbols: Symbols, sizes: Sizes) -> str:
    """By all names of each: those that are tied have several."""
    names = {value.name: symbols_of(value) for value in declared.inputs}
    asked = {names[n][d]: sizes[symbol] for symbol, uses in symbols.items() for n, d in uses}
    return " ".join(f"--dim {quote(f'{name}={asked[name]}')}" for name in sorted(asked))
