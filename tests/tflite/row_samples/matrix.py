"""Samples of matrix products, ops with indices, transforms and recurrent ops."""

import numpy as np

from row_samples.numbers import real, truths, whole
from row_samples.sample import Sample


def scatter(indices, updates):
    """Updates of the same place add up."""
    out = np.zeros((4, 3), updates.dtype)
    for (place,), row in zip(indices, updates, strict=True):
        out[place] += row
    return out


SEGMENTS = np.array([2, 0, 2, -1, 1], np.int32)


def segments(function):
    """Rows of each segment combined."""
    return lambda x, places: np.stack([function.reduce(x[places == k]) for k in range(3)])


# the first is half of the second, the last scores too little
BOXES = np.array([[0, 0, 4, 4], [0, 0, 4, 8], [9, 9, 5, 5], [0, 9, 1, 8]], np.float32)
SCORES = np.array([0.5, 0.75, 0.25, 0.125], np.float32)


def reverse_sequence(x, lengths):
    """Along axis 1, each example by its own length."""
    out = x.copy()
    for k, length in enumerate(lengths):
        out[k, :length] = x[k, :length][::-1]
    return out


def updated(x, update):
    """The update begins at (1, 2), moved so that it fits."""
    out = x.copy()
    out[1:3, 2:5] = update
    return out


def one_hot(indices, on, off):
    """Depth 4, a new last axis."""
    return np.where(indices[..., None] == np.arange(4), on, off)


def sigmoid(x):
    """Of any shape."""
    return 1 / (1 + np.exp(-x))


def lstm(x, *rest):
    """Time first; gates in the order input, forget, cell, output."""
    w, r, b = rest[:4], rest[4:8], rest[11:15]
    h = np.zeros((x.shape[1], w[0].shape[0]))
    c, out = h, []
    for step in x:
        i, f, g, o = (step @ wk.T + h @ rk.T + bk for wk, rk, bk in zip(w, r, b, strict=True))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        out.append(h)
    return np.stack(out)


def rnn(x, w, r, b, _):
    """Time first."""
    h, out = np.zeros((x.shape[1], w.shape[0])), []
    for step in x:
        h = np.tanh(step @ w.T + h @ r.T + b)
        out.append(h)
    return np.stack(out)


STATE = np.zeros((2, 4), np.float32)
LSTM = (
    real(5, 2, 3),
    *(real(4, 3) * (0.1 + 0.1 * k) for k in range(4)),
    *(real(4, 4) * (0.1 + 0.1 * k) for k in range(4)),
    None,
    None,
    None,
    *(real(4) * (0.1 + 0.1 * k) for k in range(4)),
    None,
    None,
    STATE,
    STATE,
)
INDICES = np.array([[2], [0], [2]], np.int32)
SAMPLES = [
    Sample(
        op="FULLY_CONNECTED",
        inputs=(whole(2, 3, 5), whole(4, 5), whole(4)),
        attrs={"axis": 2},
        constant=(1, 2),
        reference=lambda x, w, b: x @ w.T + b,
    ),
    Sample(
        op="FULLY_CONNECTED",
        inputs=(whole(2, 5), whole(4, 5), None),
        attrs={"axis": 1, "keep_num_dims": False},
        constant=(1, 2),
        reference=lambda x, w, _: x @ w.T,
    ),
    Sample(
        op="FULLY_CONNECTED",
        inputs=(whole(2, 5), whole(4, 5)),
        attrs={"axis": 1, "keep_num_dims": False},
        constant=(1,),
        reference=lambda x, w: x @ w.T,
    ),
    Sample(
        op="BATCH_MATMUL",
        inputs=(whole(3, 1, 4, 5), whole(2, 5, 6)),
        reference=np.matmul,
    ),
    Sample(
        op="GATHER",
        inputs=(whole(2, 4, 3), np.array([[1, 3], [0, 2]], np.int32)),
        attrs={"axis": 1},
        reference=lambda x, i: x.take(i.astype(int), 1),
    ),
    Sample(
        op="GATHER_ND",
        inputs=(whole(2, 4, 3), np.array([[1, 3], [0, 2], [1, 0]], np.int32)),
        reference=lambda x, i: x[i[:, 0], i[:, 1]],
    ),
    Sample(
        op="EMBEDDING_LOOKUP",
        inputs=(np.array([2, 0, 3], np.int32), whole(4, 3)),
        reference=lambda i, table: table[i],
    ),
    Sample(
        op="SCATTER_ND",
        inputs=(INDICES, whole(3, 3)),
        attrs={"shape": (4, 3)},
        reference=scatter,
    ),
    *(
        Sample(
            op=f"UNSORTED_SEGMENT_{name}",
            inputs=(whole(5, 3), SEGMENTS),
            attrs={"count": 3},
            reference=segments(function),
        )
        for name, function in (
            ("MAX", np.maximum),
            ("MIN", np.minimum),
            ("PROD", np.multiply),
            ("SUM", np.add),
        )
    ),
    Sample(
        op="RANGE",
        inputs=tuple(np.float32(v).reshape(()) for v in (2, 9, 3)),
        reference=np.arange,
    ),
    Sample(
        op="FILL",
        inputs=(np.array([2, 3], np.int64), np.float32(5).reshape(())),
        reference=lambda sizes, number: np.full((2, 3), number),
    ),
    Sample(
        op="NON_MAX_SUPPRESSION_V4",
        inputs=(BOXES, SCORES, np.float32(0.5).reshape(()), np.float32(0.15).reshape(())),
        attrs={"most": 4},
        constant=(2, 3),
        reference=lambda *_: [np.array([1, 2, 0, 0], np.int32), np.array(2, np.int32)],
        swept=False,
    ),
    Sample(
        op="DYNAMIC_UPDATE_SLICE",
        inputs=(whole(3, 5), whole(2, 3) + 5, np.array([1, 4], np.int32)),
        reference=lambda x, update, _: updated(x, update),
    ),
    Sample(
        op="REVERSE_SEQUENCE",
        inputs=(whole(2, 4, 3), np.array([3, 2], np.int32)),
        attrs={"sequence_axis": 1, "batch_axis": 0},
        reference=reverse_sequence,
    ),
    Sample(
        op="ONE_HOT",
        inputs=(
            np.array([[1, 3], [0, 7]], np.int32),
            np.float32(5).reshape(()),
            np.float32(2).reshape(()),
        ),
        attrs={"axis": 2, "depth": 4},
        reference=one_hot,
    ),
    Sample(
        op="WHERE",
        inputs=(truths(3, 4).astype(np.float32),),
        reference=np.argwhere,
    ),
    Sample(
        op="RFFT2D",
        inputs=(real(3, 4, 8),),
        attrs={"lengths": (4, 8)},
        reference=np.fft.rfft2,
        rtol=1e-4,
    ),
    *(
        Sample(op=op, inputs=((real(3, 4) + 1j * real(4, 3).T).astype(np.complex64),), reference=f)
        for op, f in (("REAL", np.real), ("IMAG", np.imag), ("COMPLEX_ABS", np.abs))
    ),
    Sample(
        op="UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs=(*LSTM, None, None, None, None),
        attrs={"time_major": True},
        constant=tuple(range(1, 18)),
        reference=lstm,
        rtol=1e-4,
    ),
    Sample(
        op="UNIDIRECTIONAL_SEQUENCE_RNN",
        inputs=(real(5, 2, 3), real(4, 3), real(4, 4) * 0.3, real(4), STATE),
        attrs={"time_major": True},
        constant=(1, 2, 3),
        reference=rnn,
        rtol=1e-4,
    ),
]
