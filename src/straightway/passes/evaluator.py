"""One operator evaluated on constants: a function whose signature is the schema."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from straightway.errors import Bug
from straightway.ir import Node, TensorType
from straightway.onnx_io.schema import schema
from straightway.passes.arguments import argument

VARIADIC = 0x04  # inspect.CO_VARARGS
Result = Any
"""An array: numpy's operators on arrays of any element type are typed as Any."""


class UnfoldableError(ValueError):
    """Why a node of constants is left as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a function may ask about the node itself: its opset, and what its results must be."""

    version: int
    results: Sequence[TensorType | None]

    @property
    def dtype(self) -> np.dtype:
        """The element type of the first result."""
        kind = self.results[0]
        if kind is None:
            raise UnfoldableError("its result has no known type")
        return kind.dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """A function on arrays; positional parameters are operands, keywords go by the schema's names.

    A keyword is an operand or an attribute, whichever the node's opset has; a trailing underscore
    only spares Python's own names. The keyword `call` gets a Call. Holds since opset `since`. What
    is `ignored` only says of which type the result is, which the Call tells.
    """

    function: Callable[..., Any]
    since: int
    operands: int | None
    options: tuple[str, ...]
    ignored: frozenset[str] = frozenset()

    def run(self, node: Node, results: Sequence[TensorType | None]) -> list[np.ndarray]:
        """Evaluate the node; raises UnfoldableError or numpy's ValueError and IndexError."""
        if node.op.version < self.since:
            raise UnfoldableError(f"{node.op} is older than opset {self.since}")
        names = {option: option.rstrip("_") for option in self.options if option != "call"}
        self._refuse_others(node, self.ignored | set(names.values()))
        keywords = {}
        for option, name in names.items():
            given = argument(node, name)
            if given is not None:
                keywords[option] = given
        if "call" in self.options:
            keywords["call"] = Call(version=node.op.version, results=results)
        found = self.function(*self._arrays(node), **keywords)
        return list(found) if isinstance(found, (list, tuple)) else [np.asarray(found)]

    def _arrays(self, node: Node) -> list[np.ndarray | None]:
        arrays = [value.const if value is not None else None for value in node.inputs]
        return arrays if self.operands is None else arrays[: self.operands]

    def _refuse_others(self, node: Node, names: frozenset[str]) -> None:
        """Refuse what the function does not know, unless it says nothing."""
        official = schema(node.op)
        if official is None:
            raise UnfoldableError(f"{node.op} is unknown")
        for key, value in node.attrs.items():
            if key not in names and value != official.defaults.get(key):
                raise UnfoldableError(f"attribute '{key}' of {node.op} is not evaluated")
        if self.operands is None:
            return
        for name, value in list(zip(official.inputs, node.inputs, strict=False))[self.operands :]:
            if value is not None and name not in names:
                raise UnfoldableError(f"operand '{name}' of {node.op} is not evaluated")


class Table(dict[str, Evaluator]):
    """The evaluators of a family of operators, by name."""

    def evaluates(
        self, *names: str, since: int = 1, ignored: tuple[str, ...] = ()
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the function under it for these operators."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            for name in names:
                self.enter(name, function, since=since, ignored=ignored)
            return function

        return register

    def enter(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        since: int = 1,
        ignored: tuple[str, ...] = (),
    ) -> None:
        """Register a function; its signature says what it takes."""
        if name in self:
            raise Bug(f"operator {name} has two evaluators")
        code = function.__code__
        first = code.co_argcount
        self[name] = Evaluator(
            function=function,
            since=since,
            operands=None if code.co_flags & VARIADIC else first,
            options=code.co_varnames[first : first + code.co_kwonlyargcount],
            ignored=frozenset(ignored),
        )
