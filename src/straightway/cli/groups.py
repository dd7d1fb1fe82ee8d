"""Options that several commands take together, as one argument of each."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from functools import wraps
from typing import Any

Command = Callable[..., None]


def takes(**groups: type) -> Callable[[Command], Command]:
    """Let the parameters of these names be dataclasses, of which each field is an option.

    Typer takes options from a function's signature only, so the command gets one that has the fields.
    """

    def decorate(command: Command) -> Command:
        taken = {name: [f.name for f in fields(group)] for name, group in groups.items()}
        shown = [
            option
            for parameter in inspect.signature(command).parameters.values()
            for option in _options(parameter, groups)
        ]

        @wraps(command)
        def run(**given: Any) -> None:
            made = {
                name: groups[name](**{field: given.pop(field) for field in of})
                for name, of in taken.items()
            }
            command(**given, **made)

        run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        run.__annotations__ = {option.name: option.annotation for option in shown}
        return run

    return decorate


def _options(parameter: inspect.Parameter, groups: dict[str, type]) -> list[inspect.Parameter]:
    group = groups.get(parameter.name)
    if group is None:
        return [parameter]
    return [
        parameter.replace(name=f.name, annotation=f.type, default=_default(f))
        for f in fields(group)
    ]


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default
