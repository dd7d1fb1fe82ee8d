"""The whole way of one model to one program: exported, rewritten, quantized, lowered."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves

from straightway.executorch.capture import capture
from straightway.executorch.given import Precision
from straightway.executorch.lowering import Lowered, lower
from straightway.executorch.model import Model
from straightway.executorch.precision import after_export, before_export
from straightway.executorch.rewrites.catalogue import ALWAYS, INTEGERS
from straightway.executorch.rewrites.scene import Change, Rewrite, rewritten


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a program is made. `without` names partitioner configurations to leave out.

    `samples` are calibration inputs, read once.
    """

    precision: Precision = "fp32"
    rewrites: tuple[Rewrite, ...] = ()
    without: tuple[str, ...] = ()
    samples: Iterable[Sequence[torch.Tensor]] = ()
    etrecord: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A model, its program as the user wrote it, the one that was lowered, and the result.

    `model` has the inputs of the precision; `reference` computes what the result should.
    """

    model: Model
    reference: ExportedProgram
    program: ExportedProgram
    lowered: Lowered
    changes: tuple[Change, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done unasked: to what was given, and around ExecuTorch's faults."""
        found = list(self.model.notes)
        for place in self.lowered.written:
            name = self.model.input_names[place]
            found.append(
                f"the model writes to its input {name} in place: the program returns what becomes of it "
                f"before its own results; where that is not meant, write {name} = {name}.clone() first"
            )
        for rewrite in ALWAYS:
            places = [one for one in self.changes if one.rewrite == rewrite.name]
            if places:
                found.append(
                    f"{rewrite.title}, which ExecuTorch gets wrong: at {places[0].source}"
                    + (f" and {len(places) - 1} more" if len(places) > 1 else "")
                )
        return tuple(found)


def export(model: Model, recipe: Recipe) -> Exported:
    """Raises Unsupported where torch, torchao or ExecuTorch can't, with the reason."""
    ready = before_export(model, recipe.precision)
    captured = capture(ready)
    return lowered_again(ready, captured, recipe, reference_of(model, captured, recipe.precision))


def reference_of(model: Model, captured: ExportedProgram, precision: Precision) -> ExportedProgram:
    """What a program in a precision should compute: the model in floats."""
    return capture(model) if precision in {"int4", "fp16"} else captured


def lowered_again(
    model: Model, captured: ExportedProgram, recipe: Recipe, reference: ExportedProgram
) -> Exported:
    """The same from a program that is already exported, so that recipes can be compared."""
    shapes = model.dynamic_shapes
    changed, changes = rewritten(
        captured,
        [*recipe.rewrites, *ALWAYS, *(INTEGERS if recipe.precision == "int8" else ())],
        dynamic_shapes=shapes,
    )
    program = after_export(changed, recipe.precision, recipe.samples, dynamic_shapes=shapes)
    done = lower(
        program,
        model.name,
        without=recipe.without,
        products=bool(recipe.rewrites),
        etrecord=recipe.etrecord,
    )
    return Exported(
        model=model, reference=reference, program=program, lowered=done, changes=changes
    )


class Eager:
    """A program as torch computes it, run after run: what it keeps in buffers goes on.

    `written` are the places of inputs that it changes: their values are results, before its own.
    """

    def __init__(self, program: ExportedProgram, written: Sequence[int] = ()) -> None:
        self._written = tuple(written)
        self._module = program.module(check_guards=False)
        for name, buffer in list(self._module.named_buffers()):
            owner, _, own = name.rpartition(".")
            # else it is the program's own, and what a run writes there stays
            self._module.get_submodule(owner).register_buffer(own, buffer.clone())

    def __call__(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        """Its outputs; those that are no tensors are left out."""
        own = [one.clone() if isinstance(one, torch.Tensor) else one for one in inputs]
        with torch.no_grad():
            results = tree_leaves(self._module(*own))
        found = [*(own[place] for place in self._written), *results]
        return [one.clone() for one in found if isinstance(one, torch.Tensor)]


def typed_for(program: ExportedProgram, inputs: Sequence[Any]) -> list[Any]:
    """The inputs in the float types that a program was exported with."""
    examples = (program.example_inputs or ((), {}))[0]
    return [
        one.to(example.dtype) if isinstance(one, torch.Tensor) and one.is_floating_point() else one
        for one, example in zip(inputs, examples, strict=True)
    ]


def with_inputs(model: Model, inputs: Sequence[Any]) -> Model:
    """The model with other example inputs."""
    return replace(model, inputs=tuple(inputs))
