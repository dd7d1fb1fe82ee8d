"""How a graph forks and joins, and which dimension of a value counts channels."""

from collections.abc import Sequence

from straightway.ir import Value
from straightway.quant.edges import is_op
from straightway.tflite.rows import ROWS

# images have their channels second in ONNX's order
IMAGE_AXIS = 1


def branches(values: Sequence[Value]) -> list[list[Value]]:
    """Runs of values that are made one of another alone, from a fork or join to the next, in order."""
    known = set(values)
    found: list[list[Value]] = []
    ends: dict[Value, list[Value]] = {}
    for value in values:
        producer = value.producer
        before = [] if producer is None else [v for v in producer.operands() if v in known]
        single = producer is not None and len(producer.outputs) == 1 and len(before) == 1
        alone = single and len(before[0].users()) == 1 and before[0] in ends
        branch = ends.pop(before[0]) if alone else []
        if not branch:
            found.append(branch)
        branch.append(value)
        ends[value] = branch
    return found


def channel_axis(value: Value) -> int | None:
    """The dimension that counts the filters of the op that made these channels, None for vectors.

    Where no such op is found, the second: images have their channels there.
    """
    current: Value | None = value
    while current is not None and current.producer is not None and current.rank == value.rank:
        node = current.producer
        row = ROWS.get(node.op.name)
        if is_op(node, "FULLY_CONNECTED", "BATCH_MATMUL"):
            return value.rank - 1 if value.rank else None
        if row is None or row.quant == "weights":
            break
        current = next(
            (v for v in node.operands() if v.const is None and v.shape == value.shape), None
        )
    return IMAGE_AXIS if value.rank > 1 else None
