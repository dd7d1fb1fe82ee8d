"""Models with graphs inside their nodes, against onnxruntime."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from straightway.errors import InvalidModel, Unsupported
from straightway.flow.convert import Conversion, convert
from straightway.lower import control_unroll
from straightway.run.process import Child

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child(engines=["onnxruntime", "litert"]) as made:
        yield made


@pytest.fixture
def no_unrolling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_unroll, "run", lambda graph: [])


class Converter:
    """Converts the text of a model, and compares with onnxruntime."""

    def __init__(self, child: Child, folder: Path) -> None:
        self.child = child
        self.path = folder / "model.onnx"
        self.head = HEAD

    def __call__(self, text: str, **arrays: np.ndarray) -> Conversion:
        self.path.write_bytes(onnx.parser.parse_model(self.head + text).SerializeToString())
        if not arrays:
            return convert(self.path, child=self.child)
        inputs = self.path.with_suffix(".npz")
        np.savez(inputs, **arrays)
        return convert(self.path, child=self.child, inputs=inputs)


@pytest.fixture
def converted(child: Child, tmp_path: Path) -> Converter:
    return Converter(child, tmp_path)


def ops(found: Conversion) -> list[str]:
    return [node.op.name for node in found.translation.written.operators]


def inner_ops(found: Conversion) -> set[str]:
    """Names of the ops in graphs inside."""
    graphs = [g for node in found.translation.written.operators for g in node.graphs()]
    return {node.op.name for graph in graphs for node in graph.nodes}


def floats(*shape: int) -> np.ndarray:
    return np.linspace(-1, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape)


BRANCHES = """
    m (float[2,3] x, bool c) => (float[2,3] y, float[2,3] z) {
        w = Exp(x)
        y, z = If(c) <
            then_branch = t () => (float[2,3] a, float[2,3] b) { a = Add(w, x) b = Identity(x) },
            else_branch = e () => (float[2,3] d, float[2,3] f) {
                k = Constant<value = float {0.5}>()
                d = Mul(x, k)
                f = Neg(w)
            }
        >
    }
"""


@pytest.mark.parametrize("condition", [True, False])
def test_branches_read_values_of_the_graph_around(converted: Converter, condition: bool) -> None:
    found = converted(BRANCHES, x=floats(2, 3), c=np.array(condition))
    assert ops(found) == ["EXP", "IF"]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_branch_inside_a_branch(converted: Converter, sign: int) -> None:
    text = """
        m (float[2,3] x) => (float[2,3] y) {
            zero = Constant<value = float {0.0}>()
            s = ReduceSum<keepdims = 0>(x)
            c = Less(s, zero)
            y = If(c) <
                then_branch = t () => (float[2,3] a) {
                    p = Exp(x)
                    d = Greater(s, zero)
                    a = If(d) <
                        then_branch = tt () => (float[2,3] b) { b = Add(p, x) },
                        else_branch = te () => (float[2,3] e) { e = Mul(p, s) }
                    >
                },
                else_branch = f () => (float[2,3] g) { g = Neg(x) }
            >
        }
    """
    found = converted(text, x=floats(2, 3) * sign)
    assert inner_ops(found) >= {"IF", "NEG", "EXP"}


CONVOLUTIONS = """
    m (float[1,3,6,5] x, bool c) => (float[1,4,4,4] y) <float[4,3,3,2] w = {WEIGHTS}> {
        a = Relu(x)
        y = If(c) <
            then_branch = t () => (float[1,4,4,4] d) { d = Conv(a, w) },
            else_branch = e () => (float[1,4,4,4] f) {
                b = Conv(a, w)
                g = Softmax<axis = 1>(b)
                f = Neg(g)
            }
        >
    }
"""


@pytest.mark.parametrize("condition", [True, False])
def test_branches_have_layouts_of_their_own(converted: Converter, condition: bool) -> None:
    """What goes in and comes out has the model's order; conversions inside are counted."""
    weights = ",".join(map(str, floats(72)))
    text = CONVOLUTIONS.replace("WEIGHTS", weights)
    found = converted(text, x=floats(1, 3, 6, 5), c=np.array(condition))
    assert "TRANSPOSE" in inner_ops(found)
    assert len(found.translation.layout.plan.conversions) == 4


