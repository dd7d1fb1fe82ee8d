"""Support vector machines of ONNX's domain ai.onnx.ml: kernels, a product with the coefficients, votes.

Computed as ONNX Runtime does (core/providers/cpu/ml/svmclassifier.cc, svmregressor.cc), which also says what
attributes mean that the standard leaves open.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import Node, Value
from straightway.lower.activation import sigmoid
from straightway.lower.builder import Builder
from straightway.lower.coupling import coupled
from straightway.lower.declare import ABSENT, Ints, case, lower, need, run
from straightway.lower.scores import TRANSFORMS, need_finite, transformed, whole_labels

DOMAIN = "ai.onnx.ml"
Floats = tuple[float, ...]
Attributes = dict[str, Any]
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
X = run([[1.0, -2.0], [0.5, 3.0], [-1.0, -1.0], [0.0, 0.25]], np.float32)
# γ, the constant, the degree
PARAMS = (0.5, 0.25, 3.0)
VECTORS = (1.0, 2.0, -1.0, 0.0, 0.5, 0.5, 2.0, -1.0)
WEIGHTS = (0.5, -0.25, -1.0, 0.75, 0.125, 1.5, -0.5, -1.25)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Support vectors [count, features] and a kernel; without vectors, coefficients stand for them."""

    coefficients: Floats
    kernel_type: str = "LINEAR"
    kernel_params: Floats = ()
    support_vectors: Floats = ()
    rho: Floats = ()

    def checked(self, x: Value, rows: int, vectors: int) -> None:
        """Raise InvalidModel where the numbers are not those of so many rows and vectors."""
        features = x.shape[-1] if x.rank in (1, 2) else 0
        given = len(self.coefficients), len(self.support_vectors)
        wanted = (rows * vectors, vectors * features) if vectors else (rows * features, given[1])
        if not features or given != wanted or len(self.kernel_params) not in (0, 3):
            raise InvalidModel(
                f"{given[0]} coefficients, {given[1]} numbers of support vectors and "
                f"{len(self.kernel_params)} of the kernel are not those of {rows} results and "
                f"features {x.type}"
            )
        if not self.rho:
            raise InvalidModel("rho has no number")
        need_finite("numbers of a support vector machine", (*self.coefficients, *self.rho))
        need_finite("support vectors", (*self.support_vectors, *self.kernel_params))

    def linear(self, g: Builder, x: Value, rows: int) -> Value:
        """Of x · coefficients + rho, where there are no vectors: [N, rows]."""
        return product(g, samples(g, x), self.rows(rows), np.full(rows, self.rho[0]))

    def rows(self, count: int) -> np.ndarray:
        """The coefficients, a row each."""
        return np.array(self.coefficients, np.float32).reshape(count, -1)

    def kernels(self, g: Builder, x: Value, count: int) -> Value:
        """How near each sample is to each vector: [N, vectors]."""
        x = samples(g, x)
        vectors = np.array(self.support_vectors, np.float32).reshape(count, -1)
        gamma, constant, degree = self.kernel_params or (0.0, 0.0, 0.0)
        if self.kernel_type == "RBF":
            wide = g.reshape(x, (x.shape[0], 1, x.shape[1]))
            apart = g.SQUARED_DIFFERENCE(wide, g.const(vectors[None]))
            return g.EXP(g.MUL(g.SUM(apart, axes=(2,), keep_dims=False), -gamma))
        if self.kernel_type == "LINEAR":
            return product(g, x, vectors, np.zeros(count))
        near = product(g, x, gamma * vectors, np.full(count, constant))
        if self.kernel_type == "SIGMOID":
            return g.TANH(near)
        if degree in (2, 3):
            square = g.MUL(near, near)
            return square if degree == 2 else g.MUL(square, near)
        return g.POW(near, degree)


def samples(g: Builder, x: Value) -> Value:
    """Floats [N, features]."""
    return g.cast(g.reshape(x, (1, *x.shape)) if x.rank == 1 else x, np.float32)


def product(g: Builder, x: Value, rows: np.ndarray, bias: np.ndarray) -> Value:
    """[N, columns] times [rows, columns], and a number for each row."""
    weights, numbers = g.const(rows.astype(np.float32)), g.const(bias.astype(np.float32))
    return g.FULLY_CONNECTED(x, weights, numbers, axis=1)


KERNEL = need(
    lambda machine: machine.kernel_type in KERNELS,
    "kernel_type must be LINEAR, POLY, RBF or SIGMOID; got {machine.kernel_type}",
    possible=True,
)


