"""What is printed: tables for people, JSON for programs, ids for pipes; values of workflows as text or JSON.

The terms are the same everywhere: `table` is what people read, `json` one document, `jsonl` a line for each thing, `ids` a line for
each thing that other commands take.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click
import msgspec

from perdure.cli import plain_text, terminal_text
from perdure.cli.plain_text import TextCell, TextTable, TreeNode
from perdure.cli.terminal import Screen, screen
from perdure.core.paths import Key

T = TypeVar("T", bound=msgspec.Struct)


def as_data(thing: msgspec.Struct) -> dict[str, Any]:
    """A view as plain data. Whose it is, is said in three fields (tenant, workflow, id); who is meant otherwise, as text."""
    fields = msgspec.structs.asdict(thing)
    key = fields.pop("key", None)
    own = key._asdict() if isinstance(key, Key) else {}
    return {**own, **{name: str(value) if isinstance(value, Key) else value for name, value in fields.items()}}


def print_list(format: str, ids: Iterable[str], things: Sequence[msgspec.Struct], table: Callable[[], TextTable]) -> None:
    """Print things that were asked for at once."""
    if format == "table":
        show_table(table(), screen())
    elif format == "ids":
        _lines(ids)
    elif format == "jsonl":
        _lines(compact_json(as_data(one)) for one in things)
    else:
        click.echo(indented_json([as_data(one) for one in things]))


def no_table() -> TextTable:
    """For what is not shown to people as a table."""
    return TextTable((), ())


def print_stream(format: str, things: Iterable[T], print_one: Callable[[T], None], follow: bool) -> None:
    """Print things as they come. As `json` they are one document if they end, and else a line for each."""
    if format == "json" and not follow:
        click.echo(indented_json([as_data(one) for one in things]))
        return
    for one in things:
        print_one(one)


def item_printer(format: str, name: Callable[[T], object], lines: Callable[[T], Iterable[Sequence[TextCell]]], error: bool = False) -> Callable[[T], None]:
    """What prints one thing after the other: as lines, as its name, or as JSON on a line."""
    shown = screen(sys.stderr if error else sys.stdout)

    def print_one(one: T) -> None:
        if format == "table":
            show_lines(lines(one), shown, error)
        else:
            click.echo(str(name(one)) if format == "ids" else compact_json(as_data(one)), err=error)

    return print_one


def show_table(table: TextTable, screen: Screen) -> None:
    """Print a table; nothing but its headers means that there is nothing, and is not worth printing."""
    if table.rows:
        click.echo(_drawn(screen, lambda draw: draw.table(table, screen), lambda: plain_text.table(table)))


def show_tree(nodes: Sequence[TreeNode], screen: Screen) -> None:
    """Print a tree."""
    if nodes:
        click.echo(_drawn(screen, lambda draw: draw.tree(nodes, screen), lambda: plain_text.tree(nodes, screen.unicode)))


def show_lines(lines: Iterable[Sequence[TextCell]], screen: Screen, error: bool = False) -> None:
    """Print lines of cells."""
    for cells in lines:
        click.echo(_line(cells, screen), err=error)


def print_value(given: Any, format: str) -> None:
    """Print a value of a workflow: text as it is, nothing for None, anything else as JSON; with `json`, all of it as JSON."""
    if format == "json":
        click.echo(indented_json(given))
    elif isinstance(given, str):
        click.echo("\n".join(map(terminal_text.clean, given.split("\n"))) if screen().terminal else given)
    elif given is not None:
        click.echo(indented_json(given))


def indented_json(given: Any) -> str:
    """JSON for people: indented."""
    return msgspec.json.format(_json(given), indent=2).decode()


def compact_json(given: Any) -> str:
    """JSON on one line."""
    return _json(given).decode()


def _json(given: Any) -> bytes:
    return msgspec.json.encode(given, enc_hook=_foreign)


def _foreign(given: Any) -> Any:
    """What is no JSON and no type that msgspec knows: a pydantic model says what it is, anything else is shown as Python does."""
    dump = getattr(given, "model_dump", None)
    return dump(mode="json") if callable(dump) else repr(given)


def _line(cells: Sequence[TextCell], screen: Screen) -> str:
    return _drawn(screen, lambda draw: draw.line(cells, screen), lambda: plain_text.line(cells))


def _lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def _drawn(screen: Screen, with_rich: Callable[[Any], str], plain: Callable[[], str]) -> str:
    """On a terminal, drawn with rich, which is imported only then."""
    if not screen.terminal:
        return plain()
    from perdure.cli import rich_text

    return with_rich(rich_text)
