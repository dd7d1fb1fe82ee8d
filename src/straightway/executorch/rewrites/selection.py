"""Selections between finite values as products with 0 and 1, which XNNPACK takes.

A comparison is a difference, made at least 1 by two products where it is not 0, and cut off at 0 and 1. What is
not selected is multiplied by 0, so that it must be a number: nothing is changed where a value may be infinite
or none, such as a quotient or a logarithm that the selection keeps away.

    where(x > t, a, b)   →   m · a + (1 − m) · b, m = clamp((x − t) · 2¹²⁷ · 2¹²⁷, 0, 1)
"""

import math
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, Writer, aten

_NAME = "selection"
_SELECTIONS = (
    aten.where.self,
    aten.where.ScalarOther,
    aten.where.Scalar,
    aten.where.ScalarSelf,
    aten.masked_fill.Scalar,
    aten.masked_fill.Tensor,
)
_COMPARISONS = {
    getattr(getattr(aten, name), overload): name
    for name in ("gt", "ge", "lt", "le", "eq", "ne")
    for overload in ("Scalar", "Tensor")
}
_NOT = {aten.logical_not.default, aten.bitwise_not.default}
_AND = {aten.logical_and.default, aten.bitwise_and.Tensor, aten.__and__.Tensor}
_OR = {aten.logical_or.default, aten.bitwise_or.Tensor, aten.__or__.Tensor}
# Twice the factor makes the least difference of two numbers of the type at least 1.
_FACTORS = {torch.float32: 2.0**127, torch.float16: 2.0**15}
# Finite where their operands are.
_FINITE = {
    *(operator.getitem, aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.add.Scalar),
    *(aten.sub.Scalar, aten.mul.Scalar, aten.add_.Tensor, aten.mul_.Tensor, aten.neg.default),
    *(aten.abs.default, aten.relu.default, aten.relu_.default, aten.relu6.default),
    *(aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default, aten.hardtanh.default),
    *(aten.sigmoid.default, aten.tanh.default, aten.gelu.default, aten.silu.default),
    *(aten.silu_.default, aten.hardswish.default, aten.hardsigmoid.default, aten.elu.default),
    *(aten.leaky_relu.default, aten.softplus.default, aten.mish.default, aten.sin.default),
    *(aten.cos.default, aten.minimum.default, aten.maximum.default, aten.conv1d.default),
    *(aten.conv2d.default, aten.conv_transpose2d.input, aten.linear.default, aten.matmul.default),
    *(aten.mm.default, aten.bmm.default, aten.addmm.default, aten.softmax.int),
    *(aten.max_pool2d.default, aten.avg_pool2d.default, aten.adaptive_avg_pool2d.default),
    *(aten.mean.dim, aten.mean.default, aten.batch_norm.default, aten.layer_norm.default),
    *(aten.group_norm.default, aten.reshape.default, aten.view.default, aten.flatten.using_ints),
    *(aten.permute.default, aten.transpose.int, aten.t.default, aten.unsqueeze.default),
    *(aten.squeeze.dim, aten.squeeze.default, aten.expand.default, aten.repeat.default),
    *(aten.slice.Tensor, aten.select.int, aten.cat.default, aten.stack.default),
    *(aten.split.Tensor, aten.split_with_sizes.default, aten.chunk.default, aten.unbind.int),
    *(aten.upsample_nearest2d.vec, aten.upsample_bilinear2d.vec, aten.pixel_shuffle.default),
    *(aten.embedding.default, aten.dropout.default, aten.contiguous.default, aten.clone.default),
    *(aten.alias.default, aten.where.self, aten.masked_fill.Scalar),
}


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(*_SELECTIONS):
        if scene.dtype(node) not in _FACTORS or scene.rank(node) == 0:
            continue
        condition, chosen, other = _parts(node)
        numbers = _Numbers(scene, node)
        if not (numbers.can_tell(condition) and _is_finite(scene, chosen, other)):
            continue
        yield scene.changed(_NAME, node, "products with 0 and 1")
        scene.replace(node, numbers.selected(condition, chosen, other))
    scene.graph.eliminate_dead_code()


def _parts(node: torch.fx.Node) -> tuple[Any, Any, Any]:
    """The condition, what is taken where it is true, and where it is not."""
    first, second, third = node.args
    if node.target in {aten.masked_fill.Scalar, aten.masked_fill.Tensor}:
        return second, third, first
    return first, second, third


def _is_finite(scene: Scene, *values: Any) -> bool:
    """Whether all are numbers, as long as the program's inputs are, and no sum overflows."""
    waiting, seen = list(values), set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, torch.fx.Node) and one not in seen:
            seen.add(one)
            known = scene.constant(one)
            if known is not None:
                if not bool(torch.isfinite(known).all()):
                    return False
            elif one.op == "call_function":
                if one.target not in _FINITE:
                    return False
                waiting += tree_leaves((one.args, one.kwargs))
        elif isinstance(one, float) and not math.isfinite(one):
            return False
    return True


def _is_zero(value: Any) -> bool:
    return isinstance(value, (int, float)) and value == 0


