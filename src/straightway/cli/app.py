"""What all commands share: options, progress on stderr, errors as one message and an exit code."""

import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from straightway import __version__
from straightway.errors import Bug, InvalidRequest, StraightwayError
from straightway.remark import Remark
from straightway.report.quantity import printable

if TYPE_CHECKING:
    from straightway.flow.convert import Request

T = TypeVar("T")

app = typer.Typer(
    name="straightway",
    help="The straight way from a trained model to the fastest instructions on a device.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Dims = Annotated[
    list[str] | None, typer.Option("--dim", metavar="NAME=N", help="Fix a symbolic dimension.")
]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="INPUT=1,3,320,320", help="Fix the shape of an input."),
]


def _say_version(wanted: bool) -> None:
    if wanted:
        print_lines(f"straightway {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Say which it is."),
    ] = False,
) -> None:
    """Options that stand before a command."""


InputOutput = Annotated[
    str,
    typer.Option(
        "--io",
        help="Layout of inputs and outputs: keep (the model's own), or nhwc: images channels last.",
    ),
]
Inputs = Annotated[
    Path | None, typer.Option("--inputs", metavar="NPZ", help="Run on these arrays, by input.")
]
Target = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="NAME",
        help="The device: see `straightway targets`; by default litert, or what a model of "
        "`straightway quantize` was made for.",
    ),
]
InputOutputType = Annotated[
    str,
    typer.Option(
        "--io-type",
        help="Inputs and outputs that the model rounds: float, integer (as stored), int8, uint8, "
        "int16; by default as the target has them.",
    ),
]
Weights = Annotated[
    str,
    typer.Option(
        "--weights",
        help="How weights of ops that compute with floats are stored: float32, float16, int8, or int4 "
        "(matrix products; int8 elsewhere).",
    ),
]
Block = Annotated[
    int,
    typer.Option(
        "--block",
        help="With --weights int4: so many weights of a row share a scale (a multiple of 32); by default "
        "the whole row.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]


def request(dim: list[str] | None, shape: list[str] | None, **options: Any) -> "Request":
    """What the options that many commands share ask for; raises InvalidRequest."""
    from straightway.flow.convert import Request  # noqa: PLC0415 - after --help

    return Request(dims=parse_dims(dim), shapes=parse_shapes(shape), **options)


def at_least_one(options: Mapping[str, int]) -> None:
    """Raise InvalidRequest for a count below one."""
    for option, count in options.items():
        if count < 1:
            raise InvalidRequest(f"{option} takes a number of 1 or more; got {count}")


def parse_dims(given: list[str] | None) -> dict[str, int]:
    """Read NAME=N; raises InvalidRequest for anything else, and for two sizes of one name."""
    found: dict[str, int] = {}
    for text in given or []:
        name, _, size = text.rpartition("=")
        if not name or not size.isdecimal():
            raise InvalidRequest(
                f"--dim takes NAME=N, such as batch=1, of sizes from 0 on; got '{text}'"
            )
        _add(found, "--dim", name, int(size))
    return found


def parse_shapes(given: list[str] | None) -> dict[str, list[int]]:
    """Read INPUT=1,3,320,320 (INPUT= for a scalar).

    Raises InvalidRequest for anything else, and for two shapes of one input.
    """
    found: dict[str, list[int]] = {}
    for text in given or []:
        name, equals, sizes = text.rpartition("=")
        parts = [part.strip() for part in sizes.split(",")] if sizes.strip() else []
        if not equals or not name or not all(part.isdecimal() for part in parts):
            raise InvalidRequest(
                f"--shape takes INPUT=1,3,320,320, of sizes from 0 on; got '{text}'"
            )
        _add(found, "--shape", name, [int(part) for part in parts])
    return found


def _add(found: dict[str, T], option: str, name: str, given: T) -> None:
    """Remember what was given for a name, once."""
    first = found.setdefault(name, given)
    if first != given:
        raise InvalidRequest(f"{option} {name} is given twice, as {first} and as {given}")


LONGEST_LINE = 2000
WIDEST_TABLE = 200
NARROW = 110


def legible(text: str) -> str:
    """What a model's names may hold, made safe to print: no terminal codes, no endless lines."""
    return "\n".join(printable(line, LONGEST_LINE) for line in text.split("\n"))


def progress_console() -> Console:
    """Where progress and errors go."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False)


def result_console() -> Console:
    """Where results go; names of a model are not taken for markup.

    A file or a pipe has no width: tables are as wide there as what they hold, up to a limit.
    """
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDEST_TABLE
    return console


def table_for(console: Console, wanted: Sequence[str], spared: Sequence[str] = ()) -> Table:
    """A table of these columns, whole words or not; a narrow console is spared some.

    Rows are to be added by `add_named`.
    """
    narrow = console.width < NARROW
    columns = [name for name in wanted if not (narrow and name in spared)]
    return Table(*(Column(name, overflow="fold") for name in columns))


def add_named(table: Table, row: Mapping[str, str]) -> None:
    """Add the cells of the columns that a table has."""
    table.add_row(*(row[str(column.header)] for column in table.columns))


def print_lines(*lines: str) -> None:
    """Print lines of text on stdout."""
    result_console().print(legible("\n".join(lines)), soft_wrap=True)


@contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with the step that runs; nothing where stderr is no terminal."""
    console = progress_console()
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(Text(legible(what))) as status:
        yield lambda step: status.update(Text(legible(f"{what}: {step}")))


def print_json(data: Any) -> None:
    """Print plain data on stdout; what is no finite number becomes a text, as JSON has none."""
    sys.stdout.write(json.dumps(_finite(data), indent=1, allow_nan=False, default=str) + "\n")


def _finite(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return str(data)
    if isinstance(data, Mapping):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return data


def fail(error: StraightwayError, *, as_json: bool) -> NoReturn:
    """Print one clear message on stderr, the same as data on stdout if asked, and exit."""
    title = Text("refused:" if error.refused else "error:", style="bold red")
    progress_console().print(title, legible(str(error)), soft_wrap=True)
    if as_json:
        print_json(error_data(error))
    raise typer.Exit(error.exit_code)


def error_data(error: StraightwayError) -> dict[str, Any]:
    """An error as plain data."""
    return {
        "error": type(error).__name__,
        "refused": error.refused,
        "message": str(error),
        "remarks": [remark_data(remark) for remark in getattr(error, "remarks", ())],
    }


def report_bug(error: Exception) -> None:
    """Print what a report of a fault of ours needs."""
    text = "".join(traceback.format_exception(error))
    progress_console().print(
        Text("bug:", style="bold red"),
        "straightway failed; please report this with the model or its structure, and what follows",
        soft_wrap=True,
    )
    progress_console().print(legible(text), soft_wrap=True)


def remark_data(remark: Remark) -> dict[str, Any]:
    """A remark as plain data."""
    return {
        "kind": remark.kind,
        "step": remark.step,
        "node": remark.node,
        "op": remark.op,
        "text": remark.text,
        "source": remark.source,
        "remedy": remark.remedy,
        "numbers": dict(remark.numbers),
    }


@contextmanager
def errors(*, as_json: bool) -> Iterator[None]:
    """Turn every error of ours into a message and an exit code, and any other into a bug report."""
    try:
        yield
    except StraightwayError as error:
        fail(error, as_json=as_json)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        report_bug(error)
        if as_json:
            print_json({"error": "Bug", "refused": False, "message": repr(error), "remarks": []})
        raise typer.Exit(Bug.exit_code) from error
