"""NXP's NPU eIQ Neutron, whose converter reads TFLite files."""

from straightway.targets.micro_kernels import ENGINE
from straightway.targets.target import Number, Target

QUANTIZER = "pytorch/executorch, backends/nxp/quantizer: int8 activations, int8 weights of one scale a tensor"
FALLBACK = (
    "eiq.nxp.com, Neutron Converter: what the NPU does not take stays in the file for TFLite on the CPU, "
    "of a Cortex-M33 TensorFlow Lite Micro"
)
CONFIGURATION = "pytorch/executorch, examples/nxp/executor_runner/neutron-imxrt700.ini"

TARGETS = (
    Target(
        name="neutron-n3-64",
        title="eIQ Neutron N3-64, i.MX RT700",
        sources=(QUANTIZER, FALLBACK),
        per_channel=False,
        engine=ENGINE,
        accelerated=True,
        numbers={
            "macs": Number(amount=8, unit="MAC/cycle and pipeline", source=CONFIGURATION),
            "pipelines": Number(amount=8, unit="pipelines", source=CONFIGURATION),
        },
    ),
)