class _Numbers:
    """Writes truth values as 0 and 1 of the type and rank of a selection."""

    def __init__(self, scene: Scene, node: torch.fx.Node) -> None:
        self._scene = scene
        self._write: Writer = scene.writer(node, in_floats=True)
        self._rank, self._dtype = scene.rank(node), scene.dtype(node)
        self._made: dict[Any, torch.fx.Node] = {}

    def can_tell(self, condition: Any) -> bool:
        """Whether a condition can be computed from numbers, or depends on none that is computed."""
        scene = self._scene
        if not isinstance(condition, torch.fx.Node):
            return False
        if scene.constant(condition) is not None:
            return True
        if scene.rank(condition) != self._rank:
            return False
        if condition.target in _COMPARISONS and self._compares(condition):
            return _is_finite(scene, *condition.args)
        if condition.target in _NOT | _AND | _OR:
            return all(self.can_tell(one) for one in condition.args)
        return self._is_given(condition)

    def selected(self, condition: Any, chosen: Any, other: Any) -> torch.fx.Node:
        """M · chosen + (1 − m) · other."""
        mask = self._truth(condition)
        parts = []
        if not _is_zero(chosen):
            parts.append(self._write(aten.mul.Tensor, mask, self._operand(chosen)))
        if not _is_zero(other) or not parts:
            inverse = self._inverse(mask)
            parts.append(self._write(aten.mul.Tensor, inverse, self._operand(other)))
        return parts[0] if len(parts) == 1 else self._write(aten.add.Tensor, *parts)

    def _compares(self, condition: torch.fx.Node) -> bool:
        """Whether it is of floats of the selection's type and rank, or of one and a number."""
        return all(
            self._scene.dtype(one) is self._dtype and self._fits(one)
            for one in condition.all_input_nodes
        ) and any(self._scene.constant(one) is None for one in condition.all_input_nodes)

    def _fits(self, node: torch.fx.Node) -> bool:
        return self._scene.rank(node) == self._rank or self._scene.constant(node) is not None

    def _is_given(self, condition: torch.fx.Node) -> bool:
        """Whether only inputs of whole numbers or truth values are behind it."""
        waiting, seen = [condition], set()
        while waiting:
            one = waiting.pop()
            value = one.meta.get("val")
            if one in seen or self._scene.constant(one) is not None:
                continue
            if not isinstance(value, torch.Tensor) or value.is_floating_point():
                return False
            seen.add(one)
            waiting += one.all_input_nodes
        return True

    def _truth(self, condition: torch.fx.Node) -> torch.fx.Node:
        if condition not in self._made:
            self._made[condition] = self._written(condition)
        return self._made[condition]

    def _written(self, condition: torch.fx.Node) -> torch.fx.Node:
        write = self._write
        known = self._scene.constant(condition)
        if known is not None:
            return self._constant(known)
        if condition.target in _NOT:
            return self._inverse(self._truth(condition.args[0]))
        if condition.target in _AND | _OR:
            both = [self._truth(one) for one in condition.args]
            together = aten.mul.Tensor if condition.target in _AND else aten.maximum.default
            return write(together, *both)
        if condition.target in _COMPARISONS and self._compares(condition):
            return self._comparison(_COMPARISONS[condition.target], *condition.args[:2])
        return write(aten.to.dtype, condition, self._dtype)

    def _comparison(self, name: str, a: Any, b: Any) -> torch.fx.Node:
        if name in {"gt", "le"}:
            found = self._above(a, b)
        elif name in {"lt", "ge"}:
            found = self._above(b, a)
        else:
            found = self._write(aten.add.Tensor, self._above(a, b), self._above(b, a))
        return self._inverse(found) if name in {"le", "ge", "eq"} else found

    def _above(self, a: Any, b: Any) -> torch.fx.Node:
        """1 where a > b, else 0."""
        write = self._write
        apart = write(aten.sub.Tensor, self._operand(a), self._operand(b))
        factor = self._number(_FACTORS[self._dtype])
        for _ in range(2):
            apart = write(aten.mul.Tensor, apart, factor)
        return write(aten.clamp.default, apart, 0.0, 1.0)

    def _inverse(self, number: torch.fx.Node) -> torch.fx.Node:
        return self._write(aten.sub.Tensor, self._number(1.0), number)

    def _operand(self, value: Any) -> torch.fx.Node:
        if not isinstance(value, torch.fx.Node):
            return self._number(float(value))
        known = self._scene.constant(value)
        return value if known is None else self._constant(known)

    def _number(self, value: float) -> torch.fx.Node:
        if value not in self._made:
            self._made[value] = self._constant(torch.tensor(value))
        return self._made[value]

    def _constant(self, value: torch.Tensor) -> torch.fx.Node:
        """Of the selection's rank, so that it can follow the layout."""
        sizes = (1,) * (self._rank - value.dim()) + tuple(value.shape)
        return self._write.constant(value.to(self._dtype).reshape(sizes))


REWRITE = Rewrite(
    name=_NAME,
    title="selections as products with 0 and 1",
    advice="write m * a + (1 - m) * b with a mask m of numbers, or clamp, maximum, relu for thresholds",
    safety="exact",
    apply=_apply,
)
