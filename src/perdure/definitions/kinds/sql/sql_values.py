"""Values of databases as values of executions, and the other way.

What JSON has not becomes text: decimals (exact, without an exponent), dates and times (ISO 8601), UUIDs, addresses; bytes are ``{base64: …}`` and intervals
seconds. In Postgres a value is bound by the type that the server expects of its placeholder; elsewhere by its own type.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from typing import Any
from uuid import UUID

import msgspec

from perdure.code.durations import duration_seconds
from perdure.core.errors import ProgrammingError

INT64 = range(-(2**63), 2**63)
ADDRESSES = (IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network)


class NoValue(ValueError):
    """A value of a database has no form in an execution, or one of an execution can't be bound; the message says why, and shows nothing of the value."""


def value_of_column(found: Any) -> Any:
    """Returns the value of an execution for one of a database.

    Raises:
        NoValue: there is none.
    """
    match found:
        case None | bool() | str():
            return found
        case int():
            return found if found in INT64 else str(found)
        case float():
            return found if math.isfinite(found) else "NaN" if math.isnan(found) else "Infinity" if found > 0 else "-Infinity"
        case Decimal():
            return format(found, "f") if found.is_finite() else "NaN" if found.is_nan() else "Infinity" if found > 0 else "-Infinity"
        case datetime():
            return found.isoformat().removesuffix("+00:00") + "Z" if found.utcoffset() == timedelta(0) else found.isoformat()
        case date() | time():
            return found.isoformat()
        case timedelta():
            seconds = found.total_seconds()
            return int(seconds) if seconds.is_integer() else seconds
        case bytes() | bytearray() | memoryview():
            return {"base64": base64.b64encode(found).decode("ascii")}
        case UUID():
            return str(found)
        case Mapping():
            return {str(name): value_of_column(one) for name, one in found.items()}
        case list() | tuple() | set() | frozenset() if not hasattr(found, "items"):
            return [value_of_column(one) for one in found]
    return _value_of_type(found)


def _value_of_type(found: Any) -> Any:
    """The value for types of drivers and the standard library that match by their attributes."""
    if isinstance(found, ADDRESSES):
        return str(found)
    if hasattr(found, "items") and hasattr(found, "keys"):  # a composite value of asyncpg
        return {str(name): value_of_column(one) for name, one in found.items()}
    if hasattr(found, "lower_inc") and hasattr(found, "upper_inc"):  # a range of asyncpg or psycopg
        return {name: value_of_column(getattr(found, name)) for name in ("lower", "upper", "lower_inc", "upper_inc")}
    raise NoValue(f"its type {type(found).__name__} has no form in an execution; cast it in the statement, such as to text")


def json_text(value: Any) -> str:
    """Returns a value as JSON text.

    Raises:
        NoValue: it has none.
    """
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        raise NoValue("it can't be written as JSON") from None


def bytes_of(value: Any) -> bytes | None:
    """Returns the bytes of ``{base64: …}``; None if the value is something else.

    Raises:
        NoValue: it is not base64.
    """
    if isinstance(value, bytes):
        return value
    if not (isinstance(value, Mapping) and value.keys() == {"base64"}):
        return None
    try:
        return base64.b64decode(value["base64"], validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise NoValue("it is not base64") from None


def bind_by_value(value: Any) -> Any:
    """Returns what is bound for a value where the type of its placeholder is not known: bytes for ``{base64: …}``, JSON text for lists and mappings.

    Raises:
        NoValue: it can't be bound.
    """
    match value:
        case bool():
            return value
        case int() if value not in INT64:
            raise NoValue("it is a whole number of more than 64 bits; give it as text")
        case str():
            _ = _text(value)
        case list():
            return json_text(value)
        case Mapping():
            raw = bytes_of(value)
            return json_text(value) if raw is None else raw
    return value


def bind_by_type(value: Any, type_name: str) -> Any:
    """Returns what asyncpg takes for a placeholder of this type of Postgres.

    Raises:
        NoValue: the value does not fit the type.
    """
    if value is None:
        return None
    if type_name in ("json", "jsonb"):
        return json_text(value)
    if type_name.endswith("[]"):
        if not isinstance(value, list):
            raise NoValue(f"it is not a list, and the statement takes {type_name}")
        return [bind_by_type(one, type_name if isinstance(one, list) else type_name[:-2]) for one in value]
    try:
        return _BINDERS.get(type_name, _unknown)(value)
    except NoValue:
        raise
    except (TypeError, ValueError, OverflowError, InvalidOperation, ProgrammingError):
        raise NoValue(f"it does not fit the type {type_name}, which the statement takes{_HINTS.get(type_name, '')}") from None


_HINTS = {
    "text": "; cast the placeholder to its own type, such as :name::int",
    "timestamptz": ": a time with its offset, such as 2027-01-01T09:00:00Z, or seconds since 1970",
    "timestamp": ": a time without an offset, such as 2027-01-01T09:00:00",
    "interval": ": seconds, or text such as 2h 30m",
    "bytea": ": {base64: …}",
}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    try:
        value.encode()
    except UnicodeError:
        raise NoValue("it has text that can't be encoded in UTF-8") from None
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise TypeError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    return float(value)


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise TypeError
    return Decimal(repr(value) if isinstance(value, float) else value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _bytes(value: Any) -> bytes:
    raw = bytes_of(value)
    if raw is None:
        raise TypeError
    return raw


def _timestamptz(value: Any) -> datetime:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value, UTC)
    found = datetime.fromisoformat(_text(value))
    if found.tzinfo is None:
        raise ValueError
    return found


def _timestamp(value: Any) -> datetime:
    found = datetime.fromisoformat(_text(value))
    if found.tzinfo is not None:
        raise ValueError
    return found


def _interval(value: Any) -> timedelta:
    return timedelta(seconds=duration_seconds(value, "an interval"))


def _unknown(value: Any) -> Any:
    """Text, as most types of Postgres take it; numbers and flags as they are."""
    if isinstance(value, list | Mapping):
        raise TypeError
    return value


_BINDERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "citext", "xml"), _text),
    **dict.fromkeys(("int2", "int4", "int8", "oid"), _whole),
    **dict.fromkeys(("float4", "float8"), _number),
    "numeric": _decimal,
    "bool": _flag,
    "bytea": _bytes,
    "uuid": lambda value: UUID(_text(value)),
    "date": lambda value: date.fromisoformat(_text(value)),
    "time": lambda value: time.fromisoformat(_text(value)),
    "timetz": lambda value: time.fromisoformat(_text(value)),
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "interval": _interval,
}
"""By the name of a type of Postgres, the function that makes what asyncpg takes of a value; it raises anything if the value does not fit."""
