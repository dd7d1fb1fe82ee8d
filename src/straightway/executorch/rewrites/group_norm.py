"""Group and instance norms out of means over height and width, which XNNPACK takes.

The partitioner has no rule for either. The mean over the image stands for each channel, and a convolution
of 1 × 1 with equal weights makes the mean of a group of them: all of it stays channels last.

    m = mean(x, (2, 3)) ; m = conv1x1(m, 1/group) ; c = x − m ; v = the same of c² ; c · rsqrt(v + ε) · γ + β
"""

from collections.abc import Iterator
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, Writer, aten

_NAME = "group-norm"
_GROUP = ("input", "num_groups", "weight", "bias", "eps")
_INSTANCE = ("input", "weight", "bias", "running_mean", "running_var", "use_input_stats")
_INSTANCE_REST = ("momentum", "eps")


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(aten.group_norm.default, aten.instance_norm.default):
        given = _arguments(node)
        shape = scene.sizes(given["input"])
        if (
            shape is None
            or len(shape) not in {3, 4}
            or shape[1] < 0
            or not given.get("use_input_stats", True)
        ):
            continue
        yield scene.changed(_NAME, node, "means over the image, then over each group's channels")
        groups = given.get("num_groups", shape[1])
        scene.replace(node, _written(scene, node, given, int(groups)))


def _arguments(node: torch.fx.Node) -> dict[str, Any]:
    is_group = node.target is aten.group_norm.default
    names = _GROUP if is_group else (*_INSTANCE, *_INSTANCE_REST)
    found: dict[str, Any] = dict.fromkeys(("weight", "bias")) | {"eps": 1e-5}
    return found | dict(zip(names, node.args, strict=False)) | dict(node.kwargs)


def _written(
    scene: Scene, node: torch.fx.Node, given: dict[str, Any], groups: int
) -> torch.fx.Node:
    write, x = scene.writer(node, in_floats=True), given["input"]
    shape, dtype = scene.sizes(x) or (), scene.dtype(x)
    channels = shape[1]
    image = x if len(shape) == 4 else write(aten.reshape.default, x, [*shape[:2], 1, shape[2]])
    offset = write.constant(torch.full((1, 1, 1, 1), float(given["eps"]), dtype=dtype))
    weights = None
    if groups != channels:
        weights = write.constant(_averaging(channels, groups).to(dtype))
    centred = write(aten.sub.Tensor, image, _mean(write, image, weights))
    variance = _mean(write, write(aten.mul.Tensor, centred, centred), weights)
    factor = write(aten.rsqrt.default, write(aten.add.Tensor, variance, offset))
    done = write(aten.mul.Tensor, centred, factor)
    for name, operator in (("weight", aten.mul.Tensor), ("bias", aten.add.Tensor)):
        if given[name] is not None:
            known, sizes = scene.constant(given[name]), [1, channels, 1, 1]
            row = (
                write(aten.reshape.default, given[name], sizes)
                if known is None
                else write.constant(known.reshape(sizes))
            )
            done = write(operator, done, row)
    return done if image is x else write(aten.reshape.default, done, list(shape))


def _averaging(channels: int, groups: int) -> torch.Tensor:
    """Weights of a 1 × 1 convolution that gives each channel the mean of its group."""
    size = channels // groups
    return torch.block_diag(*[torch.full((size, size), 1 / size)] * groups)[:, :, None, None]


def _mean(write: Writer, image: torch.fx.Node, weights: torch.fx.Node | None) -> torch.fx.Node:
    found = write(aten.mean.dim, image, [-1, -2], True)
    return found if weights is None else write(aten.conv2d.default, found, weights)


REWRITE = Rewrite(
    name=_NAME,
    title="group and instance norms by means over the image",
    advice=(
        "write the norm with x.mean((2, 3), keepdim=True) and a 1 × 1 convolution of equal weights "
        "that averages each group's channels"
    ),
    safety="exact",
    apply=_apply,
)
