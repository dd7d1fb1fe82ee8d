"""Work: multiplications and bytes, against numbers counted by hand or by numpy."""

import numpy as np
import pytest

from straightway.trace.schema import Op, Tensor
from straightway.trace.work import Peak, arithmetic, elements, macs, moved_bytes, rate, size_bytes


def op(kind, inputs, outputs, dtype="float32"):
    def tensors(shapes):
        return tuple(Tensor(shape=tuple(shape), dtype=dtype) for shape in shapes)

    return Op(index=0, kind=kind, inputs=tensors(inputs), outputs=tensors(outputs))


@pytest.mark.parametrize(
    ("kind", "inputs", "output", "expected"),
    [
        ("CONV_2D", [(1, 9, 9, 3), (8, 3, 5, 3), (8,)], (1, 7, 5, 8), 7 * 5 * 8 * 3 * 5 * 3),
        ("CONV_2D", [(1, 9, 9, 4), (8, 3, 3, 2), (8,)], (1, 7, 7, 8), 7 * 7 * 8 * 3 * 3 * 2),
        ("DEPTHWISE_CONV_2D", [(1, 9, 9, 4), (1, 3, 5, 8), (8,)], (1, 7, 5, 8), 7 * 5 * 8 * 15),
        ("TRANSPOSE_CONV", [(4,), (6, 2, 3, 5), (1, 4, 7, 5)], (1, 8, 21, 6), 4 * 7 * 5 * 36),
        ("CONV_3D", [(1, 4, 5, 6, 2), (2, 3, 3, 2, 7)], (1, 3, 3, 4, 7), 36 * 7 * 36),
        ("FULLY_CONNECTED", [(3, 10), (4, 10), (4,)], (3, 4), 120),
        ("BATCH_MATMUL", [(2, 3, 4), (2, 4, 5)], (2, 3, 5), 120),
        ("BATCH_MATMUL", [(2, 4, 3), (2, 5, 4)], (2, 3, 5), 120),  # both transposed
        ("UNIDIRECTIONAL_SEQUENCE_RNN", [(2, 7, 3), (5, 3), (5, 5), (5,), (2, 5)], (2, 7, 5), 560),
        ("Conv", [(1, 4, 9, 9), (8, 2, 3, 3)], (1, 8, 7, 7), 7 * 7 * 8 * 18),
        ("ConvTranspose", [(1, 4, 5, 5), (4, 6, 2, 2)], (1, 6, 10, 10), 100 * 24),
        ("MatMul", [(10,), (10, 4)], (4,), 40),
        ("MatMul", [(3, 10), (10,)], (3,), 30),
        ("MatMul", [(3, 10)], (3, 4), 120),  # onnxruntime does not tell packed weights
        ("Gemm", [(10, 3), (10, 4)], (3, 4), 120),  # the first is transposed
        ("LSTM", [(7, 2, 3), (1, 20, 3), (1, 20, 5), (1, 40), (2,), (1, 2, 5)], (7, 1, 2, 5), 2240),
        ("ADD", [(4,), (4,)], (4,), 0),
        ("Nobody", [(4,)], (4,), 0),
        ("CONV_2D", [(1, 9, 9, 3), (8, 3, 5, 3)], (1, -1, 5, 8), None),
        ("CONV_2D", [(1, 9, 9, 3)], (1, 7, 5, 8), None),
        ("Gemm", [(-1, 3), (3, 4)], (-1, 4), None),
    ],
)
def test_multiplications(kind, inputs, output, expected):
    assert macs(op(kind, inputs, [output])) == expected


def test_a_convolution_counts_what_numpy_multiplies():
    rng = np.random.default_rng(0)
    x, w = rng.random((6, 7, 3)), rng.random((4, 2, 3, 3))
    counted = 0
    for row in range(5):
        for column in range(5):
            patch = x[row : row + 2, column : column + 3]
            counted += sum(patch.size for _ in w)
    assert macs(op("CONV_2D", [(1, *x.shape), w.shape], [(1, 5, 5, 4)])) == counted


