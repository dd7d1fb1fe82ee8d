"""Binds a node's operands and attributes to the parameters of its lowering."""

import dataclasses
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from straightway.errors import Impossible, InvalidModel, NotYet
from straightway.ir import Node, TensorType, Value
from straightway.lower.declare import Const, Ints, Lowering, Need
from straightway.onnx_io.schema import Schema, history, schema

Arguments = dict[str, Any]
# The type of a result that nobody uses, where no one knows it.
UNKNOWN = TensorType(dtype=np.dtype(object), shape=())
# Annotations of what must be known.
CONSTANTS = (Ints, Const, Const | None)
# Annotations of what an attribute always has, by a schema's default if it is left out.
PLAIN = (int, float, str)
# What opset 1 said of memory, and not of values.
HINT = "consumed_inputs"


def bind(lowering: Lowering, node: Node, operands: list[Value | None]) -> Arguments:
    """Bind by the official schema of the model's opset, or by the signature where there is none.

    What is older than its first schema was an experiment in that form, such as ThresholdedRelu. Raises NotYet where something that must be a constant is not, or where an attribute or operand
    that the signature does not name is used; InvalidModel where a required one is missing.
    """
    found = schema(node.op) or next(iter(history(node.op)), None)
    binder = _Binder(lowering, node, operands, found)
    arguments = {p.name: binder.argument(p, k) for k, p in enumerate(lowering.parameters)}
    binder.check_unused()
    return arguments


class _Binder:
    """One binding: remembers what was used, so that the rest can be checked."""

    def __init__(
        self, lowering: Lowering, node: Node, operands: list[Value | None], found: Schema | None
    ) -> None:
        self.lowering = lowering
        self.node = node
        self.operands = operands
        self.found = found
        names = found.inputs if found else _own_names(lowering)
        self.names = [name.lower() for name in names]
        self.attrs = {**(found.defaults if found else {}), **node.attrs}
        self.defaults = found.defaults if found else {}
        self.used: set[str] = set()

    def argument(self, parameter: inspect.Parameter, position: int) -> Any:
        """Return the argument for one parameter."""
        special = self.special(parameter)
        if special is not None:
            return special
        if parameter.kind is parameter.VAR_POSITIONAL:
            self.used.update(self.names)
            return [v for v in self.operands[position:] if v is not None]
        if parameter.kind is parameter.POSITIONAL_ONLY:
            return self.positional(parameter, position)
        return self.keyword(parameter)

    def special(self, parameter: inspect.Parameter) -> Any:
        """Arguments that the frame gives: `op`, `out`, `node`, and groups of attributes."""
        if parameter.name == "op":
            return self.node.op.name
        if parameter.name == "node":
            return self.node
        if parameter.name == "out":
            return [v.type or UNKNOWN for v in self.node.outputs]
        kind = parameter.annotation
        if dataclasses.is_dataclass(kind) and kind not in (Value, TensorType):
            names = [f.name for f in dataclasses.fields(kind)]
            self.used.update(names)
            given = {k: self.attrs[k] for k in names if self.attrs.get(k) is not None}
            for one in dataclasses.fields(kind):
                _check_text_and_number(one.name, one.type, given.get(one.name))
            return kind(**given)  # type: ignore[operator]
        return None

    def positional(self, parameter: inspect.Parameter, position: int) -> Any:
        """An operand by its position."""
        if position < len(self.names):
            self.used.add(self.names[position])
        value = self.operands[position] if position < len(self.operands) else None
        if value is None:
            if parameter.default is parameter.empty:
                raise InvalidModel(f"{self.node.op} lacks operand '{parameter.name}'")
            return parameter.default
        return self.known(parameter, value)

    def keyword(self, parameter: inspect.Parameter) -> Any:
        """An operand or attribute by its name."""
        name = parameter.name.rstrip("_")
        self.used.add(name)
        value: Any = None
        if name in self.names:
            position = self.names.index(name)
            value = self.operands[position] if position < len(self.operands) else None
        elif name in self.attrs:
            value = self.attrs[name]
        if value is None:
            if parameter.default is not parameter.empty:
                return parameter.default
            optional = parameter.annotation not in PLAIN
            if name in self.names or (name not in self.attrs and optional):
                return None
            raise InvalidModel(f"{self.node.op} lacks attribute '{name}'")
        return self.known(parameter, value)

    def known(self, parameter: inspect.Parameter, value: Any) -> Any:
        """Turn what must be known into integers or an array."""
        _check_text_and_number(parameter.name, parameter.annotation, value)
        if parameter.annotation not in CONSTANTS:
            return value
        if isinstance(value, Value):
            if value.const is None:
                raise NotYet(
                    f"operand '{parameter.name}' must be a constant; '{value.name}' is not",
                    remedy=f"export with '{value.name}' as a constant"
                    if value.producer is None
                    else f"let all that '{value.name}' is computed of be constant",
                )
            value = value.const
        if parameter.annotation is not Ints:
            return np.asarray(value)
        return tuple(int(v) for v in np.ravel(value))

    def check_unused(self) -> None:
        """What the signature does not name may only be absent or hold its default."""
        for name, value in self.attrs.items():
            if (
                name in self.used
                or name == HINT
                or value is None
                or _equal(value, self.defaults.get(name))
            ):
                continue
            raise NotYet(f"attribute '{name}' is not supported; got {value!r}")
        for name, operand in zip(self.names, self.operands, strict=False):
            if name not in self.used and operand is not None:
                raise NotYet(f"operand '{name}' is not supported")
        beyond = [] if self.found else self.operands[len(self.names) :]
        for position, operand in enumerate(beyond, len(self.names)):
            if operand is not None:
                raise NotYet(f"operand {position}, '{operand.name}', is not supported")


