"""Pages of lists: how long they are, and positions in lists as texts that clients pass back: opaque, and usable in a URL."""

import base64
import binascii

import msgspec

from perdure.code.durations import whole_number
from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.stores.records import PagePosition

PAGE_MAX = 1_000
"""The most items in a page."""

_Position = tuple[Key, float, bytes]
_decode = msgspec.msgpack.Decoder(_Position).decode


def page_limit(limit: int) -> int:
    """Returns how many items a page has of which `limit` are wanted: of more than `PAGE_MAX`, the others are in the next pages.

    Raises:
        BadValue: it is no whole number from 1.
    """
    return min(whole_number(limit, "limit"), PAGE_MAX)


def cursor_text(position: PagePosition | None) -> str:
    """Returns a position in a list of executions as text; empty for the beginning."""
    if position is None:
        return ""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode((position.key, position.created_at_s, position.value))).decode().rstrip("=")


def parse_cursor(text: str) -> PagePosition | None:
    """Returns the position of a text that `cursor_text` has made.

    Raises:
        BadValue: the text is not one.
    """
    if not text:
        return None
    try:
        return PagePosition(*_decode(base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)))
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise BadValue("after", text, "the `next` of the page before, or empty for the first page") from None
