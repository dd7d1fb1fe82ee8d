"""The rows of numbers that an op's weights are multiplied with, and the weights arranged to match.

An op is a few groups of matrix products: [rows, weights] of its operand by [weights, channels]. A
transposed convolution is one product for each tap.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from straightway.ir import Node, Value

# rows for each op, more where it has more weights a channel, and the bytes that all may take
LEAST_ROWS, MOST_ROWS = 512, 4096
MOST_BYTES = 256 * 2**20
# more weights in one sum than this: the matrix of their products would be too large
MOST_WEIGHTS = 4096
# samples over which rows are spread where nobody knows how many will come
SAMPLES = 64


def is_known(node: Node) -> bool:
    """Whether an op's weights and operand are a matrix product here."""
    x, weights = node.inputs[:2]
    if x is None or weights is None or weights.const is None or x.rank == 0:
        return False
    if node.op.name == "FULLY_CONNECTED":
        return weights.rank == 2 and weights.shape[1] <= MOST_WEIGHTS
    return (
        x.rank == 4 == weights.rank
        and grouped(node, np.asarray(weights.const)).shape[2] <= MOST_WEIGHTS
    )


def specs(nodes: Sequence[tuple[Node, str]], samples: int) -> list[dict[str, Any]]:
    """What `run.observe` keeps for each op, whose operand has this name; `samples` is 0 if unknown."""
    widths = [_width(node) for node, _ in nodes]
    wanted = [min(max(2 * width[1], LEAST_ROWS), MOST_ROWS) for width in widths]
    total = sum(4 * g * k * most for (g, k), most in zip(widths, wanted, strict=True))
    share = min(1.0, MOST_BYTES / max(total, 1))
    return [
        _spec(node, name, max(int(most * share), 16), samples or SAMPLES)
        for (node, name), most in zip(nodes, wanted, strict=True)
    ]


def _width(node: Node) -> tuple[int, int]:
    """Groups, and weights in one sum."""
    groups, _, weights = grouped(node, _weights(node)).shape
    return groups, weights


def _spec(node: Node, name: str, most: int, samples: int) -> dict[str, Any]:
    x, weights = _operand(node), _weights(node)
    found: dict[str, Any] = {
        "value": name,
        "most": most,
        "share": -(-most // samples),
        "axis": None,
    }
    if node.op.name == "FULLY_CONNECTED":
        return found | {"axis": int(node.attrs.get("axis", x.rank - 1))}
    if node.op.name == "TRANSPOSE_CONV":
        return found | {"axis": 1}
    before = [0, 0]
    if node.attrs["padding"] == "SAME":
        before = [
            max((out - 1) * stride + (size - 1) * dilation + 1 - given, 0) // 2
            for out, given, size, stride, dilation in zip(
                node.output.shape[2:],
                x.shape[2:],
                weights.shape[2:],
                node.attrs["strides"],
                node.attrs["dilations"],
                strict=True,
            )
        ]
    return found | {
        "window": [int(size) for size in weights.shape[2:]],
        "strides": [int(step) for step in node.attrs["strides"]],
        "dilations": [int(step) for step in node.attrs["dilations"]],
        "before": [int(size) for size in before],
        "result": [int(size) for size in node.output.shape[2:]],
        "groups": x.shape[1] // weights.shape[1],
    }


def _operand(node: Node) -> Value:
    x = node.inputs[0]
    if x is None:
        raise ValueError(f"{node} has no operand")
    return x


def _weights(node: Node) -> np.ndarray:
    weights = node.inputs[1]
    if weights is None or weights.const is None:
        raise ValueError(f"{node} has no weights")
    return np.asarray(weights.const)


def grouped(node: Node, weights: np.ndarray) -> np.ndarray:
    """Logical weights as [groups, channels, weights]; of a transposed convolution a channel a tap."""
    if node.op.name == "TRANSPOSE_CONV":
        return weights.transpose(1, 2, 3, 0).reshape(1, -1, weights.shape[0])
    groups = 1 if weights.ndim == 2 else _operand(node).shape[1] // weights.shape[1]
    return weights.reshape(groups, weights.shape[0] // groups, -1)


def ungrouped(node: Node, matrices: np.ndarray) -> np.ndarray:
    """Back to the logical weights' shape."""
    shape = _weights(node).shape
    if node.op.name != "TRANSPOSE_CONV":
        return matrices.reshape(shape)
    return matrices.reshape(*shape[1:], shape[0]).transpose(3, 0, 1, 2)


def channel_scales(scale: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The scale of each channel of `grouped`, [groups, channels]."""
    single = np.ravel(scale).astype(np.float64)
    taps = shape[0] * shape[1] // len(single)
    return np.repeat(single, taps).reshape(shape[:2])


def channel_errors(node: Node, means: np.ndarray) -> np.ndarray:
    """Of mean errors [groups, channels] of sums those of the op's channels."""
    if node.op.name != "TRANSPOSE_CONV":
        return means.reshape(-1)
    # each element of a result is a sum over the taps that meet there, on average all over the strides'
    found: np.ndarray = means.reshape(_weights(node).shape[1], -1).sum(1)
    found /= math.prod(node.attrs["strides"])
    return found
