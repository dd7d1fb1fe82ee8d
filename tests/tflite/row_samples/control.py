"""Samples of the ops that run other graphs."""

import numpy as np

from row_samples.numbers import whole
from row_samples.sample import Sample
from straightway.ir import Graph, Node, Op, Value, edit, tensor_type

COUNT, DATA = tensor_type(np.int32, ()), tensor_type(np.float32, (2, 3))


def graph(name, kinds, build):
    """A written graph; `build` appends nodes with `op` and returns the results."""
    made = Graph(name=name)
    inputs = [edit.add_input(made, Value(f"{name}_{k}", kind)) for k, kind in enumerate(kinds)]

    def op(kind, operands, result):
        value = Value(made.fresh(f"{name}_{kind.lower()}"), result)
        edit.append(made, Node(Op(dialect="tflite", name=kind), operands, [value]))
        return value

    edit.set_outputs(made, build(op, *inputs))
    return made


def constant(number, dtype):
    array = np.array(number, dtype)
    return Value("constant", tensor_type(dtype, ()), array)


def branch(kind):
    return graph(kind, [DATA], lambda op, x: [op(kind, [x], DATA)])


def less_than_three(op, count, _):
    return [op("LESS", [count, constant(3, np.int32)], tensor_type(bool, ()))]


def doubled(op, count, data):
    more = op("ADD", [count, constant(1, np.int32)], COUNT)
    return [more, op("ADD", [data, data], DATA)]


SAMPLES = [
    *(
        Sample(
            op="IF",
            inputs=(np.array(condition), whole(2, 3).astype(np.float32)),
            attrs={"then_branch": branch("NEG"), "else_branch": branch("ABS")},
            reference=lambda c, x: -x if c else np.abs(x),
            swept=False,
        )
        for condition in (True, False)
    ),
    Sample(
        op="WHILE",
        inputs=(np.array(1, np.int32), whole(2, 3).astype(np.float32)),
        attrs={
            "condition": graph("condition", [COUNT, DATA], less_than_three),
            "body": graph("body", [COUNT, DATA], doubled),
        },
        reference=lambda _, x: (3, x * 4),
        swept=False,
    ),
]
