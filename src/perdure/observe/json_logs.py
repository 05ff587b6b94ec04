"""Writes each record of `logging` as one JSON object on one line, with the execution, step, attempt, tenant and request that it belongs to.

Nothing that a record holds can break the line or fail it: values that JSON has no form for are written as text, and long ones are shortened. Secrets of the
step are masked in the record already (see `perdure.runtime.call_secrets`); those of the process are masked here.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from math import isfinite
from traceback import format_exception
from typing import Any

from perdure.code.step_environment import current_step
from perdure.core.error_text import exception_text, safe_text, shorten_text
from perdure.core.paths import Key, path_text
from perdure.core.secret_masks import NO_MASK, Mask
from perdure.observe.request_fields import current_request

TEXT_CHARACTERS_MAX = 16_384
"""Longer text in a record is shortened in the middle."""

DEPTH_MAX, ITEMS_MAX = 5, 100
"""How deep, and how far, the data of a record is written."""

INTEGER_END = 10**640
"""Larger integers are written as text, in hexadecimal: Python refuses to write the digits of very large ones, as `sys.set_int_max_str_digits` says."""

_OF_LOGGING = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"))
_OF_MASKED = frozenset(("error_type", "error_message"))


class JsonLogFormatter(logging.Formatter):
    """Formats records as JSON lines: `time`, `level`, `logger`, `message`, where the record belongs, `exception`, and the fields given as `extra`.

    `secrets` are those of the process, which are masked wherever they occur.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._mask = Mask(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line of a record."""
        found: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        found.update(_place(record))
        if (raised := _exception(record)) is not None:
            found["exception"] = raised
        if record.stack_info:
            found["stack"] = record.stack_info
        for name, value in vars(record).items():
            if name not in _OF_LOGGING and name not in _OF_MASKED and name not in found:
                found[name] = value
        return json.dumps(_plain(found, self._mask))


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # the message does not fit its arguments, or one of them can't be shown: logging would write several lines
        return safe_text(lambda: f"{record.msg!r} {record.args!r}", f"(a message of {record.pathname}:{record.lineno} that can't be formatted)")


def _place(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    """Yields what the record belongs to: the running step, else the execution that is among its arguments; and the request that is being answered."""
    info, request = current_step.get(None), current_request.get(None)
    key = info.execution if info is not None else getattr(record, "execution", None) or next(_keys(record.args), None)
    if isinstance(key, Key):
        yield from (("execution", f"{key.workflow}/{key.id}"), ("workflow", key.workflow), ("tenant", key.tenant))
    elif request is not None and request.tenant:
        yield "tenant", request.tenant
    if info is not None:
        yield from (("step", path_text(info.path)), ("attempt", info.attempt))
    if request is not None:
        yield "request", request.id


def _keys(args: Any) -> Iterator[Key]:
    given = args.values() if isinstance(args, Mapping) else args if isinstance(args, tuple) else ()
    return (one for one in given if isinstance(one, Key))


def _exception(record: logging.LogRecord) -> dict[str, str] | None:
    """Returns the exception of a record: its type, its message, and the whole trace."""
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        trace = safe_text(lambda: "".join(format_exception(error)), "(the trace of this exception can't be read)")
        return {"type": type(error).__qualname__, "message": exception_text(error), "trace": trace.rstrip("\n")}
    if not record.exc_text:
        return None
    named = {name.removeprefix("error_"): getattr(record, name) for name in sorted(_OF_MASKED, reverse=True) if hasattr(record, name)}
    return {**named, "trace": record.exc_text}


def _plain(value: Any, mask: Mask = NO_MASK, depth: int = 0) -> Any:
    """Returns a value as data for JSON, masked and bounded."""
    match value:
        case None | bool():
            return value
        case int():
            return value if abs(value) < INTEGER_END else hex(value)
        case float():
            return value if isfinite(value) else repr(value)
        case str():
            return mask.text(shorten_text(value, TEXT_CHARACTERS_MAX, mask.cut))
        case dict() if depth < DEPTH_MAX:
            return {_plain(_text(name), mask): _plain(one, mask, depth + 1) for name, one in list(dict.items(value))[:ITEMS_MAX]}
        case list() | tuple() if depth < DEPTH_MAX and not isinstance(value, Key):
            return [_plain(one, mask, depth + 1) for one in value[:ITEMS_MAX]]
    return _plain(_text(value), mask)


def _text(value: Any) -> str:
    return safe_text(lambda: str(value), f"({type(value).__name__})")
