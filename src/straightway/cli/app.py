"""What all commands share: options, progress on stderr, errors as one message and an exit code."""

import json
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from straightway.errors import InvalidRequest, StraightwayError, Unsupported
from straightway.remark import Remark

app = typer.Typer(
    name="straightway",
    help="The straight way from a trained model to the fastest instructions on a device.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Dims = Annotated[
    list[str] | None, typer.Option("--dim", metavar="NAME=N", help="Fix a symbolic dimension.")
]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="INPUT=1,3,320,320", help="Fix the shape of an input."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]


def parse_dims(given: list[str] | None) -> dict[str, int]:
    """Read NAME=N; raises InvalidRequest for anything else."""
    found = {}
    for text in given or []:
        name, _, size = text.rpartition("=")
        if not name or not size.isdecimal():
            raise InvalidRequest(f"--dim takes NAME=N, such as batch=1; got '{text}'")
        found[name] = int(size)
    return found


def parse_shapes(given: list[str] | None) -> dict[str, list[int]]:
    """Read INPUT=1,3,320,320 (INPUT= for a scalar); raises InvalidRequest for anything else."""
    found = {}
    for text in given or []:
        name, equals, sizes = text.rpartition("=")
        parts = [part.strip() for part in sizes.split(",")] if sizes.strip() else []
        if not equals or not name or not all(part.isdecimal() for part in parts):
            raise InvalidRequest(f"--shape takes INPUT=1,3,320,320; got '{text}'")
        found[name] = [int(part) for part in parts]
    return found


def progress_console() -> Console:
    """Where progress and errors go."""
    return Console(stderr=True)


@contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with the step that runs; nothing where stderr is no terminal."""
    console = progress_console()
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(what) as status:
        yield lambda step: status.update(f"{what}: {step}")


def print_json(data: Any) -> None:
    """Print plain data on stdout."""
    sys.stdout.write(json.dumps(data, indent=1, default=str) + "\n")


def fail(error: StraightwayError, *, as_json: bool) -> NoReturn:
    """Print one clear message on stderr, the same as data on stdout if asked, and exit."""
    console = progress_console()
    console.print(f"[bold red]{_title(error)}[/]", end=" ", highlight=False)
    console.print(str(error), markup=False, highlight=False, soft_wrap=True)
    if as_json:
        remarks = getattr(error, "remarks", ())
        print_json(
            {
                "error": type(error).__name__,
                "refused": error.refused,
                "message": str(error),
                "remarks": [remark_data(remark) for remark in remarks],
            }
        )
    raise typer.Exit(error.exit_code)


def _title(error: StraightwayError) -> str:
    if isinstance(error, Unsupported):
        return "refused:"
    return "error:"


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
        text = "".join(traceback.format_exception(error))
        console = progress_console()
        console.print(
            "[bold red]bug:[/] straightway failed; please report this with the model or its "
            "structure, and what follows",
            highlight=False,
        )
        console.print(text, markup=False, highlight=False)
        raise typer.Exit(5) from error
