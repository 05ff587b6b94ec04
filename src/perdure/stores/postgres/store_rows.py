"""Names in Postgres: they may hold NUL, which its text can't, so they are escaped there. Arrays of names have to be escaped by hand.

Attributes in Postgres: a row for each, in an index by name and value, written by the commit that changes them.

Rows of Postgres, and the columns that they are read from. An address is JSON there, three texts for an execution and two for a queue.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import msgspec

from perdure.core.attribute_filter import AttributeCondition
from perdure.core.attributes import IndexedAttributes
from perdure.core.envelopes import QueuedMessage
from perdure.core.paths import Key, QueueAddress
from perdure.stores.protocol import Head, attributes_from_hex


def escape_nul(text: str) -> str:
    """A name as Postgres keeps it."""
    return text.replace("\\", "\\\\").replace("\0", "\\0")


def unescape_nul(text: str) -> str:
    """The name that Postgres keeps so."""
    return re.sub(r"\\(.)", lambda found: "\0" if found[1] == "0" else "\\", text)


ATTRIBUTES_COLUMN = """(SELECT string_agg(encode(convert_to(name, 'UTF8'), 'hex') || '=' || encode(value, 'hex'), ',') FROM attributes
    WHERE attributes.number = heads.number)"""
"""The column of a head that has its attributes."""

DELETE_ATTRIBUTES = "DELETE FROM attributes WHERE number = $1"
INSERT_ATTRIBUTES = "INSERT INTO attributes SELECT $1, * FROM unnest($2::text[], $3::bytea[])"


def attributes_from_column(told: str | None) -> IndexedAttributes:
    """The attributes in a row of a head."""
    return tuple(sorted((unescape_nul(name), value) for name, value in attributes_from_hex(told)))


async def write_attributes(fetch: Callable[..., Awaitable[Any]], number: int, attributes: IndexedAttributes) -> None:
    """These are the attributes of the execution from now on; an execution that is removed has none."""
    await fetch(DELETE_ATTRIBUTES, number)
    if attributes:
        await fetch(INSERT_ATTRIBUTES, number, [escape_nul(name) for name, _ in attributes], [value for _, value in attributes])


def attribute_conditions(where: Sequence[AttributeCondition], first: int) -> tuple[str, list[object]]:
    """Conditions on heads, with their arguments, which are numbered from `first` on."""
    arguments: list[object] = []
    return "".join(_attribute_condition(condition, first, arguments) for condition in where), arguments


def _attribute_condition(condition: AttributeCondition, first: int, arguments: list[object]) -> str:
    def added(*values: object) -> Iterator[str]:
        for value in values:
            arguments.append(value)
            yield f"${first + len(arguments) - 1}"

    (name,) = added(condition.name)
    spans = [tuple(added(low, high)) for low, high in condition.spans]
    within = " OR ".join(f"(value >= {low} AND value < {high})" for low, high in spans)
    return f" AND number IN (SELECT attributes.number FROM attributes WHERE name = {name} AND ({within}))"


HEAD_COLUMNS = "tenant, workflow, id, program, root, version, holder, wake_at_s, mail_at_s, status, created_at_s, ended_at_s, queue, lane, priority"
HEAD_COLUMNS_WITH_ATTRIBUTES = f"{HEAD_COLUMNS}, {ATTRIBUTES_COLUMN}"
MESSAGE_COLUMNS = "mail.number, mail.address, key, body, due_at_s, deliveries, mail.lane, mail.priority"


def head_of(row: Any) -> Head:
    """The head in a row that begins with the columns `HEAD_COLUMNS_WITH_ATTRIBUTES`."""
    tenant, workflow, id, program, root, *rest, told = tuple(row)[:16]
    return Head(Key(tenant, workflow, id), program, Key(*_strings(root)), *(*rest, attributes_from_column(told)))


def message_of(row: Any) -> QueuedMessage:
    """The mail in a row that begins with the columns `MAIL`."""
    number, address, key, body, *rest = tuple(row)[:8]
    parts = _strings(address)
    return QueuedMessage(number, Key(*parts) if len(parts) == 3 else QueueAddress(*parts), key.decode(), body, *rest)


address_bytes = msgspec.json.Encoder().encode
"""An address as the tables have it."""
_strings = msgspec.json.Decoder(list[str]).decode
