"""Rows of Postgres, and the columns that they are read from. An address is JSON there, three texts for an execution and two for a queue."""

from typing import Any

import msgspec

from perdure.core.mail import Mail
from perdure.core.paths import Key, Queue
from perdure.stores import postgres_attributes as attributes
from perdure.stores.base import Head

HEAD = "tenant, workflow, id, program, root, version, holder, wake_at_s, mail_at_s, status, created_at_s, ended_at_s, queue, lane, priority"
HEAD_TOLD = f"{HEAD}, {attributes.TOLD}"
MAIL = "mail.number, mail.address, key, body, due_at_s, deliveries, mail.lane, mail.priority"


def head_of(row: Any) -> Head:
    """The head in a row that begins with the columns `HEAD_TOLD`."""
    tenant, workflow, id, program, root, *rest, told = tuple(row)[:16]
    return Head(Key(tenant, workflow, id), program, Key(*_strings(root)), *(*rest, attributes.read(told)))


def mail_of(row: Any) -> Mail:
    """The mail in a row that begins with the columns `MAIL`."""
    number, address, key, body, *rest = tuple(row)[:8]
    parts = _strings(address)
    return Mail(number, Key(*parts) if len(parts) == 3 else Queue(*parts), key.decode(), body, *rest)


as_bytes = msgspec.json.Encoder().encode
"""An address as the tables have it."""
_strings = msgspec.json.Decoder(list[str]).decode
