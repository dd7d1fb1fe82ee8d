"""Channels of unlike ranges are brought to one range before they share a scale.

    before                                    after
      %v = CONV_2D(%x, %a, %b)                  %v = CONV_2D(%x, %a / s, %b / s)
      %y = DEPTHWISE_CONV_2D(%v, %w, %c)        %y = DEPTHWISE_CONV_2D(%v, %w · s, %c)

The same numbers in floats; in eight bits, channels of small range keep their bits, and the weights of a
depthwise convolution, which have a scale a channel, lose none. Other convolutions would: theirs share
one for all channels that they take. After "Data-free quantization through weight equalization and bias
correction", M. Nagel et al., ICCV 2019, by the ranges observed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from straightway.ir import Graph, Node, Value, edit
from straightway.quant.edges import is_op
from straightway.quant.weights import output_axis
from straightway.remark import Remark

STEP = "quant.equalize"
SOURCES = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
# what gives s · y for s · x, channel by channel, s being positive
HOMOGENEOUS = ("RELU", "LEAKY_RELU", "PAD", "MAX_POOL_2D", "AVERAGE_POOL_2D")
# channels that are apart by more than this stay so
MOST = 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A convolution, what its result goes through alone, and the depthwise one that takes it."""

    source: Node
    between: tuple[Node, ...]
    target: Node

    @property
    def value(self) -> Value:
        """What the target takes."""
        return self.target.operands()[0]


def chains(graph: Graph) -> list[Chain]:
    """Every pair of convolutions between which channels can be scaled."""
    nodes = [node for node in graph.nodes if is_op(node, "DEPTHWISE_CONV_2D")]
    found = [_chain(graph, node) for node in nodes]
    return [chain for chain in found if chain is not None]


def _chain(graph: Graph, target: Node) -> Chain | None:
    value: Value | None = target.operands()[0]
    weights = target.operands()[1]
    between: list[Node] = []
    if value is None or weights.const is None or weights.shape[0] != value.shape[1]:
        return None
    while value is not None and len(value.uses) == 1 and not graph.is_output(value):
        node = value.producer
        if node is None or node.attrs.get("activation", "NONE") not in ("NONE", "RELU"):
            return None
        if is_op(node, *SOURCES):
            given = [v for v in node.inputs[1:3] if v is not None]
            if any(v.const is None for v in given):
                return None
            return Chain(source=node, between=tuple(between), target=target)
        if not is_op(node, *HOMOGENEOUS) and not _adds_channels(node):
            return None
        between.append(node)
        value = next((v for v in node.operands() if v.const is None), None)
    return None


def _adds_channels(node: Node) -> bool:
    """Whether a node adds one constant number a channel."""
    constants = [v for v in node.operands() if v.const is not None]
    if not is_op(node, "ADD") or len(constants) != 1:
        return False
    shape = (1,) * (node.output.rank - constants[0].rank) + constants[0].shape
    return all(size == 1 for k, size in enumerate(shape) if k != 1)


def run(graph: Graph, found: list[Chain], peaks: Mapping[Value, np.ndarray]) -> list[Remark]:
    """Scale the channels of each chain; `peaks` are the greatest magnitudes of each channel."""
    done = 0
    for chain in found:
        if chain.value in peaks and _scale(graph, chain, peaks[chain.value]):
            done += 1
    if not done:
        return []
    text = f"channels of {done} values were brought to like ranges, between their convolutions"
    return [Remark(kind="done", step=STEP, text=text, numbers={"values": done})]


def parameters(found: list[Chain]) -> list[tuple[Node, int, Value]]:
    """The constants that `run` may change, for `restore`."""
    nodes = dict.fromkeys(
        node for chain in found for node in (chain.source, *chain.between, chain.target)
    )
    return [
        (node, place, value)
        for node in nodes
        for place, value in enumerate(node.inputs)
        if value is not None and value.const is not None
    ]


def restore(saved: list[tuple[Node, int, Value]]) -> None:
    """Give nodes their constants back."""
    for node, place, value in saved:
        edit.set_input(node, place, value)


def _scale(graph: Graph, chain: Chain, peaks: np.ndarray) -> bool:
    alive = peaks > 0
    if alive.sum() < 2:
        return False
    factors = np.maximum(np.where(alive, peaks / peaks[alive].max(), 1.0), 1 / MOST)
    for node in chain.between:
        if is_op(node, "ADD"):
            place = next(k for k, v in enumerate(node.operands()) if v.const is not None)
            spread = factors.reshape(-1, *[1] * (node.output.rank - 2))
            _set(graph, node, place, np.asarray(node.operands()[place].const) / spread)
    weights, bias = [*chain.source.inputs[1:3], None][:2]
    if weights is not None:
        axis = output_axis(chain.source)
        shape = [-1 if k == axis else 1 for k in range(weights.rank)]
        _set(graph, chain.source, 1, np.asarray(weights.const) / factors.reshape(shape))
    if bias is not None:
        _set(graph, chain.source, 2, np.asarray(bias.const) / factors)
    taken = np.asarray(chain.target.operands()[1].const)
    _set(graph, chain.target, 1, taken * factors.reshape(-1, *[1] * (taken.ndim - 1)))
    return True


def _set(graph: Graph, node: Node, place: int, array: np.ndarray) -> None:
    old = node.inputs[place]
    name = "scaled" if old is None else old.name
    edit.set_input(node, place, edit.constant(graph, array.astype(np.float32), name))
