"""What comes before and after the lowering of a graph, of the model's and of those inside its nodes."""

from straightway.ir import Graph
from straightway.lower import control_invariant, control_unroll, inline
from straightway.lower.results import result_types
from straightway.passes import (
    activation,
    bias,
    dead,
    dynamic,
    dynamic_recurrent,
    qlinear,
    sliced_pads,
    widen,
)
from straightway.passes.pipeline import prepare
from straightway.remark import Remark

STEPS = (
    inline,
    control_invariant,
    control_unroll,
    qlinear,
    dynamic,
    dynamic_recurrent,
    sliced_pads,
)


def before(graph: Graph) -> list[Remark]:
    """Simplify a graph of ONNX nodes, down to what declarations lower."""
    remarks = prepare(graph, result_types)
    while replaced := [done for step in STEPS for done in step.run(graph)]:
        remarks += replaced + prepare(graph, result_types)
    return remarks + widen.run(graph)


def after(graph: Graph) -> list[Remark]:
    """Tidy up a graph of TFLite ops."""
    return [*bias.run(graph), *activation.run(graph), *dead.run(graph)]
