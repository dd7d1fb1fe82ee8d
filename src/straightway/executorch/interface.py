"""A model's inputs as the flat list of tensors that an ExecuTorch program takes.

Dictionaries, lists and dataclasses of tensors become an input each; numbers, words and None are part of
the program, as torch.export sees them.
"""

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from straightway.errors import InvalidRequest

_CONSTANTS = (bool, int, float, str, type(None))
# What the runtime's bindings pass; kernels of some know fewer.
_DTYPES = {
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.bool),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.complex64, torch.complex128),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """What a program takes: names, example tensors and open dimensions, one for each input.

    `notes` tell what is no input though it was given as one.
    """

    names: tuple[str, ...]
    tensors: tuple[torch.Tensor, ...]
    dynamic_shapes: tuple[Any, ...] | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leaf:
    """One part of the inputs: its name, its value, and which of its dimensions are open."""

    name: str
    value: Any
    shapes: Any
    is_nested: bool


def flatten(
    subject: str,
    module: torch.nn.Module,
    inputs: Sequence[Any],
    shapes: Any = None,
    keywords: Mapping[str, Any] | None = None,
) -> Interface:
    """Give a module a forward that takes tensors alone, where its own takes anything else.

    `shapes` are open dimensions as torch.export takes them. Raises InvalidRequest for what is neither
    tensor nor constant, or can't be a program's input.
    """
    named = _by_name(subject, module, inputs, shapes, partly=bool(keywords))
    named += [(name, one, None) for name, one in (keywords or {}).items()]
    _register([one for _, one, _ in named])
    leaves = [leaf for name, one, own in named for leaf in _leaves(subject, name, one, own)]
    kept = [leaf for leaf in leaves if isinstance(leaf.value, torch.Tensor)]
    names = _unique([leaf.name for leaf in kept])
    if keywords or len(kept) < len(leaves) or any(leaf.is_nested for leaf in leaves):
        _take_flat(subject, module, ((tuple(inputs), dict(keywords or {}))), names)
    constants = [f"{leaf.name}={leaf.value!r}" for leaf in leaves if leaf not in kept]
    return Interface(
        names=tuple(names),
        tensors=tuple(leaf.value for leaf in kept),
        dynamic_shapes=None if shapes is None else tuple(leaf.shapes for leaf in kept),
        notes=(f"{', '.join(constants)}: part of the program, no input of it",)
        if constants
        else (),
    )


class _Whole(torch.nn.Module):
    """A module that has no hooks of its own, around one that may."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *inputs: Any, **keywords: Any) -> Any:
        """Whatever it takes."""
        return self.inner(*inputs, **keywords)


def wrapped(inner: torch.nn.Module) -> torch.nn.Module:
    """A saved program's module, whose hooks check the form of inputs, to be given another."""
    whole, signature = _Whole(inner), inspect.signature(inner.forward)
    parameters = [
        inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *signature.parameters.values(),
    ]

    def forward(self: torch.nn.Module, *inputs: Any, **keywords: Any) -> Any:
        return self.inner(*inputs, **keywords)

    _become("", whole, forward, inspect.Signature(parameters))
    return whole


def named_shapes(module: torch.nn.Module, shapes: tuple[Any, ...] | None) -> Any:
    """Open dimensions, one for each input, as torch.export takes them: by forward's parameters."""
    if shapes is None:
        return None
    return dict(inspect.signature(module.forward).bind(*shapes).arguments)


def plain_results(module: torch.nn.Module, example: Any) -> bool:
    """Have forward return plain tuples for torch's own ("torch.return_types.topk").

    False where its results hold none, and no dataclass that torch.export would not know.
    """
    changed = _register([example])
    if any(_is_structure(one) for one in _containers(example)):
        base = type(module).forward

        def forward(self: torch.nn.Module, *inputs: Any) -> Any:
            return _plain(base(self, *inputs))

        _become(type(module).__name__, module, forward, inspect.signature(base))
        changed = True
    return changed


def _by_name(
    subject: str, module: torch.nn.Module, inputs: Sequence[Any], shapes: Any, *, partly: bool
) -> list[tuple[str, Any, Any]]:
    """Each input with the name of its parameter and its open dimensions."""
    signature = inspect.signature(module.forward)
    try:
        bound = (signature.bind_partial if partly else signature.bind)(*inputs)
    except TypeError as error:
        raise InvalidRequest(
            f"{subject}: forward{signature} does not take its example inputs: {error}"
        ) from error
    several = {p.name for p in signature.parameters.values() if p.kind is p.VAR_POSITIONAL}
    names: list[str] = []
    for name, one in bound.arguments.items():
        names += [f"{name}_{k}" for k in range(len(one))] if name in several else [name]
    each = _each(shapes, bound.arguments, several, len(inputs))
    if len(each) != len(inputs):
        raise InvalidRequest(
            f"{subject}: open dimensions are given for {len(each)} inputs; it has {len(inputs)}"
        )
    return list(zip(names, inputs, each, strict=True))


def _each(
    shapes: Any, arguments: Mapping[str, Any], several: set[str], count: int
) -> Sequence[Any]:
    """Open dimensions by input, however torch.export takes them: by parameter, name or input."""
    if shapes is None:
        return [None] * count
    if not isinstance(shapes, dict) and len(shapes) == count:
        return list(shapes)
    if not isinstance(shapes, dict):
        shapes = dict(zip(arguments, shapes, strict=False))
    found: list[Any] = []
    for name, one in arguments.items():
        own = shapes.get(name)
        found += list(own or [None] * len(one)) if name in several else [own]
    return found


