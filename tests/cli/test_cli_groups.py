"""Options in a group are options of the command."""

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from straightway.cli.groups import takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    size: Annotated[int, typer.Option(help="How large.")] = 3
    name: Annotated[str, typer.Option("--called")] = "it"


app = typer.Typer()


@app.command()
@takes(group=Group)
def command(model: str, *, group: Group, last: bool = False) -> None:
    """Print what came."""
    typer.echo(f"{model} {group} {last}")


def test_each_field_is_an_option():
    found = CliRunner().invoke(app, ["m", "--called", "that", "--last"])
    assert found.output == "m Group(size=3, name='that') True\n"


def test_help_has_them_where_the_group_stands():
    shown = CliRunner().invoke(app, ["--help"]).output
    assert shown.index("--size") < shown.index("--called") < shown.index("--last")
    assert "How large." in shown


def test_a_wrong_value_is_a_mistake_of_use():
    assert CliRunner().invoke(app, ["m", "--size", "x"]).exit_code == 2
