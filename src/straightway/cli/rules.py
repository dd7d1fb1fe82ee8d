"""`straightway rules`."""

from typing import Annotated, Any

import typer
from rich.table import Table

from straightway.cli.app import Json, app, errors, print_json, print_lines, result_console


@app.command("rules")
def command(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", show_default=False)] = None,
    json: Json = False,
) -> None:
    """List the rules of `diagnose`: what each finds, why that costs, and what to do."""
    with errors(as_json=json):
        from straightway.diagnosis.rules.catalogue import RULES, named  # noqa: PLC0415

        found = RULES if name is None else named([name])
    if json:
        print_json([rule_data(rule) for rule in found])
    elif name is None:
        table = Table("rule", "finds", "rewrite", "safety")
        for rule in found:
            table.add_row(rule.name, rule.documentation.title, rule.fix, rule.safety)
        result_console().print(table)
    else:
        print_lines(*lines(found[0]))


def lines(rule: Any) -> list[str]:
    """All that a rule says of itself."""
    told = rule.documentation
    fix = (
        f"straightway fix --rule {rule.fix}"
        if rule.fix
        else "none; the model's source has to change"
    )
    return [
        f"{rule.name}: {told.title}",
        f"  what it finds: {told.finds}",
        f"  why it costs: {told.costs}",
        f"  what to do: {told.advice}",
        f"  rewrite: {fix}",
        f"  safety: {rule.safety}",
    ]


def rule_data(rule: Any) -> dict[str, str]:
    """A rule as plain data."""
    told = rule.documentation
    return {
        "name": rule.name,
        "title": told.title,
        "finds": told.finds,
        "costs": told.costs,
        "advice": told.advice,
        "fix": rule.fix,
        "safety": rule.safety,
    }
