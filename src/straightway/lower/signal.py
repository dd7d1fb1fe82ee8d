"""Fourier transforms as products with constant matrices, and the constants of signal processing.

The entries of the matrices are rounded once, from float64; sums are as long as the transform.
"""

import math

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import TensorType, Value
from straightway.lower.axes import counted
from straightway.lower.builder import Builder
from straightway.lower.choice import chosen
from straightway.lower.declare import ABSENT, Const, Ints, case, lower, need, run
from straightway.lower.looked_up import Given, known_ints
from straightway.lower.matrix import linear
from straightway.lower.tables import refuse_large_table
from straightway.lower.window import Span, convolve, no_bias

BEFORE_LAST = Ints([-2])


def response(count: int, length: int, *, inverse: bool, onesided: bool) -> np.ndarray:
    """What a transform of `length` points makes of each of `count` real and imaginary units.

    [2 (real, imaginary unit), count, points that come out], complex. Raises InvalidModel without points.
    """
    if length < 1:
        raise InvalidModel(f"a transform has at least one point; got {length}")
    ones = np.eye(count, max(length, 1))  # what is behind the length is cut off
    units = np.stack([ones, 1j * ones])
    if inverse:
        transform = np.fft.irfft if onesided else np.fft.ifft
        return np.asarray(transform(units, length, axis=-1), np.complex128)
    found = np.fft.fft(units, length, axis=-1)
    return found[..., : length // 2 + 1] if onesided else found


def matrix(found: np.ndarray, parts: int, *, real: bool) -> np.ndarray:
    """Weights [points · (real, imaginary), count · parts] of a response; `real`: real ones come out."""
    taken = found[:parts]
    pairs = taken.real[..., None] if real else np.stack([taken.real, taken.imag], -1)
    return pairs.transpose(2, 3, 1, 0).reshape(pairs.shape[2] * pairs.shape[3], -1)


# batch, length, real and imaginary part
SIGNAL_RANK = 3
SIGNAL = run(np.sin(np.arange(60)).reshape(2, 5, 3, 2))


def fits_onesided(x: Value, dft_length: Ints, axis: Given) -> bool:
    """Whether one side of a spectrum has as many points as its transform back needs, along any axis."""
    counts = [x.shape[place] for place in places(axis, x.rank)]
    return not dft_length or all(dft_length[0] // 2 + 1 == count for count in counts)


def places(axis: Given, rank: int) -> tuple[int, ...]:
    """The axis, or all that it may be where it comes at run time; the last are the parts of a number."""
    known = known_ints(axis)
    return tuple(range(rank - 1)) if known is None else (counted(known[0], rank),)


@lower(
    "DFT",
    needs=[
        need(
            lambda x, dft_length, axis, inverse, onesided: (
                not (inverse and onesided) or fits_onesided(x, dft_length, axis)
            ),
            "one side of a spectrum must have dft_length / 2 + 1 points, since ONNX's reference and ONNX "
            "Runtime disagree on others; got {x.type} and {dft_length}",
            remedy="slice or pad the spectrum first",
            possible=True,
        )
    ],
    refuses=[
        case(
            input=SIGNAL,
            axis=np.array(1),
            dft_length=np.array(7),
            inverse=1,
            onesided=1,
            opset=20,
        )
    ],
    samples=[
        case(input=(2, 6, 1), opset=17),
        case(input=(2, 6, 3, 1), axis=2, onesided=1, opset=17),
        case(input=SIGNAL, opset=20),
        case(input=SIGNAL, axis=np.array(1), inverse=1, opset=20),
        case(input=SIGNAL, axis=np.array(1), dft_length=np.array(8), opset=20),
        case(input=SIGNAL, axis=np.array(1), dft_length=np.array(3), inverse=1, opset=20),
        case(input=SIGNAL, axis=np.array(1), inverse=1, onesided=1, opset=20),
        case(
            input=SIGNAL,
            axis=np.array(1),
            dft_length=np.array(9),
            inverse=1,
            onesided=1,
            opset=20,
        ),
        case(input=(2, 5, 1), axis=np.array(1), onesided=1, opset=20),
        case(input=(2, 5, 5, 1), axis=run(-2, np.int64), opset=20),
        case(input=(4, 6, 5, 1), axis=run(1, np.int64), onesided=1, opset=20),
    ],
)
def discrete_fourier(
    g: Builder,
    x: Value,
    dft_length: Ints = ABSENT,
    /,
    *,
    axis: Given = BEFORE_LAST,
    inverse: int = 0,
    onesided: int = 0,
    out: list[TensorType],
) -> Value:
    """A product along the axis; real and imaginary parts lie side by side.

    Where the axis comes at run time, one for each that gives such a result.
    """
    ways = (bool(inverse), bool(onesided))
    known = places(axis, x.rank)
    if len(known) == 1:
        return _transformed(g, x, known[0], dft_length, ways)
    made = []
    for place in known:
        points, parts = _sizes(x, place, dft_length, ways)[2:]
        dims = [points if d == place else size for d, size in enumerate(x.shape[:-1])]
        if (*dims, parts) == out[0].dims:
            made.append(place)
    if not made or not isinstance(axis, Value):
        raise InvalidModel(f"no axis of {x.type} is transformed into {out[0]}")
    results = [_transformed(g, x, place, dft_length, ways) for place in made]
    return chosen(g, g.FLOOR_MOD(g.reshape(axis, ()), x.rank), made, results)


def _sizes(
    x: Value, place: int, dft_length: Ints, ways: tuple[bool, bool]
) -> tuple[int, int, int, int]:
    """How many numbers go in, of how long a transform, how many come out, and of how many parts."""
    inverse, onesided = ways
    count = x.shape[place]
    real = inverse and onesided
    length = 2 * (count - 1) if real else count
    length = dft_length[0] if dft_length else length
    points = length // 2 + 1 if onesided and not inverse else length
    return count, length, points, 1 if real else 2


def _transformed(
    g: Builder, x: Value, place: int, dft_length: Ints, ways: tuple[bool, bool]
) -> Value:
    inverse, onesided = ways
    parts = x.shape[-1]
    count, length, points, made = _sizes(x, place, dft_length, ways)
    real = inverse and onesided
    refuse_large_table("a Fourier transform", 2 * length, parts * count)
    found = response(count, length, inverse=inverse, onesided=onesided)
    weights = matrix(found, parts, real=real)
    others = [d for d in range(x.rank - 1) if d != place]
    perm = [*others, place, x.rank - 1]
    lead = [x.shape[d] for d in others]
    flat = g.reshape(g.transpose(x, perm), (math.prod(lead), count * parts))
    product = linear(g, flat, g.const(weights, x.dtype), 1)
    split = g.reshape(product, (*lead, points, made))
    return g.transpose(split, np.argsort(perm).tolist())


STEP = np.array(4)
HALF_SINE = np.sin(np.linspace(0.1, 3, 8)).astype(np.float32)


@lower(
    "STFT",
    needs=[
        need(
            lambda window, frame_length: window is not None or frame_length,
            "frame_length or a window must be given, to say how long a frame is; got neither",
            possible=True,
        )
    ],
    samples=[
        case(signal=(2, 32, 1), frame_step=STEP, window=HALF_SINE, opset=17),
        case(signal=(2, 32, 1), frame_step=STEP, frame_length=np.array(6), opset=17),
        case(signal=(1, 20, 2), frame_step=STEP, window=HALF_SINE, onesided=0, opset=17),
        case(signal=(2, 32, 1), frame_step=STEP, window=run(HALF_SINE), opset=17),
    ],
    refuses=[case(signal=(2, 32, 1), frame_step=STEP, opset=17)],
)
def short_time_fourier(
    g: Builder,
    signal: Value,
    frame_step: Ints,
    window: Value | None = None,
    frame_length: Ints = ABSENT,
    /,
    *,
    onesided: int = 1,
    out: list[TensorType],
) -> Value:
    """A convolution along time, whose filters are the window times waves."""
    if signal.rank == SIGNAL_RANK - 1:
        signal = g.reshape(signal, (*signal.shape, 1))
    if signal.rank != SIGNAL_RANK:
        raise InvalidModel(f"signals are [batch, length, parts]; got {signal.type}")
    batch, size, parts = signal.shape
    _, frames, bins, _ = out[0].dims
    given = frame_length[0] if frame_length else 0
    count = window.shape[0] if window is not None else given
    if count < 1 or frame_step[0] < 1:
        raise InvalidModel(f"frames have elements and go on; got {count} by steps of {frame_step}")
    refuse_large_table("a Fourier transform", 2 * bins, parts * count)
    found = response(count, given or count, inverse=False, onesided=bool(onesided))
    entries = matrix(found, parts, real=False).reshape(2 * bins, count, 1, parts)
    filters = g.const(entries.transpose(0, 3, 2, 1), signal.dtype)
    if window is not None:
        filters = g.MUL(filters, g.reshape(window, (1, 1, 1, count)))
    spans = (
        Span(size=1, kernel=1, out=1),
        Span(size=size, kernel=count, stride=frame_step[0], out=frames),
    )
    x = g.reshape(g.transpose(signal, (0, 2, 1)), (batch, parts, 1, size))
    y = convolve(g, x, filters, no_bias(g, x, 2 * bins), spans)
    return g.reshape(g.transpose(y, (0, 2, 3, 1)), out[0].dims)


def number(value: int) -> np.ndarray:
    """A scalar operand of a sample."""
    return np.array(value)


@lower(
    "MelWeightMatrix",
    samples=[
        case(
            num_mel_bins=number(8),
            dft_length=number(16),
            sample_rate=number(8192),
            lower_edge_hertz=np.array(0, np.float32),
            upper_edge_hertz=np.array(4096, np.float32),
            opset=17,
        )
    ],
)
def mel_weights(  # noqa: PLR0917 - the signature is the schema
    g: Builder,
    num_mel_bins: Const,
    dft_length: Const,
    sample_rate: Const,
    lower_edge_hertz: Const,
    upper_edge_hertz: Const,
    /,
    *,
    output_datatype: int = 1,
    out: list[TensorType],
) -> Value:
    """A constant: triangles over the bins of a spectrum, evenly spaced in mel."""
    count, length, rate = (int(v.reshape(-1)[0]) for v in (num_mel_bins, dft_length, sample_rate))
    edges = [float(edge.reshape(-1)[0]) for edge in (lower_edge_hertz, upper_edge_hertz)]
    if rate <= 0 or not all(-700 < edge < math.inf for edge in edges):
        raise InvalidModel(f"a sample rate of {rate} Hz has no mels of {edges} Hz")
    low, high = (2595 * math.log10(1 + edge / 700) for edge in edges)
    mels = np.arange(count + 2) * ((high - low) / (count + 2)) + low
    bins = (length + 1) * 700 * np.expm1(mels / 2595 * np.log(10)) // rate
    if not (bins >= 0).all() or not (bins <= length // 2).all():
        raise InvalidModel(f"the bins of {edges} Hz are not among those of a spectrum of {rate} Hz")
    places = bins.astype(int)
    weights = np.zeros((length // 2 + 1, count))
    for k, (left, middle, right) in enumerate(zip(places, places[1:], places[2:], strict=False)):
        weights[left : middle + 1, k] = np.arange(middle - left + 1) / max(middle - left, 1)
        if left == middle:
            weights[middle, k] = 1
        if right > middle:
            weights[middle:right, k] = (right - np.arange(middle, right)) / (right - middle)
    return g.const(weights, out[0].dtype)
