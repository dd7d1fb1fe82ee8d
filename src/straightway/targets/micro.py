"""Microcontrollers: TensorFlow Lite Micro, with CMSIS-NN on Cortex-M."""

from straightway.targets.micro_kernels import ENGINE
from straightway.targets.target import Target

TARGETS = (
    Target(
        name="tflite-micro",
        title="microcontroller: TensorFlow Lite Micro",
        sources=(
            "tensorflow/tflite-micro, pull request 2673: a scale a channel of FULLY_CONNECTED",
            "tensorflow/tflite-micro, tensorflow/lite/micro/kernels: int16 beside int8 weights",
        ),
        activations=("int8", "int16"),
        engine=ENGINE,
    ),
    Target(
        name="tflite-micro-2024",
        title="the same from before September 2024",
        sources=("tensorflow/tflite-micro, pull requests 2602 and 2673",),
        activations=("int8", "int16"),
        engine=ENGINE,
        single_scale=frozenset({"FULLY_CONNECTED"}),
    ),
)
