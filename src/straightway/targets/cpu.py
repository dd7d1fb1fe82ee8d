"""CPUs of phones, boards and desktops: LiteRT, which hands what it can to XNNPACK's delegate."""

from straightway.targets.target import Target

TARGETS = (
    Target(
        name="litert",
        title="CPU: LiteRT, XNNPACK",
        sources=("LiteRT v2.2.0, tflite/delegates/xnnpack/xnnpack_delegate.cc",),
        # the delegate has no int16; TFLite's own kernels have
        activations=("int8", "int16"),
        delegate=True,
        io_type="float",
    ),
)
