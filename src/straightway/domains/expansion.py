"""A good answer where neither a cut nor elimination is exact: a cut a frame, until none improves.

A frame is a set of labels that nodes carry on to each other: "everything here channels-last". A
move offers each node the choice between its mode as it is and the mode of one frame; the best such
move is a minimum cut over the nodes that would change (Boykov, Veksler and Zabih, "Fast approximate
energy minimization via graph cuts", 2001). Finer moves follow: one label, one mode.
"""

from collections.abc import Mapping
from typing import TypeAlias

from straightway.domains.cut import solve_by_cut
from straightway.domains.terms import Literal, Part, cost_of, fold, modes_in

# For each node, the bit sets of modes that need or give it a label of the frame.
Frame: TypeAlias = Mapping[int, tuple[int, ...]]

# A label that more nodes share gains nothing over its frame, but would cost a cut of most of a part
# whose concatenations take all that came before (a dense block of 120 layers: 11 s, not 2.5).
NODES_OF_A_SINGLE_LABEL = 8


def improve(part: Part, choice: Mapping[int, int]) -> dict[int, int]:
    """Return modes that cost no more than `choice` and that no single move improves."""
    expansion = _Expansion(part, choice)
    frames = _frames(part)
    tried = [-1] * len(frames)
    improving = True
    while improving:
        improving = False
        for number, frame in enumerate(frames):
            if any(expansion.changed[node] > tried[number] for node in frame):
                tried[number] = expansion.moves
                improving |= expansion.move(frame)
    return expansion.choice


class _Expansion:
    """A choice of modes that moves improve, and for each node the last move that concerned it."""

    def __init__(self, part: Part, choice: Mapping[int, int]) -> None:
        self.part = part
        self.choice = dict(choice)
        self.moves = 0
        self.changed = dict.fromkeys(part.alive, 0)
        self.terms: dict[int, list[int]] = {node: [] for node in part.alive}
        self.literals: dict[int, list[int]] = {node: [] for node in part.alive}
        for number, term in enumerate(part.terms):
            for node, modes in term.literals():
                self.terms[node].append(number)
                self.literals[node].append(modes)

    def move(self, frame: Frame) -> bool:
        """Let those nodes change to `frame` that gain by it together; return whether any did."""
        offers = {node: self._nearest(node, bits) for node, bits in frame.items()}
        offers = {node: mode for node, mode in offers.items() if mode != self.choice[node]}
        if not offers:
            return False
        touched = [
            self.part.terms[number]
            for number in sorted({each for node in offers for each in self.terms[node]})
        ]
        changing = {node: 1 << self.choice[node] | 1 << mode for node, mode in offers.items()}
        around = {node: 1 << self.choice[node] for term in touched for node, _ in term.literals()}
        terms, _ = fold(touched, around | changing)
        offer = Part(alive=changing, prices=self.part.prices, terms=tuple(terms))
        best = solve_by_cut(offer)
        if best is None or best[1] >= cost_of(offer, self.choice):
            return False
        self.choice |= best[0]
        self.moves += 1
        self.changed |= dict.fromkeys(around | changing, self.moves)
        return True

    def _nearest(self, node: int, bits: tuple[int, ...]) -> int:
        """Return the mode with most of the frame's labels; of several, the one most like now."""
        now = self.choice[node]
        inside = {
            mode: sum(each >> mode & 1 for each in bits) for mode in modes_in(self.part.alive[node])
        }
        most = max(inside.values())
        if inside[now] == most:
            return now
        nearest = [mode for mode, labels in inside.items() if labels == most]
        if len(nearest) == 1:
            return nearest[0]
        unlike = {
            mode: sum((each >> mode ^ each >> now) & 1 for each in self.literals[node])
            for mode in nearest
        }
        return min(nearest, key=unlike.__getitem__)


def _frames(part: Part) -> list[Frame]:
    """Return whole frames first, then single labels, then the modes that no frame contains."""
    labels: list[Frame] = [
        {node: (modes,) for node, modes in term.literals()}
        for term in part.terms
        if len(term.literals()) <= NODES_OF_A_SINGLE_LABEL
    ]
    outside = dict(part.alive)
    for term in part.terms:
        for node, modes in term.literals():
            outside[node] &= ~modes
    others: list[Frame] = [
        {node: (1 << mode,)} for node, bits in outside.items() for mode in modes_in(bits)
    ]
    return [*_joined(part), *labels, *others]


def _joined(part: Part) -> list[Frame]:
    """Join the labels that a node needs or gives in exactly the same modes.

    Labels that only imply each other one way stay apart, or all frames would fall into one.
    """
    leader = list(range(len(part.terms)))

    def find(number: int) -> int:
        while leader[number] != number:
            leader[number] = number = leader[leader[number]]
        return number

    first: dict[Literal, int] = {}
    for number, term in enumerate(part.terms):
        for literal in term.literals():
            leader[find(number)] = find(first.setdefault(literal, number))
    frames: dict[int, dict[int, tuple[int, ...]]] = {}
    for number, term in enumerate(part.terms):
        frame = frames.setdefault(find(number), {})
        for node, modes in term.literals():
            frame[node] = (*frame.get(node, ()), modes)
    return list(frames.values())
