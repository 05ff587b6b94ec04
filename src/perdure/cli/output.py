"""Prints results: tables for people, JSON for programs, ids for pipes; values of workflows as text or JSON.

The formats are the same everywhere: `table` is for people, `json` is one document, `jsonl` one line for each item, and `ids` one line for each item that
other commands accept.
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
    """A view as plain data. Its own key becomes three fields (tenant, workflow, id); other keys become text."""
    fields = msgspec.structs.asdict(thing)
    key = fields.pop("key", None)
    own = key._asdict() if isinstance(key, Key) else {}
    return {**own, **{name: str(value) if isinstance(value, Key) else value for name, value in fields.items()}}


def print_list(format: str, ids: Iterable[str], things: Sequence[msgspec.Struct], table: Callable[[], TextTable]) -> None:
    """Prints items that were read at once."""
    if format == "table":
        show_table(table(), screen())
    elif format == "ids":
        _lines(ids)
    elif format == "jsonl":
        _lines(compact_json(as_data(one)) for one in things)
    else:
        click.echo(indented_json([as_data(one) for one in things]))


def no_table() -> TextTable:
    """An empty table, for results that have no table."""
    return TextTable((), ())


def print_stream(format: str, things: Iterable[T], print_one: Callable[[T], None], follow: bool) -> None:
    """Prints items as they arrive. In `json` they are one document if the stream ends, else a line each."""
    if format == "json" and not follow:
        click.echo(indented_json([as_data(one) for one in things]))
        return
    for one in things:
        print_one(one)


def item_printer(format: str, name: Callable[[T], object], lines: Callable[[T], Iterable[Sequence[TextCell]]], error: bool = False) -> Callable[[T], None]:
    """Returns a function that prints one item: as lines of text, as its name, or as a line of JSON."""
    shown = screen(sys.stderr if error else sys.stdout)

    def print_one(one: T) -> None:
        if format == "table":
            show_lines(lines(one), shown, error)
        else:
            click.echo(str(name(one)) if format == "ids" else compact_json(as_data(one)), err=error)

    return print_one


def show_table(table: TextTable, screen: Screen) -> None:
    """Prints a table, unless it has no rows."""
    if table.rows:
        click.echo(_drawn(screen, lambda draw: draw.table(table, screen), lambda: plain_text.table(table)))


def show_tree(nodes: Sequence[TreeNode], screen: Screen) -> None:
    """Prints a tree."""
    if nodes:
        click.echo(_drawn(screen, lambda draw: draw.tree(nodes, screen), lambda: plain_text.tree(nodes, screen.unicode)))


def show_lines(lines: Iterable[Sequence[TextCell]], screen: Screen, error: bool = False) -> None:
    """Prints lines of cells."""
    for cells in lines:
        click.echo(_line(cells, screen), err=error)


def print_value(given: Any, format: str) -> None:
    """Prints a value of a workflow: text as it is, nothing for None, other values as JSON; with `json`, every value as JSON."""
    if format == "json":
        click.echo(indented_json(given))
    elif isinstance(given, str):
        click.echo("\n".join(map(terminal_text.clean, given.split("\n"))) if screen().terminal else given)
    elif given is not None:
        click.echo(indented_json(given))


def indented_json(given: Any) -> str:
    """JSON for people, indented."""
    return msgspec.json.format(_json(given), indent=2).decode()


def compact_json(given: Any) -> str:
    """JSON on one line."""
    return _json(given).decode()


def _json(given: Any) -> bytes:
    return msgspec.json.encode(given, enc_hook=_foreign)


def _foreign(given: Any) -> Any:
    """Encodes a type that msgspec does not know: a pydantic model by its own method, others as `repr`."""
    dump = getattr(given, "model_dump", None)
    return dump(mode="json") if callable(dump) else repr(given)


def _line(cells: Sequence[TextCell], screen: Screen) -> str:
    return _drawn(screen, lambda draw: draw.line(cells, screen), lambda: plain_text.line(cells))


def _lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def _drawn(screen: Screen, with_rich: Callable[[Any], str], plain: Callable[[], str]) -> str:
    """Renders with rich on a terminal, and as plain text elsewhere. rich is imported only when it is used."""
    if not screen.terminal:
        return plain()
    from perdure.cli import rich_text

    return with_rich(rich_text)
