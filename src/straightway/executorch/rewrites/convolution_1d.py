"""Networks over time as images of height 1, from the first convolution to the last.

XNNPACK has convolutions of two dimensions only. ExecuTorch makes an image of each conv1d's input and takes it
back behind it; what stands between them then needs the other layout. Here all that can stay an image does.

    conv1d → relu → conv1d          becomes      reshape → conv2d → relu → conv2d → reshape
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, Writer, aten

_NAME = "convolution-1d"
_CONVOLUTIONS = {
    aten.conv1d.default: aten.conv2d.default,
    aten.conv1d.padding: aten.conv2d.padding,
    aten.conv_transpose1d.default: aten.conv_transpose2d.input,
}
_UNARY = {
    *(aten.relu.default, aten.relu_.default, aten.gelu.default, aten.silu.default),
    *(aten.silu_.default, aten.sigmoid.default, aten.tanh.default, aten.hardswish.default),
    *(aten.hardswish_.default, aten.hardsigmoid.default, aten.leaky_relu.default),
    *(aten.leaky_relu_.default, aten.hardtanh.default, aten.hardtanh_.default),
    *(aten.relu6.default, aten.clamp.default, aten.elu.default, aten.elu_.default),
    *(aten.mish.default, aten.mish_.default, aten.softplus.default, aten.dropout.default),
    *(aten.abs.default, aten.exp.default, aten.neg.default, aten.sqrt.default),
    *(aten.batch_norm.default, aten.constant_pad_nd.default),
}
_BINARY = {aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.add_.Tensor}
# Attributes with one number for the one dimension, by operator: their places, and what the other has.
_POOLS = {
    aten.max_pool1d.default: (aten.max_pool2d.default, ((1, 1), (2, 1), (3, 0), (4, 1))),
    aten.avg_pool1d.default: (aten.avg_pool2d.default, ((1, 1), (2, 1), (3, 0))),
}
Lift = Callable[["_Lifting", torch.fx.Node], torch.fx.Node | None]


class _Lifting:
    """The images that stand for tensors over time, each with its node of three dimensions."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.images: dict[torch.fx.Node, torch.fx.Node] = {}

    def has(self, node: Any) -> bool:
        """Whether an image stands for it already."""
        return isinstance(node, torch.fx.Node) and node in self.images

    def image(self, node: torch.fx.Node, write: Writer) -> torch.fx.Node:
        """The image that stands for a tensor."""
        if node not in self.images:
            shape = self.scene.sizes(node) or ()
            known = self.scene.constant(node)
            sizes = [*shape[:-1], 1, shape[-1]]
            self.images[node] = (
                write(aten.reshape.default, node, sizes)
                if known is None
                else write.constant(known.reshape(sizes))
            )
        return self.images[node]

    def put(self, node: torch.fx.Node, image: torch.fx.Node) -> None:
        """Let an image stand for a node; readers that need three dimensions get them back."""
        back = self.scene.writer(node)(
            aten.reshape.default, image, list(self.scene.sizes(node) or ())
        )
        self.scene.replace(node, back)
        self.images[back] = image


def _apply(scene: Scene) -> Iterator[Change]:
    lifting = _Lifting(scene)
    for node in list(scene.graph.nodes):
        if node.op != "call_function" or not _is_known(scene, node):
            continue
        if node.target in _CONVOLUTIONS and scene.constant(node.args[1]) is not None:
            yield scene.changed(_NAME, node, "a convolution of an image of height 1")
            lifting.put(node, _convolution(lifting, node))
        elif (node.args and lifting.has(node.args[0])) or node.target in _BINARY | {
            aten.cat.default
        }:
            lifted = _lifted(lifting, node)
            if lifted is not None:
                lifting.put(node, lifted)
    scene.graph.eliminate_dead_code()


def _is_known(scene: Scene, node: torch.fx.Node) -> bool:
    shape = scene.sizes(node)
    return shape is not None and scene.dtype(node).is_floating_point


def _convolution(lifting: _Lifting, node: torch.fx.Node) -> torch.fx.Node:
    """Weights (out, in, 1, k); each attribute gets what the height needs in front."""
    write, is_back = lifting.scene.writer(node), node.target is aten.conv_transpose1d.default
    x, weight, *rest = node.args
    kernel = lifting.scene.constant(weight)
    if kernel is None:
        raise TypeError(f"{node.name}: the weights are no constant")
    # behind the bias: stride, padding, dilation; of a transposed one stride, padding, output's, groups, dilation
    neutral = {1: 1, 2: 0, 3: 0, 5: 1} if is_back else {1: 1, 2: 0, 3: 1}
    for place, other in neutral.items():
        if place < len(rest) and not isinstance(rest[place], str):
            rest[place] = [other, _only(rest[place])]
    image = lifting.image(x, write)
    return write(_CONVOLUTIONS[node.target], image, write.constant(kernel.unsqueeze(2)), *rest)


def _only(given: Any) -> int:
    return int(given) if isinstance(given, int) else int(given[0])


def _lifted(lifting: _Lifting, node: torch.fx.Node) -> torch.fx.Node | None:
    """The operator on images; None where it needs three dimensions."""
    write = lifting.scene.writer(node)
    if node.target in _UNARY or (
        node.target is aten.pad.default and (*node.args, "constant")[2] == "constant"
    ):
        image = lifting.image(node.args[0], write)
        return write(node.target, image, *node.args[1:], **node.kwargs)
    if node.target in _BINARY:
        return _binary(lifting, node, write)
    if node.target in _POOLS:
        return _pool(lifting, node, write)
    if node.target is aten.cat.default:
        return _joined(lifting, node, write)
    if node.target is aten.mean.dim:
        return _mean(lifting, node, write)
    return None


def _binary(lifting: _Lifting, node: torch.fx.Node, write: Writer) -> torch.fx.Node | None:
    """Of two tensors over time, or one and a number."""
    given = [one for one in node.args[:2] if isinstance(one, torch.fx.Node)]
    if not any(lifting.has(one) for one in given):
        return None
    if any(lifting.scene.rank(one) != 3 for one in given):
        return None
    operands = [
        lifting.image(one, write) if isinstance(one, torch.fx.Node) else one
        for one in node.args[:2]
    ]
    return write(node.target, *operands, *node.args[2:], **node.kwargs)


def _pool(lifting: _Lifting, node: torch.fx.Node, write: Writer) -> torch.fx.Node:
    target, places = _POOLS[node.target]
    given = list(node.args)
    for place, other in places:
        if place < len(given) and given[place] != []:
            given[place] = [other, _only(given[place])]
    return write(target, lifting.image(given[0], write), *given[1:], **node.kwargs)


def _joined(lifting: _Lifting, node: torch.fx.Node, write: Writer) -> torch.fx.Node | None:
    parts: Any = node.args[0]
    dim = int(node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0))
    if dim % 3 != 1 or not all(lifting.has(one) for one in parts):
        return None
    return write(aten.cat.default, [lifting.image(one, write) for one in parts], 1)


def _mean(lifting: _Lifting, node: torch.fx.Node, write: Writer) -> torch.fx.Node | None:
    """Over all of time; the image's own mean over height and width, taken back to its result."""
    x, dims = node.args[:2]
    if [int(dim) % 3 for dim in dims] != [2] or node.kwargs.get("dtype") is not None:
        return None
    return write(aten.mean.dim, lifting.image(x, write), [-1, -2], True)


REWRITE = Rewrite(
    name=_NAME,
    title="convolutions over time as images of height 1",
    advice="write nn.Conv2d with kernels (1, k) on inputs (N, C, 1, L)",
    safety="exact",
    apply=_apply,
)
