"""Models to export: a factory in Python, or a program that torch.export saved."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from straightway.errors import InvalidModel, InvalidRequest, StraightwayError
from straightway.executorch.archive import check_archive, no_code
from straightway.executorch.given import EXAMPLE, check
from straightway.executorch.lines import at_line
from straightway.executorch.samples import open_shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What is to be exported: a module, or an exported program, and inputs to run it on.

    `inputs` are the positional example inputs; `dynamic_shapes` is what torch.export takes under
    that name. `name` is what the user called it. `notes` tell what was changed in what was given.
    """

    name: str
    module: torch.nn.Module | None
    program: ExportedProgram | None = None
    inputs: tuple[Any, ...]
    dynamic_shapes: Any = None
    notes: tuple[str, ...] = ()

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of forward's parameters that the inputs go to."""
        if self.program is not None:
            return tuple(self.program.graph_signature.user_inputs)
        names: list[str] = []
        if self.module is None:
            return ()
        parameters = list(inspect.signature(type(self.module).forward).parameters.values())
        for p in parameters[1:]:  # without self
            if p.kind is p.VAR_POSITIONAL:
                names += [f"{p.name}_{k}" for k in range(len(self.inputs) - len(names))]
            elif p.kind is not p.VAR_KEYWORD:
                names.append(p.name)
        return tuple(names[: len(self.inputs)])


def load(given: str) -> Model:
    """A model by the user's words: MODULE:FACTORY, path/to/file.py:FACTORY, or a .pt2 file.

    Raises InvalidRequest where there is none of that name or it returns something else, InvalidModel
    for a damaged file, or one that would run code when it is opened.
    """
    module, _, factory = check(given)
    if not module:
        return _saved(Path(given))
    return made(given, _function(module, factory))


def _function(module: str, name: str) -> Any:
    """The factory: of a module on the path, in the working folder, or of a .py file."""
    place = str(Path(module).resolve().parent if module.endswith(".py") else Path.cwd())
    sys.path.insert(0, place)
    try:
        with users_code(module):
            loaded = _of_file(Path(module)) if module.endswith(".py") else _imported(module, place)
    finally:
        sys.path.remove(place)
    found = getattr(loaded, name, None)
    if found is None:
        raise InvalidRequest(f"module {module} has no '{name}'.\n{EXAMPLE}")
    if not callable(found):
        raise InvalidRequest(f"{module}:{name} is no function.\n{EXAMPLE}")
    return found


def _imported(module: str, place: str) -> Any:
    if importlib.util.find_spec(module) is None:
        raise InvalidRequest(f"there is no module '{module}'; looked in {place}, too")
    return importlib.import_module(module)


def _of_file(file: Path) -> Any:
    """A file as a module of its own, whatever other module has its name."""
    name = f"straightway_model_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InvalidRequest(f"{file}: is no Python module")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


@contextmanager
def users_code(name: str) -> Iterator[None]:
    """Whatever the user's own module raises is told with its line, and is no fault of ours."""
    try:
        yield
    except StraightwayError:
        raise
    except Exception as error:  # any code may raise anything
        raise InvalidRequest(
            f"{name} fails{at_line(error)}: {type(error).__name__}: {first_line(error)}"
        ) from error


