"""Number types of an exported program: half floats, 8-bit integers static or dynamic, 4-bit weights.

Quantization is torchao's own (PT2E with XNNPACK's quantizer), so that the program runs what any
user of ExecuTorch gets; what is done beside it are the rewrites before.
"""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from torch.export import ExportedProgram
from torchao.quantization.granularity import PerGroup
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY
from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig, quantize_

from straightway.errors import InvalidRequest, Unsupported
from straightway.executorch.given import Precision
from straightway.executorch.model import Model, first_line
from straightway.executorch.rewrites.scene import is_quantizable, keeps_state

_GROUP = 32


class _Quantizer(XNNPACKQuantizer):
    """XNNPACK's own, which leaves in floats what a rewrite wrote to be computed so.

    Such nodes count as annotated, with nothing to quantize; even moves, which otherwise would have
    the type of what they move.
    """

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Annotate the others."""
        for node in model.graph.nodes:
            if not is_quantizable(node):
                node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(_annotated=True)
        done: torch.fx.GraphModule = super().annotate(model)
        return done


def before_export(model: Model, precision: Precision) -> Model:
    """The module in the precision, where that is set on modules: fp16 and 4-bit weights.

    Inputs and outputs become float16, too. Raises InvalidRequest for a saved program, whose modules
    are gone.
    """
    if precision not in {"fp16", "int4"}:
        return model
    if model.module is None:
        raise InvalidRequest(
            f"{model.name}: a saved program can't be given {precision} any more; give MODULE:FACTORY"
        )
    module = copy.deepcopy(model.module)
    if precision == "fp16":
        inputs = tuple(_half(one) for one in model.inputs)
        return replace(model, module=module.half(), inputs=inputs)
    config = Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=PerGroup(_GROUP)
    )
    quantize_(module, config, _takes_groups)
    return replace(model, module=module)


def _takes_groups(module: torch.nn.Module, _: str) -> bool:
    """Linear layers whose inputs divide into groups; others keep their floats."""
    return isinstance(module, torch.nn.Linear) and module.in_features % _GROUP == 0


def _half(one: Any) -> Any:
    if isinstance(one, torch.Tensor) and one.is_floating_point():
        return one.half()
    return one


def after_export(
    program: ExportedProgram,
    precision: Precision,
    samples: Iterable[Sequence[torch.Tensor]],
    *,
    dynamic_shapes: Any = None,
) -> ExportedProgram:
    """The program in 8 bits, where that is done on programs; else as it is.

    `samples` are inputs for static ranges, at least one. Raises InvalidRequest without, Unsupported
    where torchao fails.
    """
    if precision not in {"int8", "int8-dynamic"}:
        return program
    is_dynamic = precision == "int8-dynamic"
    if not is_dynamic and keeps_state(program):
        raise Unsupported(
            "the program keeps a state in buffers, which torchao takes for constants; give the state "
            "as an input and an output, or export with --int8-dynamic or --int4"
        )
    arguments, _ = program.example_inputs or ((), {})
    quantizer = _Quantizer()
    quantizer.set_global(
        get_symmetric_quantization_config(is_per_channel=True, is_dynamic=is_dynamic)
    )
    module = program.module(check_guards=False)
    states = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        prepared = prepare_pt2e(module, quantizer)
        with torch.no_grad():
            _observe(prepared, samples if not is_dynamic else [arguments])
            for buffer, value in states:  # what the samples left in it is not the model's
                buffer.copy_(value)
            converted = convert_pt2e(prepared)
            return torch.export.export(
                converted, tuple(arguments), dynamic_shapes=dynamic_shapes, strict=False
            )
    except (RuntimeError, ValueError, AssertionError, TypeError) as error:
        raise Unsupported(f"torchao can't quantize the program: {first_line(error)}") from error


def _observe(prepared: torch.nn.Module, samples: Iterable[Sequence[torch.Tensor]]) -> None:
    seen = 0
    for sample in samples:
        try:
            prepared(*sample)
        except (RuntimeError, ValueError, IndexError) as error:
            raise InvalidRequest(
                f"the model fails on calibration sample {seen}: {first_line(error)}; give data that "
                "it takes by --calibration"
            ) from error
        seen += 1
    if not seen:
        raise InvalidRequest("int8 needs calibration data: --calibration or --random")
