"""RNN, GRU and LSTM in whatever form, against onnxruntime."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case_models import build, computed, expected, lowered

from straightway.errors import InvalidModel
from straightway.flow.tolerance import compare
from straightway.lower import recurrent_activation, recurrent_sequence
from straightway.lower.declare import LOWERINGS, Case, case, run
from straightway.lower.lowering import Lowered
from straightway.lower.recurrent_plan import Options
from straightway.lower.recurrent_sequence import steps_a_turn
from straightway.run.process import Child

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = ("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus", "HardSigmoid", "Elu")
BOUNDED = ("Sigmoid", "HardSigmoid")


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child(engines=["onnxruntime", "litert"]) as made:
        yield made


def random_case(seed: int) -> tuple[str, dict[str, Any]]:
    """An operator with operands and attributes of every kind."""
    random = np.random.default_rng(seed)
    op = str(random.choice(list(GATES)))
    steps, batch, inputs, cells = (int(n) for n in random.integers([1, 1, 1, 1], [9, 4, 6, 6]))
    directions = 1 + (seed % 3 == 2)

    def floats(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) * 0.6).astype(np.float32)

    gates = GATES[op]
    given: dict[str, Any] = {
        "x": (steps, batch, inputs),
        "w": floats(directions, gates * cells, inputs),
        "r": floats(directions, gates * cells, cells),
        "hidden_size": cells,
        "direction": ("forward", "reverse", "bidirectional")[seed % 3],
        "outputs": int(random.integers(1, 4 if op == "LSTM" else 3)),
    }
    optional = {
        "b": floats(directions, 2 * gates * cells),
        "initial_h": floats(directions, batch, cells),
        "sequence_lens": random.integers(0, steps + 1, batch).astype(np.int32),
    }
    if op == "LSTM":
        optional |= {
            "initial_c": floats(directions, batch, cells),
            "p": floats(directions, 3 * cells),
        }
    given |= {name: array for name, array in optional.items() if random.random() < 0.6}
    for name, array in given.items():
        if isinstance(array, np.ndarray) and random.random() < 0.3:
            given[name] = run(array, array.dtype)
    if random.random() < 0.3:
        given["clip"] = float(random.uniform(0.3, 1))
    if random.random() < 0.5:
        kinds = {"RNN": (FUNCTIONS,), "GRU": (BOUNDED, FUNCTIONS)}
        choices = kinds.get(op, (BOUNDED, FUNCTIONS, FUNCTIONS)) * directions
        given["activations"] = [str(random.choice(names)) for names in choices]
    if op == "GRU":
        given["linear_before_reset"] = int(random.integers(2))
    if op == "LSTM":
        given["input_forget"] = int(random.integers(2))
    return op, given


def checked(op: str, given: Case, child: Child, folder: Path) -> Lowered:
    """Compare with onnxruntime."""
    lowering = LOWERINGS["onnx", op]
    made = build(lowering, given)
    want = expected(child, lowering, given, folder)
    found = lowered(made.with_outputs(want), folder)
    assert not found.refusals
    got = computed(child, found, made.feeds, folder)
    for (name, array), result in zip(want.items(), got, strict=True):
        check = compare(name, array, result)
        assert check.equal, f"{given}: {check.reason}"
    return found


@pytest.mark.parametrize("first", range(0, 90, 15))
def test_random_operators(first: int, child: Child, tmp_path: Path) -> None:
    for seed in range(first, first + 15):
        op, given = random_case(seed)
        checked(op, case(**given), child, tmp_path)


@pytest.mark.parametrize("first", range(0, 36, 12))
def test_any_division_into_turns(
    first: int, child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns of some steps, with steps before and after, turns inside turns."""
    for seed in range(first, first + 12):
        monkeypatch.setattr(recurrent_sequence, "MOST_STEPS", 1 + seed % 2)
        monkeypatch.setattr(recurrent_sequence, "TURNS", 2 + seed % 3)
        op, given = random_case(seed)
        found = checked(op, case(**given), child, tmp_path)
        if given["x"][0] > 2:
            assert "WHILE" in {node.op.name for node in found.graph.nodes}


@pytest.mark.parametrize("op", GATES)
def test_the_batch_first(op: str, child: Child, tmp_path: Path) -> None:
    """onnxruntime has no kernel for this layout: the same with everything transposed."""
    gates, random = GATES[op], np.random.default_rng(3)
    x, h = (random.standard_normal(s).astype(np.float32) for s in ((4, 3, 5), (2, 3, 6)))
    shared = {
        "w": random.standard_normal((2, gates * 6, 5)).astype(np.float32),
        "r": random.standard_normal((2, gates * 6, 6)).astype(np.float32),
        "hidden_size": 6,
        "direction": "bidirectional",
        "outputs": 2,
    }
    lowering = LOWERINGS["onnx", op]
    plain = case(x=run(x), initial_h=run(h), **shared)
    want = dict(expected(child, lowering, plain, tmp_path))
    turned = case(x=run(x.swapaxes(0, 1)), initial_h=run(h.swapaxes(0, 1)), layout=1, **shared)
    made = build(lowering, turned)
    outputs = {"y0": want["y0"].transpose(2, 0, 1, 3), "y1": want["y1"].swapaxes(0, 1)}
    found = lowered(made.with_outputs(outputs), tmp_path)
    got = computed(child, found, made.feeds, tmp_path)
    for (name, array), result in zip(outputs.items(), got, strict=True):
        assert compare(name, array, result).equal


