"""Arm's NPUs Ethos-U, by its compiler Vela; what they do not take runs on the Cortex-M beside them."""

from straightway.targets.micro_kernels import ENGINE
from straightway.targets.target import Number, Target

VELA = "ethos-u-vela 5.2.0: regor.tflite_operator_constraints, --supported-ops-report"
# multiplications a cycle, which the names carry
SIZES = {"u55": (32, 64, 128, 256), "u65": (256, 512), "u85": (128, 256, 512, 1024, 2048)}


def _target(family: str, macs: int) -> Target:
    name = f"ethos-{family}-{macs}"
    return Target(
        name=name,
        title=f"Ethos-{family.upper()} NPU, {macs} MAC/cycle",
        sources=(VELA,),
        activations=("int8", "int16"),
        engine=ENGINE,
        accelerator=name,
        accelerated=True,
        numbers={
            "macs": Number(amount=macs, unit="MAC/cycle", source="ethos-u-vela 5.2.0: accelerators")
        },
    )


TARGETS = tuple(_target(family, macs) for family, sizes in SIZES.items() for macs in sizes)
