"""Microcontrollers: TensorFlow Lite Micro, with CMSIS-NN on Cortex-M."""

from straightway.targets.target import Target

# tflite-micro 0.dev20261023: python_ops_resolver.cc registers no GELU
LACKS = frozenset({"GELU"})

TARGETS = (
    Target(
        name="tflite-micro",
        title="microcontroller: TensorFlow Lite Micro",
        sources=(
            "tensorflow/tflite-micro, pull request 2673: a scale a channel of FULLY_CONNECTED",
            "tensorflow/tflite-micro, tensorflow/lite/micro/kernels: int16 beside int8 weights",
        ),
        activations=("int8", "int16"),
        lacks=LACKS,
    ),
    Target(
        name="tflite-micro-2024",
        title="the same from before September 2024",
        sources=("tensorflow/tflite-micro, pull requests 2602 and 2673",),
        activations=("int8", "int16"),
        lacks=LACKS,
        single_scale=frozenset({"FULLY_CONNECTED"}),
    ),
)