def test_what_nobody_reads_is_not_computed(child: Child, tmp_path: Path) -> None:
    """Without Y no step is kept, and nothing is joined."""
    shape = {
        "x": (5, 2, 3),
        "w": np.ones((1, 4, 3), np.float32),
        "r": np.ones((1, 4, 4), np.float32),
    }
    lowering = LOWERINGS["onnx", "RNN"]
    made = build(lowering, case(**shape, hidden_size=4, outputs=2))
    want = expected(child, lowering, case(**shape, hidden_size=4, outputs=2), tmp_path)
    model = made.with_outputs({"y1": want["y1"]})
    model.graph.node[0].output[0] = ""
    found = lowered(model, tmp_path)
    assert "CONCATENATION" not in {node.op.name for node in found.graph.nodes}
    (got,) = computed(child, found, made.feeds, tmp_path)
    assert compare("y1", want["y1"], got).equal


def test_weights_are_written_once(tmp_path: Path) -> None:
    """However many steps there are."""
    weights = {"w": np.ones((1, 40, 30), np.float32), "r": np.eye(40, dtype=np.float32)[None]}
    made = build(LOWERINGS["onnx", "RNN"], case(x=(20, 1, 30), **weights, hidden_size=40))
    found = lowered(made.with_outputs({"y0": np.zeros((20, 1, 1, 40), np.float32)}), tmp_path)
    constants = {v for node in found.graph.nodes for v in node.operands() if v.const is not None}
    assert sum(v.const.size for v in constants if v.const.dtype == np.float32) < 3000


@pytest.mark.parametrize(
    ("steps", "weight_bytes", "wanted"),
    [(1, 2**30, 1), (8, 2**18, 8), (32, 2**16, 32), (32, 2**17, 1), (33, 1, 2), (1000, 1, 32)],
)
def test_steps_a_turn(steps: int, weight_bytes: int, wanted: int) -> None:
    assert steps_a_turn(steps, weight_bytes) == wanted


def test_the_remark_says_which_form(tmp_path: Path) -> None:
    weights = {"w": np.ones((1, 4, 3), np.float32), "r": np.ones((1, 4, 4), np.float32)}
    for steps, text in ((8, "8 steps are written out"), (64, "64 steps run in a WHILE, 2 a turn")):
        made = build(LOWERINGS["onnx", "RNN"], case(x=(steps, 1, 3), **weights, hidden_size=4))
        y = np.zeros((steps, 1, 1, 4), np.float32)
        (remark,) = lowered(made.with_outputs({"y0": y}), tmp_path).remarks
        assert (remark.node, remark.text) == ("node", text)


def test_activations_share_lists_of_parameters() -> None:
    names = ["Tanh", "HardSigmoid", "Elu"]
    found = recurrent_activation.read(names, [0.3, 0.7], [0.4], 2.0)
    assert [(a.alpha, a.beta, a.clip) for a in found] == [
        (0.0, 0.0, 2.0),
        (0.3, 0.4, 2.0),
        (0.7, 0.0, 2.0),
    ]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"activations": ["Affine"]}, "parameters of activation 'Affine' must be written"),
        ({"activations": ["Elu"], "activation_alpha": [np.nan]}, "must be finite; got nan"),
        ({"b": np.full((1, 8), np.inf, np.float32)}, "numbers of B lie within"),
        ({"x": (2, 0, 3)}, "a sequence has a step at least"),
    ],
)
def test_what_is_refused(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    weights = {"w": np.ones((1, 4, 3), np.float32), "r": np.ones((1, 4, 4), np.float32)}
    given = {"x": (2, 1, 3), **weights, "hidden_size": 4, **changes}
    made = build(LOWERINGS["onnx", "RNN"], case(**given))
    y = np.zeros((2, 1, 1, 4), np.float32)
    (refusal,) = lowered(made.with_outputs({"y0": y}), tmp_path).refusals
    assert text in refusal.text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"r": np.ones((1, 4, 5), np.float32)}, r"W has shape \[1, 5, 3\]"),
        ({"b": np.ones((1, 4), np.float32)}, r"B has shape \[1, 8\]"),
        ({"x": (2, 3)}, "three dimensions"),
        ({"initial_h": (1, 2, 4)}, r"initial state 0 has shape \[1, 1, 4\]"),
        ({"sequence_lens": np.array([3], np.int32)}, r"sequence_lens lie in \[0, 2\]; got \[3\]"),
    ],
)
def test_operands_that_do_not_fit(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    weights = {"w": np.ones((1, 4, 3), np.float32), "r": np.ones((1, 4, 4), np.float32)}
    given = {"x": (2, 1, 3), **weights, "hidden_size": 4, **changes}
    made = build(LOWERINGS["onnx", "RNN"], case(**given))
    with pytest.raises(InvalidModel, match=text):
        lowered(made.with_outputs({"y0": np.zeros((2, 1, 1, 4), np.float32)}), tmp_path)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"direction": "sideways"}, "no direction 'sideways'"),
        ({"activations": ("Tanh",), "direction": "bidirectional"}, "1 activations a direction"),
        ({"activations": ("Mystery",)}, "no activation 'Mystery'"),
    ],
)
def test_options_that_onnx_does_not_have(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidModel, match=text):
        Options(**options).functions(["Tanh"])
