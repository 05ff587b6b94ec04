"""The encoding of log rows, a public contract: the header of `perdure.core.payload_header`, then the events of one commit as MessagePack.

Every version of Perdure reads the rows of earlier ones: each of `UPCASTS` brings the plain data of a row up by one version. Rows of a newer version are
refused.
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
"""By version, a function that brings events as plain data to the next version. There is none while the oldest version is the newest."""

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[list[Event]] = msgspec.msgpack.Decoder(list[Event])


def encode_row(events: Sequence[Event]) -> bytes:
    """Encodes the events of one commit as a row, and check that it can be decoded again.

    Raises:
        Unstorable: an event holds a value of another type than it declares, or one without an encoding; such a row could never be read.
    """
    try:
        raw = _encoder.encode(events)
        _ = _decoder.decode(raw)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unstorable(shorten_text(exception_text(error), limits.ERROR_MESSAGE_CHARACTERS_MAX)) from error
    return payload_header.with_header(LOG_VERSION, raw)


def decode_row(row: bytes) -> list[Event]:
    """Decodes one row.

    Raises:
        LogVersionUnsupported: the row is in an unknown format, or its execution was started under unknown rules.
        LogDamaged: the bytes are not a row of a log.
    """
    events = decode_row_as(row, LOG_VERSION, UPCASTS)
    for event in events:
        if type(event) is StartedEvent and not 1 <= event.rules <= EVENT_RULES_VERSION:
            raise LogVersionUnsupported(event.rules, 1, EVENT_RULES_VERSION, are_rules=True)
    return events


def decode_rows(rows: Iterable[bytes]) -> list[Event]:
    """Decodes the rows of a log, oldest first."""
    events: list[Event] = []
    for row in rows:
        events += decode_row(row)
    return events


def decode_row_as(row: bytes, newest: int, upcasts: dict[int, Upcast]) -> list[Event]:
    """Decodes a row as `decode_row` does, with another newest version and other upcasts."""
    version, payload = payload_header.without_header(row, OLDEST_LOG_VERSION, newest)
    try:
        if version == newest:
            return _decoder.decode(payload)
        data: Any = msgspec.msgpack.decode(payload)
        for step in range(version, newest):
            data = upcasts[step](data)
        return msgspec.convert(data, list[Event])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LogDamaged(f"a row of the log is not valid: {error}") from error
