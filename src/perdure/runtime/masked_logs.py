"""Logging without secrets: what is logged within a step that was given some has none of them, whoever logs it, and wherever it goes."""

import logging
from collections.abc import Callable
from traceback import format_exception
from typing import Any

from perdure.core.masks import NO_MASK, Mask
from perdure.programs.code.info import running

Factory = Callable[..., logging.LogRecord]

_ours: list[Factory] = []


def mask_logs() -> None:
    """Have all of this process's log records made so from now on. What others have put in the place of `logging.LogRecord` still makes them."""
    before = logging.getLogRecordFactory()
    if before in _ours:
        return

    def masked(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = before(*args, **kwargs)
        info = running.get(None)
        mask = NO_MASK if info is None else info.mask
        return _masked(record, mask) if mask else record

    _ours[:] = [masked]
    logging.setLogRecordFactory(masked)


def _masked(record: logging.LogRecord, mask: Mask) -> logging.LogRecord:
    try:
        said = record.getMessage()
    except (TypeError, ValueError, KeyError):  # what does not fit its arguments: logging would show both
        said = f"{record.msg!r} {record.args!r}"
    record.__dict__.update(msg=mask.text(said), args=())
    if record.exc_info and record.exc_info[1] is not None:
        record.exc_text, record.exc_info = mask.text("".join(format_exception(record.exc_info[1])).rstrip("\n")), None
    if record.stack_info:
        record.stack_info = mask.text(record.stack_info)
    return record
