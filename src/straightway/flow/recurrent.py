"""What became of RNN, GRU and LSTM in a quantized model, and how near their results are."""

from collections.abc import Sequence

from straightway.flow.accuracy import Accuracy, Row
from straightway.ir import Node
from straightway.lower.lowering import Lowered
from straightway.onnx_io.respell_recurrent import RECURRENT
from straightway.quant.assignment import Assignment
from straightway.remark import Remark

STEP = "flow.recurrent"


def remarks(lowered: Lowered, given: Assignment, near: Accuracy) -> list[Remark]:
    """One for each layer: integers or floats, why, and its last result's signal to error."""
    layers: dict[Node, list[Node]] = {}
    for op, maker in lowered.makers.items():
        if maker.op.name in RECURRENT and op.graph is not None:
            layers.setdefault(maker, []).append(op)
    return [_told(layer, ops, given, near.inside) for layer, ops in layers.items()]


def _told(layer: Node, ops: Sequence[Node], given: Assignment, rows: Sequence[Row]) -> Remark:
    name = layer.op.name
    loops = any(any(op.graphs()) for op in ops)
    real = sum(op in given.floats and op not in given.hybrids for op in ops)
    if loops:
        text = f"{name} takes its steps in a loop, which computes with floats"
    elif real:
        text = f"{name} is written out: {real} of {len(ops)} operators compute with floats"
    else:
        text = f"{name} is written out, its steps compute with integers"
    row = next((row for row in reversed(rows) if row.node == layer.name), None)
    numbers: dict[str, float] = {"floats": real, "operators": len(ops)}
    if row is not None:
        text += f"; its result is {row.sqnr_db:.1f} dB from the float model's"
        numbers["sqnr_db"] = row.sqnr_db
    return Remark(
        kind="missed" if loops or real else "done",
        step=STEP,
        node=layer.name,
        op=name,
        text=text,
        numbers=numbers,
    )
