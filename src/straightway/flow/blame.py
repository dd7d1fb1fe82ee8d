"""Whose fault is it? What no check foresaw is the model's if onnxruntime can't run it either."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from straightway.errors import (
    Bug,
    InvalidModel,
    InvalidRequest,
    StraightwayError,
    ToolFailed,
    Unsupported,
)
from straightway.flow.inputs import Arrays, make_inputs
from straightway.flow.reference import is_refusal, one_line
from straightway.flow.translate import UNFORESEEN, read
from straightway.ingest.onnx import ShapeRequest
from straightway.run import ort
from straightway.run.process import Child

# so many are not made up only to ask
MOST_ELEMENTS = 2**24


@contextmanager
def blamed(model: Path, shapes: ShapeRequest) -> Iterator[None]:
    """Turn what nobody foresaw into InvalidModel, where the model contradicts itself, or Bug.

    What is refused at sizes of 0 that were asked for is a wrong request. A refusal names the model.
    """
    try:
        yield
    except (Unsupported, InvalidModel) as error:
        empty = shapes.empty()
        if empty and isinstance(error, Unsupported):
            raise InvalidRequest(f"{empty}: does not work at a size of 0: {error}") from error
        if str(model) not in str(error):  # where only a node is known
            error.args = (f"{model}: {error}",)
        raise
    except UNFORESEEN as error:
        raise _blame(model, shapes, error) from error


def _blame(model: Path, shapes: ShapeRequest, error: Exception) -> StraightwayError:
    said = _refusal(model, shapes)
    if said:
        return InvalidModel(f"{model}: contradicts itself: {said}")
    if isinstance(error, Bug):
        return Bug(f"{model}: {error}")
    return Bug(f"{model}: straightway failed with {type(error).__name__}: {error}")


def _refusal(model: Path, shapes: ShapeRequest) -> str:
    """What onnxruntime has against the model; "" where it runs it, or can't be asked."""
    try:
        graph = read(model, shapes)
        if sum(value.known_type.size for value in graph.inputs) > MOST_ELEMENTS:
            return _refused(model, {}, with_inputs=False)
        arrays = make_inputs(graph, seed=0)
    except (StraightwayError, *UNFORESEEN, MemoryError):
        return _refused(model, {}, with_inputs=False)
    return _refused(model, arrays, with_inputs=True)


def _refused(model: Path, arrays: Arrays, *, with_inputs: bool) -> str:
    try:
        with Child(engines=["onnxruntime"]) as child:
            child.call(ort.run(model, arrays, optimise=False))
    except InvalidModel as error:
        return one_line(error)
    except InvalidRequest as error:
        return one_line(error) if with_inputs else ""
    except ToolFailed as error:
        return one_line(error) if is_refusal(error) else ""
    return ""
