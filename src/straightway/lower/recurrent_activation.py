"""The activation functions of the recurrent operators, and how their parameters are told apart."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from straightway.errors import InvalidModel, NotYet
from straightway.ir import Value
from straightway.lower import activation, elementwise
from straightway.lower.builder import Builder

Apply = Callable[[Builder, Value, float, float], Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function that an activation may name: what it computes, and its parameters' defaults.

    `alpha` and `beta` are None where it has no such parameter. `silent`: ONNX gives no default
    (onnx/docs/Operators.md, RNN), and onnxruntime takes zero.
    """

    apply: Apply
    alpha: float | None = None
    beta: float | None = None
    silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """A function with its parameters; `clip` bounds its operand on both sides."""

    apply: Apply
    alpha: float
    beta: float
    clip: float | None = None

    def __call__(self, g: Builder, x: Value) -> Value:
        """Apply it."""
        bounded = x if self.clip is None else activation.clamp(g, x, -self.clip, self.clip)
        return self.apply(g, bounded, self.alpha, self.beta)


def _affine(g: Builder, x: Value, alpha: float, beta: float) -> Value:
    return g.ADD(g.MUL(x, alpha), beta)


def _scaled_tanh(g: Builder, x: Value, alpha: float, beta: float) -> Value:
    return g.MUL(g.TANH(g.MUL(x, beta)), alpha)


FUNCTIONS = {
    "relu": Function(apply=lambda g, x, *_: g.RELU(x)),
    "tanh": Function(apply=lambda g, x, *_: g.TANH(x)),
    "sigmoid": Function(apply=lambda g, x, *_: activation.sigmoid(g, x)),
    "softsign": Function(apply=lambda g, x, *_: elementwise.softsign(g, x)),
    "softplus": Function(apply=lambda g, x, *_: elementwise.softplus(g, x)),
    "affine": Function(apply=_affine, alpha=1.0, beta=0.0, silent=True),
    "leakyrelu": Function(apply=lambda g, x, a, _: activation.leaky_relu(g, x, a), alpha=0.01),
    "thresholdedrelu": Function(
        apply=lambda g, x, a, _: activation.thresholded_relu(g, x, a), alpha=1.0, silent=True
    ),
    "scaledtanh": Function(apply=_scaled_tanh, alpha=1.0, beta=1.0, silent=True),
    "hardsigmoid": Function(apply=activation.hard_sigmoid, alpha=0.2, beta=0.5),
    "elu": Function(apply=lambda g, x, a, _: activation.elu(g, x, a), alpha=1.0),
}


def read(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float], clip: float | None
) -> list[Activation]:
    """Give each function its parameters: those that take one take the next of the list.

    With a parameter so large that states may pass what Sigmoid takes, its operand is bounded.
    """
    left_alphas, left_betas = list(alphas), list(betas)
    grows = max(map(abs, (*alphas, *betas)), default=0.0) > activation.LARGEST
    found = []
    for name in names:
        function = FUNCTIONS.get(name.lower())
        if function is None:
            raise InvalidModel(f"ONNX has no activation '{name}'")
        alpha = _next(name, function, function.alpha, left_alphas)
        beta = _next(name, function, function.beta, left_betas)
        bound = clip
        if name.lower() == "sigmoid" and (grows or (clip or 0.0) > activation.LARGEST):
            bound = min(clip or math.inf, activation.LARGEST)
        found.append(Activation(apply=function.apply, alpha=alpha, beta=beta, clip=bound))
    return found


def _next(name: str, function: Function, default: float | None, left: list[float]) -> float:
    if default is None:
        return 0.0
    if left:
        number = float(left.pop(0))
        if not math.isfinite(number):
            raise NotYet(f"the parameters of activation '{name}' must be finite; got {number}")
        return number
    if function.silent:
        raise NotYet(
            f"the parameters of activation '{name}' must be written: ONNX and onnxruntime have "
            "different defaults"
        )
    return default
