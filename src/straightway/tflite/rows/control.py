"""Control flow: ops that run other graphs of the file.

Their attributes are graphs. The op's operands become the inputs of each, the results of one its own.
"""

from straightway.ir import Graph, Node, TensorType
from straightway.tflite.rows.row import Row, field_, types


def branch(node: Node) -> list[TensorType]:
    """What a branch gives: both give the same."""
    graph: Graph = node.attrs["then_branch"]
    return [value.known_type for value in graph.outputs]


def carried(node: Node) -> list[TensorType]:
    """The operands come out again, changed by each turn."""
    return [value.known_type for value in node.operands()]


ROWS = [
    Row(
        name="IF",
        layout="fixed",
        infer=branch,
        types=types("bool"),
        kernel="kernels/if.cc:67",
        # operands: one truth value, then what goes into the branch
        options="IfOptions",
        attrs={
            "then_branch": field_("thenSubgraphIndex", role="graph"),
            "else_branch": field_("elseSubgraphIndex", role="graph"),
        },
        xnnpack="XNNPACK's delegate takes no IF",
    ),
    Row(
        name="WHILE",
        layout="fixed",
        infer=carried,
        types=types("f16 bf16 f32 f64 i8 u8 i16 u16 i32 u32 i64 u64 bool"),
        kernel="kernels/while.cc:169",
        # an input that the body hands on as it is, and that nobody reads afterwards, is not copied
        # from turn to turn (kernels/while.cc:128)
        options="WhileOptions",
        attrs={
            "condition": field_("condSubgraphIndex", role="graph"),
            "body": field_("bodySubgraphIndex", role="graph"),
        },
        xnnpack="XNNPACK's delegate takes no WHILE",
    ),
]
