"""What the attributes of ensembles say: trees, and the weights of their leaves.

Sources: onnx/docs/Operators-ml.md; where that is vague, ONNX Runtime, which takes the first node of a
tree for its root and ignores weights of what is no leaf (core/providers/cpu/ml/tree_ensemble_common.h).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from straightway.errors import InvalidModel, NotYet
from straightway.lower.scores import need_finite
from straightway.lower.trees import MODES, Branch, Forest

LEAF = "LEAF"
# ONNX Runtime makes chains of conditions of sets of at most so many members, and none above it
MOST_UNROLLED = 30
Ints = tuple[int, ...]
Floats = tuple[float, ...]
Place = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """The attributes that make up the trees; nodes are named by their tree and their number in it."""

    nodes_treeids: Ints = ()
    nodes_nodeids: Ints = ()
    nodes_featureids: Ints = ()
    nodes_values: Floats = ()
    nodes_values_as_tensor: np.ndarray | None = None
    nodes_modes: tuple[str, ...] = ()
    nodes_truenodeids: Ints = ()
    nodes_falsenodeids: Ints = ()
    nodes_missing_value_tracks_true: Ints = ()
    nodes_hitrates: Floats = ()
    nodes_hitrates_as_tensor: np.ndarray | None = None

    @cached_property
    def names(self) -> list[Place]:
        """Tree and number of each node. Raises InvalidModel where attributes do not fit together."""
        found = list(zip(self.nodes_treeids, self.nodes_nodeids, strict=False))
        count = len(self.nodes_modes)
        columns = (self.nodes_treeids, self.nodes_nodeids, self.nodes_featureids, self.values)
        lengths = [len(c) for c in (*columns, self.nodes_truenodeids, self.nodes_falsenodeids)]
        if not count or set(lengths) != {count}:
            raise InvalidModel(f"each of a tree's {count} nodes has all attributes; got {lengths}")
        if len(set(found)) < count:
            raise InvalidModel("two nodes of a tree have the same number")
        return found

    @property
    def values(self) -> Sequence[float]:
        """The thresholds, from the one attribute or the other."""
        return one_of(self.nodes_values, self.nodes_values_as_tensor)

    @cached_property
    def places(self) -> dict[Place, int]:
        """Where each node stands in the forest: leaves first."""
        is_leaf = [mode == LEAF for mode in self.nodes_modes]
        order = sorted(range(len(self.names)), key=lambda k: not is_leaf[k])
        return {self.names[k]: place for place, k in enumerate(order)}

    @property
    def leaves(self) -> list[Place]:
        """The leaves in their order."""
        pairs = zip(self.names, self.nodes_modes, strict=True)
        return [name for name, mode in pairs if mode == LEAF]

    @cached_property
    def trees(self) -> dict[int, Place]:
        """Each tree's first node. Raises NotYet where the nodes of two trees are mixed."""
        found: dict[int, Place] = {}
        last: int | None = None
        for name in self.names:
            tree = name[0]
            if tree != last and tree in found:
                raise NotYet(f"the nodes of tree {tree} stand apart: engines disagree on its root")
            found.setdefault(tree, name)
            last = tree
        return found

    def forest(self) -> Forest:
        """The trees."""
        count = len(self.leaves)
        forest = Forest(count, len(self.names) - count)
        forest.roots = [self.places[name] for name in self.trees.values()]
        missing, values = self.nodes_missing_value_tracks_true, self.values
        for k, (tree, _) in enumerate(self.names):
            if self.nodes_modes[k] == LEAF:
                continue
            branch = Branch(
                mode=self.nodes_modes[k],
                feature=self.nodes_featureids[k],
                threshold=values[k],
                met=self.place(tree, self.nodes_truenodeids[k]),
                unmet=self.place(tree, self.nodes_falsenodeids[k]),
                missing=k < len(missing) and missing[k] == 1,
            )
            forest.set(self.places[self.names[k]], branch)
        return forest

    def place(self, tree: int, node: int) -> int:
        """Where a node stands. Raises InvalidModel where there is none."""
        found = self.places.get((tree, node))
        if found is None:
            raise InvalidModel(f"tree {tree} has no node {node}")
        return found


def one_of(plain: Sequence[float], tensor: np.ndarray | None) -> Sequence[float]:
    """Numbers that stand in one attribute or in another."""
    return plain if tensor is None else tensor.ravel().tolist()


