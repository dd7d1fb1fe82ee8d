"""`inspect`: what is in a model, and what will become of each node, without running anything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from straightway.errors import InvalidModel, Unsupported
from straightway.flow import limits
from straightway.flow.blame import blamed
from straightway.flow.convert import Request, translated, within_memory
from straightway.flow.suggestion import candidates
from straightway.flow.translate import Translation, grouped, read
from straightway.ingest.shapes import open_dims
from straightway.ir import Graph, Node, Source, TensorType
from straightway.lower import preparation
from straightway.lower.lowering import Lowered, lower_graph
from straightway.remark import Remark
from straightway.tflite.rows import ROWS

# How many sizes of open dimensions are tried to say what becomes of a refused model's other nodes.
MOST_SIZES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """One node of the model: the TFLite ops that compute it, and where these run.

    `becomes` is empty for a node that was folded into constants or took no op; `waits` for one that
    was not looked at, since what it reads is refused. `layout` is the order in which the file stores
    the model's dimensions of the result, without those of size 1, and "" where that is their own;
    `numbers` says in which other type it is computed, or what else its lowering says; `exact` whether it
    is computed in the model's own type, None where that is not known. `delegate` says
    why XNNPACK leaves its ops out ("" where it takes them); `refused` why it can't become an op.
    """

    node: str
    op: str
    source: str
    becomes: tuple[str, ...] = ()
    waits: bool = False
    layout: str = ""
    numbers: str = ""
    exact: bool | None = None
    delegate: str = ""
    refused: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """Every node with its fate, in the order of the file; the layout plan where there is one."""

    model: Path
    fates: tuple[Fate, ...]
    plan: str
    refusals: tuple[Remark, ...]

    @property
    def verdict(self) -> str:
        """One sentence: whether it converts, and what will not run on the delegate."""
        if self.refusals:
            count = sum(1 for fate in self.fates if fate.refused)
            if not count:
                return f"refused: none of {len(self.fates)} nodes, but what goes in or out of them"
            return f"refused: {count} of {len(self.fates)} nodes can't be converted"
        outside = [fate for fate in self.fates if fate.delegate]
        text = f"converts: {len(self.fates)} nodes; {self.plan}"
        if outside:
            text += f"; XNNPACK leaves out ops of {len(outside)} nodes"
        return text

    @property
    def causes(self) -> str:
        """The refused nodes by cause, each with what works instead; "" where there is none."""
        return grouped(len(self.fates), self.refusals) if self.refusals else ""


def inspect(model: Path, request: Request) -> Inspection:
    """Say what becomes of each node. Raises InvalidModel."""
    with within_memory(model), blamed(model, request.fixed):
        return _inspected(model, request)


def _inspected(model: Path, request: Request) -> Inspection:
    source = read(model, request.declared)
    request = request.of(source)
    nodes = list(source.nodes)
    source_types = {n.name: n.outputs[0].type for n in nodes if n.outputs}
    casts = {n.name for n in nodes if n.op.name == "Cast"}  # they are of two types
    names = [(node.name, str(node.op), min(node.origins, default=Source())) for node in nodes]
    try:
        done = translated(model, source, request)
    except Unsupported as error:
        remarks = error.remarks
        if not any(remark.op or remark.step == limits.STEP for remark in remarks):
            remarks = (_of_sizes(error, model),)
        return _refused(model, names, remarks, _lowered_apart(model, request))
    ops = _ops_by_node(done.layout.graph)
    layouts, computed = (
        _layouts(done),
        _computed_in({n: t for n, t in source_types.items() if n not in casts}, ops),
    )
    numbers = _numbers(done, computed, source_types)
    fates = tuple(
        Fate(
            node=name,
            op=op,
            source=str(place),
            becomes=_kinds(ops.get(name, ())),
            layout=layouts.get(name, ""),
            numbers=numbers.get(name, ""),
            exact=name not in computed,
            delegate=_left_out(ops.get(name, ())),
        )
        for name, op, place in names
    )
    return Inspection(model=model, fates=fates, plan=done.layout.plan.verdict(), refusals=())


def _of_sizes(error: Unsupported, model: Path) -> Remark:
    """What is refused of open dimensions: of the model's inputs, at no node."""
    text, _, remedy = str(error).removeprefix(f"{model}: ").partition("\n  what works: ")
    return Remark(kind="missed", step="flow.open", text=text, remedy=remedy)


