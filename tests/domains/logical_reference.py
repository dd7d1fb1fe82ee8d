"""A numpy reference of logical TFLite ops: the model's dimension order, no layouts."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from straightway.ir import Graph, Node, Value

UNARY = {
    "RELU": lambda x: np.maximum(x, 0),
    "ABS": np.abs,
    "NEG": np.negative,
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
    "TANH": np.tanh,
}
BINARY = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
}
REDUCE = {"MEAN": np.mean, "SUM": np.sum, "REDUCE_MAX": np.max, "REDUCE_MIN": np.min}


def evaluate(graph: Graph, inputs: dict[Value, np.ndarray]) -> list[np.ndarray]:
    """Run a logical graph."""
    known = dict(inputs)

    def of(value: Value | None) -> np.ndarray | None:
        if value is None:
            return None
        return value.const if value.const is not None else known[value]

    for node in graph.nodes:
        results = _run(node, [of(v) for v in node.inputs])
        for value, result in zip(node.outputs, results, strict=True):
            assert result.shape == value.shape, (node, result.shape, value.shape)
            known[value] = result
    return [of(v) for v in graph.outputs]


def _run(node: Node, xs: list) -> list[np.ndarray]:
    name, attrs, x = node.op.name, node.attrs, xs[0]
    if name in UNARY:
        return [UNARY[name](x)]
    if name in BINARY:
        return [BINARY[name](*xs)]
    if name in REDUCE:
        return [REDUCE[name](x, axis=tuple(attrs["axes"]), keepdims=attrs["keep_dims"])]
    return _RUN[name](node, xs, attrs)


def _softmax(node, xs, attrs):
    e = np.exp(xs[0] - xs[0].max(attrs["axis"], keepdims=True))
    return [e / e.sum(attrs["axis"], keepdims=True)]


def _strided(node, xs, attrs):
    slices = [slice(b, e, s) for b, e, s in zip(attrs["begin"], attrs["end"], attrs["strides"])]
    return [xs[0][tuple(slices)]]


def _sliced(node, xs, attrs):
    return [xs[0][tuple(slice(b, b + s) for b, s in zip(attrs["begin"], attrs["size"]))]]


def _windows(x, kernel, attrs, fill):
    spatial = x.shape[2:]
    dilations = attrs.get("dilations") or (1,) * len(spatial)
    pads = [(0, 0), (0, 0)]
    for size, k, stride, dilation in zip(spatial, kernel, attrs["strides"], dilations):
        reach = (k - 1) * dilation + 1
        total = max((-(-size // stride) - 1) * stride + reach - size, 0)
        pads.append((total // 2, total - total // 2) if attrs["padding"] == "SAME" else (0, 0))
    x = np.pad(x, pads, constant_values=fill)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    axes = tuple(range(2, x.ndim))
    view = sliding_window_view(x, reach, axes)
    steps = [slice(None, None, s) for s in attrs["strides"]]
    taps = [slice(None, None, d) for d in dilations]
    return view[(slice(None), slice(None), *steps, *taps)]


def _conv(node, xs, attrs):
    x, w, b = [*xs, None][:3]
    view = _windows(x, w.shape[2:], attrs, 0)
    groups = x.shape[1] // w.shape[1]
    each = w.shape[0] // groups
    parts = []
    for g in range(groups):
        v = view[:, g * w.shape[1] : (g + 1) * w.shape[1]]
        wg = w[g * each : (g + 1) * each]
        k = len(w.shape) - 2
        s = "hwd"[:k]
        t = "xyz"[:k]
        parts.append(np.einsum(f"nc{s}{t},mc{t}->nm{s}", v, wg))
    y = np.concatenate(parts, 1)
    return [y if b is None else y + b.reshape(-1, *(1,) * (y.ndim - 2))]


def _pool(node, xs, attrs):
    axes = tuple(range(-len(attrs["filter"]), 0))
    if node.op.name == "MAX_POOL_2D":
        return [_windows(xs[0], attrs["filter"], attrs, -np.inf).max(axes)]
    return [np.nanmean(_windows(xs[0], attrs["filter"], attrs, np.nan), axes)]


def _matrix(node, xs, attrs):
    x, w, b = [*xs, None][:3]
    y = np.moveaxis(x, attrs["axis"], -1) @ w.T
    return [np.moveaxis(y if b is None else y + b, -1, attrs["axis"])]


def _split(node, xs, attrs):
    if node.op.name == "SPLIT":
        return np.split(xs[0], attrs["num_splits"], attrs["axis"])
    return np.split(xs[0], np.cumsum(attrs["sizes"])[:-1], attrs["axis"])


def _arg(node, xs, attrs):
    dtype = np.int64 if attrs["output_type"] == "INT64" else np.int32
    return [np.argmax(xs[0], attrs["axis"]).astype(dtype)]


def _depth_to_space(node, xs, attrs):
    n, c, h, w = xs[0].shape
    b = attrs["block_size"]
    y = xs[0].reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    return [y.reshape(n, c // b**2, h * b, w * b)]


_RUN = {
    "RESHAPE": lambda n, xs, a: [xs[0].reshape(a["shape"])],
    "TRANSPOSE": lambda n, xs, a: [xs[0].transpose(a["perm"])],
    "SOFTMAX": _softmax,
    "STRIDED_SLICE": _strided,
    "SLICE": _sliced,
    "PAD": lambda n, xs, a: [np.pad(xs[0], a["paddings"])],
    "CONCATENATION": lambda n, xs, a: [np.concatenate(xs, a["axis"])],
    "SPLIT": _split,
    "SPLIT_V": _split,
    "TILE": lambda n, xs, a: [np.tile(xs[0], a["multiples"])],
    "BROADCAST_TO": lambda n, xs, a: [np.broadcast_to(xs[0], a["shape"])],
    "GATHER": lambda n, xs, a: [np.take(xs[0], xs[1], a["axis"])],
    "ARG_MAX": _arg,
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _conv,
    "AVERAGE_POOL_2D": _pool,
    "MAX_POOL_2D": _pool,
    "FULLY_CONNECTED": _matrix,
    "BATCH_MATMUL": lambda n, xs, a: [xs[0] @ xs[1]],
    "DEPTH_TO_SPACE": _depth_to_space,
    "CAST": lambda n, xs, a: [xs[0].astype(a["dtype"])],
    "REVERSE_V2": lambda n, xs, a: [np.flip(xs[0], a["axes"])],
    "CUMSUM": lambda n, xs, a: [np.cumsum(xs[0], a["axis"], dtype=xs[0].dtype)],
}