def test_branches_of_unlike_shapes_are_refused(converted: Converter) -> None:
    text = """
        m (float[2,3] x, bool c) => (float[n] y) {
            axis = Constant<value_ints = [0]>()
            flat = Constant<value_ints = [6]>()
            y = If(c) <
                then_branch = t () => (float[3] a) { a = ReduceSum<keepdims = 0>(x, axis) },
                else_branch = e () => (float[6] b) { b = Reshape(x, flat) }
            >
        }
    """
    with pytest.raises(Unsupported, match="both branches must give the same; 'a' is f32"):
        converted(text)


def test_what_is_refused_inside_is_named(converted: Converter) -> None:
    text = """
        m (float[2,3] x, bool c) => (float[2,3] y) {
            y = If(c) <
                then_branch = t () => (float[2,3] a) { [inner] a = Mystery(x) },
                else_branch = e () => (float[2,3] b) { b = Neg(x) }
            >
        }
    """
    with pytest.raises(Unsupported) as caught:
        converted(text)
    assert [remark.node for remark in caught.value.remarks] == ["inner"]


ITERATED = """
    m (float[2] x, int64 n) => (float[2] y, float[2] z) {
        yes = Constant<value = bool {1}>()
        y, z = Loop(n, yes, x, x) <
            body = b (int64 i, bool c, float[2] p, float[2] q) => (bool d, float[2] r, float[2] s) {
                d = Identity(c)
                f = Cast<to = 1>(i)
                r = Add(q, f)
                s = Identity(p)
            }
        >
    }
"""


@pytest.mark.parametrize("turns", [0, 1, 5])
def test_turns_counted_when_it_runs(converted: Converter, turns: int) -> None:
    """Carried values change places, which must not overwrite each other."""
    found = converted(ITERATED, x=floats(2), n=np.array(turns))
    assert "WHILE" in ops(found)


def test_turns_until_a_value_is_reached(converted: Converter) -> None:
    text = """
        m (float x) => (float y, int64 n) {
            k = Constant<value = float {100.0}>()
            zero = Constant<value = int64 {0}>()
            c = Less(x, k)
            y, n = Loop("", c, x, zero) <
                body = b (int64 i, bool c, float p, int64 q) => (bool d, float r, int64 s) {
                    r = Add(p, p)
                    d = Less(r, k)
                    s = Add(i, zero)
                }
            >
        }
    """
    for start in (3.0, 99.0, 200.0):
        found = converted(text, x=np.float32(start))
        assert "WHILE" in ops(found)


def test_loops_inside_loops_and_branches(converted: Converter) -> None:
    text = """
        m (float[2] x, int64 n, bool c) => (float[2] y) {
            y = If(c) <
                then_branch = t () => (float[2] a) {
                    a = Loop(n, "", x) <
                        body = b (int64 i, bool c1, float[2] p) => (bool d1, float[2] q) {
                            d1 = Identity(c1)
                            q = Loop(i, "", p) <
                                body = bb (int64 j, bool c2, float[2] r) => (bool d2, float[2] s) {
                                    d2 = Identity(c2)
                                    s = Add(r, x)
                                }
                            >
                        }
                    >
                },
                else_branch = e () => (float[2] f) { f = Neg(x) }
            >
        }
    """
    for condition in (True, False):
        converted(text, x=floats(2), n=np.array(4), c=np.array(condition))


def test_rows_are_collected_where_the_model_says_how_many(converted: Converter) -> None:
    text = """
        m (float[2] x, int64 n) => (float[2] y, float[4,2] rows) {
            y, rows = Loop(n, "", x) <
                body = b (int64 i, bool c, float[2] p) => (bool d, float[2] q, float[2] row) {
                    d = Identity(c)
                    q = Add(p, x)
                    row = Mul(q, x)
                }
            >
        }
    """
    found = converted(text, x=floats(2), n=np.array(4))
    assert "DYNAMIC_UPDATE_SLICE" in inner_ops(found)
    with pytest.raises(Unsupported, match="as many rows as there are turns"):
        converted(text.replace("float[4,2] rows", "float[n,2] rows"))


def test_what_is_carried_must_keep_its_shape(converted: Converter) -> None:
    text = """
        m (float[2] x, int64 n) => (float[k] y) {
            y = Loop(n, "", x) <
                body = b (int64 i, bool c, float[k] p) => (bool d, float[l] q) {
                    d = Identity(c)
                    [grows] q = Concat<axis = 0>(p, x)
                }
            >
        }
    """
    with pytest.raises(Unsupported, match=r"is f32\[2\], node 'grows' makes it f32\[4\]"):
        converted(text)


