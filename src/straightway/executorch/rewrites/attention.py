"""Attention as two matrix products and a softmax, where no row can be masked whole.

torch decomposes scaled_dot_product_attention with a softmax that gives zeros for a row without any
key; its comparisons and selections have no XNNPACK kernels and cost more than the products. A row
can only be empty under a mask of truth values or with infinities in it, so without a mask, and under
a causal one, the plain softmax is the same.

    q·s @ kᵀ → eq, not, any, full, where, softmax → @ v      becomes      q·s @ kᵀ (+ mask) → softmax → @ v
"""

import math
from collections.abc import Iterator
from typing import Any

import torch

from straightway.executorch.rewrites.permutes import axes_of
from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, Writer, aten, together

_NAME = "attention"
# Under a causal mask: as good as minus infinity after a softmax, yet a number to a kernel.
_MASKED = -1e9


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(aten.scaled_dot_product_attention.default):
        if applies(scene, node):
            change = scene.changed(_NAME, node, "softmax(q·kᵀ)·v without the case of an empty row")
            scene.replace(node, _written(scene, node))
            yield change


def arguments(node: torch.fx.Node) -> dict[str, Any]:
    """The call's arguments by name."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    found = dict.fromkeys(names[3:]) | dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    found["dropout_p"] = found["dropout_p"] or 0.0
    return found


def applies(scene: Scene, node: torch.fx.Node) -> bool:
    """Whether no row can be masked whole, so that a plain softmax gives the same."""
    given = arguments(node)
    shapes = [scene.sizes(given[name]) for name in ("query", "key", "value")]
    if any(shape is None or len(shape) < 3 for shape in shapes) or given["dropout_p"]:
        return False
    if not _is_grouped(*(shape[:-2] for shape in shapes if shape is not None)):
        return False
    mask = given["attn_mask"]
    if given["is_causal"] and any((shape or ())[-2] < 0 for shape in shapes[:2]):
        return False
    if mask is None:
        return True
    known = scene.constant(mask)
    if known is None or (-1 in (shapes[0] or ()) and math.prod(known.shape[:-2]) > 1):
        return False  # what it holds is known only when it runs
    if known.dtype == torch.bool:
        return bool(known.any(dim=-1).all())
    return bool(torch.isfinite(known).any(dim=-1).all())


def _is_grouped(query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...]) -> bool:
    """Whether batch and heads are the same, or so many heads of queries share each of keys."""
    if key != value or query[:-1] != key[:-1]:
        return False
    heads, shared = query[-1], key[-1]
    return heads == shared or (min(heads, shared) > 0 and heads % shared == 0)


def mask_of(scene: Scene, given: dict[str, Any]) -> torch.Tensor | None:
    """What is added to the scores, of their last two dimensions at least; None for nothing."""
    if given["is_causal"]:
        rows, columns = (scene.sizes(given[name])[-2] for name in ("query", "key"))  # type: ignore[index]
        kept = torch.ones(rows, columns, dtype=torch.bool).tril()
        return torch.zeros(rows, columns).masked_fill(~kept, _MASKED)
    if given["attn_mask"] is None:
        return None
    known = scene.constant(given["attn_mask"])
    if known is None:
        return None
    if known.dtype == torch.bool:
        return torch.zeros(known.shape).masked_fill(~known, _MASKED)
    return known.clamp(min=_MASKED)


def _written(scene: Scene, node: torch.fx.Node) -> torch.fx.Node:
    """Products of rank 3, as the delegate's kernel takes them: batch and heads are one dimension.

    Where several heads of queries share one of keys, they stand below each other as rows of one
    product: nothing is repeated.
    """
    given, write = arguments(node), scene.writer(node)
    query, key, value = given["query"], given["key"], given["value"]
    shape, shared = scene.sizes(query) or (), (scene.sizes(key) or ())[:-2]
    scale = given.get("scale") or 1 / math.sqrt(shape[-1])
    count = together(shared)
    rows = together([shape[-3] // shared[-1], shape[-2]])
    scaled = write(
        aten.mul.Tensor,
        write(aten.reshape.default, query, [count, rows, shape[-1]]),
        write.constant(torch.full((1, 1, 1), scale, dtype=scene.dtype(query))),
    )
    turned, flat = (
        write(aten.reshape.default, one, [count, *(scene.sizes(one) or ())[-2:]])
        for one in (_turned(scene, write, key), value)
    )
    scores = write(aten.bmm.default, scaled, turned)
    mask = mask_of(scene, given)
    if mask is not None:
        known = _flat(mask, shape[:-1], rows).to(scene.dtype(query))
        scores = write(aten.add.Tensor, scores, write.constant(known))
    weights = write(aten.softmax.int, scores, -1)
    done = write(aten.bmm.default, weights, flat)
    return write(aten.reshape.default, done, [*shape[:-1], (scene.sizes(value) or ())[-1]])


def _turned(scene: Scene, write: Writer, key: torch.fx.Node) -> torch.fx.Node:
    """The keys' last dimensions exchanged, in one move with a permute that already makes them."""
    axes = list(range(scene.rank(key)))
    if key.target in {aten.transpose.int, aten.permute.default}:
        axes, key = axes_of(scene, key), key.args[0]
    axes[-2:] = axes[-1], axes[-2]
    return write(aten.permute.default, key, axes)


def _flat(mask: torch.Tensor, query: tuple[int, ...], rows: int) -> torch.Tensor:
    """The mask for scores of rank 3 and so many rows: one for all, or one for each head of keys.

    `query` is the queries' shape without the last dimension.
    """
    columns = mask.shape[-1]
    if math.prod(mask.shape[:-1]) == 1:
        return mask.reshape(1, 1, columns)
    if math.prod(mask.shape[:-2]) == 1:
        return mask.reshape(1, -1, columns).repeat(1, rows // query[-1], 1)
    return mask.expand(*query, columns).reshape(-1, rows, columns)


REWRITE = Rewrite(
    name=_NAME,
    title="attention without the softmax for rows that are masked whole",
    advice=(
        "write softmax(q @ k.transpose(-2, -1) * scale, dim=-1) @ v where no row can be masked "
        "whole, in place of scaled_dot_product_attention"
    ),
    safety="exact",
    apply=_apply,
)
