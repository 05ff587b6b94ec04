"""Small things in words: text that can't upset a terminal, durations, times. Pure: the present is an argument.

Whatever comes from outside (ids, names, errors) goes through `clean` before it is drawn, so that an id with an escape
sequence in it moves no cursor and a line break breaks no table.

What went wrong, in a line, and what to do next, in another.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from urllib.parse import quote

from perdure.core.errors import AlreadyExists, ExecutionFailed, LinkRefused, NeedsAttention, NotFound, PerdureError
from perdure.core.paths import Key

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


def clean(text: str) -> str:
    """`text` with characters that have no shape of their own (controls, direction marks, line breaks) written as escapes."""
    if text.isprintable():
        return text
    return "".join(f"{character!a}"[1:-1] if unicodedata.category(character) in _INVISIBLE else character for character in text)


def without_passwords(text: str) -> str:
    """`text` without the passwords of URLs in it."""
    text = re.sub(r"(?i)([?&](?:password|sslpassword|perdure_direct_url)=)[^&\s]*", r"\1***", text)
    return re.sub(r"(?<=://)([^/@:\s]*):[^@/\s]*@", r"\1:***@", text)


def width(text: str) -> int:
    """How many columns a terminal needs to show `text`: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)


def truncate(text: str, columns: int) -> str:
    """`text`, shortened with an ellipsis to at most so many columns."""
    if width(text) <= columns:
        return text
    kept = left = max(columns - 1, 0)
    for position, character in enumerate(text):
        left -= width(character)
        if left < 0:
            kept = position
            break
    return f"{text[:kept]}…" if columns > 0 else ""


def duration(length_s: float) -> str:
    """A length of time, in two units at most: ``12 ms``, ``3.4 s``, ``5 min 2 s``, ``3 d 4 h``."""
    if length_s < 0.9995:
        return f"{max(length_s, 0.0) * 1000:.0f} ms"
    if length_s < 9.95:
        return f"{length_s:.1f} s"
    whole_s = round(length_s)
    if whole_s < 60:
        return f"{whole_s} s"
    for number, (unit_s, unit) in enumerate(_UNITS):
        if whole_s >= unit_s:
            count, rest_s = divmod(whole_s, int(unit_s))
            lesser_s, lesser = _UNITS[number + 1] if number + 1 < len(_UNITS) else (1.0, "s")
            more = int(rest_s // lesser_s)
            return f"{count} {unit} {more} {lesser}" if more else f"{count} {unit}"
    return f"{whole_s} s"


def utc_time(at_s: float) -> str:
    """A moment, in UTC: ``2026-11-22 09:41:07``."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


def utc_timestamp(at_s: float) -> str:
    """A moment to the millisecond, in UTC, as logs write it: ``2026-11-22T09:41:07.123Z``."""
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def relative_time(at_s: float, now_s: float) -> str:
    """A time relative to now: ``3 min ago``, ``in 2 h``."""
    return f"{duration(now_s - at_s)} ago" if at_s <= now_s else f"in {duration(at_s - now_s)}"


def size(size_bytes: int) -> str:
    """A size: ``312 bytes``, ``4.0 KiB``, ``1.2 GiB``."""
    if size_bytes < 1024:
        return f"{size_bytes} bytes"
    value, unit = size_bytes / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}"


def count(number: int, one: str, many: str = "") -> str:
    """A counted noun: ``1 step``, ``3 steps``, ``2 patches``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def first_line(text: str) -> str:
    """The first line of `text`, with an ellipsis if there are more."""
    first, *more = text.strip().splitlines() or [""]
    return f"{first} …" if more else first


LINE_COLUMNS_MAX = 600
"""The greatest length of a line of an error message, which may contain text of users."""


def error_message(error: BaseException) -> str:
    """The error in one or two lines; the second says what to do."""
    match error:
        case ExecutionFailed(key=Key() as key, error=info):
            return safe_lines(f"{execution_name(key)} failed: {info.type}: {info.message}", f"perdure logs {execution_name(key)} shows what led there")
        case NeedsAttention(key=Key() as key, reason=("diverged" | "paused")):
            return safe_lines(str(error), f"perdure show {execution_name(key)} shows its state, perdure resume {execution_name(key)} resumes it")
        case NeedsAttention(key=Key() as key):
            return safe_lines(str(error), f"perdure show {execution_name(key)} shows its state, perdure retry {execution_name(key)} retries it")
        case AlreadyExists(key=Key() as key):
            return safe_lines(f"the execution {execution_name(key)} exists already", "choose another id with --id, or leave --id out")
        case LinkRefused():
            return safe_lines(str(error), "perdure approve ID --link makes one; PERDURE_SIGNING_SECRET must be the same where it is used")
        case NotFound():
            return safe_lines(str(error), "perdure ls lists the executions that exist")
        case PerdureError():
            return safe_lines(str(error))
        case ModuleNotFoundError(name=("click" | "rich") as missing):
            return safe_lines(f"{missing} is not installed", 'pip install "perdure[cli]"')
        case _:
            return safe_lines(f"{type(error).__name__}: {error}", "this is a defect of Perdure; --debug shows where, please report it")


def execution_name(key: Key) -> str:
    """The name of an execution as every command accepts it, in readable form where possible."""
    plain = f"{_readable(key.workflow)}/{_readable(key.id)}"
    return plain if plain == plain.strip() and plain[0] not in "@-" else str(key).partition("/")[2]


def _readable(part: str) -> str:
    return "".join(character if character.isprintable() and character not in "/%" else quote(character, safe="") for character in part)


def safe_lines(*lines: str) -> str:
    """Lines that are safe to print: without control characters and passwords, and cut to a readable length."""
    return "\n".join(truncate(clean(without_passwords(line)), LINE_COLUMNS_MAX) for line in lines)
