"""Rows of the Postgres tables and what they decode to.

Names may contain NUL, which the text type of Postgres can't hold, so names are escaped. What executes a statement does that, except within arrays. An
address is JSON: three texts for an execution and two for a queue. Each attribute is a row in an index by name and value, written by the commit that
changes it.
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from perdure.core.attributes import IndexedAttributes
from perdure.core.envelopes import QueuedMessage
from perdure.core.paths import Address, Key, QueueAddress
from perdure.stores.postgres.statements import SQL
from perdure.stores.protocol import Head, attributes_from_hex


def escape_nul(text: str) -> str:
    """Escapes a name for Postgres."""
    return text.replace("\\", "\\\\").replace("\0", "\\0")


def unescape_nul(text: str) -> str:
    """Returns the name that `escape_nul` was given."""
    return text if "\\" not in text else re.sub(r"\\(.)", lambda found: "\0" if found[1] == "0" else "\\", text)


def escaped_arguments(values: Iterable[Any]) -> list[Any]:
    """Escapes those arguments of a statement that are texts. Arrays of names are escaped by the caller."""
    return [escape_nul(value) if isinstance(value, str) else value for value in values]


def unescaped_row(row: Iterable[Any]) -> tuple[Any, ...]:
    """Returns a row with its texts as they were given."""
    return tuple([unescape_nul(value) if isinstance(value, str) else value for value in row])


def attributes_from_column(text: str | None) -> IndexedAttributes:
    """Returns the attributes in a column of `head_columns_with_attributes`."""
    return tuple(sorted((unescape_nul(name), value) for name, value in attributes_from_hex(text)))


async def write_attributes(fetch: Callable[..., Awaitable[Any]], number: int, attributes: IndexedAttributes) -> None:
    """Replaces the attributes of an execution."""
    await fetch(SQL.remove_attributes, number)
    if attributes:
        await fetch(SQL.insert_attributes, number, [escape_nul(name) for name, _ in attributes], [value for _, value in attributes])


def head_of(row: Any) -> Head:
    """The head in a row that begins with the columns `head_columns_with_attributes`."""
    tenant, workflow, id, program, root, *rest, attributes = tuple(row)[:16]
    return Head(Key(tenant, workflow, id), program, Key(*_strings(root)), *(*rest, attributes_from_column(attributes)))


def message_of(row: Any) -> QueuedMessage:
    """The message in a row that begins with the columns `message_columns`."""
    number, address, key, body, *rest = tuple(row)[:8]
    return QueuedMessage(number, address_of(address), key.decode(), body, *rest)


def address_of(stored: bytes) -> Address:
    """Returns the address that `address_bytes` was given."""
    parts = _strings(stored)
    return Key(*parts) if len(parts) == 3 else QueueAddress(*parts)


address_bytes = msgspec.json.Encoder().encode
"""Encodes an address as the tables store it."""
_strings = msgspec.json.Decoder(list[str]).decode
