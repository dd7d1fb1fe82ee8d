"""Decision trees: every node asks whether its feature is at most its threshold; all trees step together.

    place ─ GATHER feature ─ GATHER x ─ LESS_EQUAL ─ SELECT ─ place     a level of all trees
                                        GATHER threshold ┘
                                        GATHER children of both sides ┘

The other conditions are written with that one, exactly: x < t is x ≤ the number before t; x > t has its
children swapped; x = t is two nodes; a set is a search among its sorted numbers. So the work is rows ×
trees × depth, and no table is larger than the trees themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import Value
from straightway.lower.builder import Builder
from straightway.lower.integers import INT32

FLOAT = np.dtype(np.float32)
MODES = (
    "BRANCH_LEQ",
    "BRANCH_LT",
    "BRANCH_GTE",
    "BRANCH_GT",
    "BRANCH_EQ",
    "BRANCH_NEQ",
    "BRANCH_MEMBER",
)
"""The conditions in the order of the numbers that TreeEnsemble has for them."""
NEVER = np.float32(np.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A node of the model: where its feature leads, `met` and `unmet` being places of nodes.

    `missing`: whether NaN counts as met.
    """

    mode: str
    feature: int
    threshold: float
    met: int
    unmet: int
    missing: bool = False
    members: Sequence[float] = ()

    def asked(
        self, threshold: np.float32, children: tuple[int, int], *, missing: bool | None = None
    ) -> "Question":
        """Ask of this node's feature; `missing` is the node's own unless given."""
        return Question(
            feature=self.feature,
            threshold=threshold,
            children=children,
            missing=self.missing if missing is None else missing,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Is a feature at most the threshold? `children` are the places for "no, more" and for "yes".

    NaN is more, unless `missing` says otherwise.
    """

    feature: int = 0
    threshold: np.float32 = NEVER
    children: tuple[int, int]
    missing: bool = False


class Forest:
    """All trees' nodes: first the leaves, whose children are themselves, then the branches.

    More branches may follow those of the model. `roots` are the places where trees begin.
    """

    def __init__(self, leaves: int, branches: int) -> None:
        self.leaves = leaves
        self.nodes = [Question(children=(k, k)) for k in range(leaves + branches)]
        self.roots: list[int] = []

    def add(self, question: Question) -> int:
        """Append a node; return its place."""
        self.nodes.append(question)
        return len(self.nodes) - 1

    def set(self, place: int, branch: Branch) -> None:
        """Write one of the model's branches. Raises InvalidModel for a mode that ONNX hasn't."""
        threshold = np.float32(branch.threshold)
        met, unmet = branch.met, branch.unmet
        match branch.mode:
            case "BRANCH_LEQ":
                found = branch.asked(threshold, (unmet, met))
            case "BRANCH_LT":
                found = branch.asked(before(threshold), (unmet, met))
            case "BRANCH_GTE":
                found = branch.asked(before(threshold), (met, unmet), missing=not branch.missing)
            case "BRANCH_GT":
                found = branch.asked(threshold, (met, unmet), missing=not branch.missing)
            case "BRANCH_EQ":
                found = self.equal(branch, threshold)
            case "BRANCH_NEQ":
                below = self.add(branch.asked(before(threshold), (unmet, met), missing=False))
                found = branch.asked(threshold, (met, below), missing=False)
            case "BRANCH_MEMBER":
                numbers = np.unique(np.asarray(branch.members, np.float32))
                found = self.among(branch, numbers[~np.isnan(numbers)])
            case _:
                raise InvalidModel(f"a tree's node has the unknown mode {branch.mode!r}")
        self.nodes[place] = found

    def equal(self, branch: Branch, number: np.float32) -> Question:
        """At most the number, and not at most the one before."""
        children = (branch.met, branch.unmet)
        below = self.add(branch.asked(before(number), children, missing=False))
        return branch.asked(number, (branch.unmet, below))

    def among(self, branch: Branch, numbers: np.ndarray) -> Question:
        """Search sorted numbers for the feature."""
        if not len(numbers):
            return branch.asked(NEVER, (branch.unmet, branch.met))
        if len(numbers) == 1:
            return self.equal(branch, numbers[0])
        half = len(numbers) // 2
        more, most = (self.add(self.among(branch, n)) for n in (numbers[half:], numbers[:half]))
        return branch.asked(numbers[half - 1], (more, most))

    def depth(self) -> int:
        """Steps from a root to the farthest leaf. Raises InvalidModel for trees that never end."""
        children = np.array([node.children for node in self.nodes])
        level, steps = np.unique(self.roots), 0
        while len(level := level[level >= self.leaves]):
            level, steps = np.unique(children[level]), steps + 1
            if steps > len(children):
                raise InvalidModel("a tree's nodes are their own descendants")
        return steps

    def reached(self, g: Builder, x: Value) -> Value:
        """The leaf that each row of x comes to in each tree: [rows · trees].

        X: [rows, features], float32. Raises InvalidModel where a feature is none of x's.
        """
        depth, tables = self.depth(), Tables(self)
        features = tables.columns["feature"]
        if features.min() < 0 or features.max() >= x.shape[1]:
            raise InvalidModel(f"trees ask for features up to {features.max()} of {x.type}")
        roots = np.array(self.roots)
        first = tables.step(g, g.GATHER(x, tables.at(g, "feature", roots), axis=1), roots)
        place = g.reshape(first, (first.shape[0] * first.shape[1],))
        if depth > 1:
            flat, rows = g.reshape(x, (x.shape[0] * x.shape[1],)), _row_starts(g, x, first)
        for _ in range(depth - 1):
            found = tables.at(g, "feature", place)
            found = found if rows is None else g.ADD(found, rows)
            place = tables.step(g, g.GATHER(flat, found, axis=0), place)
        return place


class Tables:
    """A forest's columns as constants, and one step down."""

    def __init__(self, forest: Forest) -> None:
        nodes = forest.nodes
        self.columns = {
            "feature": np.array([node.feature for node in nodes], np.int32),
            "threshold": np.array([node.threshold for node in nodes], np.float32),
            "missing": np.array([node.missing for node in nodes]),
            "more": np.array([node.children[0] for node in nodes], np.int32),
            "most": np.array([node.children[1] for node in nodes], np.int32),
        }
        self.made: dict[str, Value] = {}

    def at(self, g: Builder, column: str, place: Value | np.ndarray) -> Value:
        """Entries of a column at places that are known, or not."""
        if isinstance(place, np.ndarray):
            return g.const(self.columns[column][place])
        if column not in self.made:
            self.made[column] = g.const(self.columns[column])
        found: Value = g.GATHER(self.made[column], place, axis=0)
        return found

    def step(self, g: Builder, features: Value, place: Value | np.ndarray) -> Value:
        """From the places and what is asked for there, the places a level below."""
        least = g.LESS_EQUAL(features, self.at(g, "threshold", place))
        if self.columns["missing"].any():
            absent = g.LOGICAL_AND(g.NOT_EQUAL(features, features), self.at(g, "missing", place))
            least = g.LOGICAL_OR(least, absent)
        found: Value = g.SELECT_V2(least, self.at(g, "most", place), self.at(g, "more", place))
        return found


def _row_starts(g: Builder, x: Value, places: Value) -> Value | None:
    """Where each row begins in all rows behind each other, for each tree; None for one row."""
    (rows, width), trees = x.shape, places.shape[1]
    if 0 in g.open_dims:
        ones = g.cast(g.GREATER_EQUAL(places, 0), INT32)
        numbers = g.CUMSUM(ones, axis=0, exclusive=True, reverse=False)
        return g.reshape(g.MUL(numbers, width), (rows * trees,))
    starts = np.repeat(np.arange(rows, dtype=np.int32) * width, trees)
    return g.const(starts) if rows > 1 else None


def before(number: np.float32) -> np.float32:
    """The greatest number less than this one; NaN, which nothing is at most, where there is none."""
    return NEVER if number == -np.inf else np.nextafter(number, np.float32(-np.inf))
