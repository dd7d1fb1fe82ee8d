"""What the model computes, asked of onnxruntime."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from straightway.errors import InvalidModel, InvalidRequest, ToolFailed
from straightway.flow.inputs import Arrays
from straightway.run import ort
from straightway.run.process import Child

# Of what onnxruntime says, these are its own limits, or the machine's; the rest is about the model.
OWN_LIMITS = (
    "NOT_IMPLEMENTED",
    "not currently registered or supported",
    "Failed to allocate",
    "bad_alloc",
    "Arena::Allocate",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What onnxruntime gives for one set of inputs, optimised and not."""

    optimised: Mapping[str, np.ndarray]
    plain: Mapping[str, np.ndarray]


def references(child: Child, model: Path, sets: Sequence[Arrays]) -> list[Reference]:
    """Run the model by onnxruntime, first with and then without its optimisations, on each set.

    In this order the child makes two sessions, not two for each set. Raises InvalidModel where
    onnxruntime refuses the model, InvalidRequest where it refuses the inputs, and ToolFailed for
    what it can't do itself.
    """
    try:
        optimised = [child.call(ort.run(model, arrays)) for arrays in sets]
        plain = [child.call(ort.run(model, arrays, optimise=False)) for arrays in sets]
    except InvalidRequest as error:
        raise InvalidRequest(
            f"{model}: {error}; if the model is right, give other inputs with --inputs NPZ"
        ) from error
    except ToolFailed as error:
        if is_refusal(error):
            raise InvalidModel(f"{model}: onnxruntime refuses it: {one_line(error)}") from error
        raise ToolFailed(
            f"{one_line(error)}; --no-verify writes the file without a comparison"
        ) from error
    return [Reference(optimised=o, plain=p) for o, p in zip(optimised, plain, strict=True)]


def is_refusal(error: ToolFailed) -> bool:
    """Whether onnxruntime says that the model contradicts itself."""
    text = str(error)
    return text.startswith("onnxruntime can't") and not any(limit in text for limit in OWN_LIMITS)


def one_line(error: Exception) -> str:
    """The message, its lines joined."""
    return " ".join(str(error).split())
