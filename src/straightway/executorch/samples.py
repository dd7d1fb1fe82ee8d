"""Inputs to try a program on: its example, the example's numbers in another order, other sizes."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

_SEED = 20_24


def variants(program: ExportedProgram, count: int) -> list[tuple[Any, ...]]:
    """The example inputs, then `count` of the same numbers shuffled: token ids stay token ids.

    Where dimensions are open, the last is of other sizes.
    """
    arguments = tuple((program.example_inputs or ((), {}))[0])
    found = [arguments]
    generator = torch.Generator().manual_seed(_SEED)
    found += [tuple(_shuffled(one, generator) for one in arguments) for _ in range(count)]
    sizes = other_sizes(program)
    if sizes:
        found.append(tuple(_resized(one, sizes.get(k)) for k, one in enumerate(arguments)))
    return found


def _shuffled(one: Any, generator: torch.Generator) -> Any:
    if not isinstance(one, torch.Tensor) or one.numel() < 2:
        return one
    order = torch.randperm(one.numel(), generator=generator)
    return one.detach().reshape(-1)[order].reshape(one.shape).clone()


def open_symbols(program: ExportedProgram) -> Mapping[Any, tuple[int, int, int]]:
    """Each open dimension's symbol: its size in the example, and its least and greatest."""
    found = {}
    for value in _placeholders(program):
        for size in value.shape:
            if isinstance(size, int):
                continue
            for symbol in size.node.expr.free_symbols:
                limits = program.range_constraints.get(symbol)
                hint = size.node.shape_env.backed_var_to_val.get(symbol)
                if limits is not None and hint is not None:
                    found[symbol] = (
                        int(hint),
                        _bound(limits.lower, 2),
                        _bound(limits.upper, 2**16),
                    )
    return found


def open_shapes(program: ExportedProgram) -> tuple[Any, ...] | None:
    """The open dimensions as torch.export takes them, by input; None where all is fixed.

    One that is computed of others is left for torch to find.
    """
    symbols = open_symbols(program)
    if not symbols:
        return None
    dims = {
        symbol: torch.export.Dim(f"open_{k}", min=low, max=high)
        for k, (symbol, (_, low, high)) in enumerate(symbols.items())
    }
    by_name = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    found: list[Any] = []
    for name in program.graph_signature.user_inputs:
        value = by_name[name].meta["val"] if name in by_name else None
        found.append(
            {
                place: dims.get(size.node.expr, torch.export.Dim.AUTO)
                for place, size in enumerate(value.shape)
                if not isinstance(size, int)
            }
            if isinstance(value, torch.Tensor)
            else None
        )
    return tuple(found)


def _bound(limit: Any, otherwise: int) -> int:
    try:
        return int(limit)
    except (TypeError, ValueError, OverflowError):  # infinite
        return otherwise


def other_sizes(program: ExportedProgram) -> dict[int, tuple[int, ...]]:
    """By input: a shape that the example does not have; {} where all is fixed."""
    values = {}
    for symbol, (hint, low, high) in open_symbols(program).items():
        values[symbol] = hint + 1 if hint + 1 <= high else max(low, hint - 1)
    if not values:
        return {}
    return {
        place: tuple(
            size if isinstance(size, int) else int(size.node.expr.subs(values))
            for size in value.shape
        )
        for place, value in enumerate(_placeholders(program))
    }


def _placeholders(program: ExportedProgram) -> list[torch.Tensor]:
    names = program.graph_signature.user_inputs
    by_name = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    found = [by_name[name].meta["val"] for name in names if name in by_name]
    return [value for value in found if isinstance(value, torch.Tensor)]


def _resized(one: Any, shape: Sequence[int] | None) -> Any:
    """Repeated or cut to a shape."""
    if not isinstance(one, torch.Tensor) or shape is None:
        return one
    for dim, size in enumerate(shape):
        if one.shape[dim] != size:
            one = one.index_select(dim, torch.arange(size) % one.shape[dim])
    return one.contiguous()
