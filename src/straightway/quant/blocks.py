"""4-bit weights with a scale for each block of a row, and the same sums by kernels of 8 bits.

before                                     after
  %y = FULLY_CONNECTED(%x, const i4, %b)     %1 = FULLY_CONNECTED(%x, const i8, %b)
                                             %2 = FULLY_CONNECTED(%x, const i8)
                                             %y = ADD(%1, %2)

The rows of `%1` are zero but in the first block, those of `%2` but in the second: every block has one
scale there. Both round a row of `%x` alike, so that the results are the same but for the order of sums.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from straightway.errors import InvalidRequest
from straightway.ir import Graph, Node, Op, Quant, Value, edit

# XNNPACK takes multiples of it alone (include/xnnpack.h: XNN_MIN_BLOCKSIZE; check_block_size in
# src/operators/fully-connected-nc.c)
LEAST_BLOCK = 32
# float16 holds scales from here on with all its bits; XNNPACK reads them as bfloat16, of eight bits
SMALLEST_SCALE = 2.0**-14
SCALE_BITS = 8
# the least of a tensor's largest scale: below, whole blocks would be zero
LEAST_SCALE = 2.0**-11
MOST_PROVEN_BYTES = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """An op whose sums other ops compute now: their result, and the ops in order."""

    node: Node
    result: Value
    made: tuple[Node, ...]


def check(block: int, kind: str) -> None:
    """Raise InvalidRequest for blocks that no kernel reads."""
    if block < 0 or block % LEAST_BLOCK:
        raise InvalidRequest(
            f"a block has a multiple of {LEAST_BLOCK} weights, as XNNPACK reads them; got {block}"
        )
    if block and kind != "int4":
        raise InvalidRequest(f"blocks are of int4 weights; got weights of {kind}")


def scales(weights: np.ndarray, block: int, most: int) -> np.ndarray | None:
    """The scale of each block [rows, blocks]; None where these are too small for float16."""
    peaks = np.abs(weights.reshape(len(weights), -1, block)).max(2).astype(np.float64) / most
    if peaks.max(initial=0.0) < LEAST_SCALE:
        return None
    fraction, exponent = np.frexp(np.maximum(peaks, SMALLEST_SCALE))
    whole = np.ceil(fraction * 2**SCALE_BITS) / 2**SCALE_BITS
    found: np.ndarray = np.ldexp(whole, exponent).astype(np.float16)
    return found


def wide(scale: np.ndarray, block: int) -> np.ndarray:
    """The scale of each weight."""
    return np.repeat(scale.astype(np.float32), block, axis=1)


def check_proof(weights: Sequence[Value]) -> None:
    """Raise InvalidRequest where the kernels of 8 bits would not fit in memory."""
    needed = sum(v.known_type.size * v.quant.scale.shape[1] for v in weights if v.quant)
    if needed > MOST_PROVEN_BYTES:
        raise InvalidRequest(
            f"blocks are proven by kernels that would take {needed >> 20:,} MB here, "
            f"more than {MOST_PROVEN_BYTES >> 20:,}; take larger blocks, or don't verify"
        )


def detach(node: Node) -> None:
    """Make the activation of an op an op of its own: the built-in kernel of blocks leaves it out.

    kernels/fully_connected.cc, EvalBlockwise4Bit; XNNPACK joins the two again.
    """
    name, graph = node.attrs["fusedActivationFunction"], node.graph
    if name == "NONE" or graph is None:
        return
    result = node.output
    before = Value(graph.fresh(f"{result.name}/sum"), result.type)
    node.outputs, before.producer = [before], node
    node.attrs["fusedActivationFunction"] = "NONE"
    op = Op(dialect="tflite", name=name)
    made = Node(op, [before], [result], {}, name=node.name, origins=node.origins)
    edit.insert(graph, made, node.next)


def spread(graph: Graph, node: Node, weights: Value) -> Spread:
    """Let ops with 8-bit weights compute what an op does that has these in blocks."""
    numbers, quant = np.asarray(weights.const).astype(np.int8), weights.quant
    if quant is None:
        raise ValueError(f"{weights} has no scales")
    x, _, *rest = node.inputs
    bias = rest[0] if rest else None
    made: list[Node] = []

    def op(name: str, inputs: "list[Value | None]", attrs: dict[str, object]) -> Value:
        result = Value(graph.fresh(f"{node.output.name}/block"), node.output.type)
        one = Node(
            Op(dialect="tflite", name=name),
            inputs,
            [result],
            attrs,
            name=node.name,
            origins=node.origins,
        )
        made.append(edit.insert(graph, one, node))
        return result

    total = op("FULLY_CONNECTED", [x, _only(graph, numbers, quant, 0), bias], {**node.attrs})
    for place in range(1, numbers.shape[1] // quant.block):
        own = _only(graph, numbers, quant, place)
        part = op("FULLY_CONNECTED", [x, own, None], {**node.attrs})
        plain = {"fusedActivationFunction": "NONE", "potScaleInt16": False}
        total = op("ADD", [total, part], plain)
    edit.replace_uses(node.output, total)
    return Spread(node=node, result=total, made=tuple(made))


def _only(graph: Graph, numbers: np.ndarray, quant: Quant, place: int) -> Value:
    """One block of each row, the rest zero."""
    array = np.zeros(numbers.shape, np.int8)
    columns = slice(place * quant.block, (place + 1) * quant.block)
    array[:, columns] = numbers[:, columns]
    made = edit.constant(graph, array, "block")
    zeros = np.zeros(len(numbers), np.int64)
    made.quant = Quant(scale=quant.scale[:, place].astype(np.float32), zero_point=zeros, axis=0)
    return made


def gather(found: Spread) -> None:
    """Let the op compute itself again."""
    edit.replace_uses(found.result, found.node.output)
    for one in reversed(found.made):
        edit.remove(one)
