"""Activations without a kernel, out of exponentials that have one.

    mish(x)       →   x · n / (n + 2), n = e · (e + 2), e = exp(min(x, 20))
    softplus(x)   →   relu(x) + log(1 + exp(−|x|))
    elu(x)        →   relu(x) + α · (exp(−relu(−x)) − 1)          also selu, celu, log_sigmoid, glu

Exact but for rounding: parts near 1 are subtracted, so that tiny results are off by up to 1e-7 · α.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, Writer, aten

_NAME = "activations"
# tanh(log(1 + exp(20))) is 1 in floats of 32 bits, and exp(20)² far from infinite.
_SATURATED = 20.0
# torch's own constants of selu (aten/src/ATen/native/Activation.cpp).
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805
Written = Callable[["_Numbers", torch.fx.Node, torch.fx.Node], torch.fx.Node]


class _Numbers:
    """Writes operators and numbers of the rank of one image."""

    def __init__(self, scene: Scene, node: torch.fx.Node) -> None:
        self.write: Writer = scene.writer(node, in_floats=True)
        self._rank, self._dtype = scene.rank(node), scene.dtype(node)

    def number(self, value: float) -> torch.fx.Node:
        """A constant that can follow the layout."""
        return self.write.constant(torch.full((1,) * self._rank, value, dtype=self._dtype))

    def scaled(self, x: torch.fx.Node, factor: float) -> torch.fx.Node:
        """A product, left out for 1."""
        return x if factor == 1 else self.write(aten.mul.Tensor, x, self.number(factor))

    def elu(self, x: torch.fx.Node, alpha: float, slope: float = 1.0) -> torch.fx.Node:
        """For negative x α · (exp(slope · x) − 1)."""
        write = self.write
        below = write(aten.clamp.default, x, None, 0.0)
        grown = write(aten.exp.default, self.scaled(below, slope))
        left = self.scaled(write(aten.sub.Tensor, grown, self.number(1.0)), alpha)
        return write(aten.add.Tensor, write(aten.relu.default, x), left)

    def softplus(self, x: torch.fx.Node) -> torch.fx.Node:
        """log(1 + exp(x)), without overflow."""
        write = self.write
        small = write(aten.exp.default, write(aten.neg.default, write(aten.abs.default, x)))
        left = write(aten.log.default, write(aten.add.Tensor, small, self.number(1.0)))
        return write(aten.add.Tensor, write(aten.relu.default, x), left)


def _argument(node: torch.fx.Node, place: int, name: str, default: float) -> float:
    given = node.args[place] if len(node.args) > place else node.kwargs.get(name, default)
    return float(given)


def _elu(numbers: _Numbers, node: torch.fx.Node, x: torch.fx.Node) -> torch.fx.Node:
    alpha, scale, slope = (
        _argument(node, place, name, 1.0)
        for place, name in ((1, "alpha"), (2, "scale"), (3, "input_scale"))
    )
    return numbers.scaled(numbers.elu(x, alpha, slope), scale)


def _selu(numbers: _Numbers, node: torch.fx.Node, x: torch.fx.Node) -> torch.fx.Node:  # noqa: ARG001
    return numbers.scaled(numbers.elu(x, _SELU_ALPHA), _SELU_SCALE)


def _celu(numbers: _Numbers, node: torch.fx.Node, x: torch.fx.Node) -> torch.fx.Node:
    alpha = _argument(node, 1, "alpha", 1.0)
    return numbers.elu(x, alpha, 1 / alpha)


def _softplus(numbers: _Numbers, node: torch.fx.Node, x: torch.fx.Node) -> torch.fx.Node:
    """Beyond `threshold`, torch returns x itself, which is nearer than the rounding is."""
    beta = _argument(node, 1, "beta", 1.0)
    return numbers.scaled(numbers.softplus(numbers.scaled(x, beta)), 1 / beta)


def _log_sigmoid(numbers: _Numbers, node: torch.fx.Node, x: torch.fx.Node) -> torch.fx.Node:  # noqa: ARG001
    write = numbers.write
    return write(aten.neg.default, numbers.softplus(write(aten.neg.default, x)))


def _mish(numbers: _Numbers, node: torch.fx.Node, x: torch.fx.Node) -> torch.fx.Node:  # noqa: ARG001
    """tanh(log(1 + e)) = ((1 + e)² − 1) / ((1 + e)² + 1)."""
    write, two = numbers.write, numbers.number(2.0)
    bounded = write(aten.clamp.default, x, None, _SATURATED)
    grown = write(aten.exp.default, bounded)
    above = write(aten.mul.Tensor, grown, write(aten.add.Tensor, grown, two))
    ratio = write(aten.div.Tensor, above, write(aten.add.Tensor, above, two))
    return write(aten.mul.Tensor, x, ratio)


_WRITTEN: dict[Any, Written] = {
    aten.elu.default: _elu,
    aten.elu_.default: _elu,
    aten.selu.default: _selu,
    aten.selu_.default: _selu,
    aten.celu.default: _celu,
    aten.celu_.default: _celu,
    aten.softplus.default: _softplus,
    aten.log_sigmoid.default: _log_sigmoid,
    aten.mish.default: _mish,
    aten.mish_.default: _mish,
}


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(*_WRITTEN):
        if scene.rank(node) == 0 or scene.dtype(node) is not torch.float32:
            continue
        yield scene.changed(_NAME, node, "exponentials and what XNNPACK has beside them")
        numbers = _Numbers(scene, node)
        scene.replace(node, _WRITTEN[node.target](numbers, node, node.args[0]))


REWRITE = Rewrite(
    name=_NAME,
    title="ELU, softplus, Mish by exponentials",
    advice=(
        "write them with torch.exp, or use silu, hardswish or relu, which XNNPACK has, and train again"
    ),
    safety="exact",
    apply=_apply,
)
