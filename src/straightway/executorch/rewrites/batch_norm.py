"""A batch norm that follows no convolution as a depthwise one, which 8-bit programs compute in integers.

torchao folds a batch norm into the convolution before it, and XNNPACK's lowering makes a depthwise
convolution of any other, but after quantization: its input is converted to floats and its result back.
Written before, it is quantized as any convolution is.

    batch_norm(x) = x · s + (β − μ · s), s = γ / √(σ² + ε)   →   conv2d(x, s as (C, 1, 1, 1), …, groups=C)
"""

from collections.abc import Iterator
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten

_NAME = "batch-norm"
_FOLDABLE = {
    aten.conv2d.default,
    aten.conv2d.padding,
    aten.convolution.default,
    aten.conv_transpose2d.input,
}
_NAMES = ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps")


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(aten.batch_norm.default):
        before: Any = node.args[0]
        parts = None if _is_folded(scene, before) else scale_and_shift(scene, node)
        if scene.rank(node) != 4 or parts is None:
            continue
        yield scene.changed(_NAME, node, "a depthwise convolution of 1 × 1, before it is quantized")
        write = scene.writer(node)
        weight, bias = (write.constant(one.to(scene.dtype(node))) for one in parts)
        ones, zeros, channels = [1, 1], [0, 0], len(parts[1])
        scene.replace(
            node,
            write(aten.conv2d.default, before, weight, bias, ones, zeros, ones, channels),
        )


def _is_folded(scene: Scene, before: torch.fx.Node) -> bool:
    """Whether a convolution takes the norm into its weights, which costs nothing."""
    return before.target in _FOLDABLE and scene.only_user(before) is not None


def scale_and_shift(scene: Scene, node: torch.fx.Node) -> tuple[torch.Tensor, torch.Tensor] | None:
    """What a norm multiplies by, of shape (C, 1, 1, 1), and adds; None where they are no constants."""
    given = dict(zip(_NAMES, node.args, strict=False)) | dict(node.kwargs)
    if given["training"]:
        return None
    mean, variance = (scene.constant(given[name]) for name in ("running_mean", "running_var"))
    if mean is None or variance is None:
        return None
    affine = []
    for name, neutral in (("weight", 1.0), ("bias", 0.0)):
        known = scene.constant(given[name])
        if known is None and given[name] is not None:
            return None
        affine.append(torch.full_like(mean, neutral) if known is None else known)
    factor = affine[0].double() / torch.sqrt(variance.double() + float(given["eps"]))
    return factor.reshape(-1, 1, 1, 1), affine[1].double() - mean.double() * factor


REWRITE = Rewrite(
    name=_NAME,
    title="batch norm after an activation as a depthwise convolution",
    advice="order convolution, batch norm, activation: then the norm is folded and costs nothing",
    safety="exact",
    apply=_apply,
)
