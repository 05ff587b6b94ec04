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

from perdure.cli import render, words
from perdure.cli.render import Cell, Node, Table
from perdure.cli.screen import Screen, screen
from perdure.core.paths import Key

T = TypeVar("T", bound=msgspec.Struct)


def data(thing: msgspec.Struct) -> dict[str, Any]:
    """A view as plain data. Whose it is, is said in three fields (tenant, workflow, id); who is meant otherwise, as text."""
    fields = msgspec.structs.asdict(thing)
    key = fields.pop("key", None)
    own = key._asdict() if isinstance(key, Key) else {}
    return {**own, **{name: str(value) if isinstance(value, Key) else value for name, value in fields.items()}}


def listing(format: str, ids: Iterable[str], things: Sequence[msgspec.Struct], table: Callable[[], Table]) -> None:
    """Print things that were asked for at once."""
    if format == "table":
        show_table(table(), screen())
    elif format == "ids":
        _lines(ids)
    elif format == "jsonl":
        _lines(compact(data(one)) for one in things)
    else:
        click.echo(document([data(one) for one in things]))


def no_table() -> Table:
    """For what is not shown to people as a table."""
    return Table((), ())


def growing(format: str, things: Iterable[T], print_one: Callable[[T], None], follow: bool) -> None:
    """Print things as they come. As `json` they are one document if they end, and else a line for each."""
    if format == "json" and not follow:
        click.echo(document([data(one) for one in things]))
        return
    for one in things:
        print_one(one)


def printer(format: str, name: Callable[[T], object], lines: Callable[[T], Iterable[Sequence[Cell]]], error: bool = False) -> Callable[[T], None]:
    """What prints one thing after the other: as lines, as its name, or as JSON on a line."""
    shown = screen(sys.stderr if error else sys.stdout)

    def print_one(one: T) -> None:
        if format == "table":
            show_lines(lines(one), shown, error)
        else:
            click.echo(str(name(one)) if format == "ids" else compact(data(one)), err=error)

    return print_one


def show_table(table: Table, screen: Screen) -> None:
    """Print a table; nothing but its headers means that there is nothing, and is not worth printing."""
    if table.rows:
        click.echo(_drawn(screen, lambda draw: draw.table(table, screen), lambda: render.table(table)))


def show_tree(nodes: Sequence[Node], screen: Screen) -> None:
    """Print a tree."""
    if nodes:
        click.echo(_drawn(screen, lambda draw: draw.tree(nodes, screen), lambda: render.tree(nodes, screen.unicode)))


def show_lines(lines: Iterable[Sequence[Cell]], screen: Screen, error: bool = False) -> None:
    """Print lines of cells."""
    for cells in lines:
        click.echo(_line(cells, screen), err=error)


def value(given: Any, format: str) -> None:
    """Print a value of a workflow: text as it is, nothing for None, anything else as JSON; with `json`, all of it as JSON."""
    if format == "json":
        click.echo(document(given))
    elif isinstance(given, str):
        click.echo("\n".join(map(words.clean, given.split("\n"))) if screen().terminal else given)
    elif given is not None:
        click.echo(document(given))


def document(given: Any) -> str:
    """JSON for people: indented."""
    return msgspec.json.format(_json(given), indent=2).decode()


def compact(given: Any) -> str:
    """JSON on one line."""
    return _json(given).decode()


def _json(given: Any) -> bytes:
    return msgspec.json.encode(given, enc_hook=_foreign)


def _foreign(given: Any) -> Any:
    """What is no JSON and no type that msgspec knows: a pydantic model says what it is, anything else is shown as Python does."""
    dump = getattr(given, "model_dump", None)
    return dump(mode="json") if callable(dump) else repr(given)


def _line(cells: Sequence[Cell], screen: Screen) -> str:
    return _drawn(screen, lambda draw: draw.line(cells, screen), lambda: render.line(cells))


def _lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def _drawn(screen: Screen, with_rich: Callable[[Any], str], plain: Callable[[], str]) -> str:
    """On a terminal, drawn with rich, which is imported only then."""
    if not screen.terminal:
        return plain()
    from perdure.cli import draw

    return with_rich(draw)
