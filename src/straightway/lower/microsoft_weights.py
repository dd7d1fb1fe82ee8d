"""Products with weights of few bits, com.microsoft.

Source: onnxruntime/docs/ContribOperators.md, com.microsoft.MatMulNBits.
"""

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import Value
from straightway.lower.builder import Builder
from straightway.lower.declare import Const, case, lower, need
from straightway.lower.matrix import linear

DOMAIN = "com.microsoft"
BYTE = 8
# of accuracy_level: products of 8-bit integers
INTEGERS = 4
PACKED = np.arange(6 * 3 * 8, dtype=np.uint8).reshape(6, 3, 8) * np.uint8(7)
SCALES = np.linspace(0.05, 0.2, 18, dtype=np.float32)


@lower(
    "MatMulNBits",
    domain=DOMAIN,
    needs=[
        need(
            lambda bits: bits in (2, 4, BYTE),
            "bits must be 2, 4 or 8; got {bits}",
            possible=True,
        ),
        need(
            lambda accuracy_level: accuracy_level != INTEGERS,
            "accuracy_level must not be 4, by which activations are rounded to 8 bits; got "
            "{accuracy_level}",
            remedy="set accuracy_level to 0 or 1",
            possible=True,
        ),
        need(
            lambda groups: groups is None,
            "g_idx must be absent; got {groups}",
            remedy="quantize without act_order, which reorders the rows",
            possible=True,
        ),
        need(
            lambda weight_prepacked: not weight_prepacked,
            "weight_prepacked must be 0; got {weight_prepacked}",
            remedy="export weights in the portable order",
            possible=True,
        ),
    ],
    samples=[
        case(x=(2, 3, 40), packed=PACKED, scales=SCALES, K=40, N=6, block_size=16),
        case(
            x=(2, 40),
            packed=PACKED,
            scales=SCALES,
            zeros=np.arange(12, dtype=np.uint8) * np.uint8(19),
            K=40,
            N=6,
            block_size=16,
        ),
        case(
            x=(2, 40),
            packed=PACKED,
            scales=SCALES,
            zeros=np.linspace(0, 9, 18, dtype=np.float32),
            bias=SCALES[:6],
            K=40,
            N=6,
            block_size=16,
        ),
        case(
            x=(2, 16),
            packed=PACKED.reshape(-1)[:96].reshape(6, 1, 16),
            scales=SCALES[:6],
            K=16,
            N=6,
            block_size=16,
            bits=8,
        ),
    ],
    refuses=[
        case(x=(2, 40), packed=PACKED, scales=SCALES, K=40, N=6, block_size=16, bits=3),
        case(x=(2, 40), packed=PACKED, scales=SCALES, K=40, N=6, block_size=16, accuracy_level=4),
        case(x=(2, 40), packed=PACKED, scales=SCALES, K=40, N=6, block_size=16, weight_prepacked=1),
        case(
            x=(2, 40),
            packed=PACKED,
            scales=SCALES,
            groups=np.zeros(40, np.int32),
            K=40,
            N=6,
            block_size=16,
        ),
    ],
)
def matmul_of_few_bits(  # noqa: PLR0917 - the signature is the schema
    g: Builder,
    x: Value,
    packed: Const,
    scales: Const,
    zeros: Const | None = None,
    groups: Const | None = None,
    bias: Value | None = None,
    /,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int = 4,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Value:
    """Weights in blocks, each with a scale and a zero point, are stored as floats."""
    blocks = -(-K // block_size)
    numbers = unpacked(packed, bits)
    if numbers.size != N * blocks * block_size or scales.size != N * blocks:
        raise InvalidModel(f"{packed.shape} and {scales.shape} are not {N} x {K} weights in blocks")
    zero = np.full(1, 2 ** (bits - 1), np.float32)
    if zeros is not None:
        rows = unpacked(zeros, bits) if zeros.dtype == np.uint8 else zeros
        zero = rows.reshape(N, -1)[:, :blocks, None].astype(np.float32)
    found = numbers.reshape(N, blocks, block_size).astype(np.float32) - zero
    found *= scales.reshape(N, blocks, 1).astype(np.float32)
    weights = g.const(np.ascontiguousarray(found.reshape(N, -1)[:, :K]))
    g.note(f"weights of {bits} bits are stored as float32")
    y = linear(g, x, weights, x.rank - 1)
    return y if bias is None else g.ADD(y, bias)


def unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of few bits out of bytes, the lowest bits first."""
    places = np.arange(0, BYTE, bits, dtype=np.uint8)
    return (packed.reshape(-1, 1) >> places & np.uint8(2**bits - 1)).reshape(-1)
