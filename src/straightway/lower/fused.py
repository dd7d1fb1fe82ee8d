"""onnxruntime's FusedConv and FusedGemm: what its optimiser writes for a product and an activation.

Source: onnxruntime/docs/ContribOperators.md.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import TensorType, Value
from straightway.lower.activation import elu, hard_sigmoid, leaky_relu, sigmoid
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need
from straightway.lower.elementwise import softplus, softsign
from straightway.lower.matrix import gemm
from straightway.lower.window import Window, conv

DOMAIN = "com.microsoft"
# Activations, and of how many numbers.
PARAMETERS = {
    "": 0,
    "Relu": 0,
    "Sigmoid": 0,
    "Tanh": 0,
    "LeakyRelu": 1,
    "Clip": 2,
    "HardSigmoid": 2,
    "Elu": 1,
    "Softplus": 0,
    "Softsign": 0,
}
FILTERS = np.linspace(-1, 1, 4 * 2 * 3 * 3, dtype=np.float32).reshape(4, 2, 3, 3)
BIAS = np.linspace(-1, 1, 4, dtype=np.float32)
IMAGE: dict[str, Any] = {
    "x": (1, 2, 6, 5),
    "w": FILTERS,
    "kernel_shape": (3, 3),
    "pads": (1, 1, 1, 1),
}


def numbers(*given: float | None) -> tuple[float, ...]:
    """Those that are there."""
    return tuple(number for number in given if number is not None)


def activated(g: Builder, x: Value, name: str, given: tuple[float, ...]) -> Value:
    """One of those in `PARAMETERS`, with its numbers."""
    if name == "LeakyRelu":
        return leaky_relu(g, x, alpha=given[0])
    if name == "Clip":
        return g.MINIMUM(given[1], g.MAXIMUM(given[0], x))
    if name == "HardSigmoid":
        return hard_sigmoid(g, x, alpha=given[0], beta=given[1])
    if name == "Elu":
        return elu(g, x, alpha=given[0])
    plain: dict[str, Callable[[Value], Value]] = {
        "Relu": g.RELU,
        "Sigmoid": partial(sigmoid, g),
        "Tanh": g.TANH,
        "Softplus": partial(softplus, g),
        "Softsign": partial(softsign, g),
    }
    return plain[name](x) if name else x


@lower(
    "FusedConv",
    domain=DOMAIN,
    needs=[
        need(
            lambda activation, activation_params: (
                len(activation_params) >= PARAMETERS.get(activation, math.inf)
            ),
            f"activation must be one of {', '.join(filter(None, PARAMETERS))}, with its numbers; got "
            "{activation}, {activation_params}",
            possible=True,
        )
    ],
    samples=[
        case(**IMAGE, activation="Relu"),
        case(**IMAGE, b=BIAS, activation="LeakyRelu", activation_params=(0.25,)),
        case(**IMAGE, activation="Clip", activation_params=(0.0, 1.5), strides=(2, 1)),
        case(**IMAGE, activation="Sigmoid"),
        case(**IMAGE, activation="Tanh"),
        case(**IMAGE, activation="HardSigmoid", activation_params=(0.25, 0.5)),
        case(**IMAGE, b=BIAS, z=(1, 4, 6, 5), activation="Relu"),
    ],
    refuses=[case(**IMAGE, activation="Selu")],
)
def fused_conv(
    g: Builder,
    x: Value,
    w: Value,
    b: Value | None = None,
    z: Value | None = None,
    /,
    *,
    win: Window,
    activation: str = "",
    activation_params: tuple[float, ...] = (),
    out: list[TensorType],
) -> Value:
    """A convolution, a sum, an activation."""
    y = conv(g, x, w, b, win=win, out=out)
    if z is not None and z.shape != y.shape:
        raise InvalidModel(
            f"the sum's other operand is like the convolution; got {z.type}, {y.type}"
        )
    return activated(g, y if z is None else g.ADD(y, z), activation, activation_params)


ROWS: dict[str, Any] = {"a": (2, 3), "b": np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4)}


@lower(
    "FusedGemm",
    domain=DOMAIN,
    needs=[
        need(
            lambda activation, activation_alpha, activation_beta: (
                len(numbers(activation_alpha, activation_beta))
                >= PARAMETERS.get(activation, math.inf)
            ),
            f"activation must be one of {', '.join(filter(None, PARAMETERS))}, with its numbers; got "
            "{activation}, {activation_alpha}, {activation_beta}",
            possible=True,
        )
    ],
    samples=[
        case(**ROWS, c=BIAS, activation="Relu"),
        case(**ROWS, activation="LeakyRelu", activation_alpha=0.25, alpha=0.5),
        case(**ROWS, activation="HardSigmoid", activation_alpha=0.25, activation_beta=0.5),
        *(
            case(**ROWS, c=BIAS, activation=name)
            for name in ("Sigmoid", "Tanh", "Softplus", "Softsign")
        ),
        case(**ROWS, activation="Elu", activation_alpha=1.5),
    ],
    refuses=[case(**ROWS, activation="Selu")],
)
def fused_gemm(
    g: Builder,
    a: Value,
    b: Value,
    c: Value | None = None,
    /,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
) -> Value:
    """ONNX's Gemm, and an activation."""
    y = gemm(g, a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return activated(g, y, activation, numbers(activation_alpha, activation_beta))