def _check_text_and_number(name: str, annotation: Any, value: Any) -> None:
    """Refuse attributes that are no text in UTF-8, and infinite ones and NaN where 0 times it comes up."""
    if isinstance(value, bytes):
        raise InvalidModel(f"attribute '{name}' is no text; got {value!r}")
    if annotation in (float, float | None) and isinstance(value, tuple):
        raise InvalidModel(f"attribute '{name}' is one number; got {list(value)}")
    finite = not isinstance(value, float) or math.isfinite(value)
    if not finite and annotation in (float, float | None):
        raise NotYet(f"attribute '{name}' must be a finite number; got {value}")


def names(lowering: Lowering) -> set[str]:
    """The operands and attributes that a signature names, groups of attributes by their fields."""
    found = {p.name.rstrip("_") for p in lowering.parameters}
    for parameter in lowering.parameters:
        if dataclasses.is_dataclass(parameter.annotation):
            found |= {field.name for field in dataclasses.fields(parameter.annotation)}
    return found


def must_be_constant(lowering: Lowering, found: Schema) -> list[str]:
    """The operands, by the schema's names, that are known when converting."""
    positional = inspect.Parameter.POSITIONAL_ONLY
    constants = []
    for position, parameter in enumerate(lowering.parameters):
        if parameter.annotation not in CONSTANTS:
            continue
        if parameter.kind is positional and position < len(found.inputs):
            constants.append(found.inputs[position])
        elif parameter.name.rstrip("_") in (name.lower() for name in found.inputs):
            constants.append(parameter.name.rstrip("_"))
    return constants


def _own_names(lowering: Lowering) -> tuple[str, ...]:
    positional = inspect.Parameter.POSITIONAL_ONLY
    return tuple(p.name for p in lowering.parameters if p.kind is positional)


def _equal(value: Any, default: Any) -> bool:
    return default is not None and np.array_equal(np.asarray(value), np.asarray(default))


def check(needs: tuple[Need, ...], arguments: Arguments) -> None:
    """Raise Impossible or NotYet with the sentence of the first need that does not hold."""
    for limit in needs:
        if _holds(limit.test, limit.parameters(), arguments):
            continue
        text = limit.text.format(**arguments)
        if limit.possible:
            raise NotYet(text, remedy=limit.remedy)
        raise Impossible(text, kernel=limit.kernel, remedy=limit.remedy)


def _holds(test: Callable[..., bool], names: list[str], arguments: Arguments) -> bool:
    return bool(test(*(arguments[name] for name in names)))
