"""The frame of the declarations: `@lower`, `need`, `case`, and the registry.

    @lower(
        "Elu",
        needs=[need(lambda alpha: alpha == 1.0, "TFLite's ELU has alpha fixed at 1.0; got {alpha}")],
        samples=[case(x=(2, 3), alpha=1.0)],
        refuses=[case(x=(2, 3), alpha=2.0)],
    )
    def elu(g, x, /, alpha): ...

The signature is the schema. Positional-only parameters are the operands in order (`*xs` takes any
number); keywords resolve against the official schema of the model's opset as operand *or*
attribute, so `axes` that moved from one to the other needs no second version. Annotations say what
must be known: `Ints` (integers, constant), `Const` (an array, constant), a dataclass (a group of
attributes); a `float` is finite, an `AnyFloat` need not be. `op` is the operator's name, `out` the list of result types, `node` the node itself.
Attributes and operands that the signature does not name may only be absent or hold their default.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from straightway.ir import Op


class Ints(tuple[int, ...]):
    """Integers that must be known when converting, from an attribute or a constant operand."""

    __slots__ = ()


class AnyFloat(float):
    """A number that may be infinite or NaN; other attributes that are numbers must be finite."""

    __slots__ = ()


class Const(np.ndarray):
    """An operand that must be a constant."""


ZERO = AnyFloat()
ABSENT = Ints()
"""The default of integers that need not be given."""

EVALUATION = "export the model for inference (PyTorch: model.eval())"
ONNX_TEXT = "onnx/docs/Operators.md"
"""Where the format rules something out, rather than a kernel."""

# In the sentence of a need: what was found, at its end; and other fields, with the word before.
FOUND = re.compile(r"[;:,] (got |\{).*$")
FIELD = re.compile(r"(\w*)( ?)\{(?:\w+\.)*(\w+)[^}]*\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A limit: the test on the bound arguments, and the sentence for who breaks it.

    The sentence says what must be, and then what is: "alpha must be 1; got {alpha}".
    """

    test: Callable[..., bool]
    text: str
    kernel: str = ""
    remedy: str = ""
    possible: bool = False

    def parameters(self) -> list[str]:
        """Names of the arguments that the test looks at."""
        return list(inspect.signature(self.test).parameters)

    def limit(self, op: str) -> str:
        """The sentence as it stands in lists of limits: without what one model has."""

        def named(field: re.Match[str]) -> str:
            before, space, name = field.groups()
            if before == name:  # "axis {axis}"
                return name
            return f"{before}{space}{op if name == 'op' else name}"

        return FIELD.sub(named, FOUND.sub("", self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A sample node: operands by schema name (shapes, arrays or None), the rest attributes."""

    arguments: Mapping[str, Any]
    opset: int | None = None
    outputs: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowering:
    """How one ONNX op becomes TFLite ops."""

    op: Op
    function: Callable[..., Any]
    needs: tuple[Need, ...]
    samples: tuple[Case, ...]
    refuses: tuple[Case, ...]
    parameters: tuple[inspect.Parameter, ...] = field(repr=False)


LOWERINGS: dict[tuple[str, str], Lowering] = {}


def given(
    lowering: Lowering, arguments: Mapping[str, Any]
) -> tuple[list[object], dict[str, object]]:
    """Bound arguments as a call takes them: by position, and by keyword."""
    positional: list[object] = []
    keywords: dict[str, object] = {}
    for parameter in lowering.parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += arguments[parameter.name]
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(arguments[parameter.name])
        else:
            keywords[parameter.name] = arguments[parameter.name]
    return positional, keywords


def need(
    test: Callable[..., bool],
    text: str,
    *,
    kernel: str = "",
    remedy: str = "",
    possible: bool = False,
) -> Need:
    """State a limit; `text` may format the arguments: "got {alpha}".

    `possible`: LiteRT could run it, we don't lower it so far.
    """
    return Need(test=test, text=text, kernel=kernel, remedy=remedy, possible=possible)


def case(*, opset: int | None = None, outputs: int = 1, **arguments: Any) -> Case:
    """Describe a sample: an operand is a shape (random float32), an array (constant), or `run(…)`."""
    return Case(arguments=arguments, opset=opset, outputs=outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """An operand of a case that is fed at run time with these elements."""

    array: np.ndarray


def run(array: Any, dtype: Any = np.float32) -> Runtime:
    """Make a run-time operand of given elements."""
    return Runtime(array=np.asarray(array, dtype))


def lower(
    *ops: str,
    domain: str = "onnx",
    needs: Sequence[Need] = (),
    samples: Sequence[Case] = (),
    refuses: Sequence[Case] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare how ONNX ops become TFLite ops; a second declaration of an op is an error."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = tuple(inspect.signature(function).parameters.values())[1:]
        for name in ops:
            if (domain, name) in LOWERINGS:
                raise ValueError(f"{domain} {name} is lowered twice")
            LOWERINGS[domain, name] = Lowering(
                op=Op(dialect=domain, name=name),
                function=function,
                needs=tuple(needs),
                samples=tuple(samples),
                refuses=tuple(refuses),
                parameters=parameters,
            )
        return function

    return register
