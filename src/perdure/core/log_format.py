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
_decode = msgspec.msgpack.Decoder(list[Event]).decode


def encode_row(events: Sequence[Event]) -> bytes:
    """Encodes the events of one commit as a row, and check that it can be decoded again.

    Raises:
        Unstorable: an event holds a value of another type than it declares, or one without an encoding; such a row could never be read.
    """
    try:
        raw = _encoder.encode(events)
        _ = _decode(raw)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unstorable(shorten_text(exception_text(error), limits.ERROR_MESSAGE_CHARACTERS_MAX)) from error
    return payload_header.with_header(LOG_VERSION, raw)


def decode_row(row: bytes) -> list[Event]:
    """Decodes one row.

    Raises:
        LogVersionUnsupported: the row is in an unknown format, or its execution was started under unknown rules.
        LogDamaged: the bytes are not a row of a log.
    """
    return decode_rows((row,))


def decode_rows(rows: Iterable[bytes]) -> list[Event]:
    """Decodes the rows of a log, oldest first, as `decode_row` does each."""
    events = decode_rows_as(rows, LOG_VERSION, UPCASTS)
    for event in events:
        if type(event) is StartedEvent and not 1 <= event.rules <= EVENT_RULES_VERSION:
            raise LogVersionUnsupported(event.rules, 1, EVENT_RULES_VERSION, are_rules=True)
    return events


def decode_rows_as(rows: Iterable[bytes], newest: int, upcasts: dict[int, Upcast]) -> list[Event]:
    """Decodes rows as `decode_rows` does, with another newest version and other upcasts."""
    events: list[Event] = []
    try:
        for version, payload in payload_header.without_headers(rows, OLDEST_LOG_VERSION, newest):
            events += _decode(payload) if version == newest else _upcast_events(version, payload, newest, upcasts)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LogDamaged(f"a row of the log is not valid: {error}") from error
    return events


def _upcast_events(version: int, payload: bytes, newest: int, upcasts: dict[int, Upcast]) -> list[Event]:
    data: Any = msgspec.msgpack.decode(payload)
    for step in range(version, newest):
        data = upcasts[step](data)
    return msgspec.convert(data, list[Event])
