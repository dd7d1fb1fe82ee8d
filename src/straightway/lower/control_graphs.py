"""Graphs that TFLite's control flow runs, each written by a builder of its own."""

from collections.abc import Callable, Sequence

import numpy as np

from straightway.ir import Graph, Value, edit
from straightway.lower.builder import Builder

Values = Sequence[Value]
INT32 = np.dtype(np.int32)


def inner(
    g: Builder, name: str, like: Values, build: Callable[[Builder, list[Value]], Values]
) -> Graph:
    """Write a graph whose inputs have the types of `like`; `build` returns its outputs."""
    graph = Graph(name=f"{g.stem}/{name}")
    builder = Builder(graph)
    builder.origins, builder.node, builder.stem = g.origins, g.node, f"{g.stem}/{name}"
    inputs = [
        edit.add_input(graph, Value(graph.fresh(f"{name}/{value.name}"), value.type))
        for value in like
    ]
    edit.set_outputs(graph, build(builder, inputs))
    return graph


def counted(
    g: Builder,
    count: int,
    carried: Values,
    kept: Values,
    body: Callable[[Builder, Value, list[Value], list[Value]], Values],
) -> list[Value]:
    """Run `body` so many times, and return what the last turn returned.

    It gets the number of the turn (int32), what the turn before returned, and what stays the same,
    which costs no copy.
    """
    first = g.const(0, INT32)
    values = [first, *carried, *kept]

    def more(inside: Builder, inputs: list[Value]) -> Values:
        return [inside.LESS(inputs[0], count)]

    def turn(inside: Builder, inputs: list[Value]) -> Values:
        number, *rest = inputs
        same = rest[len(carried) :]
        changed = body(inside, number, rest[: len(carried)], same)
        return [inside.ADD(number, 1), *changed, *same]

    results = g.WHILE(
        *values,
        condition=inner(g, "condition", values, more),
        body=inner(g, "body", values, turn),
    )
    return list(results[1 : 1 + len(carried)])
