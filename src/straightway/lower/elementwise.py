"""Ops that work element by element."""

from straightway.ir import Value
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need

X = case(x=(2, 3, 4, 5))

for onnx_name, tflite_name in {
    "Abs": "ABS",
    "Ceil": "CEIL",
    "Cos": "COS",
    "Exp": "EXP",
    "Floor": "FLOOR",
    "Log": "LOG",
    "Neg": "NEG",
    "Relu": "RELU",
    "Round": "ROUND",
    "Sigmoid": "LOGISTIC",
    "Sign": "SIGN",
    "Sin": "SIN",
    "Sqrt": "SQRT",
    "Tanh": "TANH",
}.items():

    @lower(onnx_name, samples=[X])
    def unary(g: Builder, x: Value, /, *, _name: str = tflite_name) -> Value:
        """One op for one op."""
        return g.emit(_name, [x], {})


@lower(
    "Elu",
    needs=[
        need(
            lambda alpha: alpha == 1.0,
            "TFLite's ELU has alpha fixed at 1.0; got {alpha}",
            kernel="kernels/activations.cc",
        )
    ],
    samples=[X],
    refuses=[case(x=(2, 3), alpha=2.0)],
)
def elu(g: Builder, x: Value, /, alpha: float) -> Value:
    """Alpha must be 1."""
    return g.ELU(x)