@lower(
    "SVMRegressor",
    domain=DOMAIN,
    needs=[
        KERNEL,
        need(
            lambda post_transform: post_transform == "NONE",
            "post_transform must be NONE: ONNX Runtime leaves it out; got {post_transform}",
            possible=True,
        ),
    ],
    samples=[
        *(
            case(
                x=X,
                kernel_type=name,
                kernel_params=(0.5, 0.25, degree),
                support_vectors=VECTORS,
                coefficients=WEIGHTS[:4],
                n_supports=4,
                rho=(0.125,),
            )
            for name, degree in ((*((k, 3.0) for k in KERNELS), ("POLY", 2.0), ("POLY", 4.0)))
        ),
        case(x=X, kernel_params=PARAMS, coefficients=WEIGHTS[:2], rho=(0.125,)),
        case(
            x=X,
            kernel_type="RBF",
            kernel_params=PARAMS,
            support_vectors=VECTORS,
            coefficients=WEIGHTS[:4],
            n_supports=4,
            rho=(0.125,),
            one_class=1,
        ),
    ],
    refuses=[
        case(x=X, coefficients=WEIGHTS[:2], rho=(0.0,), post_transform="LOGISTIC"),
        case(x=X, coefficients=WEIGHTS[:2], rho=(0.0,), kernel_type="COSINE"),
    ],
)
def svm_regressor(
    g: Builder,
    x: Value,
    /,
    *,
    machine: Machine,
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
) -> Value:
    """A sum of kernels; of one class, whether it is inside (1) or not (-1)."""
    machine.checked(x, 1, n_supports)
    if n_supports:
        near = machine.kernels(g, x, n_supports)
        score = product(g, near, machine.rows(1), np.array(machine.rho[:1]))
    else:
        score = machine.linear(g, x, 1)
    if not one_class:
        return score
    inside = g.cast(g.GREATER(score, 0.0), np.float32)
    return g.SUB(g.MUL(inside, 2.0), 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """The classes, and how many vectors each has."""

    classlabels_ints: Ints = ABSENT
    classlabels_strings: tuple[str, ...] = ()
    vectors_per_class: Ints = ABSENT

    @property
    def count(self) -> int:
        """How many classes there are."""
        return len(self.classlabels_strings or self.classlabels_ints)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Each class with each after it."""
        return [(i, j) for i in range(self.count) for j in range(i + 1, self.count)]

    def rows(self, coefficients: np.ndarray) -> np.ndarray:
        """A row for each pair over all vectors, of coefficients [classes - 1, vectors]."""
        starts = np.cumsum((0, *self.vectors_per_class))
        found = np.zeros((len(self.pairs), coefficients.shape[1]), np.float32)
        for row, (i, j) in zip(found, self.pairs, strict=True):
            first, second = (slice(starts[k], starts[k + 1]) for k in (i, j))
            row[first] = coefficients[j - 1, first]
            row[second] = coefficients[i, second]
        return found

    def votes(self, g: Builder, scores: Value) -> Value:
        """How many pairs each class has won: [N, classes]."""
        won = np.zeros((self.count, len(self.pairs)))
        lost = np.zeros(self.count)
        for column, (i, j) in enumerate(self.pairs):
            won[i, column], won[j, column] = 1, -1
            lost[j] += 1
        return product(g, g.cast(g.GREATER(scores, 0.0), np.float32), won, lost)

    def chosen(self, g: Builder, place: Value) -> Value:
        """The labels at these places."""
        return g.GATHER(g.const(np.array(self.classlabels_ints, np.int64)), place, axis=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sigmoids:
    """What makes a probability of each pair's score, by Platt; without them scores stay what they are."""

    prob_a: Floats = ()
    prob_b: Floats = ()

    @property
    def given(self) -> bool:
        """Whether there are any."""
        return bool(self.prob_a or self.prob_b)

    def of_classes(self, g: Builder, scores: Value, labels: Labels) -> Value:
        """Scores of pairs as probabilities of classes: [N, classes]."""
        pairs = labels.pairs
        if not len(self.prob_a) == len(self.prob_b) == len(pairs):
            raise InvalidModel(
                f"prob_a and prob_b have {len(pairs)} numbers each; got {len(self.prob_a)} and "
                f"{len(self.prob_b)}"
            )
        need_finite("prob_a and prob_b", (*self.prob_a, *self.prob_b))
        scaled = g.MUL(scores, g.const(self.prob_a, np.float32))
        second = g.LOGISTIC(g.ADD(scaled, g.const(self.prob_b, np.float32)))
        return coupled(g, g.SUB(1.0, second), pairs, labels.count)


TWO: Attributes = {"classlabels_ints": (3, 7), "vectors_per_class": (3, 1)}
THREE: Attributes = {"classlabels_ints": (3, 7, 5), "vectors_per_class": (1, 2, 1)}
VECTOR_MACHINE: Attributes = {
    "x": X,
    "outputs": 2,
    "kernel_params": PARAMS,
    "support_vectors": VECTORS,
}
FEW: Attributes = {"coefficients": WEIGHTS[:4], "rho": (0.125,)}
MANY: Attributes = {"coefficients": WEIGHTS, "rho": (0.125, -0.25, 0.5)}
LIKELY: Attributes = {"prob_a": (-2.0,), "prob_b": (0.25,)}
EACH_LIKELY: Attributes = {"prob_a": (-2.0, -1.0, -3.0), "prob_b": (0.25, -0.5, 0.125)}
PLAIN: Attributes = {"x": X, "outputs": 2, "kernel_params": PARAMS, "rho": (0.125,)}


@lower(
    "SVMClassifier",
    domain=DOMAIN,
    needs=[
        KERNEL,
        whole_labels(
            lambda labels, node: not (labels.classlabels_strings and node.outputs[0].uses),
            "labels.classlabels_strings",
        ),
        need(
            lambda labels: labels.count > 1,
            "there must be two or more classes; got {labels.count}",
            possible=True,
        ),
        need(
            lambda post_transform: post_transform != "PROBIT",
            "post_transform must not be PROBIT, which has no number for most scores; got {post_transform}",
            possible=True,
        ),
    ],
    samples=[
        *(case(**VECTOR_MACHINE, **TWO, **FEW, kernel_type=name) for name in KERNELS),
        *(case(**VECTOR_MACHINE, **THREE, **MANY, kernel_type=name) for name in KERNELS),
        *(
            case(**VECTOR_MACHINE, **classes, kernel_type="RBF", post_transform=name)
            for name in TRANSFORMS
            if name not in ("NONE", "PROBIT")
            for classes in ({**TWO, **FEW}, {**THREE, **MANY})
        ),
        *(
            case(**VECTOR_MACHINE, **classes, kernel_type="RBF", post_transform=name)
            for name in TRANSFORMS
            if name != "PROBIT"
            for classes in ({**TWO, **FEW, **LIKELY}, {**THREE, **MANY, **EACH_LIKELY})
        ),
        case(**PLAIN, coefficients=WEIGHTS[:4], classlabels_ints=(3, 7)),
        case(**PLAIN, coefficients=(0.5, 0.25, 0.0, 1.0), classlabels_ints=(3, 7)),
        case(
            **PLAIN, coefficients=WEIGHTS[:6], classlabels_ints=(3, 7, 5), post_transform="SOFTMAX"
        ),
    ],
    refuses=[
        case(**VECTOR_MACHINE, **TWO, **FEW, kernel_type="COSINE"),
        case(**VECTOR_MACHINE, **TWO, **FEW, post_transform="PROBIT"),
        case(**PLAIN, coefficients=WEIGHTS[:4], classlabels_strings=["a", "b"]),
        case(**PLAIN, coefficients=WEIGHTS[:2], classlabels_ints=(3,)),
    ],
)
def svm_classifier(
    g: Builder,
    x: Value,
    /,
    *,
    machine: Machine,
    labels: Labels,
    sigmoids: Sigmoids,
    post_transform: str = "NONE",
    node: Node,
) -> list[Value | None]:
    """The class that wins most pairs, and the pairs' scores; without vectors that of the greatest score."""
    labelled = bool(node.outputs[0].uses)
    vectors = sum(labels.vectors_per_class)
    if not vectors:
        machine.checked(x, labels.count, 0)
        scores = machine.linear(g, x, labels.count)
        place = _of_greatest(g, scores, machine, sigmoids) if labelled else None
        scores = transformed(g, scores, post_transform)
    else:
        if len(labels.vectors_per_class) != labels.count or len(machine.rho) != len(labels.pairs):
            raise InvalidModel(
                f"{len(labels.vectors_per_class)} counts of vectors and {len(machine.rho)} of rho "
                f"are not those of {labels.count} classes"
            )
        machine.checked(x, labels.count - 1, vectors)
        near = machine.kernels(g, x, vectors)
        rows = labels.rows(machine.rows(labels.count - 1))
        scores = product(g, near, rows, np.array(machine.rho))
        place = _voted(g, labels.votes(g, scores)) if labelled else None
        if labels.count == 2 and not sigmoids.given:
            scores = _of_pair(g, scores, post_transform)
        else:
            scores = sigmoids.of_classes(g, scores, labels) if sigmoids.given else scores
            scores = transformed(g, scores, post_transform)
    label = None if place is None else labels.chosen(g, place)
    return [label, scores][: len(node.outputs)]


def _voted(g: Builder, votes: Value) -> Value:
    return g.ARG_MAX(votes, axis=1, output_type="INT32")


def _of_greatest(g: Builder, scores: Value, machine: Machine, sigmoids: Sigmoids) -> Value:
    """The place of the greatest score; of two classes the second wherever that is over a limit."""
    place = g.ARG_MAX(scores, axis=1, output_type="INT32")
    if scores.shape[1] != 2 or sigmoids.given:
        return place
    most = g.REDUCE_MAX(scores, axes=(1,), keep_dims=False)
    if all(number >= 0 for number in machine.coefficients):
        over = g.GREATER_EQUAL(most, 0.5)
    else:
        over = g.GREATER(most, 0.0)
    return g.SELECT_V2(over, g.const(1, np.int32), place)


def _of_pair(g: Builder, score: Value, name: str) -> Value:
    """Two scores of one: [N, 2]."""
    if name == "NONE":
        both = (g.NEG(score), score)
    else:
        score = sigmoid(g, score) if name == "LOGISTIC" else score
        both = (g.SUB(1.0, score), score)
    return g.CONCATENATION(*both, axis=1)
