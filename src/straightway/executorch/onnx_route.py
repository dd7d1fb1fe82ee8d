"""A PyTorch model as an ONNX file, by PyTorch's own exporter."""

import importlib.util
import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import torch

from straightway.errors import ToolFailed, Unsupported
from straightway.executorch.interface import named_shapes
from straightway.executorch.lines import at_line
from straightway.executorch.model import Model, first_line


def write_onnx(model: Model, path: Path) -> None:
    """Write a model by torch.onnx.export. Raises ToolFailed without onnxscript, Unsupported."""
    if importlib.util.find_spec("onnxscript") is None:
        raise ToolFailed("PyTorch's ONNX exporter needs onnxscript: pip install onnxscript")
    subject = model.program if model.program is not None else model.module
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said), torch.no_grad():
            torch.onnx.export(
                subject,
                model.inputs,
                str(path),
                dynamo=True,
                external_data=False,
                dynamic_shapes=model.dynamic_shapes
                if model.module is None
                else named_shapes(model.module, model.dynamic_shapes),
            )
    except Exception as error:  # torch.onnx raises what its decompositions raise
        raise Unsupported(
            f"{model.name}: torch.onnx.export can't write it{at_line(error)}: {first_line(error)}"
        ) from error
