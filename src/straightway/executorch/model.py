"""Models to export: a factory in Python, or a program that torch.export saved."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves

from straightway.errors import InvalidModel, InvalidRequest, StraightwayError
from straightway.executorch import construction
from straightway.executorch.archive import check_archive, no_code
from straightway.executorch.given import EXAMPLE, check
from straightway.executorch.interface import flatten, named_shapes, wrapped
from straightway.executorch.lines import at_line
from straightway.executorch.samples import open_shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What is to be exported: a module, or an exported program, and inputs to run it on.

    `inputs` are the example tensors, `input_names` what they are called, `dynamic_shapes` which of
    their dimensions are open, one entry for each. `name` is what the user called the model. `notes` tell
    what was changed in what was given, `parts` by module path what a part is and where it is made.
    """

    name: str
    module: torch.nn.Module | None
    program: ExportedProgram | None = None
    inputs: tuple[Any, ...]
    input_names: tuple[str, ...]
    dynamic_shapes: tuple[Any, ...] | None = None
    notes: tuple[str, ...] = ()
    parts: Mapping[str, str] = field(default_factory=dict)


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
    with users_code(name), construction.recorded() as lines:
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
    if len(parts) == 3 and not isinstance(parts[2], (tuple, list, dict, type(None))):
        raise InvalidRequest(f"{name}: the third part says what dimensions are open.\n{EXAMPLE}")
    training = [place or "the model" for place, part in module.named_modules() if part.training]
    found = flatten(name, module.eval(), inputs, parts[2] if len(parts) == 3 else None)
    return Model(
        name=name,
        module=module,
        inputs=tuple(_dense(one) for one in found.tensors),
        input_names=found.names,
        dynamic_shapes=found.dynamic_shapes,
        notes=(*([_was_training(training)] if training else []), *found.notes),
        parts=construction.parts(module, lines),
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
    shapes = open_shapes(program)
    if keywords or any(_changes(one) for one in arguments):
        return _again(path, program, shapes)
    return Model(
        name=path.stem,
        module=None,
        program=program,
        inputs=tuple(arguments),
        input_names=tuple(program.graph_signature.user_inputs),
        dynamic_shapes=shapes,
    )


def _changes(one: Any) -> bool:
    """Whether an input is none that a program takes as it is."""
    return not isinstance(one, torch.Tensor) or one is not _dense(one)


def _again(path: Path, program: ExportedProgram, shapes: tuple[Any, ...] | None) -> Model:
    """A saved program whose inputs are flat tensors, stored as ExecuTorch knows them."""
    arguments, keywords = program.example_inputs or ((), {})
    module = wrapped(program.module(check_guards=False))
    # open dimensions stand for flat inputs already, in the same order
    kept = [
        own
        for one, own in zip(tree_leaves((arguments, keywords)), shapes or (), strict=bool(shapes))
        if isinstance(one, torch.Tensor)
    ]
    found = flatten(path.name, module, arguments, keywords=keywords)
    dense = tuple(_dense(one) for one in found.tensors)
    open_ones = tuple(kept) if shapes else None
    with torch.no_grad():
        made_again = torch.export.export(
            module, dense, dynamic_shapes=named_shapes(module, open_ones), strict=False
        )
    return Model(
        name=path.stem,
        module=None,
        program=made_again,
        inputs=dense,
        input_names=found.names,
        dynamic_shapes=open_ones,
        notes=found.notes,
    )


def _reason(error: BaseException) -> str:
    """What stopped torch, in place of its advice to load the file without safety."""
    said = first_line(error)
    if "Weights only load failed" in said:
        return "it is damaged, or a pickle in it would run code; not loaded"
    if "warnings above" in said:
        return (
            f"it is no program that torch.export.save of torch {torch.__version__} wrote; save it "
            "with this version"
        )
    return said


def first_line(error: BaseException) -> str:
    """What went wrong, without the pages that torch adds."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
