"""The exact answer where a part is narrow: eliminate one node after another by a small table.

Minimising over a node leaves a table over its neighbours. Real networks are nearly series-parallel,
so these stay small. Where one would grow too large, its summands are minimised in groups
("mini-buckets": Dechter and Rish, "Mini-buckets: a general scheme for bounded inference", 2003):
what comes out is then a lower bound, and modes that need not reach it. Each term with several
consumers gets a variable of its own, "somebody demands it", so that every table starts with at most
two variables.
"""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from math import log2, prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from straightway.domains.terms import Literal, Part, modes_in

Scope: TypeAlias = tuple[int, ...]  # variables in ascending order, one a dimension of a table
Table: TypeAlias = NDArray[Any]  # int64, or Python's integers where their sum might not fit
Bucket: TypeAlias = dict[Scope, Table]

ENTRIES_IN_GROUPS = 2**12  # of a table, once the answer is a bound only
TABLES_IN_ALL = 16  # of the largest size; beyond, memory and time are not worth exactness


def solve_by_elimination(part: Part, largest_table: int) -> tuple[dict[int, int], int]:
    """Return modes, and a lower bound of any cost: the best modes if they cost just that.

    `largest_table` limits the entries of a table, and with it the time and the memory.
    """
    modes = {node: modes_in(bits) for node, bits in part.alive.items()}
    demands = sum(len(term.consumers) > 1 for term in part.terms)
    buckets = _Buckets([*map(len, modes.values()), *[2] * demands])
    _fill(buckets, part, modes)
    limit, entries, bound = largest_table, 0, 0
    taken: list[tuple[int, Bucket]] = []
    for variable in buckets.by_table_size():
        bucket = buckets.take(variable)
        taken.append((variable, bucket))
        groups = buckets.grouped(bucket, limit)
        if len(groups) > 1 or entries > TABLES_IN_ALL * largest_table:
            limit = min(limit, ENTRIES_IN_GROUPS)
            groups = buckets.grouped(bucket, limit)
        for scope, table in _evened([buckets.sum_of(bucket, group) for group in groups]):
            entries += table.size
            place = scope.index(variable)
            least = np.minimum.reduce(table, axis=place)
            if len(scope) > 1:
                buckets.add(scope[:place] + scope[place + 1 :], least)
            else:
                bound += int(least)
    chosen = _substitute_back(taken, len(buckets.sizes))
    return {node: modes[node][chosen[variable]] for variable, node in enumerate(modes)}, bound