def test_turns_that_are_written_out_may_change_shapes(converted: Converter) -> None:
    text = """
        m (float[2] x) => (float[8] y, float[3,2] z) {
            n = Constant<value = int64 {3}>()
            y, z = Loop(n, "", x) <
                body = b (int64 i, bool c, float[k] p) => (bool d, float[l] q, float[2] r) {
                    d = Identity(c)
                    q = Concat<axis = 0>(p, x)
                    f = Cast<to = 1>(i)
                    r = Mul(x, f)
                }
            >
        }
    """
    found = converted(text)
    assert "WHILE" not in ops(found)


COUNTED = """
    m (float[2] x) => (float[2] y) {
        n = Constant<value = int64 {LIMIT}>()
        start = Constant<value = int64 {1}>()
        seven = Constant<value = int64 {7}>()
        yes = Constant<value = bool {1}>()
        k, y = Loop(n, yes, start, x) <
            body = b (int64 i, bool c, int64 a, float[2] p) => (bool d, int64 a1, float[2] q) {
                a1 = Add(a, i)
                d = Less(a1, seven)
                q = Add(p, p)
            }
        >
    }
"""


@pytest.mark.parametrize(("limit", "turns"), [(100, 4), (3, 3), (0, 0)])
def test_a_condition_that_is_known_beforehand(converted: Converter, limit: int, turns: int) -> None:
    """1, 2, 4, 7: the fourth turn ends it."""
    found = converted(COUNTED.replace("LIMIT", str(limit)))
    assert [op for op in ops(found) if op != "RESHAPE"] == ["ADD"] * turns


CARRIED_WEIGHTS = """
    m (float[2,3] x) => (float[2,3] y, float[4,2,3] rows) <float[3,3] w = {WEIGHTS}> {
        limit = Constant<value = float {4.0}>()
        zero = Constant<value = int64 {0}>()
        k, y, same, rows = Loop("", "", zero, x, w) <
            body = b (int64 i, bool c, int64 a, float[2,3] p, float[3,3] v) =>
                (bool d, int64 a1, float[2,3] q, float[3,3] u, float[2,3] row) {
                one = Constant<value = int64 {1}>()
                a1 = Add(a, one)
                f = Cast<to = 1>(a1)
                d = Less(f, limit)
                q = MatMul(p, v)
                u = Identity(v)
                row = Neg(q)
            }
        >
    }
"""


