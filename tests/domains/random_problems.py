"""Random graphs to place, and two ways to know the answer: enumeration and an integer program."""

import random
from itertools import chain, product

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

from straightway.domains.problem import Mode, NodeModes, Problem
from straightway.domains.terms import cost_of, fold, modes_in, split, terms_of


def carrier(needs, gives, labels):
    """Modes of a node that takes all operands, and gives all results, in one label."""
    return [Mode(needs=dict.fromkeys(needs, k), gives=dict.fromkeys(gives, k)) for k in labels]


def random_modes(rng, needs, gives, labels, scale=1):
    """Modes of one of the kinds that real nodes have: carriers, fixed, converters, anything."""
    one = rng.choice(labels)
    kind = rng.choice(["carrier"] * 5 + ["fixed", "free result", "free operands", "turn", "any"])
    if kind == "carrier":
        return carrier(needs, gives, labels)
    if kind == "fixed":
        return carrier(needs, gives, [one])
    modes = []
    for number, label in enumerate(labels):
        need, give = {
            "free result": ([one] * len(needs), [label] * len(gives)),
            "free operands": ([label] * len(needs), [one] * len(gives)),
            "turn": ([label] * len(needs), [labels[number - 1]] * len(gives)),
            "any": (rng.choices(labels, k=len(needs)), rng.choices(labels, k=len(gives))),
        }[kind]
        modes.append(
            Mode(
                needs=dict(zip(needs, need, strict=True)),
                gives=dict(zip(gives, give, strict=True)),
                price=scale * rng.choice([0, 0, 1, 5]),
            )
        )
    return modes


def small(rng, label_count, nodes=6, scale=1):
    """A graph to enumerate: fan-out, two results, prices, free values, a constant."""
    labels = "abcd"[:label_count]
    values = ["x", "y"]
    weights = {value: scale * rng.randint(0, 9) for value in values}
    made = []
    for number in range(rng.randint(2, nodes)):
        recent = values[-5:]
        needs = rng.sample(recent, min(len(recent), rng.choice([1, 1, 2, 3])))
        gives = [f"{letter}{number}" for letter in rng.choice(["v", "v", "v", "vw"])]
        modes = random_modes(rng, needs, gives, labels, scale)
        made.append(NodeModes(name=f"n{number}", modes=tuple(modes)))
        values += gives
        weights |= {value: scale * rng.choice([0, 1, 1, 2, 3, 5, 8, 13]) for value in gives}
    sinks = rng.sample(values, rng.randint(1, 3))
    return Problem(
        nodes=tuple(made),
        weights=weights,
        sources={"x": "a", "y": rng.choice(labels)},
        sinks={value: tuple(rng.sample(labels, rng.choice([1, 1, 2]))) for value in sinks},
        constant=scale * rng.choice([0, 1, 3]),
    )


def network(size, label_count, seed=0, *, reach=10, fixed=0.1):
    """A long chain, as a CNN's, with skip connections over up to `reach` nodes."""
    rng = random.Random(seed)
    weights, values, nodes = {"x": rng.randint(1, 10**6)}, ["x"], []
    for number in range(size):
        needs = [values[-1]]
        if rng.random() < 0.25 and number > 3:
            needs.append(values[-rng.randint(2, min(reach, number))])
        labels = "abcd"[: rng.randint(2, label_count)]
        gives = [f"v{number}"]
        if rng.random() < fixed:
            modes = carrier(needs, gives, [rng.choice(labels)])
        elif rng.random() < fixed / 2:
            modes = random_modes(rng, needs, gives, labels)
        else:
            modes = carrier(needs, gives, labels)
        nodes.append(NodeModes(name=f"n{number}", modes=tuple(modes)))
        weights[gives[0]] = rng.randint(1, 10**6)
        values += gives
    return Problem(
        nodes=tuple(nodes),
        weights=weights,
        sources={"x": "a"},
        sinks={values[-1]: ("a",)},
        constant=1,
    )


