"""torch.export, and what it says when a model can't be exported, made short."""

import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import TensorArgument

from straightway.errors import InvalidModel, InvalidRequest, StraightwayError, Unsupported
from straightway.executorch.interface import named_shapes, plain_results
from straightway.executorch.lines import at_line
from straightway.executorch.model import Model, first_line

# What torch's message holds, and what usually helps.
_REMEDIES = (
    (
        "data-dependent",
        "write the branch with torch.where or torch.cond, or fix the value it needs",
    ),
    ("GuardOnDataDependent", "bound the size with torch._check, or fix the value it needs"),
    ("Could not guard", "write the branch with torch.where or torch.cond, or fix the value"),
    ("inferred to be a constant", "take that dimension as fixed: the model computes with its size"),
    (
        "specializ",
        "take that dimension as fixed: the model needs its size (GRU and LSTM write out each step)",
    ),
    ("Constraints violated", "widen the range of that dimension, or take it as fixed"),
    ("is not a valid input type", "give tensors, numbers, lists or dictionaries of them as inputs"),
    ("torch.jit.ScriptModule", "give the module itself, before torch.jit.script or trace"),
    ("generator", "write the loop over a list"),
    ("missing", "give an example input for each parameter of forward"),
    ("positional argument", "give an example input for each parameter of forward"),
)
_SUGGESTED = re.compile(r"Suggested fixes:\s*\n(?P<fix>[^\n]+)")


def capture(model: Model) -> ExportedProgram:
    """Export a model's forward. Raises Unsupported where torch can't, with the line that stops it.

    Nothing is trained here: the module is in eval mode, no gradients are kept.
    """
    if model.program is not None:
        return model.program
    if model.module is None:
        raise InvalidModel(f"{model.name}: has neither a module nor a program")
    try:
        found = _exported(model.module, model)
    except StraightwayError:
        raise
    except Exception as error:  # torch.export raises what the user's own code raises, too
        if not plain_results(model.module, _run(model)):
            raise Unsupported(_told(model.name, error)) from error
        return capture(model)
    results = found.call_spec.out_spec
    if plain_results(model.module, results.unflatten([None] * results.num_leaves)):
        return capture(model)
    if not any(isinstance(one.arg, TensorArgument) for one in found.graph_signature.output_specs):
        raise InvalidRequest(
            f"{model.name}: forward returns no tensor, so nothing is to be computed"
        )
    return found


def _exported(module: torch.nn.Module, model: Model) -> ExportedProgram:
    with torch.no_grad(), _quiet():
        return torch.export.export(
            module,
            model.inputs,
            dynamic_shapes=named_shapes(module, model.dynamic_shapes),
            strict=False,
        )


def _run(model: Model) -> Any:
    """What the module itself returns; raises InvalidRequest where it fails on its inputs.

    That is no fault of torch.export.
    """
    if model.module is None:
        return None
    inputs = [one.clone() if isinstance(one, torch.Tensor) else one for one in model.inputs]
    try:
        with torch.no_grad(), _quiet():
            return model.module(*inputs)
    except Exception as error:  # whatever the user's code raises
        shapes = ", ".join(
            str(list(one.shape)) if isinstance(one, torch.Tensor) else type(one).__name__
            for one in model.inputs
        )
        raise InvalidRequest(
            f"{model.name}: the model itself fails on its example inputs ({shapes}){at_line(error)}: "
            f"{type(error).__name__}: {first_line(error)}"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """What torch logs and prints of a failure, pages of it, the error says in a line."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def _told(name: str, error: BaseException) -> str:
    text = f"{name}: torch.export can't trace it{at_line(error)}"
    said = str(error)
    helps = next((remedy for sign, remedy in _REMEDIES if sign.lower() in said.lower()), "")
    text += f": {type(error).__name__}: {first_line(error)}"
    suggested = _SUGGESTED.search(said)
    if suggested:
        text += f"\n  torch suggests: {suggested['fix'].strip()}"
    return f"{text}\n  what usually helps: {helps}" if helps else text