@pytest.mark.parametrize(
    ("kind", "inputs", "outputs", "dtype", "expected"),
    [
        ("ADD", [(10,), (10,)], [(10,)], "float32", 120),
        ("ADD", [(10,), (10,)], [(10,)], "int8", 30),
        ("RESHAPE", [(10,), (2,)], [(2, 5)], "float32", 0),
        ("SLICE", [(1000,), (1,), (1,)], [(10,)], "float32", 80),
        ("GATHER", [(1000, 4), (3,)], [(3, 4)], "float32", 96),
        ("SPLIT", [(), (10,)], [(5,), (5,)], "float32", 80),
        ("FULLY_CONNECTED", [(1, 3), (4, 3)], [(1, 4)], "int4", 2 + 6 + 2),
        ("ADD", [(-1,), (10,)], [(10,)], "float32", None),
        ("ADD", [(10,), (10,)], [(10,)], "string", None),
    ],
)
def test_bytes(kind, inputs, outputs, dtype, expected):
    assert moved_bytes(op(kind, inputs, outputs, dtype)) == expected


def test_an_operand_that_is_read_twice_moves_once():
    x, other = (Tensor(name=name, shape=(10,), dtype="float32") for name in "xo")
    square = Op(index=0, kind="MUL", inputs=(x, x), outputs=(other,))
    assert moved_bytes(square) == 80


def test_sizes_of_one_tensor():
    assert size_bytes(Tensor(shape=(3,), dtype="int4")) == 2
    assert elements(Tensor(shape=())) == 1
    assert elements(Tensor(shape=(2, -1))) is None


PEAK = Peak(gmacs={"float32": 100.0}, bandwidths=((1000, 50.0), (100_000, 10.0)), method="hand")


def test_the_roofline_takes_the_slower_limit():
    product = op("FULLY_CONNECTED", [(100, 100), (100, 100)], [(100, 100)])
    got = rate(product, 2e5, PEAK)
    assert got is not None
    assert got.gmacs == 5.0
    assert got.gbs == pytest.approx(0.6)
    # 10⁶ multiplications take 10 µs, 120 kB at 10 GB/s take 12 µs
    assert (got.bound, got.roofline) == ("memory", pytest.approx(0.06))
    small = rate(op("FULLY_CONNECTED", [(1, 10)] * 2, [(1, 1)]), 10.0, PEAK)
    assert small is not None
    assert (small.bound, small.roofline) == ("memory", pytest.approx(84 / 50 / 10))
    assert small.limit_gbs == pytest.approx(50.0)


def test_what_fits_no_cache_is_held_against_memory_and_what_fits_against_the_cache():
    small, large = (op("ADD", [(length,)] * 2, [(length,)]) for length in (80, 8_000_000))
    assert rate(small, 12 * 80 / 50, PEAK).roofline == pytest.approx(1.0)
    assert rate(large, 12 * 8_000_000 / 10, PEAK).roofline == pytest.approx(1.0)


def test_compute_bound_where_multiplications_are_many():
    square = [(1000, 1000)] * 2
    got = rate(op("FULLY_CONNECTED", square, [(1000, 1000)]), 2e7, PEAK)
    assert got is not None
    assert (got.bound, got.roofline) == ("compute", pytest.approx(0.5))


def test_bandwidth_falls_evenly_between_measured_sizes_and_holds_beyond_them():
    assert PEAK.bandwidth_gbs(10**9) == pytest.approx(10.0)
    assert PEAK.bandwidth_gbs(10) == pytest.approx(50.0)
    # half of the way in size and in rate, both as logarithms
    assert PEAK.bandwidth_gbs(10_000) == pytest.approx((50.0 * 10.0) ** 0.5)
    assert PEAK.limit_ns(1000, 0, "float32") == 10.0
    assert PEAK.limit_ns(1000, 500, "int64") == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("kind", "operand", "weights", "result", "expected"),
    [
        ("FULLY_CONNECTED", "float32", "float32", "float32", "float32"),
        ("FULLY_CONNECTED", "float32", "int8", "float32", "int8"),
        ("FULLY_CONNECTED", "float32", "int4", "float32", "int8"),
        ("CONV_2D", "int8", "int8", "int8", "int8"),
        ("ADD", "int8", "int8", "int8", "int8"),
        ("GATHER", "float32", "int8", "float32", "float32"),
    ],
)
def test_the_arithmetic_is_that_of_the_weights(kind, operand, weights, result, expected):
    shape = (1, 4, 4, 4) if kind == "CONV_2D" else (4, 4)
    tensors = [Tensor(shape=shape, dtype=dtype) for dtype in (operand, weights, result)]
    found = Op(index=0, kind=kind, inputs=tuple(tensors[:2]), outputs=(tensors[2],))
    assert arithmetic(found) == expected


def test_unknown_work_has_no_rate():
    assert rate(op("ADD", [(-1,)], [(1,)]), 1.0, PEAK) is None
    assert rate(op("ADD", [(1,)], [(1,)]), 0.0, PEAK) is None
