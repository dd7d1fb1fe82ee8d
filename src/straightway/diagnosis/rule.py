"""What a rule is: how it finds its matches, and its documentation, read from its own module."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from straightway.diagnosis.case import Case
from straightway.diagnosis.finding import Match
from straightway.errors import Bug

HEADINGS = ("What it finds", "Why it costs", "What to do")
Find = Callable[[Case], Iterator[Match]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Documentation:
    """A rule's sections, each as one paragraph."""

    title: str
    finds: str
    costs: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: `doc` is the docstring of its module.

    `fix` is the rewrite that removes what it finds, "" where the model's source has to change.
    `safety` says what the fix, or else the change of the source, does to the results: "exact",
    "interface" (the caller gives other inputs), "numbers" (others come out; train or check again).
    """

    name: str
    doc: str
    find: Find
    fix: str = ""
    safety: str

    @property
    def documentation(self) -> Documentation:
        """The sections of `doc`. Raises Bug where one is missing."""
        title, *rest = re.split(rf"^({'|'.join(HEADINGS)}):", self.doc, flags=re.MULTILINE)
        if tuple(rest[::2]) != HEADINGS:
            raise Bug(f"the rule {self.name} must say: {', '.join(HEADINGS)}")
        finds, costs, advice = (" ".join(text.split()) for text in rest[1::2])
        return Documentation(
            title=title.strip().rstrip("."), finds=finds, costs=costs, advice=advice
        )