def _kinds(ops: Sequence[Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node.op.name for node in ops))


def _layouts(done: Translation) -> Mapping[str, str]:
    """Where a node's first result lies in another order than the model's, by the node's name."""
    found = {}
    for node in done.source.nodes:
        logical = done.lowered.values.get(node.outputs[0]) if node.outputs else None
        place = done.layout.places.get(logical) if logical is not None else None
        if place is not None:
            dims = [atom[0] for dim in place.form for atom in dim]
            if dims != sorted(dims):
                found[node.name] = ", ".join(map(str, dict.fromkeys(dims)))
    return found


def _computed_in(
    types: Mapping[str, TensorType | None], ops: Mapping[str, Sequence[Node]]
) -> Mapping[str, str]:
    """The nodes that are not computed in the model's own type of floats."""
    found = {}
    for name, kind in types.items():
        made = [value.dtype for op in ops.get(name, ()) for value in op.outputs[:1]]
        if kind is None or "float" not in kind.dtype.name:
            continue
        others = [dtype for dtype in made if dtype.kind == "f" and dtype != kind.dtype]
        if others:
            found[name] = f"{kind.dtype.name} computed in {others[0].name}"
    return found


def _numbers(
    done: Translation, computed: Mapping[str, str], types: Mapping[str, TensorType | None]
) -> Mapping[str, str]:
    """What is not computed in the model's own type, and what lowerings say of their nodes."""
    found = {name: [text] for name, text in computed.items()}
    for remark in done.lowered.remarks:
        if remark.node in types:
            found.setdefault(remark.node, []).append(remark.text)
    return {name: "; ".join(dict.fromkeys(texts)) for name, texts in found.items()}


def _lowered_apart(model: Path, request: Request) -> Lowered | None:
    """What the nodes become that are not refused, at sizes of open dimensions that the model takes."""
    declared = read(model, request.declared)
    given = dict(request.fixed.shapes)
    for shapes in islice(candidates(declared), MOST_SIZES) if open_dims(declared) else ({},):
        try:
            source = read(model, replace(request.fixed, shapes={**given, **shapes}))
            preparation.before(source)
            return lower_graph(source, delegate=request.form.delegate, modulo=request.form.modulo)
        except (Unsupported, InvalidModel):
            continue
    return None


def _ops_by_node(graph: Graph) -> Mapping[str, Sequence[Node]]:
    found: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for source in node.origins:
            found.setdefault(source.node, []).append(node)
    return found


def _left_out(ops: Sequence[Node]) -> str:
    reasons = (ROWS[node.op.name].refused_by_xnnpack(node) for node in ops)
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))


def _refused(
    model: Path,
    names: Sequence[tuple[str, str, Source]],
    remarks: Sequence[Remark],
    lowered: Lowered | None,
) -> Inspection:
    ops = _ops_by_node(lowered.graph) if lowered is not None else {}
    waiting = _waiting(lowered) if lowered is not None else {name for name, *_ in names}
    why = {remark.node: remark for remark in remarks if remark.op}
    for node in lowered.refused if lowered is not None else ():
        for source in node.origins:
            if node.name in why:
                why.setdefault(source.node, replace(why[node.name], node=source.node))
    merged = [why[name] for name, *_ in names if name in why and why[name] not in remarks]
    fates = tuple(
        Fate(
            node=name,
            op=op,
            source=str(place),
            becomes=() if name in why else _kinds(ops.get(name, ())),
            waits=name in waiting and name not in why,
            refused=why[name].text if name in why else "",
            remedy=why[name].remedy if name in why else "",
        )
        for name, op, place in names
    )
    return Inspection(model=model, fates=fates, plan="", refusals=(*remarks, *merged))


def _waiting(lowered: Lowered) -> set[str]:
    """Nodes that read what a refused one should make."""
    return {source.node for node in lowered.unjudged for source in node.origins}
