"""NXP's NPU eIQ Neutron, whose converter reads TFLite files."""

from straightway.targets.target import Number, Target

QUANTIZER = "pytorch/executorch, backends/nxp/quantizer: int8 activations, int8 weights of one scale a tensor"
CONFIGURATION = "pytorch/executorch, examples/nxp/executor_runner/neutron-imxrt700.ini"

TARGETS = (
    Target(
        name="neutron-n3-64",
        title="eIQ Neutron N3-64, i.MX RT700",
        sources=(QUANTIZER,),
        per_channel=False,
        numbers={
            "macs": Number(amount=8, unit="MAC/cycle and pipeline", source=CONFIGURATION),
            "pipelines": Number(amount=8, unit="pipelines", source=CONFIGURATION),
        },
    ),
)