def enumerated(problem):
    """The least cost of all choices, all at once, as one array."""
    sizes = [len(node.modes) for node in problem.nodes]
    choices = np.indices(sizes).reshape(len(sizes), -1)
    labels = {label: code for code, label in enumerate(_labels(problem))}
    given = {value: np.int64(labels[label]) for value, label in problem.sources.items()}
    demanded = {(v, label): np.True_ for v, wanted in problem.sinks.items() for label in wanted}
    cost = np.zeros(choices.shape[1], dtype=np.int64)
    for node, choice in zip(problem.nodes, choices, strict=True):
        cost += np.array([mode.price for mode in node.modes])[choice]
        for value in node.modes[0].gives:
            given[value] = np.array([labels[mode.gives[value]] for mode in node.modes])[choice]
        for bit, mode in enumerate(node.modes):
            for key in mode.needs.items():
                demanded[key] = demanded.get(key, np.False_) | (choice == bit)
    for (value, label), where in demanded.items():
        weight = problem.weights[value] + problem.constant if problem.weights[value] else 0
        cost += weight * (where & (given[value] != labels[label]))
    return int(cost.min())


def programmed(problem):
    """The least cost by HiGHS: variables for modes and for conversions."""
    costs, rows = [], []

    def variable(cost):
        costs.append(cost)
        return len(costs) - 1

    gives, needs = {}, {}
    for number, node in enumerate(problem.nodes):
        chosen = [variable(mode.price) for mode in node.modes]
        rows.append((dict.fromkeys(chosen, 1), 1, 1))
        for mode, column in zip(node.modes, chosen, strict=True):
            for key in mode.gives.items():
                gives.setdefault(key, []).append(column)
            for key in mode.needs.items():
                needs.setdefault(key, {}).setdefault(number, []).append(column)
    sinks = {(value, label): {} for value, wanted in problem.sinks.items() for label in wanted}
    for key in sinks | needs:
        weight = problem.weights[key[0]]
        if not weight or problem.sources.get(key[0]) == key[1]:
            continue
        met = dict.fromkeys([variable(weight + problem.constant), *gives.get(key, [])], 1)
        rows += [(met, 1, np.inf)] if key in sinks else []
        rows += [(met | dict.fromkeys(cs, -1), 0, np.inf) for cs in needs.get(key, {}).values()]
    entries = [(i, j, x) for i, (row, _, _) in enumerate(rows) for j, x in row.items()]
    i, j, data = zip(*entries, strict=True)
    scale = max(1, max(costs) / 1000)
    solved = milp(
        np.array(costs) / scale,
        constraints=LinearConstraint(
            coo_matrix((data, (i, j)), shape=(len(rows), len(costs))).tocsr(),
            [low for _, low, _ in rows],
            [high for _, _, high in rows],
        ),
        integrality=np.ones(len(costs)),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0},
    )
    assert solved.success
    return sum(cost for cost, chosen in zip(costs, solved.x, strict=True) if chosen > 0.5)


def parts_of(problem):
    """The independent parts of a problem, and what is paid anyhow."""
    prices = [[mode.price for mode in node.modes] for node in problem.nodes]
    alive = {number: (1 << len(each)) - 1 for number, each in enumerate(prices)}
    terms, paid = fold(terms_of(problem), alive)
    parts = split(terms, prices, alive)
    placed = {node for part in parts for node in part.alive}
    paid += sum(prices[node][0] for node in alive if node not in placed)
    return parts, paid


def least(part):
    """The least cost of a part, by trying all."""
    choices = product(*map(modes_in, part.alive.values()))
    return min(cost_of(part, dict(zip(part.alive, choice, strict=True))) for choice in choices)


def _labels(problem):
    """Every label of the problem, once."""
    modes = [mode for node in problem.nodes for mode in node.modes]
    return dict.fromkeys(
        chain(
            problem.sources.values(),
            *problem.sinks.values(),
            *(mode.gives.values() for mode in modes),
            *(mode.needs.values() for mode in modes),
        )
    )
