"""The commands that show what definitions may use: `kinds` and `tools`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exits import Exit, Outcome
from perdure.cli.root import Command
from perdure.cli.settings import format_option

if TYPE_CHECKING:
    from perdure.core.errors import BadValue
    from perdure.steps.description import KindShown, ToolShown
    from perdure.steps.registry import Registry


@click.command("kinds", cls=Command)
@click.argument("name", required=False)
@format_option()
def kinds(*, name: str | None, format: str) -> None:
    """List the kinds of steps that there are here, Perdure's own and those that packages bring; of NAME, show all of it."""
    from perdure.cli import output
    from perdure.steps import description
    from perdure.steps.others import others
    from perdure.steps.registry import Registry

    registry, verbs = Registry(), others()
    if name is None:
        found, broken = _all(registry)
        found = sorted([*found, *verbs.values()], key=lambda one: one.name)
        output.listing(format, (one.name for one in found), found, lambda: _kinds(found))
        for error in broken:
            click.echo(f"perdure: {error}", err=True)
        return
    if name not in registry and name not in verbs:
        there = ", ".join(sorted({*registry, *verbs}))
        raise Outcome(Exit.NOT_FOUND, f"there is no kind {name!r} here; there are {there}\na package that brings it has to be installed")
    shown = verbs[name] if name in verbs else description.kind(registry[name])
    if format == "table":
        _show(shown)
    else:
        output.listing(format, (shown.name,), [shown], output.no_table)


@click.command("tools", cls=Command)
@click.argument("places", nargs=-1, required=True, metavar="PLACE...")
@click.option("--search", metavar="WORDS", help="Only those that have to do with these words, best first.")
@format_option()
def tools(*, places: tuple[str, ...], search: str | None, format: str) -> None:
    """List the tools that definitions may use of FILE.py or a module: what each takes, and how it is performed."""
    from perdure.cli import output, targets
    from perdure.definition import steps
    from perdure.steps import description

    found = [description.tool(name, step) for name, step in steps(targets.tools_of(places).steps).items()]
    if search is not None:
        found = [one for one in description.search(search, found, len(found)) if isinstance(one, description.ToolShown)]
    output.listing(format, (one.name for one in found), found, lambda: _tools(found))


def _all(registry: Registry) -> tuple[list[KindShown], list[BadValue]]:
    """All kinds, and what is wrong with those that can't be shown."""
    from perdure.core.errors import BadValue
    from perdure.steps import description

    found, broken = list[description.KindShown](), list[BadValue]()
    for name in sorted(registry):
        try:
            found.append(description.kind(registry[name]))
        except BadValue as error:
            broken.append(error)
    return found, broken


def _kinds(found: Sequence[KindShown]) -> Any:
    from perdure.cli.render import Cell, Table, cell

    rows = tuple((cell(one.name, "strong"), cell(one.title), Cell(", ".join(one.ports)), cell(one.by), _state(one)) for one in found)
    return Table(("KIND", "WHAT", "PORTS", "BY", "STATE"), rows)


def _state(one: KindShown) -> Any:
    from perdure.cli.render import Cell

    return Cell("ready") if one.ready else Cell(f"needs perdure[{one.extra}]", "warn")


def _show(one: KindShown) -> None:
    from perdure.cli import output, words

    said = [f"{one.name} {one.version}: {one.title}", one.summary, f"Ports: {', '.join(one.ports)}.", f"Done again after an interruption: {one.idempotency}"]
    for limit in one.limits:
        most = "" if limit["most"] is None else f", at most {limit['most']}"
        said.append(f"Limit: {limit['name']} {limit['default']}{most}; {limit['then']}")
    if one.capabilities:
        said.append(f"Capabilities: {', '.join(f'{name} {value}' for name, value in one.capabilities.items())}")
    click.echo("\n".join(words.clean(line) for line in said if line))
    click.echo(f"Config:\n{output.document(one.config)}")
    if one.example:
        click.echo(f"Example:\n{one.example.strip()}")


def _tools(found: Sequence[ToolShown]) -> Any:
    from perdure.cli.render import Cell, Table, cell

    rows = tuple(
        (
            cell(one.name, "strong"),
            cell(", ".join(one.schema.get("properties", {}))),
            Cell(f"{one.tries} tries" if one.tries > 1 else "1 try"),
            Cell("yes" if one.idempotent else "no"),
            cell(one.summary),
        )
        for one in found
    )
    return Table(("TOOL", "TAKES", "TRIES", "MAY BE REPEATED", "WHAT"), rows)
