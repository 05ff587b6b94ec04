"""Attributes in Postgres: a row for each, in an index by name and value, written by the commit that changes them."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from perdure.core.attributes import Indexed
from perdure.core.where import Condition
from perdure.stores.attributes import from_hex
from perdure.stores.postgres_text import escaped, unescaped

TOLD = """(SELECT string_agg(encode(convert_to(name, 'UTF8'), 'hex') || '=' || encode(value, 'hex'), ',') FROM attributes
    WHERE attributes.number = heads.number)"""
"""The column of a head that has its attributes."""

FORGET = "DELETE FROM attributes WHERE number = $1"
KEEP = "INSERT INTO attributes SELECT $1, * FROM unnest($2::text[], $3::bytea[])"


def read(told: str | None) -> Indexed:
    """The attributes in a row of a head."""
    return tuple(sorted((unescaped(name), value) for name, value in from_hex(told)))


async def write(fetch: Callable[..., Awaitable[Any]], number: int, attributes: Indexed) -> None:
    """These are the attributes of the execution from now on; an execution that is removed has none."""
    await fetch(FORGET, number)
    if attributes:
        await fetch(KEEP, number, [escaped(name) for name, _ in attributes], [value for _, value in attributes])


def meant(where: Sequence[Condition], first: int) -> tuple[str, list[object]]:
    """Conditions on heads, with their arguments, which are numbered from `first` on."""
    arguments: list[object] = []
    return "".join(_holds(condition, first, arguments) for condition in where), arguments


def _holds(condition: Condition, first: int, arguments: list[object]) -> str:
    def added(*values: object) -> Iterator[str]:
        for value in values:
            arguments.append(value)
            yield f"${first + len(arguments) - 1}"

    (name,) = added(condition.name)
    spans = [tuple(added(low, high)) for low, high in condition.spans]
    within = " OR ".join(f"(value >= {low} AND value < {high})" for low, high in spans)
    return f" AND number IN (SELECT attributes.number FROM attributes WHERE name = {name} AND ({within}))"
