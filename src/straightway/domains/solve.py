"""The best modes for a whole graph, with a lower bound that says how good they are.

Independent parts are solved apart, each by the first of three ways that applies: a minimum cut,
elimination, or expansion. The first two prove their answer minimal; the third starts from an
elimination that had to stop short, and keeps its bound.
"""

from dataclasses import dataclass
from operator import index
from typing import Literal, TypeAlias, get_args

from straightway.domains.cut import solve_by_cut
from straightway.domains.elimination import solve_by_elimination
from straightway.domains.expansion import improve
from straightway.domains.problem import Conversion, Problem, evaluate
from straightway.domains.terms import Part, cost_of, drop_dominated, fold, split, terms_of
from straightway.errors import Bug

Method: TypeAlias = Literal["cut", "elimination", "expansion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """A mode index for each node, what they cost, and the conversions that they entail.

    No choice costs less than `bound`. `method` is the last of "cut", "elimination" and "expansion"
    that some part needed.
    """

    choice: tuple[int, ...]
    cost: int
    conversions: tuple[Conversion, ...]
    bound: int
    method: Method

    @property
    def minimal(self) -> bool:
        """Whether it is proven that no choice costs less."""
        return self.cost == self.bound


def solve(problem: Problem, *, largest_table: int = 2**20) -> Solution:
    """Choose a mode for each node at least cost; the same for the same problem, run after run.

    `largest_table` limits elimination's tables, in entries of 8 bytes; larger tables prove more.
    """
    prices = [[index(mode.price) for mode in node.modes] for node in problem.nodes]
    alive = {number: (1 << len(each)) - 1 for number, each in enumerate(prices)}
    terms, bound = fold(terms_of(problem), alive)
    alive = drop_dominated(terms, prices, alive)
    terms, paid = fold(terms, alive)
    choice = {node: bits.bit_length() - 1 for node, bits in alive.items()}
    bound += paid + sum(prices[n][choice[n]] for n, bits in alive.items() if bits.bit_count() == 1)
    methods: set[Method] = set()
    for part in split(terms, prices, alive):
        best, least, method = _solve_part(part, largest_table)
        choice |= best
        bound += least
        methods.add(method)
    modes = tuple(choice.values())
    found = evaluate(problem, modes)
    if found.cost < bound:
        raise Bug(f"no choice costs less than its bound {bound}; got {found.cost}")
    return Solution(
        choice=modes,
        cost=found.cost,
        conversions=found.conversions,
        bound=bound,
        method=max(methods, key=get_args(Method).index, default="cut"),
    )


def _solve_part(part: Part, largest_table: int) -> tuple[dict[int, int], int, Method]:
    """Return modes for the part's nodes, a lower bound of their cost, and how they were found."""
    cut = solve_by_cut(part)
    if cut is not None:
        return *cut, "cut"
    choice, bound = solve_by_elimination(part, largest_table)
    if cost_of(part, choice) == bound:
        return choice, bound, "elimination"
    return improve(part, choice), bound, "expansion"
