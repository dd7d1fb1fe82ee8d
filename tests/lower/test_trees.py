"""Ensembles of random trees compute what onnxruntime computes, on numbers that lie on the thresholds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import pytest

from straightway.errors import InvalidModel, Unsupported
from straightway.flow.convert import convert
from straightway.flow.tolerance import compare
from straightway.flow.translate import read, translate
from straightway.run import litert, ort
from straightway.run.process import Child

MODES = ["LEQ", "LT", "GTE", "GT", "EQ", "NEQ"]
# thresholds and features are drawn from these, so that they meet
NUMBERS = np.array([-np.inf, -2.5, -1, -1e-45, -0.0, 0, 1e-45, 0.1, 1, 3, 7, np.inf], np.float32)
# members of sets: onnxruntime takes whole numbers only, and cuts off fractions beside larger ones
WHOLE = [0, 1, 2, 3, 5, 7, 30]
FEATURES = 4
Attributes = dict[str, Any]


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child(engines=["onnxruntime", "litert"]) as made:
        yield made


def grown(rng: np.random.Generator, modes: list[str], trees: int, depth: int) -> list[dict]:
    """Nodes of random trees: number in the tree, children, what is asked."""
    found = []
    for tree in range(trees):
        count = 1
        level = [0]
        for step in range(depth + 1):
            below = []
            for number in level:
                node = {"tree": tree, "id": number, "mode": "LEAF", "true": 0, "false": 0}
                if step < depth and (rng.random() < 0.75 or not step):
                    node |= {"true": count, "false": count + 1}
                    node["mode"] = f"BRANCH_{rng.choice(modes)}"
                    below += [count, count + 1]
                    count += 2
                found.append(node)
            level = below
    return sorted(found, key=lambda node: (node["tree"], node["id"]))


def attributes(rng: np.random.Generator, nodes: list[dict], *, missing: bool) -> Attributes:
    """The nodes as TreeEnsembleClassifier and TreeEnsembleRegressor have them."""
    found: Attributes = {
        "nodes_treeids": [n["tree"] for n in nodes],
        "nodes_nodeids": [n["id"] for n in nodes],
        "nodes_featureids": rng.integers(0, FEATURES, len(nodes)).tolist(),
        "nodes_values": rng.choice(NUMBERS, len(nodes)).tolist(),
        "nodes_modes": [n["mode"] for n in nodes],
        "nodes_truenodeids": [n["true"] for n in nodes],
        "nodes_falsenodeids": [n["false"] for n in nodes],
    }
    if missing:
        found["nodes_missing_value_tracks_true"] = rng.integers(0, 2, len(nodes)).tolist()
    return found


def weighted(rng: np.random.Generator, nodes: list[dict], targets: int, kind: str) -> Attributes:
    """Weights of the leaves: of all targets, or of one each, multiples of 1/8 or tenths."""
    leaves = [n for n in nodes if n["mode"] == "LEAF"]
    each = targets > 1 and rng.random() < 0.6
    rows = [(n["tree"], n["id"], t) for n in leaves for t in range(targets) if each]
    if not each:
        rows = [(n["tree"], n["id"], n["tree"] % targets) for n in leaves]
    numbers = rng.integers(-4 if rng.random() < 0.5 else 0, 9, len(rows)) / np.float32(10)
    columns = [list(column) for column in zip(*rows, strict=True)]
    return {
        f"{kind}_treeids": columns[0],
        f"{kind}_nodeids": columns[1],
        f"{kind}_ids": columns[2],
        f"{kind}_weights": numbers.tolist(),
    }


def model(op: str, outputs: list[str], rows: int, opset: int, attrs: Attributes) -> onnx.ModelProto:
    element = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op, ["x"], outputs, domain="ai.onnx.ml", **attrs)],
        "trees",
        [onnx.helper.make_tensor_value_info("x", element, [rows, FEATURES])],
        [onnx.helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("ai.onnx.ml", opset)]
    made = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    label = onnx.TensorProto.INT64
    for value, kind in zip(made.graph.output, [label, element][-len(outputs) :], strict=True):
        value.type.tensor_type.elem_type = kind
    return made


def examples(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.choice([*NUMBERS, np.nan], (rows, FEATURES)).astype(np.float32)


def check(child: Child, folder: Path, made: onnx.ModelProto, x: np.ndarray) -> bool:
    """Whether it was lowered; then it computes the same."""
    path, written = folder / "m.onnx", folder / "m.tflite"
    onnx.save(made, path)
    try:
        data = translate(read(path)).written.data
    except Unsupported:
        return False
    written.write_bytes(data)
    wanted = child.call(ort.run(path, {"x": x}, optimise=False))
    for (name, want), got in zip(
        wanted.items(), child.call(litert.run(written, [x])).outputs, strict=True
    ):
        compared = compare(name, want, got)
        assert compared.equal, compared.reason
    return True


def drawn(seed: int) -> tuple[np.random.Generator, list[dict], Attributes, np.ndarray]:
    rng = np.random.default_rng(seed)
    modes = MODES if rng.random() < 0.5 else [str(rng.choice(MODES))]
    nodes = grown(rng, modes, int(rng.integers(1, 6)), int(rng.integers(1, 5)))
    attrs = attributes(rng, nodes, missing=bool(rng.random() < 0.5))
    return rng, nodes, attrs, examples(rng, int(rng.choice([1, 2, 7, 60])))


SEEDS = 24


def test_random_regressors(child: Child, tmp_path: Path) -> None:
    lowered = 0
    for seed in range(SEEDS):
        rng, nodes, attrs, x = drawn(seed)
        targets = int(rng.integers(1, 4))
        attrs |= weighted(rng, nodes, targets, "target") | {"n_targets": targets}
        attrs["aggregate_function"] = str(rng.choice(["SUM", "AVERAGE", "MIN", "MAX"]))
        attrs["post_transform"] = str(rng.choice(["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]))
        if rng.random() < 0.3:
            attrs["base_values"] = rng.standard_normal(targets).tolist()
        made = model("TreeEnsembleRegressor", ["y"], len(x), 3, attrs)
        lowered += check(child, tmp_path, made, x)
    assert lowered > SEEDS * 0.8


def test_random_classifiers(child: Child, tmp_path: Path) -> None:
    lowered = 0
    for seed in range(SEEDS, 2 * SEEDS):
        rng, nodes, attrs, x = drawn(seed)
        classes = int(rng.integers(2, 5))
        attrs |= weighted(rng, nodes, 1 if classes == 2 else classes, "class")
        if classes == 2 and rng.random() < 0.3:
            attrs["class_ids"] = [1] * len(attrs["class_ids"])
        attrs["classlabels_int64s"] = rng.permutation(100)[:classes].tolist()
        attrs["post_transform"] = str(rng.choice(["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]))
        if rng.random() < 0.3:
            count = classes if classes > 2 else 1
            attrs["base_values"] = rng.standard_normal(count).tolist()
        made = model("TreeEnsembleClassifier", ["l", "s"], len(x), int(rng.choice([1, 3])), attrs)
        lowered += check(child, tmp_path, made, x)
    assert lowered > SEEDS * 0.7


def ensemble(rng: np.random.Generator) -> Attributes:
    """A random TreeEnsemble, some of whose branches ask for sets."""
    nodes = grown(rng, [*MODES, "MEMBER", "MEMBER"], int(rng.integers(1, 5)), 3)
    branches = [n for n in nodes if n["mode"] != "LEAF"]
    leaves = [n for n in nodes if n["mode"] == "LEAF"]
    places = {(n["tree"], n["id"]): k for group in (branches, leaves) for k, n in enumerate(group)}
    are_leaves = {(n["tree"], n["id"]): int(n["mode"] == "LEAF") for n in nodes}
    numbers = [f"BRANCH_{mode}" for mode in (*MODES, "MEMBER")]
    found: Attributes = {
        "tree_roots": [k for k, n in enumerate(branches) if n["id"] == 0],
        "nodes_featureids": rng.integers(0, FEATURES, len(branches)).tolist(),
        "leaf_targetids": rng.integers(0, 2, len(leaves)).tolist(),
        "n_targets": 2,
        "aggregate_function": int(rng.integers(0, 4)),
        "post_transform": int(rng.choice([0, 3])),
        "nodes_missing_value_tracks_true": rng.integers(0, 2, len(branches)).tolist(),
    }
    for side in ("true", "false"):
        keys = [(n["tree"], n[side]) for n in branches]
        found[f"nodes_{side}nodeids"] = [places[key] for key in keys]
        found[f"nodes_{side}leafs"] = [are_leaves[key] for key in keys]
    modes = [numbers.index(n["mode"]) for n in branches]
    sets: list[float] = []
    for _ in range(modes.count(len(MODES))):
        sets += [*rng.choice(WHOLE, int(rng.integers(1, 6)), replace=False), np.nan]
    arrays = {
        "nodes_splits": rng.choice(NUMBERS, len(branches)).astype(np.float32),
        "nodes_modes": np.array(modes, np.uint8),
        "leaf_weights": rng.standard_normal(len(leaves)).astype(np.float32),
        "membership_values": np.array(sets, np.float32),
    }
    tensors = {name: onnx.numpy_helper.from_array(array) for name, array in arrays.items()}
    return found | tensors


def test_random_ensembles(child: Child, tmp_path: Path) -> None:
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        x = examples(rng, int(rng.choice([1, 3, 40])))
        made = model("TreeEnsemble", ["y"], len(x), 5, ensemble(rng))
        assert check(child, tmp_path, made, x), seed


STUMP: Attributes = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [0.25, 0.75],
    "n_targets": 1,
}


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"nodes_truenodeids": [9, 0, 0]}, "no node 9"),
        ({"nodes_truenodeids": [0, 0, 0], "nodes_falsenodeids": [0, 0, 0]}, "own descendants"),
        ({"nodes_modes": ["BRANCH_SOME", "LEAF", "LEAF"]}, "unknown mode 'BRANCH_SOME'"),
        ({"nodes_values": [0.5]}, "has all attributes"),
        ({"nodes_nodeids": [0, 1, 1]}, "the same number"),
        ({"nodes_featureids": [FEATURES, 0, 0]}, f"features up to {FEATURES}"),
        ({"target_nodeids": [1, 7]}, "no node 7"),
        ({"target_ids": [0, 1]}, "target 1 of 1"),
        ({"target_weights": [0.25]}, "do not fit"),
        ({"aggregate_function": "MEDIAN"}, "'MEDIAN'"),
        ({"base_values": [0.5, 1.0]}, "2 base values for 1"),
    ],
)
def test_trees_that_contradict_themselves(tmp_path: Path, changed: Attributes, text: str) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model("TreeEnsembleRegressor", ["y"], 2, 1, STUMP | changed), path)
    with pytest.raises(InvalidModel, match=text):
        translate(read(path))


def test_probit_of_shares(child: Child, tmp_path: Path) -> None:
    attrs = STUMP | {"post_transform": "PROBIT", "target_weights": [0.0625, 0.97]}
    made = model("TreeEnsembleRegressor", ["y"], 2, 1, attrs)
    assert check(child, tmp_path, made, np.array([[0.0] * 4, [1.0] * 4], np.float32))


def test_any_number_of_rows(child: Child, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    nodes = grown(rng, MODES, 3, 3)
    attrs = attributes(rng, nodes, missing=True) | weighted(rng, nodes, 1, "class")
    made = model("TreeEnsembleClassifier", ["l", "s"], 1, 1, attrs | {"classlabels_int64s": [4, 2]})
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    onnx.save(made, tmp_path / "m.onnx")
    verification = convert(tmp_path / "m.onnx", child=child).verification
    assert verification is not None


def test_a_file_is_no_larger_than_its_trees(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    nodes = grown(rng, ["LEQ"], 40, 8)
    attrs = attributes(rng, nodes, missing=False) | weighted(rng, nodes, 3, "target")
    made = model("TreeEnsembleRegressor", ["y"], 50, 1, attrs | {"n_targets": 3})
    onnx.save(made, tmp_path / "m.onnx")
    size_bytes = len(translate(read(tmp_path / "m.onnx")).written.data)
    assert len(nodes) > 1000
    assert size_bytes < 40 * len(nodes) + 20000


def test_scores_without_labels_of_strings(child: Child, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    nodes = grown(rng, ["LEQ"], 2, 2)
    attrs = attributes(rng, nodes, missing=False) | weighted(rng, nodes, 3, "class")
    attrs |= {"classlabels_strings": ["a", "b", "c"]}
    made = model("TreeEnsembleClassifier", ["l", "s"], 3, 1, attrs)
    del made.graph.output[0]
    assert check(child, tmp_path, made, examples(rng, 3))
