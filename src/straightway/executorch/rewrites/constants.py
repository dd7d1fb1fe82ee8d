"""What depends on no input is computed when the program is made, not in each run.

Positions, masks and reshaped weights have mostly no kernel in XNNPACK, and cut the graph.

    softmax(x + where(tril(ones) == 0, −inf, 0))   →   softmax(x + mask)
"""

from collections.abc import Iterator
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, is_mutable

_NAME = "constants"
# A result may be larger than what it is made of by as much: positions, masks.
_MOST_GROWTH_BYTES = 1 << 20


def _apply(scene: Scene) -> Iterator[Change]:
    known: dict[torch.fx.Node, torch.Tensor] = {}
    changed = _changed_in_place(scene)
    for node in list(scene.graph.nodes):
        value = _value(scene, node, known, changed)
        if value is not None:
            known[node] = value
    for node, value in known.items():
        if node.op == "get_attr" or all(user in known for user in node.users):
            continue
        yield scene.changed(_NAME, node, "computed when the program is made")
        scene.replace(node, scene.writer(node).constant(value))
    scene.graph.eliminate_dead_code()


def _changed_in_place(scene: Scene) -> set[torch.fx.Node]:
    """Buffers that the program writes to, and whatever else an operator changes."""
    found: set[torch.fx.Node] = set()
    for node in scene.graph.nodes:
        if is_mutable(node):
            found |= set(node.all_input_nodes)
    written = {node.target for node in found if node.op == "get_attr"}
    return found | {n for n in scene.graph.nodes if n.op == "get_attr" and n.target in written}


def _value(
    scene: Scene,
    node: torch.fx.Node,
    known: dict[torch.fx.Node, torch.Tensor],
    changed: set[torch.fx.Node],
) -> torch.Tensor | None:
    """Of a constant, or of an operator of ATen on constants alone; weights stay quantized."""
    if node in changed:
        return None
    if node.op == "get_attr":
        return scene.constant(node)
    if node.op != "call_function" or getattr(node.target, "namespace", "") != "aten":
        return None
    if is_mutable(node) or torch.Tag.nondeterministic_seeded in node.target.tags:
        return None
    if not isinstance(node.meta.get("val"), torch.Tensor) or scene.shape(node) is None:
        return None
    if any(one not in known for one in node.all_input_nodes):
        return None
    size = node.meta["val"].numel() * node.meta["val"].element_size()
    if size > _MOST_GROWTH_BYTES + sum(known[one].nbytes for one in node.all_input_nodes):
        return None
    return _computed(node, known)


def _computed(node: torch.fx.Node, known: dict[torch.fx.Node, torch.Tensor]) -> torch.Tensor | None:
    def real(one: Any) -> Any:
        return known[one] if isinstance(one, torch.fx.Node) else one

    arguments, keywords = torch.fx.map_arg((node.args, node.kwargs), real)
    with torch.no_grad():
        found = node.target(*arguments, **keywords)
    return found if isinstance(found, torch.Tensor) else None


REWRITE = Rewrite(
    name=_NAME,
    title="constant work done once",
    advice="compute it in __init__ and keep it as a buffer",
    safety="exact",
    apply=_apply,
)
