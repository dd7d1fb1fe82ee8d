"""Ensembles of decision trees: what the leaves say, put together.

Labels depend on the last bit of a sum: those of a classifier are added up tree by tree, as ONNX Runtime
does on one thread.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from straightway.errors import InvalidModel, NotYet
from straightway.ir import Node, Value
from straightway.lower.activation import sigmoid
from straightway.lower.builder import Builder
from straightway.lower.declare import Case, case, lower, need, run
from straightway.lower.integers import INT32
from straightway.lower.scores import TRANSFORMS, need_finite, probit, transformed, whole_labels
from straightway.lower.tree_nodes import Ensemble, Floats, Ints, Nodes, Weights, one_of
from straightway.lower.trees import FLOAT, Forest

DOMAIN = "ai.onnx.ml"
Attributes = dict[str, Any]
LEAF = "LEAF"
TREES: Attributes = {
    "nodes_treeids": (0, 0, 0, 0, 0, 1, 1, 1),
    "nodes_nodeids": (0, 1, 2, 3, 4, 0, 1, 2),
    "nodes_featureids": (0, 1, 0, 0, 0, 2, 0, 0),
    "nodes_values": (0.5, -0.25, 0.0, 0.0, 0.0, 0.125, 0.0, 0.0),
    "nodes_modes": ["BRANCH_LEQ", "BRANCH_LT", LEAF, LEAF, LEAF, "BRANCH_GTE", LEAF, LEAF],
    "nodes_truenodeids": (1, 2, 0, 0, 0, 1, 0, 0),
    "nodes_falsenodeids": (4, 3, 0, 0, 0, 2, 0, 0),
}
APART: Attributes = {**TREES, "nodes_treeids": (0, 2, 0, 0, 0, 1, 1, 1)}
TRACKED: Attributes = {**TREES, "nodes_missing_value_tracks_true": (1, 0, 0, 0, 0, 1, 0, 0)}
EXAMPLES = run(
    [[0.5, -0.25, 0.125], [0, -1, 1], [0.5001, 3, 0], [np.nan, 0, np.nan], [0.25, -3, 0]]
)
TARGETS: Attributes = {
    "target_treeids": (0, 0, 0, 1, 1),
    "target_nodeids": (2, 3, 4, 1, 2),
    "target_ids": (0, 0, 0, 0, 0),
    "target_weights": (1.5, -2.0, 0.25, 3.0, -0.5),
}
PAIRED: Attributes = {**TARGETS, "target_ids": (0, 1, 0, 1, 0), "n_targets": 2}
APIECE: Attributes = {**TARGETS, "target_ids": (0, 0, 0, 1, 1), "n_targets": 2}
TWICE: Attributes = {**TARGETS, "target_nodeids": (2, 2, 4, 1, 2), "n_targets": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What is added to all trees' scores."""

    base_values: Floats = ()
    base_values_as_tensor: np.ndarray | None = None

    @property
    def numbers(self) -> np.ndarray:
        """A number for each target, or none at all."""
        found = np.asarray(one_of(self.base_values, self.base_values_as_tensor), np.float32)
        need_finite("base_values", found)
        return found

    def checked(self, targets: int) -> np.ndarray:
        """Raise InvalidModel where there is not one for each target."""
        if len(self.numbers) not in (0, targets):
            raise InvalidModel(f"there are {len(self.numbers)} base values for {targets} targets")
        return self.numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The weights of a regressor's leaves."""

    target_treeids: Ints = ()
    target_nodeids: Ints = ()
    target_ids: Ints = ()
    target_weights: Floats = ()
    target_weights_as_tensor: np.ndarray | None = None
    n_targets: int = 1

    def weights(self, nodes: Nodes) -> Weights:
        """As a table."""
        where = (self.target_treeids, self.target_nodeids, self.target_ids)
        numbers = one_of(self.target_weights, self.target_weights_as_tensor)
        return Weights(nodes, where, numbers, self.n_targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """How trees' weights become one: a reduction, and what it starts from."""

    name: str
    combine: np.ufunc = np.add
    start: float = 0.0


AGGREGATES = {
    "AVERAGE": Aggregate(name="MEAN"),
    "SUM": Aggregate(name="SUM"),
    "MIN": Aggregate(name="REDUCE_MIN", combine=np.minimum, start=np.inf),
    "MAX": Aggregate(name="REDUCE_MAX", combine=np.maximum, start=-np.inf),
}
"""In the order of the numbers that TreeEnsemble has for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The leaves that rows come to: [rows · trees], a row's trees beside each other."""

    leaves: Value
    rows: int
    trees: int

    def weights(self, g: Builder, table: np.ndarray) -> Value:
        """What those leaves say: [rows, trees, targets]."""
        found = g.GATHER(g.const(table), self.leaves, axis=0)
        return g.reshape(found, (self.rows, self.trees, table.shape[1]))

    def aggregated(self, g: Builder, table: np.ndarray, how: Aggregate) -> Value:
        """Put the weights of all trees' leaves together: [rows, targets]; 0 where none speaks."""
        attrs = {"axes": (1,), "keep_dims": False}
        found: Value = g.emit(how.name, [self.weights(g, table)], attrs)
        if how.start == 0 or how.start not in table:
            return found
        none = g.EQUAL(found, np.float32(how.start))
        return g.SELECT_V2(none, g.const(0, FLOAT), found)

    def added_in_order(self, g: Builder, table: np.ndarray) -> Value:
        """Add up the weights, one tree after the other: [rows, targets]."""
        weights = self.weights(g, table)
        shape = (self.rows, table.shape[1])
        if self.trees > 1:
            sums = g.CUMSUM(weights, axis=1, exclusive=False, reverse=False)
            begin, size = (0, self.trees - 1, 0), (self.rows, 1, table.shape[1])
            weights = g.SLICE(sums, begin=begin, size=size)
        return g.reshape(weights, shape)


def from_float64(x: Value) -> bool:
    """Whether what is computed in float32 was float64 in the model."""
    maker = x.producer
    source = maker.inputs[0] if maker is not None and maker.op.name == "CAST" else x
    return source is not None and source.dtype == np.float64


def descended(g: Builder, x: Value, forest: Forest) -> Reached:
    """Features, a row for each example, to leaves. Whole numbers are compared as float32."""
    wide = g.cast(x, FLOAT)
    wide = wide if x.rank > 1 else g.reshape(wide, (1, *x.shape))
    leaves = forest.reached(g, wide)
    return Reached(leaves=leaves, rows=wide.shape[0], trees=len(forest.roots))


@lower(
    "TreeEnsembleRegressor",
    domain=DOMAIN,
    samples=[
        case(x=EXAMPLES, **TREES, **TARGETS, n_targets=1),
        *(
            case(x=EXAMPLES, **TREES, **TARGETS, n_targets=1, aggregate_function=name)
            for name in AGGREGATES
        ),
        case(x=EXAMPLES, **TREES, **PAIRED),
        case(x=EXAMPLES, **TREES, **PAIRED, aggregate_function="MAX"),
        case(x=EXAMPLES, **TREES, **APIECE, aggregate_function="MIN", post_transform="SOFTMAX"),
        case(x=EXAMPLES, **TREES, **APIECE, base_values=(0.5, -1.0)),
        case(x=EXAMPLES, **TRACKED, **TARGETS, n_targets=1, base_values=(0.5,)),
    ],
    refuses=[
        case(x=EXAMPLES, **TREES, **PAIRED, base_values=(0.5, -1.0)),
        case(x=EXAMPLES, **APART, **PAIRED),
        case(x=EXAMPLES, **TREES, **TWICE),
    ],
)
def tree_regressor(
    g: Builder,
    x: Value,
    /,
    *,
    nodes: Nodes,
    targets: Targets,
    base: Base,
    aggregate_function: str = "SUM",
    post_transform: str = "NONE",
) -> Value:
    """Weights of the leaves put together."""
    weights, count = targets.weights(nodes), targets.n_targets
    numbers, how = base.checked(count), AGGREGATES.get(aggregate_function)
    if how is None:
        raise InvalidModel(f"aggregate_function is one of {[*AGGREGATES]}: {aggregate_function!r}")
    if count == 1 and weights.spoken.max(initial=0) > 1:
        raise NotYet("ONNX Runtime takes the first of a leaf's weights for the only target")
    if numbers.any() and count > 1 and not weights.always().all():
        raise NotYet("base_values of targets of which not every leaf speaks are not lowered")
    start = 0.0 if count == 1 else how.start
    table = weights.table(how.combine if count > 1 else np.add, start)
    scores = descended(g, x, nodes.forest()).aggregated(g, table, how)
    scores = g.ADD(scores, g.const(numbers)) if len(numbers) else scores
    if count == 1:
        return probit(g, scores) if post_transform == "PROBIT" else scores
    return transformed(g, scores, post_transform)


CLASSES: Attributes = {
    "class_treeids": (0, 0, 0, 1, 1),
    "class_nodeids": (2, 3, 4, 1, 2),
    "class_weights": (1.5, -2.0, 0.25, 3.0, -0.5),
    "classlabels_int64s": (10, 20),
}
FIRST: Attributes = {**CLASSES, "class_ids": (0,) * 5}
SECOND: Attributes = {**CLASSES, "class_ids": (1,) * 5}
BOTH: Attributes = {**CLASSES, "class_ids": (0, 0, 0, 1, 1)}
VOTES: Attributes = {"class_weights": (0.5, 0.1, 0.3, 0.2, 0.4)}
MANY: Attributes = {
    "class_treeids": (0, 0, 0, 1, 1, 1, 1),
    "class_nodeids": (2, 3, 4, 1, 2, 1, 2),
    "class_weights": (1.5, -2.0, 0.25, 3.0, -0.5, -0.25, 0.125),
    "class_ids": (0, 1, 2, 1, 0, 2, 2),
    "classlabels_int64s": (5, 6, 9),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """The weights of a classifier's leaves, and the labels."""

    class_treeids: Ints = ()
    class_nodeids: Ints = ()
    class_ids: Ints = ()
    class_weights: Floats = ()
    class_weights_as_tensor: np.ndarray | None = None
    classlabels_int64s: Ints = ()
    classlabels_strings: tuple[str, ...] = ()

    @property
    def numbers(self) -> np.ndarray:
        """The weights."""
        return np.asarray(one_of(self.class_weights, self.class_weights_as_tensor), np.float32)

    @property
    def count(self) -> int:
        """How many classes there are."""
        return len(self.classlabels_strings or self.classlabels_int64s)

    def weights(self, nodes: Nodes) -> Weights:
        """As a table."""
        where = (self.class_treeids, self.class_nodeids, self.class_ids)
        return Weights(nodes, where, self.numbers.tolist(), self.count)


@lower(
    "TreeEnsembleClassifier",
    domain=DOMAIN,
    needs=[
        whole_labels(
            lambda classes, node: not (classes.classlabels_strings and node.outputs[0].uses),
            "classes.classlabels_strings",
        ),
        need(
            lambda classes: classes.count > 1,
            "there must be two or more classes; got {classes.count}",
            possible=True,
        ),
        need(
            lambda x: not from_float64(x),
            "features must not be float64, by whose sums labels are decided; got {x.type}",
            remedy="cast the features to float32",
            possible=True,
        ),
    ],
    samples=[
        case(x=EXAMPLES, outputs=2, **TREES, **FIRST),
        case(x=EXAMPLES, outputs=2, **TREES, **FIRST, post_transform="LOGISTIC"),
        case(x=EXAMPLES, outputs=2, **TREES, **FIRST, base_values=(0.25,)),
        case(x=EXAMPLES, outputs=2, **TREES, **{**FIRST, **VOTES}),
        case(x=EXAMPLES, outputs=2, **TREES, **{**FIRST, **VOTES}, post_transform="SOFTMAX"),
        case(x=EXAMPLES, outputs=2, **TREES, **SECOND),
        case(x=EXAMPLES, outputs=2, **TREES, **{**SECOND, **VOTES}, post_transform="LOGISTIC"),
        *(
            case(x=EXAMPLES, outputs=2, **TREES, **MANY, post_transform=name)
            for name in TRANSFORMS
            if name != "PROBIT"
        ),
        case(x=EXAMPLES, outputs=2, **TREES, **MANY, base_values=(0.5, 0.25, -0.5)),
        case(x=run([[1, 2, 3], [0, 0, 0]], np.int64), outputs=2, **TREES, **MANY),
    ],
    refuses=[
        case(x=EXAMPLES, outputs=2, **TREES, **{**FIRST, "classlabels_strings": ["a", "b"]}),
        case(x=EXAMPLES, outputs=2, **TREES, **{**FIRST, "classlabels_int64s": (3,)}),
        case(x=EXAMPLES, outputs=2, **TREES, **FIRST, base_values=(0.25, 0.5)),
        case(x=EXAMPLES, outputs=2, **TREES, **FIRST, post_transform="PROBIT"),
        case(x=EXAMPLES, outputs=2, **TREES, **BOTH),
        case(x=run(EXAMPLES.array, np.float64), outputs=2, **TREES, **FIRST),
        case(x=EXAMPLES, outputs=2, **TREES, **{**BOTH, "class_ids": (0, 1, 0, 1, 0)}),
    ],
)
def tree_classifier(
    g: Builder,
    x: Value,
    /,
    *,
    nodes: Nodes,
    classes: Classes,
    base: Base,
    post_transform: str = "NONE",
    node: Node,
) -> list[Value | None]:
    """Labels and scores."""
    weights = classes.weights(nodes)
    labelled = bool(node.outputs[0].uses)
    leaves = descended(g, x, nodes.forest())
    if classes.count == 2:
        pair = Pair(
            positive=not (classes.numbers < 0).any(),
            spoken=frozenset(classes.class_ids),
            base=base.numbers,
            transform=post_transform,
        )
        place, scores = _of_two(g, weights, leaves, pair)
    else:
        place, scores = _of_many(g, weights, base.checked(classes.count), leaves)
        scores = transformed(g, scores, post_transform)
    label = None
    if labelled:
        label = g.GATHER(g.const(np.array(classes.classlabels_int64s, np.int64)), place, axis=0)
    return [label, scores][: len(node.outputs)]


def _of_many(
    g: Builder, weights: Weights, base: np.ndarray, leaves: Reached
) -> tuple[Value, Value]:
    """The place of the greatest score of those that a leaf spoke of, and all scores."""
    scores = leaves.added_in_order(g, weights.table(np.add, 0.0))
    if len(base):
        scores = g.ADD(scores, g.const(base))
        return g.ARG_MAX(scores, axis=1, output_type="INT32"), scores
    if not (weights.spoken > 0).any(axis=1).all():
        raise NotYet("a leaf that speaks of no class leaves ONNX Runtime without one to choose")
    judged = scores
    if not weights.always().all():
        heard = leaves.aggregated(g, weights.spoken.astype(np.float32), AGGREGATES["SUM"])
        judged = g.SELECT_V2(g.GREATER(heard, 0.0), scores, g.const(-np.inf, FLOAT))
    return g.ARG_MAX(judged, axis=1, output_type="INT32"), scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two classes: whether no weight is negative, which classes leaves speak of, and what follows."""

    positive: bool
    spoken: frozenset[int]
    base: np.ndarray
    transform: str

    def chosen(self, g: Builder, total: Value) -> Value:
        """The place of the second class, where the sum is over the limit, or of the first."""
        over = g.GREATER(total, 0.5 if self.positive else 0.0)
        return g.reshape(g.cast(over, INT32), total.shape[:1])

    def both(self, g: Builder, total: Value) -> Value:
        """Scores of two classes from one sum."""
        other, _found = g.NEG(total), total
        if self.transform == "LOGISTIC":
            return sigmoid(g, g.CONCATENATION(other, total, axis=1))
        if self.transform == "PROBIT":
            raise NotYet("ONNX Runtime's PROBIT of one sum leaves the second class without a score")
        return g.CONCATENATION(g.SUB(1.0, total) if self.positive else other, total, axis=1)


def _of_two(g: Builder, weights: Weights, leaves: Reached, pair: Pair) -> tuple[Value, Value]:
    """The place and the scores of two classes (core/providers/cpu/ml/tree_ensemble_aggregator.h).

    Weights of one class decide by the sign of their sum, or by a half where none is negative.
    """
    first, second = weights.always()
    table, base = weights.table(np.add, 0.0), pair.base
    if pair.spoken == {0} and len(base) <= 1 and (first or not base.any()):
        total = leaves.added_in_order(g, table[:, :1])
        total = g.ADD(total, g.const(base)) if len(base) else total
        return pair.chosen(g, total), pair.both(g, total)
    if pair.spoken == {1} and second and not len(base):
        scores = leaves.added_in_order(g, table)
        total = g.SLICE(scores, begin=(0, 1), size=(leaves.rows, 1))
        return pair.chosen(g, total), transformed(g, scores, pair.transform)
    raise NotYet(
        "of two classes, the weights of one are lowered, with at most one base value that stands in "
        "every leaf: ONNX Runtime and ONNX's reference disagree elsewhere; got weights of "
        f"{sorted(pair.spoken)}, base values {base.tolist()}"
    )


ENSEMBLE: Attributes = {
    "tree_roots": (0, 2),
    "nodes_featureids": (0, 1, 2),
    "nodes_splits": np.array([0.5, -0.25, 0.125], np.float32),
    "nodes_modes": np.array([0, 1, 3], np.uint8),
    "nodes_truenodeids": (1, 0, 3),
    "nodes_trueleafs": (0, 1, 1),
    "nodes_falsenodeids": (2, 1, 4),
    "nodes_falseleafs": (1, 1, 1),
    "leaf_targetids": (0, 0, 0, 0, 0),
    "leaf_weights": np.array([1.5, -2.0, 0.25, 3.0, -0.5], np.float32),
}
MEMBERS: Attributes = {
    "nodes_modes": np.array([0, 6, 6], np.uint8),
    "membership_values": np.array([0, 3, np.nan, 2, 1, 30, np.nan], np.float32),
}
LARGE = np.array([31, np.nan, 2, np.nan], np.float32)


def ensemble(**changed: Any) -> Case:
    """A sample of TreeEnsemble."""
    return case(x=EXAMPLES, opset=5, **{**ENSEMBLE, **changed})


POST_TRANSFORMS = {0: "NONE", 3: "SOFTMAX_ZERO", 4: "PROBIT"}


@lower(
    "TreeEnsemble",
    domain=DOMAIN,
    needs=[
        need(
            lambda post_transform: post_transform in POST_TRANSFORMS,
            "post_transform must be one whose number ONNX and ONNX Runtime agree on; got {post_transform}",
            remedy="leave the transform to a node of its own",
            possible=True,
        ),
        need(
            lambda trees: trees.agreed(),
            "members of these sets must be whole numbers, since ONNX Runtime cuts fractions off; got {trees}",
            possible=True,
        ),
    ],
    samples=[
        ensemble(n_targets=1),
        ensemble(n_targets=1, aggregate_function=3),
        ensemble(n_targets=2, leaf_targetids=(0, 1, 0, 1, 0), aggregate_function=2),
        ensemble(n_targets=2, leaf_targetids=(0, 1, 0, 1, 0), aggregate_function=0),
        ensemble(n_targets=2, leaf_targetids=(0, 1, 0, 1, 0), post_transform=3),
        ensemble(n_targets=1, nodes_missing_value_tracks_true=(1, 0, 1)),
        ensemble(n_targets=1, **MEMBERS),
        ensemble(n_targets=1, **MEMBERS, nodes_missing_value_tracks_true=(1, 0, 1)),
    ],
    refuses=[
        ensemble(n_targets=2, post_transform=1),
        ensemble(n_targets=1, **{**MEMBERS, "membership_values": LARGE}),
    ],
)
def tree_ensemble(
    g: Builder,
    x: Value,
    /,
    *,
    trees: Ensemble,
    n_targets: int = 1,
    aggregate_function: int = 1,
    post_transform: int = 0,
) -> Value:
    """A leaf has a weight for one target."""
    places = np.array(trees.leaf_targetids)
    names = list(AGGREGATES)
    if not 0 <= places.min(initial=0) <= places.max(initial=0) < n_targets:
        raise InvalidModel(f"leaves speak of targets {sorted(set(places))} of {n_targets}")
    if not 0 <= aggregate_function < len(names):
        raise InvalidModel(f"aggregate_function is below {len(names)}; got {aggregate_function}")
    how = AGGREGATES[names[aggregate_function]]
    leaves = descended(g, x, trees.forest())
    table = np.full((len(places), n_targets), how.start if n_targets > 1 else 0, np.float32)
    table[np.arange(len(places)), places] = np.ravel(trees.leaf_weights)
    scores = leaves.aggregated(g, table, how)
    name = POST_TRANSFORMS[post_transform]
    if n_targets == 1:
        return probit(g, scores) if name == "PROBIT" else scores
    return transformed(g, scores, name)
