"""Weights rounded so that an op's results change least, and biases that take up the mean error.

To round each weight to the nearest number is best only where the operand's elements have nothing to do
with each other. From rows of the operand as the model computes it, the weights are rounded one after
another, and what each loses is made good by those that are left ("GPTQ: accurate post-training
quantization for generative pre-trained transformers", E. Frantar et al., ICLR 2023). The operand's own
rounding counts: the error is that of (rounded weights · rounded operand). Its mean over all rows goes into
the bias ("Data-free quantization through weight equalization and bias correction", M. Nagel et al.,
ICCV 2019, section 4.2, with data).
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from straightway.ir import Node
from straightway.quant import rows
from straightway.quant.assignment import Assignment
from straightway.quant.filters import MOST, Filter, Filters
from straightway.quant.scheme import INT8
from straightway.remark import Remark

STEP = "quant.fitting"
Floats = NDArray[np.float64]
# what is added to each weight's mean square, of their average: rows are only some of all
DAMPING = 0.01
BLOCK = 64
LEAST_ROWS = 8
INT32_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A filter, the error of its results before and after (mean square, without means)."""

    filter: Filter
    shift: Floats
    before: float
    after: float


def fitted(
    stored: Filters,
    given: Assignment,
    seen: Mapping[Node, np.ndarray],
    known: dict[Hashable, Fitted] | None = None,
) -> Filters:
    """Fit the weights of every op of which rows [groups, rows, weights] were seen.

    `known` takes what is found, and gives it again where nothing has changed.
    """
    found: dict[Node, Fitted] = {}
    known = {} if known is None else known
    for node, own in stored.by_node.items():
        if node in seen and seen[node].shape[1] >= LEAST_ROWS:
            x, scales = node.inputs[0], own.quant.scale.tobytes()
            key = (node, x and given.roundings(node, x), scales)
            found[node] = known[key] if key in known else fit(node, own, seen[node], given)
            known[key] = found[node]
    gains = [
        10 * np.log10(one.before / one.after)
        for one in found.values()
        if one.before > one.after > 0
    ]
    if not found:
        return stored
    text = (
        f"weights of {len(found)} ops are rounded so that their results change least: the error is "
        f"{float(np.median(gains)) if gains else 0.0:.1f} dB less in the median; its mean is in the biases"
    )
    remark = Remark(kind="done", step=STEP, text=text, numbers={"ops": len(found)})
    return replace(
        stored,
        by_node={**stored.by_node, **{node: one.filter for node, one in found.items()}},
        shifts={n: one.shift for n, one in found.items() if one.filter.bias is None},
        remarks=(*stored.remarks, remark),
    )


def fit(node: Node, own: Filter, real: np.ndarray, given: Assignment) -> Fitted:
    """Round the weights of one op anew, by rows of its operand in floats."""
    x, weights = node.inputs[:2]
    if x is None or weights is None:
        raise ValueError(f"{node} has no weights")
    wanted = rows.grouped(node, np.asarray(weights.const, np.float64))
    scale = rows.channel_scales(own.quant.scale, wanted.shape)[..., None]
    rounded = real
    for one in given.roundings(node, x):
        rounded = (one.stored(rounded).astype(np.float32) - one.zero_point) * one.scale
    products = _products(rounded)
    nearest = np.clip(np.rint(wanted / scale), -MOST, MOST)
    chosen = _rounded(wanted / scale, products)
    before, after = (_error(n * scale - wanted, products) for n in (nearest, chosen))
    chosen = np.where((after < before)[..., None], chosen, nearest)
    means = np.einsum("gok,gk->go", wanted, real.mean(1, dtype=np.float64))
    means -= np.einsum("gok,gk->go", chosen * scale, rounded.mean(1, dtype=np.float64))
    shift = rows.channel_errors(node, means)
    return Fitted(
        filter=replace(
            own,
            weights=rows.ungrouped(node, chosen).astype(INT8),
            bias=None if own.bias is None else _shifted(own, shift),
        ),
        shift=shift,
        before=float(before.sum()),
        after=float(np.minimum(before, after).sum()),
    )


def _products(given: np.ndarray) -> Floats:
    """Mean products of what lies about the means, [groups, weights, weights], damped."""
    apart = np.asarray(given, np.float32) - given.mean(1, keepdims=True, dtype=np.float32)
    found: Floats = (apart.transpose(0, 2, 1) @ apart).astype(np.float64) / given.shape[1]
    size = found.shape[1]
    power = np.einsum("gkk->g", found) / size
    damped = np.where(power > 0, DAMPING * power, 1.0)
    found[:, np.arange(size), np.arange(size)] += damped[:, None]
    return found


def _error(lost: Floats, products: Floats) -> Floats:
    """The mean square by which each channel's results change."""
    found: Floats = np.einsum("gok,gok->go", lost @ products, lost)
    return found


def _rounded(wanted: Floats, products: Floats) -> Floats:
    """Round columns in turn, the strongest first; the rest makes good what each loses.

    With products = L·Lᵀ the error is the sum of the squares of Lᵀ·lost, of which each has its own column
    and those rounded before it: the nearest number to what makes it zero is taken, from the last one on.
    """
    order = np.argsort(np.einsum("gkk->gk", products), axis=1)
    given = np.take_along_axis(wanted, order[:, None], 2)
    sorted_ = np.take_along_axis(products, order[:, :, None], 1)
    sorted_ = np.take_along_axis(sorted_, order[:, None, :], 2)
    lower = np.linalg.cholesky(sorted_)
    lower /= np.einsum("gkk->gk", lower)[:, None, :]
    found, lost = np.empty_like(given), np.zeros_like(given)
    for stop in range(given.shape[2], 0, -BLOCK):
        start = max(stop - BLOCK, 0)
        made_good = lost[:, :, stop:] @ lower[:, stop:, start:stop]
        for k in range(stop - 1, start - 1, -1):
            own = (lost[:, :, k + 1 : stop] @ lower[:, k + 1 : stop, k, None])[..., 0]
            aimed = given[:, :, k] + made_good[:, :, k - start] + own
            found[:, :, k] = np.clip(np.rint(aimed), -MOST, MOST)
            lost[:, :, k] = given[:, :, k] - found[:, :, k]
    return np.take_along_axis(found, np.argsort(order, axis=1)[:, None], 2)


def _shifted(own: Filter, shift: Floats) -> np.ndarray:
    """A bias with the mean error in it."""
    numbers = np.ravel(own.bias).astype(np.float64)  # type: ignore[arg-type]
    numbers += np.rint(shift / np.asarray(own.bias_quant.scale, np.float64))
    limited = np.clip(numbers, -INT32_MOST, INT32_MOST)
    return np.asarray(limited, np.asarray(own.bias).dtype)