class _Buckets:
    """The tables whose sum is to be minimised, at each of the variables that they depend on."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self.tables: list[Bucket] = [{} for _ in sizes]
        self.shared: list[dict[int, int]] = [{} for _ in sizes]  # neighbour: common tables
        self.width = [0] * len(sizes)  # log of the entries of a table over the neighbours
        self.touched: list[int] = []

    def add(self, scope: Scope, table: Table) -> None:
        """Add a table over `scope`."""
        known = self.tables[scope[0]].get(scope)
        if known is None:
            self._link(scope, 1)
        else:
            table = known + table
        for variable in scope:
            self.tables[variable][scope] = table

    def take(self, variable: int) -> Bucket:
        """Remove and return the tables that depend on `variable`."""
        bucket = self.tables[variable]
        self.tables[variable] = {}
        for scope in bucket:
            self._link(scope, -1)
            for other in scope:
                self.tables[other].pop(scope, None)
        return bucket

    def by_table_size(self) -> Iterator[int]:
        """Yield each variable once, always the one whose neighbours span the smallest table."""
        heap = [(width, variable) for variable, width in enumerate(self.width)]
        heapify(heap)
        left = set(range(len(heap)))
        while heap:
            width, variable = heappop(heap)
            if variable not in left or width != self.width[variable]:
                continue  # an outdated entry
            left.remove(variable)
            self.touched.clear()
            yield variable
            for other in dict.fromkeys(self.touched):
                if other in left:
                    heappush(heap, (self.width[other], other))

    def grouped(self, bucket: Bucket, largest_table: int) -> list[list[Scope]]:
        """Return the scopes of a bucket in groups that span at most `largest_table` entries."""
        groups: list[tuple[set[int], list[Scope]]] = []
        for scope in sorted(bucket, key=lambda scope: (-len(scope), scope)):
            for union, members in groups:
                if prod(self.sizes[v] for v in union.union(scope)) <= largest_table:
                    union.update(scope)
                    members.append(scope)
                    break
            else:
                groups.append((set(scope), [scope]))
        return [members for _, members in groups]

    def sum_of(self, bucket: Bucket, members: Sequence[Scope]) -> tuple[Scope, Table]:
        """Return the sum of the tables over `members`, and its scope."""
        union = tuple(sorted(set().union(*members)))
        shapes = [[self.sizes[v] if v in scope else 1 for v in union] for scope in members]
        first, *rest = (
            bucket[scope].reshape(shape) for scope, shape in zip(members, shapes, strict=True)
        )
        return union, sum(rest, start=first)

    def _link(self, scope: Scope, tables: int) -> None:
        """Count `tables` more tables that the variables of `scope` share."""
        for variable in scope:
            shared = self.shared[variable]
            for other in scope:
                if other == variable:
                    continue
                before = shared.get(other, 0)
                shared[other] = before + tables
                if not before or not shared[other]:
                    # In integers, so that adding and taking away leaves nothing behind.
                    self.width[variable] += tables * round(1024 * log2(self.sizes[other]))
        self.touched += scope


def _evened(groups: list[tuple[Scope, Table]]) -> list[tuple[Scope, Table]]:
    """Shift costs between tables until each has the same least cost for its common variables.

    The sum stays as it is, but minimised apart, tables that agree bound it more tightly (Ihler,
    Flerova, Dechter and Otten, "Join-graph based cost-shifting schemes", 2012).
    """
    if len(groups) < 2:
        return groups
    common = set(groups[0][0]).intersection(*(scope for scope, _ in groups))
    apart = [tuple(n for n, v in enumerate(scope) if v not in common) for scope, _ in groups]
    least = [
        np.minimum.reduce(table, axis=axes, keepdims=True)
        for axes, (_, table) in zip(apart, groups, strict=True)
    ]
    total = sum(each.squeeze(axes) for axes, each in zip(apart, least, strict=True))
    shifted = []
    for number, (scope, table) in enumerate(groups):
        share = total // len(groups) + (total % len(groups) if number == 0 else 0)
        shifted.append((scope, table + np.expand_dims(share, apart[number]) - least[number]))
    return shifted


def _fill(buckets: _Buckets, part: Part, modes: dict[int, list[int]]) -> None:
    """Add the prices and the terms of `part`; its nodes' variables come first."""
    most = sum(term.weight * (1 + len(term.consumers)) for term in part.terms)
    most += sum(max(part.prices[node]) for node in part.alive)
    kind = np.int64 if most < 2**62 else np.object_
    for variable, (node, each) in enumerate(modes.items()):
        prices = [part.prices[node][mode] for mode in each]
        if any(prices):
            buckets.add((variable,), np.array(prices, dtype=kind))
    for weight, factors in _products(part, modes):
        table = np.array(weight, dtype=kind)
        for _, factor in sorted(factors):
            table = np.multiply.outer(table, np.array(factor, dtype=kind))
        buckets.add(tuple(sorted(variable for variable, _ in factors)), table)


def _products(
    part: Part, modes: dict[int, list[int]]
) -> Iterator[tuple[int, list[tuple[int, list[int]]]]]:
    """Yield products whose sum, at its least over "somebody demands it", is that of the terms.

    Each is a weight and, by variable, a factor of 0 or 1 for each of its values.
    """
    variable = {node: number for number, node in enumerate(modes)}
    demanded = len(variable)

    def holds(literal: Literal) -> tuple[int, list[int]]:
        return variable[literal.node], [literal.modes >> mode & 1 for mode in modes[literal.node]]

    for term in part.terms:
        factors = [holds(literal) for literal in term.consumers]
        if len(factors) > 1:
            for factor in factors:
                yield term.weight, [factor, (demanded, [1, 0])]
            factors = [(demanded, [0, 1])]
            demanded += 1
        if term.producer:
            factors.append(holds(Literal(term.producer.node, ~term.producer.modes)))
        yield term.weight, factors


def _substitute_back(taken: Sequence[tuple[int, Bucket]], variables: int) -> list[int]:
    """Choose each variable's value, last eliminated first: the best given those chosen before."""
    chosen = [0] * variables
    for variable, bucket in reversed(taken):
        lines = [
            table[tuple(slice(None) if v == variable else chosen[v] for v in scope)]
            for scope, table in bucket.items()
        ]
        chosen[variable] = int(np.argmin(sum(lines)))
    return chosen
