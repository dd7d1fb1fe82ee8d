"""Activation functions spelled out: GELU, HardSigmoid, HardSwish, Mish, PRelu, Relu."""

import math
from collections.abc import Callable

import numpy as np

from straightway.ir import Node
from straightway.ir.match import Builder, Call, Either, Match, Part, Pattern, pattern
from straightway.passes.arguments import RuntimeOperandError, argument, clip_limits, onnx_op
from straightway.passes.rewrite import Replacement, Rule
from straightway.passes.types import same_type

SIXTH = 1 / 6
ROOT_2 = math.sqrt(2)
ROOT_2_BY_PI = math.sqrt(2 / math.pi)
CUBIC = 0.044715  # Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", section 2


def scaled(p: Builder, value: Part, factor: float) -> Either:
    """A value times a number, or by its inverse."""
    return p.either(p.Mul(value, p.const(factor)), p.Div(value, p.const(1 / factor)))


def _half_of_product(p: Builder, x: Part, gate: Part) -> Either:
    """Give x · gate / 2, in any order."""
    return p.either(
        scaled(p, p.Mul(x, gate), 0.5),
        p.Mul(scaled(p, x, 0.5), gate),
        p.Mul(x, scaled(p, gate, 0.5)),
    )


@pattern
def gelu_erf(p: Builder, x: Part) -> Either:
    """x/2 · (1 + erf(x/√2))."""
    bell = p.Erf(scaled(p, x, 1 / ROOT_2))
    gate = p.Add(bell, p.const(1))
    half = p.const(0.5)
    return p.either(_half_of_product(p, x, gate), p.Mul(x, p.Add(scaled(p, bell, 0.5), half)))


def _square(p: Builder, x: Part) -> Either:
    return p.either(p.Mul(x, x), p.Pow(x, p.const(2)))


def _cubic(p: Builder, x: Part) -> Either:
    """√(2/π) · (x + 0.044715·x³)."""
    c, one = p.const(CUBIC), p.const(1)
    square = _square(p, x)
    cube = p.either(p.Pow(x, p.const(3)), p.Mul(square, x))
    bent = p.either(p.Mul(cube, c), p.Mul(p.Mul(p.Mul(x, c), x), x))
    bend = p.either(p.Mul(square, c), p.Mul(p.Mul(x, c), x))
    return p.either(
        scaled(p, p.Add(x, bent), ROOT_2_BY_PI),
        p.Mul(scaled(p, x, ROOT_2_BY_PI), p.Add(bend, one)),
        scaled(p, p.Mul(x, p.Add(bend, one)), ROOT_2_BY_PI),
    )


@pattern
def gelu_tanh(p: Builder, x: Part) -> Either:
    """x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³)))."""
    bell = p.Tanh(_cubic(p, x))
    gate = p.Add(bell, p.const(1))
    half = p.const(0.5)
    return p.either(_half_of_product(p, x, gate), p.Mul(x, p.Add(scaled(p, bell, 0.5), half)))


def bounds(low: float, high: float) -> Callable[[Node], str]:
    """A Clip between these; infinity stands for no bound."""

    def fault(node: Node) -> str:
        try:
            found = clip_limits(node)
        except RuntimeOperandError as error:
            return str(error)
        return "" if found == (low, high) else f"{node} clips to {found}, not {(low, high)}"

    return fault


def _relu6(p: Builder, x: Part) -> Either:
    zero, six = p.const(0), p.const(6)
    return p.either(
        p.Clip(x, where=bounds(0, 6)),
        p.Min(p.either(p.Relu(x), p.Max(x, zero)), six),
        p.either(p.Relu(p.Min(x, six)), p.Max(p.Min(x, six), zero)),
    )


@pattern
def hard_sigmoid(p: Builder, x: Part) -> Either:
    """Relu6(x + 3) / 6."""
    return scaled(p, _relu6(p, p.Add(x, p.const(3))), SIXTH)


def _is_sixth_and_half(node: Node) -> str:
    alpha, beta = argument(node, "alpha"), argument(node, "beta")
    fits = math.isclose(alpha, SIXTH, rel_tol=1e-5) and math.isclose(beta, 0.5, rel_tol=1e-5)
    return "" if fits else f"{node} has alpha {alpha:g} and beta {beta:g}, not 1/6 and 1/2"


@pattern
def hard_swish(p: Builder, x: Part) -> Either:
    """The product x · Relu6(x + 3) / 6."""
    gate = _relu6(p, p.Add(x, p.const(3)))
    return p.either(
        p.Mul(x, p.HardSigmoid(x, where=_is_sixth_and_half)),
        scaled(p, p.Mul(x, gate), SIXTH),
        p.Mul(scaled(p, x, SIXTH), gate),
    )


@pattern
def mish(p: Builder, x: Part) -> Call:
    """The product x · tanh(log(1 + e^x)): where e^x overflows, tanh is 1 both ways."""
    softplus = p.either(p.Softplus(x), p.Log(p.Add(p.Exp(x), p.const(1))))
    return p.Mul(x, p.Tanh(softplus))


@pattern
def relu(p: Builder, x: Part) -> Either:
    """max(x, 0)."""
    return p.either(p.Max(x, p.const(0)), p.Clip(x, where=bounds(0, math.inf)))


@pattern
def prelu(p: Builder, x: Part, slope: Part) -> Either:
    """Relu(x) ± slope · Relu(-x), as Keras writes it."""
    negative = p.Mul(p.Relu(p.Neg(x)), slope, label="negative")
    return p.either(p.Add(p.Relu(x), negative), p.Sub(p.Relu(x), negative))


def _one(found: Pattern, name: str, version: int, **attrs: object) -> Rule:
    """A rule whose operator takes x alone."""

    def rewrite(match: Match) -> Replacement | str:
        x = match.values["x"]
        if not same_type(x, match.root.output):
            return f"'{x.name}' is widened"
        return Replacement(op=onnx_op(name, version), inputs=[x], attrs=dict(attrs))

    return Rule(pattern=found, rewrite=rewrite)


def _prelu(match: Match) -> Replacement | str:
    x, slope = match.values["x"], match.values["slope"]
    if slope.const is None or not np.all(np.isfinite(slope.const)):
        return "the slope is not a finite constant"
    if not same_type(x, match.root.output) or slope.const.ndim > x.rank:
        return f"'{x.name}' is widened"
    factor = -1 if match.root.op.name == "Add" else 1
    return Replacement(op=onnx_op("PRelu", 16), inputs=[x, np.asarray(slope.const * factor)])


RULES = (
    _one(gelu_erf, "Gelu", 20),
    _one(gelu_tanh, "Gelu", 20, approximate="tanh"),
    _one(hard_swish, "HardSwish", 14),
    _one(hard_sigmoid, "HardSigmoid", 6, alpha=SIXTH, beta=0.5),
    _one(mish, "Mish", 18),
    _one(relu, "Relu", 14),
    Rule(pattern=prelu, rewrite=_prelu),
)
