"""What each ONNX operator is accepted in, becomes, and is limited to: measured on its own samples.

A declaration lists no types, versions or TFLite ops; converting its samples tells them.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Literal

import numpy as np

from straightway.errors import InvalidModel, Unsupported
from straightway.flow.translate import translate
from straightway.ingest.onnx import ingest_proto
from straightway.ir.types import SHORT_NAMES
from straightway.lower import families
from straightway.lower.bind import must_be_constant, names
from straightway.lower.declare import LOWERINGS, Lowering, Need
from straightway.lower.samples import Retype, single
from straightway.onnx_io.schema import NEWEST_OPSET, history, schema
from straightway.passes import implied
from straightway.passes.types import nested
from straightway.tflite.rows import ROWS

# where an operator has no official schema: the name of its floats, and what may take their place
FLOATS = "T"
PLAIN = tuple(dtype for dtype, name in SHORT_NAMES.items() if name not in ("str", "i4", "u4"))
# who sets a limit: a kernel of LiteRT, ONNX's text or arithmetic, or that nobody lowered it so far
Setter = Literal["LiteRT", "ONNX", "not yet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What must hold: who sets it, the sentence, where that stands, what works instead."""

    setter: Setter
    text: str
    kernel: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """One operator: the versions and element types that are accepted, what it becomes, its limits.

    `types` are those of the operands, by the schema's names of types; `rows` the TFLite ops that its
    samples become, with the file and line of their kernels.
    """

    op: str
    domain: str
    becomes: str
    versions: tuple[int, ...]
    types: Mapping[str, tuple[str, ...]]
    rows: Mapping[str, str]
    limits: tuple[Limit, ...]

    @property
    def name(self) -> str:
        """The operator, with its domain where that is not ONNX's own."""
        return self.op if self.domain == "onnx" else f"{self.domain}.{self.op}"


def known() -> set[str]:
    """The names of all operators that are lowered."""
    families.load()
    return {op for _, op in LOWERINGS}


def support(name: str | None = None) -> Iterator[Support]:
    """Every operator that is lowered, or all of that name, ONNX's own first, in the order of names."""
    families.load()
    for domain, op in sorted(LOWERINGS, key=lambda key: (key[0] != "onnx", key)):
        if name in (None, op):
            yield of(domain, op)


@cache
def of(domain: str, op: str) -> Support:
    """What holds of one operator; takes some conversions."""
    lowering = LOWERINGS[domain, op]
    return Support(
        op=op,
        domain=domain,
        becomes=(inspect.getdoc(lowering.function) or "").partition("\n\n")[0],
        versions=tuple(_versions(lowering)),
        types=_types(lowering),
        rows={row: ROWS[row].kernel for row in sorted(_rows(lowering))},
        limits=(*_constants(lowering), *(limit(need, op) for need in lowering.needs)),
    )


def limit(need: Need, op: str) -> Limit:
    """A declaration's limit as a sentence."""
    setter: Setter = "LiteRT" if is_kernel(need.kernel) else "ONNX"
    setter = "not yet" if need.possible else setter
    return Limit(setter=setter, text=need.limit(op), kernel=need.kernel, remedy=need.remedy)


def is_kernel(place: str) -> bool:
    """Whether a place is one of LiteRT's, not of ONNX's text."""
    return bool(place) and not place.startswith("onnx/")


def _constants(lowering: Lowering) -> list[Limit]:
    """Operands that must be known."""
    found: dict[str, None] = {}
    for entry in history(lowering.op):
        found.update(dict.fromkeys(must_be_constant(lowering, entry)))
    told = implied.TOLD.get(lowering.op.name, ()) if lowering.op.dialect == "onnx" else ()
    texts = [
        f"operand '{name}' must be a constant"
        + (", or follow from the shape that the model declares for the result" * (name in told))
        for name in found
    ]
    return [Limit(setter="not yet", text=text) for text in texts]


def _versions(lowering: Lowering) -> list[int]:
    """The opsets that changed the operator, of those whose schema the signature can be bound to."""
    entries = history(lowering.op)
    known = names(lowering)
    return [entry.since for entry in entries if entry.required <= known] or [1]


def _rows(lowering: Lowering) -> set[str]:
    """The TFLite ops that the samples become."""
    found: set[str] = set()
    for case in lowering.samples:
        try:
            made = translate(ingest_proto(single(lowering, case).model()))
        except (Unsupported, InvalidModel):  # it needs a model that declares its results
            continue
        graphs = nested(made.lowered.graph)
        found.update(node.op.name for graph in graphs for node in graph.nodes)
    return found


def _types(lowering: Lowering) -> dict[str, tuple[str, ...]]:
    """For each of the operands' types that varies, those with which a sample converts."""
    entries = history(lowering.op)
    choices: Mapping[str, Iterable[np.dtype]] = {FLOATS: PLAIN}
    if entries:
        newest = entries[-1]
        choices = {
            name: newest.types[name] for name in newest.types if name in newest.operand_types
        }
    return {
        name: tuple(SHORT_NAMES[d] for d in ordered(dtypes) if _converts(lowering, name, d))
        for name, dtypes in choices.items()
    }


def ordered(dtypes: Iterable[np.dtype]) -> list[np.dtype]:
    """Those with a short name, floats first."""
    given = {*dtypes}
    return [dtype for dtype in SHORT_NAMES if dtype in given]


def _converts(lowering: Lowering, variable: str, dtype: np.dtype) -> bool:
    """Whether a sample does, of an opset that has the type: the operands of one type, or all alike."""
    entries = history(lowering.op)
    several = bool(entries) and len({*entries[-1].operand_types}) > 1
    retypes = [
        _retyped(dtype, variable, alike=alike) for alike in ([False, True] if several else [False])
    ]
    for case, retype in product(lowering.samples, retypes):
        one = single(lowering, case, retype)
        own = schema(one.op)
        if own is not None and dtype not in own.types.get(variable, ()):
            if case.opset is not None or lowering.op.dialect != "onnx":
                continue
            one = single(lowering, replace(case, opset=NEWEST_OPSET), retype)
        try:
            with np.errstate(all="ignore"):  # numbers of a sample that the type has not
                translate(ingest_proto(one.model()))
        except (Unsupported, InvalidModel):
            continue
        return True
    return False


def _retyped(dtype: np.dtype, variable: str, *, alike: bool) -> Retype:
    """Give another type to the operands of one type by the schema, or to all floats as well."""

    def retype(kind: str, array: np.ndarray) -> np.ndarray:
        wanted = kind == variable or ((alike or not kind) and array.dtype == np.float32)
        with np.errstate(all="ignore"):  # a number that the type has not: any will do
            return array.astype(dtype) if wanted else array

    return retype