def test_weights_that_are_only_handed_on_are_constants(
    converted: Converter, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = CARRIED_WEIGHTS.replace("WEIGHTS", ",".join(map(str, floats(9))))
    assert ops(converted(text)).count("FULLY_CONNECTED") == 4
    monkeypatch.setattr(control_unroll, "run", lambda graph: [])
    assert "FULLY_CONNECTED" in inner_ops(converted(text))


def test_a_scan_hands_on_what_its_results_read(converted: Converter) -> None:
    text = """
        m (float[2] s, float[3,2] x) => (float[2] z, float[3,2] y) {
            t, y = Scan<
                num_scan_inputs = 1,
                body = b (float[2] a, float[2] p) => (float[2] d, float[2] e) {
                    d = Identity(a)
                    e = Mul(a, p)
                }
            >(s, x)
            z = Neg(t)
        }
    """
    assert ops(converted(text)).count("MUL") == 3


SCANNED = """
    m (float[2] s, float[5,2] x, float[2,5,3] w) =>
        (float[2] t, float[5,2] y, float[2,5,3] v, float[2,3,5] u) {
        t, y, v, u = Scan<
            num_scan_inputs = 2,
            scan_input_axes = [0, 1],
            scan_input_directions = [1, 0],
            scan_output_axes = [0, 1, -1],
            scan_output_directions = [0, 1, 0],
            body = b (float[2] a, float[2] p, float[2,3] q) =>
                (float[2] d, float[2] e, float[2,3] f, float[2,3] g) {
                d = Add(a, p)
                e = Mul(d, s)
                f = Neg(q)
                h = Transpose(f)
                m = Mul(h, d)
                g = Transpose(m)
            }
        >(s, x, w)
    }
"""


def test_scan_written_out(converted: Converter) -> None:
    assert "WHILE" not in ops(converted(SCANNED))


@pytest.mark.usefixtures("no_unrolling")
def test_scan_in_turns(converted: Converter) -> None:
    assert "WHILE" in ops(converted(SCANNED))


def test_scan_over_a_batch(converted: Converter) -> None:
    """Until opset 8."""
    text = """
        m (float[3,2] s, float[3,4,2] x) => (float[3,2] t, float[3,4,2] y) {
            t, y = Scan<
                num_scan_inputs = 1,
                directions = [1],
                body = b (float[2] a, float[2] p) => (float[2] d, float[2] e) {
                    d = Add(a, p)
                    e = Mul(d, p)
                }
            >("", s, x)
        }
    """
    converted.head = HEAD.replace("17", "8")
    converted(text)


def test_a_long_scan_stays_a_loop(converted: Converter) -> None:
    text = """
        m (float[2] s, float[5000,2] x) => (float[2] t, float[5000,2] y) {
            t, y = Scan<
                num_scan_inputs = 1,
                body = b (float[2] a, float[2] p) => (float[2] d, float[2] e) {
                    d = Add(a, p)
                    e = Identity(d)
                }
            >(s, x)
        }
    """
    found = converted(text, s=floats(2), x=floats(5000, 2) / 100)
    assert "WHILE" in ops(found)


def test_narrow_floats_inside(converted: Converter) -> None:
    """Computed in float32, there too; what a Cast rounds stays rounded."""
    narrow = ITERATED.replace("float[", "float16[").replace("Cast<to = 1>", "Cast<to = 10>")
    found = converted(narrow, x=floats(2).astype(np.float16), n=np.array(3))
    assert ops(found).count("CAST") == 3


def test_the_same_file_again(converted: Converter) -> None:
    first = converted(ITERATED, x=floats(2), n=np.array(2)).data
    assert converted(ITERATED, x=floats(2), n=np.array(2)).data == first


SUMMED = """
    m (float[2] s, float[3,2] x) => (float[2] t, float[3,2] y) {
        t, y = Scan<
            num_scan_inputs = 1, ATTRIBUTES
            body = b (float[2] a, float[2] p) => (float[2] d, float[2] e) {
                d = Add(a, p)
                e = Neg(d)
            }
        >(s, x)
    }
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SUMMED.replace("inputs = 1", "inputs = 3"), r"num_scan_inputs lies in \[1, 2\]; got 3"),
        (
            SUMMED.replace("ATTRIBUTES", "scan_input_axes = [0, 1],"),
            "scan_input_axes has 1 entries",
        ),
        (SUMMED.replace("ATTRIBUTES", "scan_input_axes = [2],"), r"has no axis 2 to be scanned"),
        (SUMMED.replace("(s, x)", "(s, s, x)"), "its body has 3 inputs and 2 outputs"),
        (ITERATED.replace("Loop(n, yes, x, x)", "Loop(n, yes, x)"), "its body has 3 inputs and 3"),
        (
            BRANCHES.replace("(float[2,3] a, float[2,3] b)", "(float[2,3] a)"),
            "then_branch has 0 inp",
        ),
    ],
)
def test_graphs_that_do_not_fit_their_node(converted: Converter, text: str, message: str) -> None:
    with pytest.raises(InvalidModel, match=message):
        converted(text.replace("ATTRIBUTES", ""))


def test_rows_that_only_the_run_counts_are_told_what_helps(tmp_path):
    """No size does: the number of turns, or the result's own shape."""

    def save(rows, **constants):
        text = f"""(int64 n, float[3] x) => (float[3] f, float[{rows},3] all) {{
            f, all = Loop(n, , x) <body = b (int64 i, bool c, float[3] v) =>
                (bool d, float[3] w, float[3] row) {{ d = Identity(c)  w = Add(v, x)  row = Neg(w) }}>
        }}"""
        graph = onnx.parser.parse_graph("g " + text)
        for name, array in constants.items():
            graph.initializer.append(onnx.numpy_helper.from_array(array, name))
            del graph.input[0]
        imports = [onnx.helper.make_opsetid("", 18)]
        onnx.save(onnx.helper.make_model(graph, opset_imports=imports), tmp_path / "m.onnx")
        return tmp_path / "m.onnx"

    with pytest.raises(Unsupported, match="declare the result's shape") as found:
        convert(save("K"))
    assert "fix the sizes" not in str(found.value)
    assert convert(save("K", n=np.array(4))).verification.equal
    np.savez(tmp_path / "i.npz", n=np.array(4), x=np.ones(3, np.float32))
    assert convert(save(4), inputs=tmp_path / "i.npz").verification.equal
