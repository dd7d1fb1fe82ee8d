"""How an order lies in a tensor's dimensions.

A form is a tensor's stored shape told in atoms: one tuple of atoms for each stored dimension, () for
a dimension of size 1. Forms of one order differ by free RESHAPEs only.
"""

import math
from collections.abc import Hashable, Iterable, Sequence

from straightway.domains.atoms import Atoms, Order, last_dims
from straightway.ir import Value

Form = tuple[Order, ...]


def flat(form: Form) -> Order:
    """The order that a form stores."""
    return tuple(atom for dim in form for atom in dim)


def shape_of(atoms: Atoms, value: Value, form: Form) -> tuple[int, ...]:
    """Stored sizes."""
    return tuple(math.prod(atoms.size(value, atom) for atom in dim) for dim in form)


def whole_dims(atoms: Atoms, value: Value, dims: Iterable[int]) -> Form:
    """One stored dimension for each of the model's dimensions, as listed."""
    return tuple(atoms.of(value, dim) for dim in dims)


def natural(atoms: Atoms, value: Value, order: Order) -> Form:
    """The form of an order that keeps most of the model's dimensions.

    The model's own order and channels-last keep dimensions of size 1; any other order has one stored
    dimension for each run of atoms of one dimension.
    """
    for dims in (range(value.rank), last_dims(value.rank)):
        if atoms.order(value, dims) == order:
            return whole_dims(atoms, value, dims)
    return runs(order)


def runs(order: Order) -> Form:
    """Join neighbouring atoms of one dimension where they follow each other."""
    form: list[Order] = []
    for atom in order:
        before = form[-1][-1] if form else None
        if before is not None and (before[0], before[1] + 1) == atom:
            form[-1] = (*form[-1], atom)
        else:
            form.append((atom,))
    return tuple(form)


def common_runs(first: Order, second: Order) -> tuple[Form, list[int]]:
    """Cut two orders of the same atoms into the longest pieces that both have.

    Returns the pieces in the first order, and for each place of the second the piece that stands
    there: the smallest TRANSPOSE that leads from one to the other.
    """
    place = {atom: k for k, atom in enumerate(second)}
    pieces: list[list[int]] = []
    for atom in first:
        if pieces and pieces[-1][-1] + 1 == place[atom]:
            pieces[-1].append(place[atom])
        else:
            pieces.append([place[atom]])
    form = tuple(tuple(second[k] for k in piece) for piece in pieces)
    perm = sorted(range(len(pieces)), key=lambda k: pieces[k][0])
    return form, perm


def matching_perm(source: Form, target: Form) -> list[int] | None:
    """The permutation between two forms with the same stored dimensions, or None."""
    left = list(enumerate(source))
    perm = []
    for dim in target:
        found = next((item for item in left if item[1] == dim), None)
        if found is None:
            return None
        left.remove(found)
        perm.append(found[0])
    return None if left else perm


def merged(kinds: Sequence[Hashable], most: int) -> list[list[int]]:
    """Group stored dimensions so that at most `most` remain, where that can be.

    Only neighbours of one kind join; those of kind None stay alone.
    """
    groups = [[k] for k in range(len(kinds))]
    place = 0
    while len(groups) > most and place + 1 < len(groups):
        kind = kinds[groups[place][0]]
        if kind is None or kind != kinds[groups[place + 1][0]]:
            place += 1
            continue
        groups[place] += groups.pop(place + 1)
    return groups
