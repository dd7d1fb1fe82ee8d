"""Normalisations spelled out: layer and RMS normalisation, and softmax."""

from collections.abc import Sequence

import numpy as np

from straightway.ir import Node, TensorType, Value
from straightway.ir.match import Builder, Call, Either, Match, Part, pattern
from straightway.passes.arguments import argument, axes_of, number, onnx_op
from straightway.passes.rewrite import Replacement, Rule
from straightway.passes.types import same_type


def _keeps_rank(node: Node) -> str:
    """A reduction whose result broadcasts back."""
    return "" if argument(node, "keepdims") else f"{node} drops the axes that it reduces"


def _mean(p: Builder, x: Part, label: str) -> Call:
    return p.ReduceMean(x, where=_keeps_rank, label=label)


def _square(p: Builder, x: Part) -> Either:
    return p.either(p.Mul(x, x), p.Pow(x, p.const(2)))


def _by_root(p: Builder, x: Part, square: Part) -> Either:
    """A value by the square root of something."""
    root = p.either(p.Sqrt(square), p.Pow(square, p.const(0.5)))
    return p.either(p.Div(x, root), p.Mul(x, _inverse_root(p, square)))


def _inverse_root(p: Builder, square: Part) -> Either:
    root = p.Sqrt(square)
    return p.either(p.Reciprocal(root), p.Div(p.const(1), root), p.Pow(square, p.const(-0.5)))


@pattern
def layer_normalization(p: Builder, x: Part, epsilon: Part) -> Either:
    """(x - mean) / √(variance + epsilon)."""
    less = p.Sub(x, _mean(p, x, "mean"))
    variance = _mean(p, _square(p, less), "variance")
    return _by_root(p, less, p.Add(variance, epsilon))


@pattern
def layer_normalization_keras(p: Builder, x: Part, epsilon: Part, gamma: Part, beta: Part) -> Call:
    """x·s + (beta - mean·s) with s = gamma / √(variance + epsilon)."""
    mean = _mean(p, x, "mean")
    variance = _mean(p, _square(p, p.Sub(x, mean)), "variance")
    scale = p.Mul(_inverse_root(p, p.Add(variance, epsilon)), gamma)
    return p.Add(p.Mul(x, scale), p.Sub(beta, p.Mul(mean, scale)))


@pattern
def rms_normalization(p: Builder, x: Part, epsilon: Part) -> Either:
    """The quotient x / √(mean of x² + epsilon)."""
    return _by_root(p, x, p.Add(_mean(p, _square(p, x), "variance"), epsilon))


def _has_constant_scale(node: Node) -> str:
    constant = len(node.inputs) == 2 and node.inputs[1] is not None
    return "" if constant else f"{node} has a bias"


@pattern
def normalization_scale(p: Builder, x: Part, scale: Part, gamma: Part) -> Call:
    """A product with the result of a normalisation that has no bias."""
    norm = p.either(
        p.LayerNormalization(x, scale, label="norm"),
        p.RMSNormalization(x, scale, label="norm"),
    )
    return p.Mul(norm, gamma)


@pattern
def normalization_bias(p: Builder, x: Part, scale: Part, beta: Part) -> Call:
    """A sum with the result of a layer normalisation that has no bias."""
    return p.Add(p.LayerNormalization(x, scale, label="norm"), beta)


@pattern
def softmax(p: Builder, x: Part) -> Call:
    """e^(x - max) by its sum."""
    powers = p.Exp(p.Sub(x, p.ReduceMax(x, where=_keeps_rank, label="max")))
    return p.Div(powers, p.ReduceSum(powers, where=_keeps_rank, label="sum"))


def _last_axes(nodes: Sequence[Node], kind: TensorType) -> int | str:
    """The first of the axes that all these reductions share, when they are the last ones."""
    found = {axes_of(node, kind.rank) or tuple(range(kind.rank)) for node in nodes}
    if len(found) != 1:
        return f"the reductions differ: {sorted(found)}"
    axes = found.pop()
    if axes != tuple(range(axes[0], kind.rank)):
        return f"axes {list(axes)} of {kind} are not the last"
    return axes[0]


