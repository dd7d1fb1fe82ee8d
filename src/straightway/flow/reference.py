"""What the model computes, asked of onnxruntime, or of ONNX's own evaluator where that has no kernel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from straightway.errors import InvalidModel, InvalidRequest, ToolFailed
from straightway.flow.inputs import Arrays
from straightway.flow.tolerance import kind_of
from straightway.run import ort
from straightway.run.process import Child

# Of what onnxruntime says, these are its own limits; then the machine's; the rest is about the model.
NO_KERNEL = (
    "NOT_IMPLEMENTED",
    "not currently registered or supported",
    "is not a registered function/op",
    "are not supported",
    "is not supported now",
    "is not defined for empty set",
    "operator does not support",
    "Dilation not supported for AutoPadType",
    "inconsistent total_sequence_length (between attn_mask",  # ONNX pads a mask that is too short
)
OWN_LIMITS = (
    *NO_KERNEL,
    "Failed to allocate",
    "bad_alloc",
    "Arena::Allocate",
)
NOTE = "compared with ONNX's reference evaluator, since {reason}"
LONGEST_EVALUATION_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What onnxruntime gives for one set of inputs, optimised and not.

    `computed_in`: the type in which ONNX's evaluator computed instead, if that is narrower than float32.
    Numpy widens some results of whole numbers: `widened` says that it was the evaluator.
    """

    optimised: Mapping[str, np.ndarray]
    plain: Mapping[str, np.ndarray]
    computed_in: str = ""
    widened: bool = False


class Oracle:
    """Runs a model; `note` says why it is not onnxruntime that does, "" where it is."""

    def __init__(
        self,
        child: Child,
        model: Path,
        *,
        note: str = "",
        doubted: Path | None = None,
        widens: bool = False,
    ) -> None:
        """With a `note`, ONNX's evaluator runs it from the start.

        Of a model that is spelled anew, `doubted` is the one before: what the two differ by is how
        sure the reference is. `widens`: outputs that the model does not declare may be wider floats.
        """
        self.child = child
        self.model = model
        self.note = note
        self.optimised = doubted or model
        self.widens = widens

    def run(
        self, arrays: Arrays, *, optimise: bool = False, extra: Sequence[str] = ()
    ) -> dict[str, np.ndarray]:
        """The outputs by name, or the `extra` values instead; of those what the engine knows.

        Raises InvalidModel, InvalidRequest and ToolFailed, as the engines do.
        """
        if not self.note:
            model = self.optimised if optimise else self.model
            call = ort.run(model, arrays, optimise=optimise, outputs=extra, extra_outputs=extra)
            try:
                return self.child.call(call)
            except (InvalidRequest, ToolFailed) as error:  # some limits it finds in the inputs
                if not any(limit in str(error) for limit in NO_KERNEL):
                    raise
                return self._evaluated_after(error, arrays, extra)
        return self._evaluated(arrays, extra)

    def _evaluated(self, arrays: Arrays, extra: Sequence[str]) -> dict[str, np.ndarray]:
        call = ort.evaluate(self.model, arrays, extra_outputs=extra)
        return self.child.call(call, timeout_s=LONGEST_EVALUATION_S)

    def _evaluated_after(
        self, error: Exception, arrays: Arrays, extra: Sequence[str]
    ) -> dict[str, np.ndarray]:
        try:
            found = self._evaluated(arrays, extra)
        except ToolFailed as other:
            raise ToolFailed(f"{one_line(error)}; {one_line(other)}") from error
        self.note = NOTE.format(reason=one_line(error))
        return found


def references(oracle: Oracle, sets: Sequence[Arrays]) -> list[Reference]:
    """Run the model without and with onnxruntime's optimisations, on each set.

    In this order the child makes two sessions, not two for each set. Raises InvalidModel where
    onnxruntime refuses the model, or floats of the right shapes; InvalidRequest where it refuses the inputs, and ToolFailed for
    what it can't do itself, nor can ONNX's evaluator.
    """
    model = oracle.model
    try:
        plain = [oracle.run(arrays) for arrays in sets]
        optimised = plain if oracle.note else [oracle.run(a, optimise=True) for a in sets]
    except InvalidRequest as error:
        if all(kind_of(array) == "f" for arrays in sets for array in arrays.values()):
            raise InvalidModel(f"{model}: onnxruntime refuses it: {one_line(error)}") from error
        raise InvalidRequest(
            f"{model}: {error}; if the model is right, give other inputs with --inputs NPZ"
        ) from error
    except ToolFailed as error:
        if is_refusal(error):
            raise InvalidModel(f"{model}: onnxruntime refuses it: {one_line(error)}") from error
        raise ToolFailed(
            f"{one_line(error)}; --no-verify writes the file without a comparison"
        ) from error
    return [
        Reference(
            optimised=o,
            plain=p,
            computed_in=narrowest(arrays) if oracle.note else "",
            widened=bool(oracle.note) or oracle.widens,
        )
        for o, p, arrays in zip(optimised, plain, sets, strict=True)
    ]


def narrowest(arrays: Arrays) -> str:
    """The narrowest type of floats among the inputs, "" where that is float32 or none."""
    names = {array.dtype.name for array in arrays.values()}
    return next((name for name in ("bfloat16", "float16") if name in names), "")


def is_refusal(error: ToolFailed) -> bool:
    """Whether onnxruntime says that the model contradicts itself."""
    text = str(error)
    return text.startswith("onnxruntime can't") and not any(limit in text for limit in OWN_LIMITS)


def one_line(error: Exception) -> str:
    """The message, its lines joined."""
    return " ".join(str(error).split())
