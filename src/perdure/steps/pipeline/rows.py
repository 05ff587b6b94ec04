"""Rows: what counts as a table. A list, whose items are mappings; an item that is none becomes ``{value: item}``. A mapping alone is one row."""

import math
import re
from typing import Any

import msgspec

from perdure.expr.values import shown
from perdure.steps.pipeline.bounds import Pace
from perdure.steps.pipeline.failed import Wrong
from perdure.steps.pipeline.paths import Row

VALUE = "value"
"""What an item that is no mapping is called in its row."""

_PERHAPS_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""How a float that is not finite looks in MessagePack. It may be found where there is none (within a number), but is found where there is one."""

_PERHAPS_WIDE = re.compile(rb"[\xcf\xd3]")
"""How integers of more than 32 bits begin there."""


def table(value: Any, what: str) -> list[Row]:
    """The rows that a value is.

    Raises:
        Wrong: it is none.
    """
    match value:
        case list():
            return value if all(type(item) is dict for item in value) else [item if type(item) is dict else {VALUE: item} for item in value]
        case dict():
            return [value]
    raise Wrong(f"{what} are {shown(value)}; rows are a list of mappings")


def packed(value: Any, what: str, pace: Pace) -> bytes:
    """Plain data as MessagePack, if it is not too large.

    Raises:
        Wrong: it is, or it holds what is no plain data: NaN, infinity, an integer of more than 64 bits.
    """
    try:
        raw = msgspec.msgpack.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Wrong(f"{what} hold something that is no plain data: {error}") from None
    if _PERHAPS_NOT_FINITE.search(raw) is not None and _is_not_finite(value):
        raise Wrong(f"{what} hold NaN or infinity, which JSON has not; put null in its place")
    if len(raw) > pace.bounds.bytes:
        raise Wrong(f"{what} take {len(raw):,} bytes, and {pace.bounds.bytes:,} are the most; select fewer fields, or raise limits.bytes")
    return raw


def _is_not_finite(value: Any) -> bool:
    match value:
        case float():
            return not math.isfinite(value)
        case list() | tuple():
            return any(map(_is_not_finite, value))
        case dict():
            return any(map(_is_not_finite, value.values()))
        case _:
            return False


def is_wide(value: Any, raw: bytes) -> bool:
    """Whether plain data, with its MessagePack, has an integer that no float can be: one of more than 53 bits."""
    return _PERHAPS_WIDE.search(raw) is not None and _is_wide(value)


def _is_wide(value: Any) -> bool:
    match value:
        case bool():
            return False
        case int():
            return not -(2**53) <= value <= 2**53
        case list():
            return any(map(_is_wide, value))
        case dict():
            return any(map(_is_wide, value.values()))
        case _:
            return False
