"""Nodes that compute with other numbers than int8: which can, and what there is to say of them."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from straightway.errors import InvalidRequest
from straightway.flow.borders import MOVERS, named
from straightway.flow.translate import Translation
from straightway.ir import Graph, Node
from straightway.quant.assignment import Assignment, renames, why_float
from straightway.quant.edges import FLOAT32, is_op
from straightway.quant.placement import ALLOWED
from straightway.quant.scheme import INT16
from straightway.quant.storage import PRODUCTS, has_kernel
from straightway.remark import Remark
from straightway.targets.target import Target

STEP = "flow.quantize"
STAYS = "stays in floats: "


def check_names(path: Path, graph: Graph, floats: Collection[str], wide: Collection[str]) -> None:
    """Raise InvalidRequest for names of no node, and for int16 where no kernel is."""
    by_name: dict[str, list[Node]] = {}
    for node in graph.nodes:
        by_name.setdefault(node.name, []).append(node)
    for option, names in (("--float", floats), ("--int16", wide)):
        unknown = sorted(set(names) - set(by_name))
        if unknown:
            raise InvalidRequest(
                f"{path}: {option} {unknown[0]}: the model has no node of this name"
            )
    for name in wide:
        reasons = [why_float(node, INT16) for node in by_name[name]]
        if all(reasons):
            raise InvalidRequest(f"{path}: --int16 {name}: {reasons[0]}; --float keeps it whole")


def floats(given: Assignment, graph: Graph, asked: Collection[str]) -> list[Remark]:
    """Why nodes stay in floats, and which of those asked for have the type of what is beside them."""
    text = "only orders elements anew, which has the type of what is beside it"
    found = [
        Remark(kind="missed", step=STEP, node=node.name, op=node.op.name, text=text)
        for node in graph.nodes
        if node.name in asked and renames(node) and node not in given.floats
    ]
    for node, why in given.floats.items():
        own = node in given.hybrids
        text = why if own else f"{STAYS}{why}"
        one = Remark(kind="missed", step=STEP, node=node.name, op=node.op.name, text=text)
        found.append(replace(one, kind="done") if own else one)
    return found


def without_hybrids(given: Assignment) -> list[Remark]:
    """Products that could round their operand as they run, were no greatest loss asked for."""
    text = (
        "--max-loss counts on roundings that can be switched off: no product among floats rounds its operand "
        "as it runs (a hybrid kernel, faster than floats); without --max-loss, some may"
    )
    return [
        Remark(kind="missed", step=STEP, node=node.name, op=node.op.name, text=text)
        for node in given.floats
        if is_op(node, *PRODUCTS) and node.operands()[1].const is not None and has_kernel(node)
    ]


def told(remarks: Sequence[Remark], made: Translation) -> list[Remark]:
    """The same without those on ops that compute with integers in the file, or that compute nothing."""
    real = {
        (named(node), node.op.name)
        for node in made.layout.graph.nodes
        if any(v.dtype == FLOAT32 for v in (*node.operands(), *node.outputs))
    }
    there = {named(node) for node in made.layout.graph.nodes}

    def is_true(remark: Remark) -> bool:
        if remark.step != STEP or not remark.text.startswith(STAYS):
            return True
        if remark.op in MOVERS:
            return False
        return remark.node not in there or (remark.node, remark.op) in real

    return [remark for remark in remarks if is_true(remark)]


def wide(given: Assignment, graph: Graph, asked: Collection[str], device: Target) -> list[Remark]:
    """Which nodes have int16 among int8, and why none do where that may be missed."""
    found = []
    for node in (one for one in graph.nodes if one in given.wide):
        why = "as asked" if node.name in asked else "that costs least"
        text = f"computes with int16 and int8 weights: {why}"
        found.append(Remark(kind="done", step=STEP, node=node.name, op=node.op.name, text=text))
    lost = any(why == ALLOWED for why in given.floats.values())
    if lost and device.delegate:
        text = (
            "what loses too much with int8 stays in floats, not int16: XNNPACK's delegate takes no "
            "int16, and would be left"
        )
        found.append(Remark(kind="done", step=STEP, text=text))
    return found
