"""The encoding of the log: a public contract. The stamp of `perdure.core.payload_header`, then the events of one commit as MessagePack.

Every later version of Perdure reads what an earlier one wrote: `UPCASTS` brings a row of an old version up by one, as plain
data, before it is read. What a newer version wrote is refused, never guessed at.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from perdure.core import limits, payload_header
from perdure.core.error_text import exception_text, shorten_text
from perdure.core.errors import LogDamaged, LogVersionUnsupported, Unstorable
from perdure.core.events import EVENT_RULES_VERSION, Event, StartedEvent

OLDEST_LOG_VERSION = 2
"""The oldest version that this code reads."""

LOG_VERSION = 2
"""The version that this code writes."""

Upcast = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
UPCASTS: dict[int, Upcast] = {}
"""From a version to the next: a function over the events as plain data. `OLDEST` is the newest, so there is none yet."""

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[list[Event]] = msgspec.msgpack.Decoder(list[Event])


def encode_row(events: Sequence[Event]) -> bytes:
    """One row of the log, which can be read again.

    Raises:
        Unstorable: an event holds what is of another type than it says, or has no encoding; written, the row could never be read.
    """
    try:
        raw = _encoder.encode(events)
        _ = _decoder.decode(raw)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unstorable(shorten_text(exception_text(error), limits.ERROR_MESSAGE_CHARACTERS_MAX)) from error
    return payload_header.with_header(LOG_VERSION, raw)


def decode_row(row: bytes) -> list[Event]:
    """Read one row.

    Raises:
        LogVersionUnsupported: it is in a format that is not read here, or says that the execution was started under rules that are not known here.
        LogDamaged: it is no row of a log.
    """
    events = decode_row_as(row, LOG_VERSION, UPCASTS)
    for event in events:
        if type(event) is StartedEvent and not 1 <= event.rules <= EVENT_RULES_VERSION:
            raise LogVersionUnsupported(event.rules, 1, EVENT_RULES_VERSION, are_rules=True)
    return events


def decode_rows(rows: Iterable[bytes]) -> list[Event]:
    """Read the rows of a log, oldest first."""
    return [event for row in rows for event in decode_row(row)]


def decode_row_as(row: bytes, newest: int, upcasts: dict[int, Upcast]) -> list[Event]:
    """Read a row as `decode` does, with the newest version and the upcasts given."""
    version, payload = payload_header.without_header(row, OLDEST_LOG_VERSION, newest)
    try:
        if version == newest:
            return _decoder.decode(payload)
        data: Any = msgspec.msgpack.decode(payload)
        for step in range(version, newest):
            data = upcasts[step](data)
        return msgspec.convert(data, list[Event])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LogDamaged(str(error)) from error
