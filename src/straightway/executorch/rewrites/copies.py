"""Copies that change no number: casts to the type that is there, or a wider one and back; memory formats.

XNNPACK lays its values out as it likes, so that a layout asked for within the program is nothing but a
copy. What the program returns keeps the layout that was asked for.

    x.to(float32)   →   x          x.to(memory_format=…).contiguous()   →   x          x.double().float()   →   x
"""

from collections.abc import Iterator
from typing import Any

import torch

from straightway.executorch.rewrites.moves import upwards
from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten, is_mutable

_NAME = "copies"
_COPIES = (
    aten.to.dtype,
    aten.to.dtype_layout,
    aten.to.other,
    aten.to.device,
    aten.type_as.default,
    aten._to_copy.default,  # noqa: SLF001 - its name
    aten.contiguous.default,
    aten.clone.default,
)
_WIDER = {
    torch.float16: {torch.float32, torch.float64},
    torch.bfloat16: {torch.float32, torch.float64},
    torch.float32: {torch.float64},
}


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(*_COPIES):
        x: Any = node.args[0]
        if not scene.dtype(node).is_floating_point or not _may_go(node):
            continue
        dtype = scene.dtype(node)
        while x.target in _COPIES and _may_go(x) and scene.dtype(x) in _WIDER.get(dtype, ()):
            x = x.args[0]
        if scene.dtype(x) is not dtype or not isinstance(x.meta.get("val"), torch.Tensor):
            continue
        yield scene.changed(_NAME, node, "changes no number")
        scene.replace(node, x)
    scene.graph.eliminate_dead_code()


def _may_go(node: torch.fx.Node) -> bool:
    """Whether nobody can tell the copy from what it is of: neither is written to, nor returned."""
    x: Any = node.args[0]
    if upwards(x).root.op == "get_attr":
        return False  # a state may be written later
    users = {*node.users, *x.users}
    return not any(is_mutable(one) or one.op == "output" for one in users)


REWRITE = Rewrite(
    name=_NAME,
    title="copies that change no number left out",
    advice="leave out .to(), .float(), .contiguous() and .clone() where type and numbers stay the same",
    safety="exact",
    apply=_apply,
)
