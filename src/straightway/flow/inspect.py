"""`inspect`: what is in a model, and what will become of each node, without running anything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from straightway.errors import Unsupported
from straightway.flow.blame import blamed
from straightway.flow.convert import Request, translated, within_memory
from straightway.flow.translate import Translation, read
from straightway.ir import Node, Source
from straightway.remark import Remark
from straightway.tflite.rows import ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """One node of the model: the TFLite ops that compute it, and where these run.

    `becomes` is empty for a node that was folded into constants or took no op; `delegate` says why
    XNNPACK leaves its ops out ("" where it takes them); `refused` says why it can't become an op.
    """

    node: str
    op: str
    source: str
    becomes: tuple[str, ...] = ()
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
            return f"refused: {len(self.refusals)} of {len(self.fates)} nodes can't be converted"
        outside = [fate for fate in self.fates if fate.delegate]
        text = f"converts: {len(self.fates)} nodes; {self.plan}"
        if outside:
            text += f"; XNNPACK leaves out ops of {len(outside)} nodes"
        return text


def inspect(model: Path, request: Request) -> Inspection:
    """Say what becomes of each node. Raises InvalidModel; Unsupported where shapes can't stay open."""
    with within_memory(model), blamed(model, request.fixed):
        return _inspected(model, request)


def _inspected(model: Path, request: Request) -> Inspection:
    source = read(model, request.declared)
    nodes = list(source.nodes)
    names = [(node.name, str(node.op), min(node.origins, default=Source())) for node in nodes]
    try:
        done = translated(model, source, request)
    except Unsupported as error:
        if not any(remark.op for remark in error.remarks):
            raise
        return _refused(model, names, error.remarks)
    ops = _ops_by_node(done)
    fates = tuple(
        Fate(
            node=name,
            op=op,
            source=str(place),
            becomes=tuple(dict.fromkeys(n.op.name for n in ops.get(name, ()))),
            delegate=_left_out(ops.get(name, ())),
        )
        for name, op, place in names
    )
    return Inspection(model=model, fates=fates, plan=done.layout.plan.verdict(), refusals=())


def _ops_by_node(done: Translation) -> Mapping[str, Sequence[Node]]:
    found: dict[str, list[Node]] = {}
    for node in done.layout.graph.nodes:
        for source in node.origins:
            found.setdefault(source.node, []).append(node)
    return found


def _left_out(ops: Sequence[Node]) -> str:
    reasons = (ROWS[node.op.name].refused_by_xnnpack(node) for node in ops)
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))


def _refused(
    model: Path, names: Sequence[tuple[str, str, Source]], remarks: Sequence[Remark]
) -> Inspection:
    why = {remark.node: remark for remark in remarks}
    fates = tuple(
        Fate(
            node=name,
            op=op,
            source=str(place),
            refused=why[name].text if name in why else "",
            remedy=why[name].remedy if name in why else "",
        )
        for name, op, place in names
    )
    return Inspection(model=model, fates=fates, plan="", refusals=tuple(remarks))
