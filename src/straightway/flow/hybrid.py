"""Products whose operand is rounded as they run: how far the file may be from the model.

The model rounds the operand by one scale for the tensor, TFLite's hybrid kernels each row by its own,
which is not coarser. So each element of the operand differs by at most one quantum of the model's, half
of either's, and the product by at most that times the sum of the weights' magnitudes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from straightway.flow.tolerance import Check, compare
from straightway.flow.translate import Translation
from straightway.ir import Node, Value
from straightway.ir.scheme import aligned
from straightway.quant.storage import is_hybrid

LEVELS = 255
RENAMES = ("RESHAPE", "TRANSPOSE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A result of a hybrid kernel: the model's value, and the op that computes it, still logical."""

    value: Value
    op: Node
    renamed: bool

    def slack(self, x: np.ndarray) -> np.ndarray:
        """How far each element may be off, for an operand of these numbers."""
        low, high = min(float(x.min(initial=0)), 0.0), max(float(x.max(initial=0)), 0.0)
        weights = self.op.operands()[1]
        real = np.asarray(weights.const, np.float64)
        if weights.dtype.kind == "i" and weights.quant is not None:
            real = real * aligned(weights.quant.scale, weights.quant, weights.rank)
        sums = np.abs(real).reshape(real.shape[0], -1).sum(1) * (high - low) / LEVELS
        if self.renamed:
            return np.asarray(sums.max(initial=0))
        shape = [1] * self.op.output.rank
        shape[self.op.attrs.get("axis", 1)] = sums.size
        return np.reshape(sums, shape)


def products(translation: Translation) -> dict[str, Product]:
    """What hybrid kernels compute, by the model's names, in order; outputs, too."""
    source = translation.source
    named = translation.interior() | dict(zip(source.output_names, source.outputs, strict=True))
    found = {}
    for name, value in named.items():
        logical = translation.lowered.values.get(value)
        node, renamed = (None if logical is None else logical.producer), False
        while node is not None and node.op.name in RENAMES:
            node, renamed = node.operands()[0].producer, True
        if node is not None and is_hybrid(node):
            found[name] = Product(value=value, op=node, renamed=renamed)
    return found


def near(name: str, want: np.ndarray, got: np.ndarray, slack: np.ndarray) -> Check:
    """Compare floats that may be `slack` apart, besides the bound of floats."""
    if want.shape != got.shape:
        return compare(name, want, got)
    apart = got.astype(np.float64) - want
    rest = want + (apart - np.clip(apart, -slack, slack))
    check = compare(name, want, rest.astype(want.dtype))
    if not check.equal:
        return check
    return replace(
        check,
        max_error=float(np.abs(apart).max(initial=0)),
        bound=check.bound + float(np.max(slack)),
    )


def checks(
    found: Mapping[str, Product],
    expected: Mapping[str, np.ndarray],
    numbers: Mapping[str, np.ndarray],
    operands: Mapping[str, np.ndarray],
) -> list[Check]:
    """Compare every product, computed from the same numbers by both."""
    return [
        near(name, expected[name], numbers[name], product.slack(operands[name]))
        for name, product in found.items()
        if name in expected
    ]
