"""What rules find, and what becomes of it: data, rendered elsewhere."""

from dataclasses import dataclass

from straightway.ir.source import Source
from straightway.trace.statistics import Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One place where a rule applies.

    `ops` are the operators that it is about, `at` the one whose line is shown (the first of them by
    default). `events` are measured events that would go away beside the layout conversions that the
    operators force. `saves_own` says whether the operators' own time goes away, too; None: that of
    those outside of delegates.
    """

    ops: tuple[int, ...] = ()
    at: int | None = None
    events: tuple[int, ...] = ()
    message: str
    saves_own: bool | None = None

    @property
    def place(self) -> int:
        """The operator whose line is shown."""
        return self.ops[0] if self.at is None else self.at


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Overhead of one rule at one line of the model, and what to do about it.

    `cost` is what the operators and the conversions that they force take, `saves` the part of it
    that can go away: an upper bound, since what stands in their place takes time, too. Both in
    nanoseconds of a run. `places` are all nodes of that line, `fix` is the rewrite of
    `straightway fix` that removes it ("" for none) with its `safety`; `advice` is the change to
    make in the model's source.
    """

    rule: str
    title: str
    message: str
    cost: Spread
    saves: Spread
    cause: Source
    places: tuple[Source, ...]
    evidence: tuple[str, ...] = ()
    fix: str = ""
    safety: str = ""
    advice: str
