"""Quantization and dequantization of constants: per tensor, per axis, in blocks."""

import ml_dtypes
import numpy as np

from straightway.passes.evaluator import Call, Result, Table, UnfoldableError

TABLE = Table()


def _aligned(parameter: np.ndarray, shape: tuple[int, ...], axis: int, block_size: int) -> Result:
    """Give a scale or zero point a shape that broadcasts to the tensor's."""
    if parameter.size == 1 and not block_size:
        return parameter.reshape(())
    if block_size:
        return np.repeat(parameter, block_size, axis).take(range(shape[axis]), axis)
    if parameter.ndim != 1 or parameter.size != shape[axis]:
        raise UnfoldableError(
            f"a scale of shape {list(parameter.shape)} does not fit axis {axis} of {list(shape)}"
        )
    axis = axis % len(shape)
    return parameter.reshape([-1 if a == axis else 1 for a in range(len(shape))])


@TABLE.evaluates("DequantizeLinear", ignored=("output_dtype",))
def dequantize(
    x: np.ndarray,
    scale: np.ndarray,
    zero_point: np.ndarray | None = None,
    /,
    *,
    axis: int = 1,
    block_size: int = 0,
    call: Call,
) -> Result:
    """(x - zero point) · scale, computed in float32."""
    if x.dtype.kind in "iu" or x.dtype.name in ("int4", "uint4", "int2", "uint2"):
        x = x.astype(np.int64)
        if zero_point is not None:
            x = x - _aligned(zero_point.astype(np.int64), x.shape, axis, block_size)
    elif zero_point is not None and np.any(zero_point.astype(np.float32) != 0):
        raise UnfoldableError("a floating zero point that is not zero")
    wide = np.float64 if scale.dtype == np.float64 else np.float32
    factor = _aligned(scale.astype(wide), x.shape, axis, block_size)
    return (x.astype(wide) * factor).astype(call.dtype)


@TABLE.evaluates("QuantizeLinear", ignored=("output_dtype", "saturate"))
def quantize(
    x: np.ndarray,
    scale: np.ndarray,
    zero_point: np.ndarray | None = None,
    /,
    *,
    axis: int = 1,
    block_size: int = 0,
    precision: int = 0,
    call: Call,
) -> Result:
    """round(x / scale), halves to even, plus the zero point, saturated."""
    target = call.dtype
    if target.kind not in "iu" and target.name not in ("int4", "uint4", "int2", "uint2"):
        raise UnfoldableError(f"quantization to {target} is left to the run time")
    if precision not in (0, 1) or x.dtype.kind == "V":
        raise UnfoldableError(f"precision {precision} of {x.dtype} is not evaluated")
    wide = x.astype(np.float32) if x.dtype != np.float64 else x
    quotient = np.rint(wide / _aligned(scale.astype(wide.dtype), x.shape, axis, block_size))
    if not np.all(np.isfinite(quotient)):
        raise UnfoldableError("a quotient is not finite")
    if zero_point is not None:
        offset = _aligned(zero_point.astype(np.float64), x.shape, axis, block_size)
        quotient = quotient.astype(np.float64) + offset
    limits = np.iinfo(target) if target.kind in "iu" else ml_dtypes.iinfo(target)  # type: ignore[no-untyped-call]
    return np.clip(quotient, int(limits.min), int(limits.max)).astype(target)


@TABLE.evaluates("DynamicQuantizeLinear")
def dynamic_quantize(x: np.ndarray, /) -> list[np.ndarray]:
    """To uint8 over the range of the operand and zero; gives numbers, scale and zero point."""
    low = np.minimum(np.float32(0), x.min()) if x.size else np.float32(0)
    high = np.maximum(np.float32(0), x.max()) if x.size else np.float32(0)
    scale = np.float32((high - low) / np.float32(255))
    if not scale > 0:
        raise UnfoldableError("a range of zero has no scale")
    zero_point = np.clip(np.rint(np.float32(0 - low) / scale), 0, 255).astype(np.uint8)
    quotient = np.rint(x / scale) + np.float32(zero_point)
    numbers = np.clip(quotient, 0, 255).astype(np.uint8)
    return [numbers, np.array(scale, np.float32), np.array(zero_point, np.uint8)]
