"""Dataclasses to plain JSON data and back, guided by their type hints."""

import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from numbers import Integral, Real
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from straightway.errors import InvalidRequest

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode(value: Any) -> Any:
    """Dicts, lists, texts and numbers that `json.dumps(allow_nan=False)` takes."""
    match value:
        case None | bool() | str():
            return value
        case Integral():
            return int(value)
        case Real():
            number = float(value)
            return number if math.isfinite(number) else str(number)
        case Mapping():
            return {str(key): encode(item) for key, item in value.items()}
        case Sequence():
            return [encode(item) for item in value]
    return {item.name: encode(getattr(value, item.name)) for item in fields(value)}


def decode(kind: Any, data: Any, where: str) -> Any:
    """An instance of the type `kind` made of `data`; `where` names the place in messages.

    Raises InvalidRequest for anything that `encode` would not have written for that type.
    """
    if is_dataclass(kind):
        return _decode_dataclass(kind, data, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return _expect(data, data in arguments, f"one of {arguments}", where)
    if origin in (Union, types.UnionType):
        inner = next(argument for argument in arguments if argument is not type(None))
        return None if data is None else decode(inner, data, where)
    if origin is tuple:
        items = _expect(data, isinstance(data, list | tuple), "a list", where)
        return tuple(decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(items))
    if origin is Mapping:
        pairs = _expect(data, isinstance(data, Mapping), "an object", where)
        return {str(k): decode(arguments[1], item, f"{where}.{k}") for k, item in pairs.items()}
    return _SCALARS[kind](data, where)


def _decode_dataclass(kind: Any, data: Any, where: str) -> Any:
    _expect(data, isinstance(data, Mapping), "an object", where)
    hints = get_type_hints(kind)
    known = {item.name: item for item in fields(kind)}
    unknown = [key for key in data if key not in known]
    if unknown:
        raise InvalidRequest(f"{where} has the fields {', '.join(known)}; got {unknown[0]!r}")
    missing = [
        name
        for name, item in known.items()
        if name not in data and item.default is MISSING and item.default_factory is MISSING
    ]
    if missing:
        raise InvalidRequest(f"{where} needs the field {missing[0]!r}; got {', '.join(data)}")
    return kind(**{key: decode(hints[key], item, f"{where}.{key}") for key, item in data.items()})


def _expect(data: Any, good: bool, expected: str, where: str) -> Any:
    if not good:
        raise InvalidRequest(f"{where} must be {expected}; got {data!r:.80}")
    return data


def _text(data: Any, where: str) -> str:
    return str(_expect(data, isinstance(data, str), "a text", where))


def _flag(data: Any, where: str) -> bool:
    return bool(_expect(data, isinstance(data, bool), "true or false", where))


def _whole(data: Any, where: str) -> int:
    good = isinstance(data, int) and not isinstance(data, bool)
    return int(_expect(data, good, "a whole number", where))


def _number(data: Any, where: str) -> float:
    if isinstance(data, str) and data in _NOT_FINITE:
        return _NOT_FINITE[data]
    good = isinstance(data, int | float) and not isinstance(data, bool)
    return float(_expect(data, good, "a number", where))


_SCALARS: dict[Any, Callable[[Any, str], Any]] = {
    str: _text,
    bool: _flag,
    int: _whole,
    float: _number,
}