def made(name: str, factory: Any) -> Model:
    """Call a factory. Raises InvalidRequest for what is no module with inputs."""
    needed = [
        p
        for p in inspect.signature(factory).parameters.values()
        if p.default is p.empty and p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}
    ]
    if needed:
        raise InvalidRequest(f"{name} wants parameters ({needed[0].name}).\n{EXAMPLE}")
    with users_code(name):
        parts = factory()
    if not isinstance(parts, tuple) or not 2 <= len(parts) <= 3:
        raise InvalidRequest(
            f"{name} returned {type(parts).__name__}, not a module and its inputs.\n{EXAMPLE}"
        )
    module, inputs = parts[0], parts[1]
    if not isinstance(module, torch.nn.Module):
        raise InvalidRequest(
            f"{name} returned a {type(module).__name__} where a torch.nn.Module stands.\n{EXAMPLE}"
        )
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if not isinstance(inputs, (tuple, list)):
        raise InvalidRequest(f"{name}: its inputs are a {type(inputs).__name__}.\n{EXAMPLE}")
    odd = next(
        (one for one in inputs if not isinstance(one, (torch.Tensor, int, float, bool))), None
    )
    if odd is not None:
        raise InvalidRequest(
            f"{name}: an input is a {type(odd).__name__}; give tensors (torch.from_numpy) or numbers"
        )
    sparse = [
        one for one in inputs if isinstance(one, torch.Tensor) and one.layout != torch.strided
    ]
    if sparse:
        raise InvalidRequest(
            f"{name}: an input is a tensor of layout {sparse[0].layout}; ExecuTorch takes strided ones"
        )
    if len(parts) == 3 and not isinstance(parts[2], (tuple, list, dict, type(None))):
        raise InvalidRequest(f"{name}: the third part says what dimensions are open.\n{EXAMPLE}")
    training = [place or "the model" for place, part in module.named_modules() if part.training]
    return Model(
        name=name,
        module=module.eval(),
        inputs=tuple(_dense(one) for one in inputs),
        dynamic_shapes=parts[2] if len(parts) == 3 else None,
        notes=(_was_training(training),) if training else (),
    )


def _was_training(places: list[str]) -> str:
    more = f" (and {len(places) - 1} more modules)" if len(places) > 1 else ""
    return (
        f"{places[0]}{more} came in training mode; exported in eval mode, without dropout and with the "
        "batch norms' running statistics: call .eval() in the factory to say so"
    )


def _dense(one: Any) -> Any:
    """An input stored without gaps, in the order of its dimensions or channels last.

    ExecuTorch knows no other strides: what it computes of others is wrong.
    """
    if not isinstance(one, torch.Tensor) or _is_dense(one):
        return one
    return one.detach().clone(memory_format=torch.contiguous_format)


def _is_dense(one: torch.Tensor) -> bool:
    formats = [torch.contiguous_format, *([torch.channels_last] if one.dim() == 4 else [])]
    # strides themselves: dimensions of size 1 have any in what torch calls contiguous
    return any(
        one.stride() == torch.empty_like(one, device="meta", memory_format=it).stride()
        for it in formats
    )


def _saved(path: Path) -> Model:
    check_archive(path)
    try:
        with no_code():
            program = torch.export.load(str(path))
    except Exception as error:  # torch raises whatever the damaged part leads to
        raise InvalidModel(f"{path}: torch can't read it: {_reason(error)}") from error
    if program.example_inputs is None or program.example_inputs[0] is None:
        raise InvalidModel(f"{path}: was saved without example inputs")
    arguments, keywords = program.example_inputs
    if keywords:
        raise InvalidModel(
            f"{path}: has keyword inputs ({', '.join(keywords)}); give positional ones"
        )
    shapes = open_shapes(program)
    dense = tuple(_dense(one) for one in arguments)
    if any(one is not given for one, given in zip(dense, arguments, strict=True)):
        with torch.no_grad():
            program = torch.export.export(
                program.module(check_guards=False), dense, dynamic_shapes=shapes, strict=False
            )
    return Model(name=path.stem, module=None, program=program, inputs=dense, dynamic_shapes=shapes)


def _reason(error: BaseException) -> str:
    """What stopped torch, in place of its advice to load the file without safety."""
    said = first_line(error)
    if "Weights only load failed" in said:
        return "it is damaged, or a pickle in it would run code; not loaded"
    if "warnings above" in said:
        return "it is no program that torch.export.save wrote"
    return said


def first_line(error: BaseException) -> str:
    """What went wrong, without the pages that torch adds."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