def _normalization(match: Match) -> tuple[dict[str, float], tuple[int, ...]] | str:
    """Attributes, and the sizes of the axes that are normalised."""
    x, epsilon = match.values["x"], number(match.values["epsilon"].const)
    if epsilon is None or not epsilon >= 0:
        return "epsilon is not a constant number"
    if not same_type(x, match.root.output):
        return f"'{x.name}' is widened"
    first = _last_axes(list(match.labels.values()), x.known_type)
    if isinstance(first, str):
        return first
    return {"axis": first - x.rank, "epsilon": epsilon}, x.shape[first:]


def _layer(match: Match) -> Replacement | str:
    found = _normalization(match)
    if isinstance(found, str):
        return found
    attrs, sizes = found
    x = match.values["x"]
    op = onnx_op("LayerNormalization", 17)
    return Replacement(op=op, inputs=[x, np.ones(sizes, x.dtype)], attrs=attrs)


def _rms(match: Match) -> Replacement | str:
    found = _normalization(match)
    if isinstance(found, str):
        return found
    attrs, sizes = found
    x = match.values["x"]
    op = onnx_op("RMSNormalization", 23)
    return Replacement(op=op, inputs=[x, np.ones(sizes, x.dtype)], attrs=attrs)


def _layer_keras(match: Match) -> Replacement | str:
    found = _normalization(match)
    if isinstance(found, str):
        return found
    attrs, sizes = found
    x, gamma, beta = (match.values[name] for name in ("x", "gamma", "beta"))
    scale, bias = _spread(gamma, x.rank, sizes), _spread(beta, x.rank, sizes)
    if scale is None or bias is None:
        return "scale or bias are no constants of the normalised axes"
    op = onnx_op("LayerNormalization", 17)
    return Replacement(op=op, inputs=[x, scale, bias], attrs=attrs)


def _spread(value: Value, rank: int, sizes: tuple[int, ...]) -> np.ndarray | None:
    """A constant along the last axes, one number for each place; None where it is otherwise."""
    if value.const is None or value.const.ndim > rank:
        return None
    shape = (1,) * (rank - value.const.ndim) + value.const.shape
    outer, inner = shape[: rank - len(sizes)], shape[rank - len(sizes) :]
    if any(size != 1 for size in outer):
        return None
    if any(size not in (1, whole) for size, whole in zip(inner, sizes, strict=True)):
        return None
    return np.array(np.broadcast_to(value.const.reshape(inner), sizes))


def _scale(match: Match) -> Replacement | str:
    norm, x, old = match.labels["norm"], match.values["x"], match.values["scale"]
    if old.const is None or not same_type(x, match.root.output):
        return "the scale is computed at run time, or the result is widened"
    new = _spread(match.values["gamma"], x.rank, old.const.shape)
    if new is None:
        return "the factor is no constant of the normalised axes"
    product = (old.const.astype(np.float64) * new.astype(np.float64)).astype(x.dtype)
    if not np.all(np.isfinite(product)):
        return "the product of the scales overflows"
    return Replacement(op=norm.op, inputs=[x, product], attrs=norm.attrs)


def _bias(match: Match) -> Replacement | str:
    norm, x, scale = match.labels["norm"], match.values["x"], match.values["scale"]
    if scale.type is None or not same_type(x, match.root.output):
        return "the result is widened"
    bias = _spread(match.values["beta"], x.rank, scale.shape)
    if bias is None:
        return "the summand is no constant of the normalised axes"
    return Replacement(op=norm.op, inputs=[x, scale, bias], attrs=norm.attrs)


def _softmax(match: Match) -> Replacement | str:
    x = match.values["x"]
    if not same_type(x, match.root.output):
        return f"'{x.name}' is widened"
    axes = {axes_of(node, x.rank) for node in match.labels.values()}
    axis = axes.pop()
    if axes or axis is None or len(axis) != 1:
        return "maximum and sum are not of one axis"
    op = onnx_op("Softmax", 13)
    return Replacement(op=op, inputs=[x], attrs={"axis": axis[0]})


RULES = (
    Rule(pattern=layer_normalization, rewrite=_layer),
    Rule(pattern=layer_normalization_keras, rewrite=_layer_keras),
    Rule(pattern=rms_normalization, rewrite=_rms),
    Rule(pattern=normalization_scale, rewrite=_scale),
    Rule(pattern=normalization_bias, rewrite=_bias),
    Rule(pattern=softmax, rewrite=_softmax),
)
