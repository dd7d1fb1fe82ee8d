"""onnxruntime's FusedConv: what its optimiser writes for a convolution, a sum and an activation.

Source: onnxruntime/docs/ContribOperators.md, com.microsoft.FusedConv.
"""

from typing import Any

import numpy as np

from straightway.ir import TensorType, Value
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need
from straightway.lower.window import Window, conv

BOUNDS = 2
ACTIVATIONS = ("", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip")
FILTERS = np.linspace(-1, 1, 4 * 2 * 3 * 3, dtype=np.float32).reshape(4, 2, 3, 3)
BIAS = np.linspace(-1, 1, 4, dtype=np.float32)
IMAGE: dict[str, Any] = {
    "x": (1, 2, 6, 5),
    "w": FILTERS,
    "kernel_shape": (3, 3),
    "pads": (1, 1, 1, 1),
}


def activated(g: Builder, x: Value, name: str, numbers: tuple[float, ...]) -> Value:
    """One of `ACTIVATIONS`, with its numbers."""
    if name == "LeakyRelu":
        return g.LEAKY_RELU(x, alpha=numbers[0])
    if name == "Clip":
        return g.MINIMUM(g.MAXIMUM(x, numbers[0]), numbers[1])
    plain = {"Relu": g.RELU, "Sigmoid": g.LOGISTIC, "Tanh": g.TANH}
    return plain[name](x) if name else x


@lower(
    "FusedConv",
    domain="com.microsoft",
    needs=[
        need(
            lambda activation, activation_params: (
                activation in ACTIVATIONS
                and len(activation_params) >= {"LeakyRelu": 1, "Clip": BOUNDS}.get(activation, 0)
            ),
            f"activation must be one of {', '.join(filter(None, ACTIVATIONS))}; got {{activation}}"
            ", {activation_params}",
            possible=True,
        )
    ],
    samples=[
        case(**IMAGE, activation="Relu"),
        case(**IMAGE, b=BIAS, activation="LeakyRelu", activation_params=(0.25,)),
        case(**IMAGE, activation="Clip", activation_params=(0.0, 1.5), strides=(2, 1)),
        case(**IMAGE, activation="Sigmoid"),
        case(**IMAGE, activation="Tanh"),
        case(**IMAGE, b=BIAS, z=(1, 4, 6, 5), activation="Relu"),
    ],
    refuses=[case(**IMAGE, activation="Softplus")],
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
    return activated(g, y if z is None else g.ADD(y, z), activation, activation_params)
