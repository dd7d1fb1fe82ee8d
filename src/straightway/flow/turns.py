"""Two programs timed in turns, as often as a few seconds allow."""

from contextlib import nullcontext

from straightway.run.process import Child
from straightway.run.race import Entrant, race
from straightway.trace.statistics import Ratio, paired_ratio

BUDGET_NS = 8_000_000_000
FEWEST_ROUNDS, MOST_ROUNDS = 9, 60


def in_turns(first: Entrant, second: Entrant, child: Child | None = None) -> Ratio:
    """The first's time over the second's; below 1 the first is faster.

    `child` is a process to run them in, where there is one already: its engines take seconds to load.
    """
    entrants = [first, second]
    with nullcontext(child) if child is not None else Child() as engines:
        tried = engines.call(race(entrants, rounds=2))
        once_ns = sum(samples[-1] for samples in tried)
        rounds = max(FEWEST_ROUNDS, min(MOST_ROUNDS, BUDGET_NS // max(2 * once_ns, 1)))
        return paired_ratio(*engines.call(race(entrants, rounds=rounds)))
