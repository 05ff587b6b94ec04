"""Failures: what user code raised, as data that the log can keep and from which it is raised again."""

from traceback import TracebackException
from typing import Any

from perdure.core import values
from perdure.core.errors import ErrorInfo, StepFailed, TooLarge, Unencodable
from perdure.core.paths import Path, text


def error_info(error: BaseException) -> ErrorInfo:
    """An exception as data, with its traceback from the user's first frame on."""
    trace = TracebackException.from_exception(error, limit=-20)
    return ErrorInfo(type(error).__qualname__, str(error), "".join(trace.format()))


def refused(error: Exception) -> bytes:
    """That the value of an operation could not be made or kept, as bytes."""
    match error:
        case Unencodable(where=where, kind=what, why=why):
            return values.encode(("Unencodable", where, what, why), "an error")
        case TooLarge(where=where, size_bytes=size_bytes, max_bytes=max_bytes):
            return values.encode(("TooLarge", where, size_bytes, max_bytes), "an error")
    info = error_info(error)
    return values.encode(("", info.type, info.message, info.traceback), "an error")


def refusal(path: Path, raw: bytes) -> Exception:
    """The error that `refused` wrote: the same live and on replay, so one that is not Perdure's own comes as `StepFailed`."""
    match values.decode(raw, list[Any], "an error"):
        case ["Unencodable", where, what, why]:
            return Unencodable(where, what, why)
        case ["TooLarge", where, size_bytes, max_bytes]:
            return TooLarge(where, size_bytes, max_bytes)
        case [_, *parts]:
            return StepFailed(text(path), "fatal", 1, ErrorInfo(*parts))
    raise TypeError(f"{raw!r} is no error")
