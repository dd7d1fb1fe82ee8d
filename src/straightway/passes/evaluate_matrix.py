"""Products of constant matrices, and convolutions of constants by constants."""

import math

import numpy as np

from straightway.passes.evaluator import Result, Table, UnfoldableError

TABLE = Table()
# Some seconds of one core; more is left to the run time.
MOST_MULTIPLICATIONS = 20_000_000_000
# Einsum without a plan runs one loop over all indices.
MOST_EINSUM_MULTIPLICATIONS = 200_000_000


def _product(a: np.ndarray, b: np.ndarray) -> Result:
    if a.ndim and b.ndim:
        shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        rows = a.shape[-2] if a.ndim > 1 else 1
        columns = b.shape[-1] if b.ndim > 1 else 1
        if math.prod(shape) * rows * columns * a.shape[-1] > MOST_MULTIPLICATIONS:
            raise UnfoldableError(f"{list(a.shape)} by {list(b.shape)} takes too long")
    return np.asarray(np.matmul(a, b))


@TABLE.evaluates("MatMul")
def matmul(a: np.ndarray, b: np.ndarray, /) -> Result:
    """As numpy's matmul."""
    return _product(a, b)


@TABLE.evaluates("Gemm")
def gemm(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray | None = None,
    /,
    *,
    alpha: float,
    beta: float,
    transA: int,  # noqa: N803 - ONNX's own name
    transB: int,  # noqa: N803 - ONNX's own name
) -> Result:
    """alpha·A·B + beta·C."""
    product = _product(a.T if transA else a, b.T if transB else b)
    result = product * a.dtype.type(alpha)
    return result if c is None else result + c * a.dtype.type(beta)


@TABLE.evaluates("Conv")
def convolution(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None = None,
    /,
    *,
    auto_pad: str,
    dilations: tuple[int, ...] | None = None,
    group: int,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Result:
    """Products of each window with the filters of its group; windows padded by auto_pad SAME are left."""
    rank = x.ndim - 2
    if auto_pad not in ("NOTSET", "VALID") or kernel_shape not in (None, w.shape[2:]):
        raise UnfoldableError(
            f"auto_pad {auto_pad} beside filters of {list(w.shape)} is not evaluated"
        )
    steps, apart, around = strides or (1,) * rank, dilations or (1,) * rank, pads or (0,) * 2 * rank
    padded = np.pad(x, [(0, 0), (0, 0), *zip(around[:rank], around[rank:], strict=True)])
    reach = [gap * (size - 1) + 1 for gap, size in zip(apart, w.shape[2:], strict=True)]
    axes = tuple(range(2, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axes)
    taken = [slice(None, None, step) for step in (*steps, *apart)]
    windows = windows[(slice(None), slice(None), *taken)]
    places = windows.shape[2 : 2 + rank]
    columns = np.moveaxis(windows, 1, 1 + rank).reshape(len(x), math.prod(places), group, -1)
    filters = w.reshape(group, len(w) // group, -1)
    result = _product(columns.transpose(0, 2, 1, 3), filters.transpose(0, 2, 1))
    result = result.transpose(0, 1, 3, 2).reshape(len(x), len(w), *places)
    return result if b is None else result + b.reshape(-1, *[1] * rank)


@TABLE.evaluates("MatMulInteger")
def matmul_integer(
    a: np.ndarray,
    b: np.ndarray,
    a_zero: np.ndarray | None = None,
    b_zero: np.ndarray | None = None,
    /,
) -> Result:
    """int32 products less the zero points; a's are one a row, b's one a column."""
    left, right = a.astype(np.int32), b.astype(np.int32)
    if a_zero is not None:
        left = left - (a_zero.reshape(-1, 1) if a_zero.ndim == 1 else a_zero).astype(np.int32)
    if b_zero is not None:
        right = right - b_zero.astype(np.int32)
    return _product(left, right)


@TABLE.evaluates("Einsum")
def einsum(*operands: np.ndarray, equation: str) -> Result:
    """As numpy's einsum, while it is small."""
    equation = equation.replace(" ", "")
    sizes: dict[str, int] = {}
    for term, operand in zip(equation.split("->")[0].split(","), operands, strict=True):
        if "." in term or len(term) != operand.ndim:
            raise UnfoldableError(f"equation '{equation}' is not evaluated")
        for letter, length in zip(term, operand.shape, strict=True):
            sizes[letter] = max(sizes.get(letter, 1), length)
    if math.prod(sizes.values()) > MOST_EINSUM_MULTIPLICATIONS:
        raise UnfoldableError(f"equation '{equation}' over {sizes} takes too long")
    return np.asarray(np.einsum(equation, *operands))