class Weights:
    """What leaves say: [leaves, targets]; `spoken` counts how often a leaf speaks of a target."""

    def __init__(
        self, nodes: Nodes, where: Sequence[Ints], numbers: Sequence[float], targets: int
    ) -> None:
        """Raise InvalidModel for nodes or targets that do not exist."""
        self.nodes = nodes
        self.rows: list[tuple[int, int, float]] = []
        leaves = len(nodes.leaves)
        if len({len(numbers), *map(len, where)}) > 1 or targets < 1:
            raise InvalidModel(f"{len(numbers)} weights of leaves for {targets} targets do not fit")
        need_finite("weights of leaves", numbers)
        self.spoken = np.zeros((leaves, targets), np.int64)
        for tree, node, target, number in zip(*where, numbers, strict=True):
            place = nodes.place(tree, node)
            if not 0 <= target < targets:
                raise InvalidModel(f"a leaf speaks of target {target} of {targets}")
            if place < leaves:
                self.rows.append((place, target, number))
                self.spoken[place, target] += 1

    def table(self, combine: np.ufunc, start: float) -> np.ndarray:
        """Weights put together by a function; `start` where a leaf does not speak of a target."""
        found = np.full(self.spoken.shape, start, np.float32)
        for place, target, number in self.rows:
            found[place, target] = combine(found[place, target], np.float32(number))
        return found

    def always(self) -> np.ndarray:
        """Whether each target is spoken of in every leaf of some tree, and so for every row."""
        trees = np.array([tree for tree, _ in self.nodes.leaves])
        starts = np.flatnonzero(np.diff(trees, prepend=trees[0] - 1))
        whole = np.logical_and.reduceat(self.spoken > 0, starts, axis=0)
        return np.asarray(whole.any(axis=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensemble:
    """The attributes of TreeEnsemble: branches, and leaves that have a weight for one target each."""

    tree_roots: Ints
    nodes_featureids: Ints
    nodes_splits: np.ndarray
    nodes_modes: np.ndarray
    nodes_truenodeids: Ints
    nodes_trueleafs: Ints
    nodes_falsenodeids: Ints
    nodes_falseleafs: Ints
    leaf_targetids: Ints
    leaf_weights: np.ndarray
    nodes_missing_value_tracks_true: Ints = ()
    nodes_hitrates: np.ndarray | None = None
    membership_values: np.ndarray | None = None

    def forest(self) -> Forest:
        """The trees. Raises InvalidModel where attributes do not fit together."""
        leaves, count = len(self.leaf_targetids), len(self.nodes_featureids)
        met = self.places(self.nodes_truenodeids, self.nodes_trueleafs)
        unmet = self.places(self.nodes_falsenodeids, self.nodes_falseleafs)
        splits, modes = np.ravel(self.nodes_splits), np.ravel(self.nodes_modes)
        if not len(met) == len(unmet) == len(splits) == len(modes) == count:
            raise InvalidModel(f"each of the {count} branches has all attributes; some do not")
        if not leaves or self.leaf_weights.size != leaves:
            raise InvalidModel(f"{leaves} leaves have {self.leaf_weights.size} weights")
        if not self.tree_roots or not all(0 <= k < count for k in self.tree_roots):
            raise InvalidModel(f"trees begin at {self.tree_roots} of {count} branches")
        forest = Forest(leaves, count)
        forest.roots = [leaves + k for k in self.tree_roots]
        missing, members = self.nodes_missing_value_tracks_true, self.members()
        for k, feature in enumerate(self.nodes_featureids):
            mode = int(modes[k])
            branch = Branch(
                mode=MODES[mode] if mode < len(MODES) else str(mode),
                feature=feature,
                threshold=splits[k],
                met=met[k],
                unmet=unmet[k],
                missing=k < len(missing) and missing[k] == 1,
                members=members.get(k, np.zeros(0)).tolist(),
            )
            forest.set(leaves + k, branch)
        return forest

    def places(self, numbers: Ints, are_leaves: Ints) -> list[int]:
        """Where children stand in the forest, which begins with the leaves."""
        counts = (len(self.nodes_featureids), len(self.leaf_targetids))
        found = []
        for number, is_leaf in zip(numbers, are_leaves, strict=False):
            if not 0 <= number < counts[bool(is_leaf)]:
                raise InvalidModel(f"a branch leads to {number} of {counts[bool(is_leaf)]}")
            found.append(number if is_leaf else counts[1] + number)
        return found

    def members(self) -> dict[int, np.ndarray]:
        """The sets of the branches that ask for one; each ends with a NaN."""
        values = np.zeros(0) if self.membership_values is None else np.ravel(self.membership_values)
        sets = np.split(values, np.flatnonzero(np.isnan(values)) + 1)
        asking = np.flatnonzero(np.ravel(self.nodes_modes) == MODES.index("BRANCH_MEMBER"))
        return dict(zip(asking.tolist(), sets, strict=False))

    def agreed(self) -> bool:
        """Whether fractions are in no set: ONNX Runtime cuts them off before it looks into some.

        It does so where a set of whole numbers has one outside 0 … 30, or too many
        (core/providers/cpu/ml/tree_ensemble_attribute.h: BRANCH_MEMBER_BIGSET).
        """
        sets = [one[~np.isnan(one)] for one in self.members().values()]
        return all(
            (len(one) <= MOST_UNROLLED and ((one >= 0) & (one <= MOST_UNROLLED)).all())
            or (one != np.round(one)).any()
            for one in sets
        )
