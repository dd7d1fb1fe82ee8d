"""8-bit and 16-bit samples: parameters by the rule of each row."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from row_samples.sample import Sample
from straightway.ir import Quant

LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32767, 32767)}


def quant(scale: float, zero_point: int = 0) -> Quant:
    """One scale for the whole tensor."""
    return Quant(scale=np.float32(scale), zero_point=np.int64(zero_point))


def observed(array: np.ndarray, dtype: np.dtype) -> Quant:
    """Parameters for the range of an array, 0 included."""
    low, high = LIMITS[dtype.name]
    least, most = min(float(array.min()), 0.0), max(float(array.max()), 0.0)
    if dtype == np.int16:
        return quant(max(-least, most, 1e-3) / high)
    scale = max(most - least, 1e-3) / (high - low)
    return quant(scale, round(low - least / scale))


def fixed(rule: str, dtype: np.dtype) -> Quant:
    """The parameters of a rule "fixed:s,z" in a type."""
    scale, zero_point = rule.removeprefix("fixed:").split(",")
    if dtype == np.int16:
        return quant(1 / 32768)
    return quant(float(Fraction(scale)), int(zero_point) + (128 if dtype == np.uint8 else 0))


def to_integer(array: np.ndarray, q: Quant, dtype: np.dtype) -> np.ndarray:
    """Round to the nearest."""
    low, high = LIMITS[dtype.name]
    return np.clip(np.round(array / q.scale) + q.zero_point, low, high).astype(dtype)


def to_real(array: np.ndarray, q: Quant) -> np.ndarray:
    """What the integers stand for."""
    axis = q.axis
    scale, zero = np.asarray(q.scale, float), np.asarray(q.zero_point, float)
    if axis is not None and scale.size > 1:
        shape = [1] * array.ndim
        shape[axis] = -1
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    return (array.astype(float) - zero) * scale


def quantize(sample: Sample, dtype: np.dtype) -> Sample:
    """The sample with its float tensors as integers of a type, by the rule of its row."""
    row = sample.row
    if row.quant == "weights":
        return quantize_weights(sample, dtype)
    own = [k for k, a in enumerate(sample.inputs) if a is not None and a.dtype == np.float32]
    real = {k: sample.inputs[k] for k in own}
    results = {f"y{k}": r for k, r in enumerate(sample.expected()) if r.dtype.kind == "f"}
    quants: dict[int | str, Quant] = {}
    if row.quant == "same":
        together = np.concatenate([a.ravel() for a in (*real.values(), *results.values())])
        quants = dict.fromkeys([*real, *results], observed(together, dtype))
    else:
        quants = {k: observed(a, dtype) for k, a in {**real, **results}.items()}
    if row.quant.startswith("fixed"):
        quants["y0"] = fixed(row.quant, dtype)
    inputs = [
        to_integer(a, quants[k], dtype) if k in real else a for k, a in enumerate(sample.inputs)
    ]
    return replace(sample, inputs=tuple(inputs), quants=quants)


def per_channel(weights: np.ndarray, axis: int) -> Quant:
    """Symmetric scales, one for each slice along an axis."""
    others = tuple(k for k in range(weights.ndim) if k != axis)
    scale = (np.abs(weights).max(others) / 127).astype(np.float32)
    return Quant(scale=scale, zero_point=np.zeros(scale.shape, np.int64), axis=axis)


def channel_axis(sample: Sample) -> tuple[int, int]:
    """The output channels of the filter: logical axis, stored axis."""
    logical = 1 if sample.op == "TRANSPOSE_CONV" else 0
    stored = {"DEPTHWISE_CONV_2D": 3}.get(sample.op, 0)
    return logical, stored


def quantize_weights(sample: Sample, dtype: np.dtype, *, dynamic: bool = False) -> Sample:
    """Weights per channel (per tensor for uint8), bias at the product of the scales."""
    x, w = sample.inputs[:2]
    bias = sample.inputs[2] if len(sample.inputs) > 2 else None
    absent = len(sample.inputs) > 2 and bias is None
    (y,) = sample.expected()
    logical, stored = channel_axis(sample)
    if dtype == np.uint8:
        wq = observed(w, dtype)
        w8 = to_integer(w, wq, dtype)
        per = np.float32(wq.scale)
    else:
        wq = per_channel(w, logical)
        shape = [1] * w.ndim
        shape[logical] = -1
        w8 = np.round(w / wq.scale.reshape(shape)).astype(np.int8)
        per = wq.scale
    quants: dict[int | str, Quant] = {1: replace(wq, axis=None if wq.axis is None else stored)}
    if dynamic:
        return replace(sample, inputs=(x, w8, *sample.inputs[2:]), quants=quants)
    quants |= {0: observed(x, dtype), "y0": observed(y, dtype)}
    inputs = [to_integer(x, quants[0], dtype), w8, *([None] if absent else [])]
    if bias is not None:
        scale = np.atleast_1d(quants[0].scale * per)
        kind = np.int64 if dtype == np.int16 else np.int32
        inputs.append(np.round(bias / scale).astype(kind))
        quants[2] = Quant(
            scale=scale.astype(np.float32), zero_point=np.zeros(scale.shape, np.int64), axis=0
        )
    return replace(sample, inputs=tuple(inputs), quants=quants)


def real_inputs(sample: Sample) -> list[np.ndarray | None]:
    """What the operands of a quantized sample stand for."""
    quants: Mapping[int | str, Quant] = sample.quants
    found: list[np.ndarray | None] = []
    for k, array in enumerate(sample.inputs):
        q = quants.get(k)
        if array is None or q is None:
            found.append(array)
        elif k == 1 and sample.row.quant == "weights":
            found.append(
                to_real(array, replace(q, axis=None if q.axis is None else channel_axis(sample)[0]))
            )
        else:
            found.append(to_real(array, q))
    return found
