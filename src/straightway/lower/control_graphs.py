"""Graphs that TFLite's control flow runs, each written by a builder of its own."""

from collections.abc import Callable, Sequence

import numpy as np

from straightway.ir import Graph, Value, edit
from straightway.lower.builder import Builder, Inner
from straightway.passes.control import copy_nodes

Values = Sequence[Value]
INT32 = np.dtype(np.int32)


def inner(
    g: Builder, name: str, like: Values, build: Callable[[Builder, list[Value]], Values]
) -> Graph:
    """Write a graph whose inputs have the types of `like`; `build` returns its outputs."""
    graph = Graph(name=f"{g.stem}/{name}")
    builder = Builder(graph)
    builder.origins, builder.node, builder.stem = g.origins, g.node, f"{g.stem}/{name}"
    builder.open_dims, builder.keeps = g.open_dims, g.keeps
    builder.open_results = g.open_results
    inputs = [
        edit.add_input(graph, Value(graph.fresh(f"{name}/{value.name}"), value.type))
        for value in like
    ]
    edit.set_outputs(graph, build(builder, inputs))
    return graph


def splice(g: Builder, inside: Inner, operands: Values) -> list[Value]:
    """Write the ops of a lowered graph again; return what stands for its outputs."""
    given = dict(zip(inside.graph.inputs, operands, strict=True))
    copies = copy_nodes(inside.graph, g.graph, None, given)
    return [copies.get(value, value) for value in inside.graph.outputs]


def repeated(
    g: Builder,
    carried: Values,
    kept: Values,
    more: Callable[[Builder, list[Value], list[Value]], Value],
    turn: Callable[[Builder, list[Value], list[Value]], Values],
) -> list[Value]:
    """Take turns while `more` holds; return what the last one returned, or `carried`.

    Both get what the turn before returned, and what stays the same, which costs no copy.
    """
    values = [*carried, *kept]
    size = len(carried)

    def condition(inside: Builder, inputs: list[Value]) -> Values:
        return [more(inside, inputs[:size], inputs[size:])]

    def body(inside: Builder, inputs: list[Value]) -> Values:
        same = inputs[size:]
        return [*turn(inside, inputs[:size], same), *same]

    results = g.WHILE(
        *values,
        condition=inner(g, "condition", values, condition),
        body=inner(g, "body", values, body),
    )
    return [results] if isinstance(results, Value) else list(results[:size])


def counted(
    g: Builder,
    count: int,
    carried: Values,
    kept: Values,
    body: Callable[[Builder, Value, list[Value], list[Value]], Values],
) -> list[Value]:
    """Run `body` so many times, and return what the last turn returned.

    It gets the number of the turn (int32) before what `repeated` gives.
    """

    def more(inside: Builder, now: list[Value], _: list[Value]) -> Value:
        return inside.LESS(now[0], count)

    def turn(inside: Builder, now: list[Value], same: list[Value]) -> Values:
        number, *rest = now
        return [inside.ADD(number, 1), *body(inside, number, rest, same)]

    return repeated(g, [g.const(0, INT32), *carried], kept, more, turn)[1:]
