"""Operators that exporters spelled out become one node again.

    before                                         after
      %a = Div(%x, const 1.4142135)                  %y = Gelu(%x)
      %b = Add(Erf(%a), const 1.0)
      %y = Mul(Mul(%x, %b), const 0.5)

Only where the function is the same for every operand: constants are compared, and what a composite
computes on the way must be used nowhere else.
"""

from collections import Counter, defaultdict

import numpy as np

from straightway.ir import Graph, Node, Value, edit
from straightway.ir.match import Failure, Match
from straightway.passes import composite_activations, composite_normalizations
from straightway.passes.arguments import RuntimeOperandError
from straightway.passes.channelwise import is_floating
from straightway.passes.rewrite import Replacement, Rule
from straightway.passes.types import nested
from straightway.remark import Remark

STEP = "passes.composites"


def _by_root(*families: tuple[Rule, ...]) -> dict[str, list[Rule]]:
    found: dict[str, list[Rule]] = defaultdict(list)
    for family in families:
        for rule in family:
            for root in sorted(rule.pattern.roots):
                found[root].append(rule)
    return dict(found)


RULES = _by_root(composite_activations.RULES, composite_normalizations.RULES)


def run(graph: Graph) -> list[Remark]:
    """Try all patterns at each node in order, so that composites of composites are found."""
    found: Counter[str] = Counter()
    missed: list[Remark] = []
    for inner in nested(graph):
        for node in inner.nodes:
            name = _rewrite(inner, node, missed)
            if name:
                found[name] += 1
    done = [
        Remark(
            kind="done",
            step=STEP,
            text=f"{count} {name} put together from their parts",
            numbers={"nodes": count},
        )
        for name, count in found.most_common()
    ]
    return [*done, *missed]


def _rewrite(graph: Graph, node: Node, missed: list[Remark]) -> str:
    """Replace what ends in this node; returns the new operator, or "" where nothing fits."""
    rules = RULES.get(node.op.name, ()) if node.op.dialect == "onnx" else ()
    for rule in rules:
        if len(node.outputs) != 1 or node.output.type is None or not is_floating(node.output):
            return ""
        match = rule.pattern.match(node)
        if isinstance(match, Failure):
            if match.complete:
                missed.append(_missed(rule, node, match.reason))
            continue
        try:
            replacement = rule.rewrite(match)
        except RuntimeOperandError as error:
            replacement = str(error)
        if isinstance(replacement, Replacement):
            _replace(graph, match, replacement)
            return replacement.op.name
    return ""


def _missed(rule: Rule, node: Node, reason: str) -> Remark:
    text = f"looks like {rule.pattern.name}, but {reason}"
    return Remark(kind="missed", step=STEP, node=node.name, op=node.op.name, text=text)


def _replace(graph: Graph, match: Match, replacement: Replacement) -> None:
    root = match.root
    inputs = [
        edit.constant(graph, v, f"{root.output.name}_constant") if isinstance(v, np.ndarray) else v
        for v in replacement.inputs
    ]
    result = Value(graph.fresh(root.output.name), root.output.type)
    made = Node(replacement.op, inputs, [result], replacement.attrs, name=root.name)
    edit.insert(graph, made, before=root)
    edit.replace(root, [result], match.origins)
    # operands stand before their users, so the last of the nodes goes first
    inner = set(match.nodes[1:])
    while inner:
        free = [node for node in inner if not any(value.uses for value in node.outputs)]
        for node in free:
            edit.remove(node)
            inner.remove(node)