def _leaves(subject: str, name: str, given: Any, shapes: Any) -> Iterator[_Leaf]:
    for path, one in pytree.tree_flatten_with_path(given)[0]:
        keys = [_key(part) for part in path]
        leaf = _Leaf(
            name=re.sub(r"\W", "_", "_".join([name, *map(str, keys)])),
            value=one,
            shapes=_within(subject, name, shapes, keys),
            is_nested=bool(path),
        )
        _check(subject, leaf)
        yield leaf


def _key(part: Any) -> Any:
    for attribute in ("key", "idx", "name"):
        if hasattr(part, attribute):
            return getattr(part, attribute)
    return part


def _within(subject: str, name: str, shapes: Any, keys: Sequence[Any]) -> Any:
    """The open dimensions of one part of an input."""
    for key in keys:
        if shapes is None:
            break
        try:
            fields = dataclasses.is_dataclass(shapes)
            shapes = getattr(shapes, key) if fields else shapes[key]
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise InvalidRequest(
                f"{subject}: the open dimensions of {name} are not of its form: none for {key!r}"
            ) from error
    return shapes


def _check(subject: str, leaf: _Leaf) -> None:
    """Raise InvalidRequest for what can be no input."""
    value = leaf.value
    if not isinstance(value, (torch.Tensor, *_CONSTANTS)):
        raise InvalidRequest(
            f"{subject}: an input is a {type(value).__name__} ({leaf.name}); give tensors "
            "(torch.from_numpy), numbers, or dictionaries, lists or dataclasses of them"
        )
    if not isinstance(value, torch.Tensor):
        if leaf.shapes:
            raise InvalidRequest(
                f"{subject}: {leaf.name} is a number, part of the program; to have it open give a tensor"
            )
        return
    if value.layout != torch.strided:
        raise InvalidRequest(
            f"{subject}: an input is a tensor of layout {value.layout} ({leaf.name}); ExecuTorch "
            "takes strided ones: give it dense (to_dense)"
        )
    if value.dtype not in _DTYPES:
        raise InvalidRequest(
            f"{subject}: an input is of {value.dtype} ({leaf.name}), which no kernel of ExecuTorch "
            "reads; give it as float32 or int8, and convert before the program"
        )


def _unique(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        number, own = 0, name
        while own in found:
            number += 1
            own = f"{name}_{number}"
        found.append(own)
    return found


def _take_flat(subject: str, module: torch.nn.Module, example: Any, names: Sequence[str]) -> None:
    """Have forward take the tensors of `example`, its inputs and keywords, in their order."""
    leaves, spec = pytree.tree_flatten(example)
    places = [k for k, one in enumerate(leaves) if isinstance(one, torch.Tensor)]
    template = [None if isinstance(one, torch.Tensor) else one for one in leaves]
    base = type(module).forward

    def forward(self: torch.nn.Module, *tensors: Any) -> Any:
        filled = list(template)
        for place, one in zip(places, tensors, strict=True):
            filled[place] = one
        inputs, keywords = pytree.tree_unflatten(filled, spec)
        return base(self, *inputs, **keywords)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in ("self", *names)]
    _become(subject, module, forward, inspect.Signature(parameters))


def _become(subject: str, module: torch.nn.Module, forward: Any, signature: Any) -> None:
    """Give one module another forward; its parts keep their paths, and copies of it have it, too."""
    forward.__signature__ = signature
    kind = type(module)
    try:
        module.__class__ = type(kind.__name__, (kind,), {"forward": forward})
    except TypeError as error:
        raise InvalidRequest(
            f"{subject}: a {kind.__name__} takes tensors as inputs alone; give the module itself"
        ) from error


def _register(given: Sequence[Any]) -> bool:
    """Tell torch.export of dataclasses within; whether any was new to it."""
    kinds = {type(one) for tree in given for one in _containers(tree)}
    new = [
        kind
        for kind in kinds
        if dataclasses.is_dataclass(kind) and kind not in pytree.SUPPORTED_NODES
    ]
    for kind in new:
        torch.export.register_dataclass(
            kind, serialized_type_name=f"{kind.__module__}.{kind.__qualname__}"
        )
    return bool(new)


def _containers(tree: Any) -> Iterator[Any]:
    """All that holds something, from outside in."""
    if isinstance(tree, torch.Tensor):
        return
    parts: Sequence[Any] = ()
    if isinstance(tree, Mapping):
        parts = list(tree.values())
    elif isinstance(tree, (list, tuple)):
        parts = tree
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        parts = [getattr(tree, field.name) for field in dataclasses.fields(tree)]
    else:
        return
    yield tree
    for part in parts:
        yield from _containers(part)


def _is_structure(one: Any) -> bool:
    """Whether it is one of torch.return_types, whose form torch.export can't write."""
    return isinstance(one, tuple) and hasattr(one, "n_sequence_fields")


def _plain(tree: Any) -> Any:
    return pytree.tree_map(
        lambda one: tuple(one) if _is_structure(one) else one, tree, is_leaf=_is_structure
    )
