"""Joining: rows of two tables whose keys are equal become one.

Keys are equal as JSON values are; null, and what is missing, equals nothing. Rows come in the order of the left table, for each in that of the right one; those
that only the right one has follow (``right``: all in the order of the right table). The right table's key fields are left out, as they say the same as the
left's; of other fields that both have, each gets its suffix. Where one side has no row, its fields are null; of a table
without rows no fields are known.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from perdure.expr.values import cut
from perdure.programs.format.finding import closest
from perdure.steps.pipeline import paths
from perdure.steps.pipeline.bounds import Pace
from perdure.steps.pipeline.failed import Wrong
from perdure.steps.pipeline.ordering import same
from perdure.steps.pipeline.paths import Path, Row
from perdure.steps.pipeline.reading import OPEN, Reader
from perdure.steps.pipeline.rows import table
from perdure.steps.pipeline.tables import Rows, Tables, Work

HOWS = ("inner", "left", "right", "full", "anti")
SUFFIXES = ("", "_right")


class On(NamedTuple):
    """A pair of fields whose values have to be equal."""

    left: Path
    right: Path


class Names(NamedTuple):
    """The fields of both sides, as they stand there and as they are called in the result."""

    left: Mapping[str, str]
    right: Mapping[str, str]


def join(read: Reader) -> Work:
    """``join``: ``with`` another table (its name, or its rows), ``on`` a field, several, or ``{left: right}``; ``how`` is inner, left, right, full or anti."""
    read.known(("with", "on", "how", "suffix", "suffixes"))
    other = read.take("with", "the name of a table of the input, or rows", lambda one: isinstance(one, str | list) and one != "")
    on, how = _on(read), read.choice("how", HOWS, "inner")
    suffixes = _suffixes(read)

    def work(rows: Rows, tables: Tables, pace: Pace) -> Rows:
        right = _other(other, tables, pace)
        index = _index(right, [one.right for one in on], pace)
        gets = [paths.getter(one.left) for one in on]
        places = [index.get(key, ()) if (key := _key([get(row) for get in gets])) is not None else () for row in pace.each(rows)]
        if how == "anti":
            return [row for row, found in zip(rows, places, strict=True) if not found]
        return _joined((rows, right), places, on, how, suffixes, pace)

    return work


def _on(read: Reader) -> list[On]:
    given = read.take("on", "a field, a list of fields, or {left field: right field}", lambda one: one not in ([], {}) and isinstance(one, str | list | dict))
    if given is OPEN:
        return []
    if isinstance(given, dict):
        return [On(read.path_of(left, "on"), read.path_of(right, f"on/{left}")) for left, right in given.items()]
    pairs = [read.path_of(one, "on") for one in (given if isinstance(given, list) else [given])]
    return [On(path, path) for path in pairs]


def _suffixes(read: Reader) -> tuple[str, str]:
    if "suffix" in read.given and "suffixes" in read.given:
        read.wrong("suffix", "it has 'suffix' and 'suffixes'; say the right one's alone, or both")
    given = read.take("suffixes", "a list of two different texts", _are_two, list(SUFFIXES))
    right = read.text("suffix", "text that is put behind the right table's fields", SUFFIXES[1])
    if given is OPEN or right is OPEN:
        return SUFFIXES
    return ("", right) if "suffix" in read.given else (given[0], given[1])


def _are_two(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(one, str) for one in value) and value[0] != value[1]


def _other(other: Any, tables: Tables, pace: Pace) -> Rows:
    if not isinstance(other, str):
        return pace.checked(table(other, "the rows of 'with'"))
    if other not in tables:
        meant = closest(other, tables)
        here = f"did you mean {meant!r}?" if meant else f"there are {', '.join(tables)}" if tables else "give it beside rows: with: {rows: …, NAME: …}"
        raise Wrong(f"there is no table {cut(other)!r} in the input; {here}")
    return tables[other]


def _key(values: Sequence[Any]) -> Any:
    """What stands for the values of a key; None if one of them is null."""
    if None in values:
        return None
    return same(values[0]) if len(values) == 1 else tuple(map(same, values))


def _index(rows: Rows, key: Sequence[Path], pace: Pace) -> dict[Any, list[int]]:
    """The places of rows by their keys."""
    found: dict[Any, list[int]] = {}
    gets = [paths.getter(path) for path in key]
    for place, row in enumerate(pace.each(rows)):
        if (one := _key([get(row) for get in gets])) is not None:
            found.setdefault(one, []).append(place)
    return found


def _joined(sides: tuple[Rows, Rows], places: Sequence[Sequence[int]], on: Sequence[On], how: str, suffixes: tuple[str, str], pace: Pace) -> Rows:
    rows, right = sides
    matched = {place for found in places for place in found} if how in ("right", "full") else set[int]()
    lonely = [place for place in range(len(right)) if place not in matched] if how in ("right", "full") else []
    pairs = sum(map(len, places)) + len(lonely)
    pace.count(pairs + (sum(not found for found in places) if how in ("left", "full") else 0), "rows of the join")
    names = _names(rows, right, on, suffixes, pace)
    lefts = [_called(row, names.left) for row in pace.each(rows)]
    rights = [_called(row, names.right) for row in pace.each(right)]
    no_left, no_right = dict.fromkeys(names.left.values()), dict.fromkeys(names.right.values())
    if how == "right":
        owners: dict[int, list[int]] = {}
        for at, found in enumerate(places):
            for place in found:
                owners.setdefault(place, []).append(at)
        return [row for place in pace.each(range(len(right))) for row in _of_right(place, owners.get(place), (lefts, rights), (right, on, names), no_left)]
    made = list[Row]()
    for at, found in enumerate(pace.each(places)):
        made += [{**lefts[at], **rights[place]} for place in found]
        if not found and how in ("left", "full"):
            made.append({**lefts[at], **no_right})
    return made + [row for place in lonely for row in _of_right(place, None, (lefts, rights), (right, on, names), no_left)]


def _of_right(
    place: int, owners: Sequence[int] | None, called: tuple[list[Row], list[Row]], about: tuple[Rows, Sequence[On], Names], no_left: Row
) -> list[Row]:
    """The rows that one of the right table comes to: one for each of the left that it matches, or one alone, which has the key."""
    lefts, rights = called
    if owners:
        return [{**lefts[at], **rights[place]} for at in owners]
    right, on, names = about
    row = dict(no_left)
    for one in on:
        first = str(one.left[0])
        paths.put(row, (names.left.get(first, first), *one.left[1:]), paths.getter(one.right)(right[place]))
    return [{**row, **rights[place]}]


def _names(rows: Rows, right: Rows, on: Sequence[On], suffixes: tuple[str, str], pace: Pace) -> Names:
    keys = {one.right[0] for one in on if len(one.right) == 1}
    of_left = dict.fromkeys(name for row in pace.each(rows) for name in row)
    of_left.update(dict.fromkeys(str(one.left[0]) for one in on))
    of_right = dict.fromkeys(name for row in pace.each(right) for name in row if name not in keys)
    both = of_left.keys() & of_right.keys()
    names = Names(
        {name: name + suffixes[0] if name in both else name for name in of_left}, {name: name + suffixes[1] if name in both else name for name in of_right}
    )
    seen = set[str]()
    for called in (*names.left.values(), *names.right.values()):
        if called in seen:
            raise Wrong(f"two fields would be called {cut(called)!r}; choose other suffixes, or select and rename before")
        seen.add(called)
    return names


def _called(row: Row, names: Mapping[str, str]) -> Row:
    return {called: row[name] for name in row if (called := names.get(name)) is not None}
