"""Layer and RMS norms out of a matrix product with a column of 1/d, which XNNPACK takes.

The partitioner has no rule for native_layer_norm, so that each cuts the graph in two, and every skip
connection across the cut is turned to NCHW and back.

    mean = x @ (1/d) ; c = x − mean ; var = c² @ (1/d) ; c · rsqrt(var + ε) · γ + β
"""

import math
from collections.abc import Iterator
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, Writer, aten, together

_NAME = "layer-norm"


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(aten.layer_norm.default, aten.rms_norm.default):
        given = _arguments(node)
        shape = scene.sizes(given["input"])
        if shape is None or not given["normalized_shape"]:
            continue
        is_rms = node.target is aten.rms_norm.default
        kind = "the mean square" if is_rms else "mean and variance"
        change = scene.changed(
            _NAME, node, f"{kind} by a product with 1/{math.prod(given['normalized_shape'])}"
        )
        scene.replace(node, _written(scene, node, given, is_rms=is_rms))
        yield change


def _arguments(node: torch.fx.Node) -> dict[str, Any]:
    names: tuple[str, ...] = ("input", "normalized_shape", "weight", "bias", "eps")
    if node.target is aten.rms_norm.default:
        names = ("input", "normalized_shape", "weight", "eps")
    found: dict[str, Any] = dict.fromkeys(("weight", "bias", "eps"))
    return found | dict(zip(names, node.args, strict=False)) | dict(node.kwargs)


def _written(
    scene: Scene, node: torch.fx.Node, given: dict[str, Any], *, is_rms: bool
) -> torch.fx.Node:
    write, x = scene.writer(node, in_floats=True), given["input"]
    shape, dtype = scene.sizes(x) or (), scene.dtype(x)
    sizes = list(given["normalized_shape"])
    count = math.prod(sizes)
    lead = list(shape[: len(shape) - len(sizes)])
    flat = (
        x
        if len(sizes) == 1 and len(shape) <= 3
        else write(aten.reshape.default, x, [together(lead), count])
    )
    if given["eps"] is None:
        eps = float(torch.finfo(dtype).eps) if is_rms else 1e-5
    else:
        eps = float(given["eps"])
    ones = write.constant(torch.full((1, count), 1 / count, dtype=dtype))
    centred = flat
    if not is_rms:
        centred = write(aten.sub.Tensor, flat, write(aten.linear.default, flat, ones))
    square = write(aten.mul.Tensor, centred, centred)
    offset = write.constant(torch.full((1,), eps, dtype=dtype))
    variance = write(aten.linear.default, square, ones, offset)
    done = write(aten.mul.Tensor, centred, write(aten.rsqrt.default, variance))
    done = _affine(write, done, given, count)
    return done if flat is x else write(aten.reshape.default, done, list(shape))


def _affine(write: Writer, done: torch.fx.Node, given: dict[str, Any], count: int) -> torch.fx.Node:
    for name, operator in (("weight", aten.mul.Tensor), ("bias", aten.add.Tensor)):
        if given[name] is not None:
            factor = write(aten.reshape.default, given[name], [count])
            done = write(operator, done, factor)
    return done


REWRITE = Rewrite(
    name=_NAME,
    title="layer norm by matrix products, inside of the delegate",
    advice="write the norm's mean as F.linear(x, torch.full((1, d), 1 / d)), which XNNPACK takes",
    safety="exact",
    apply=_apply,
)
