"""Failures: what user code raised, as data that the log can keep and from which it is raised again.

Nothing that user code raises can fail here: its text is repaired and bounded, and of what can't be read a placeholder is kept.
"""

from collections.abc import Iterator, Sequence
from traceback import StackSummary, TracebackException, walk_tb
from types import BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any, ParamSpec, TypeVar

import msgspec

from perdure.core import limits, values
from perdure.core.error_codes import error_code
from perdure.core.error_text import exception_text, safe_text, shorten_text
from perdure.core.errors import ErrorInfo, PerdureError, ProgrammingError, StepFailed, TooLarge, Unencodable
from perdure.core.paths import Path, path_text
from perdure.core.secret_masks import NO_MASK, Mask

P = ParamSpec("P")
T = TypeVar("T")

FRAMES_MAX = 20
"""How many frames of a traceback are kept, the innermost that are the user's."""

FRAMES_SEEN_MAX = 10 * FRAMES_MAX
"""Among how many frames these are looked for."""

LIBRARY = values.__file__.rpartition("core")[0]
"""Where Perdure's own code is, whose frames say nothing to the user."""

RELATED_MAX = 50
"""Up to how many causes, contexts and members of groups are shown with an exception; with more, it is shown alone."""


class ExceptionData(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What an exception is rebuilt from: its arguments, its attributes, and the class in `raises` by which it was declared, where that is known."""

    args: list[Any]
    attributes: dict[str, Any]
    declared: str = ""


def error_info(error: BaseException, mask: Mask = NO_MASK, data: bytes | None = None) -> ErrorInfo:
    """An exception as data, with its traceback from the user's first frame on. `mask` hides secrets where a text is cut."""
    name = shorten_text(safe_text(lambda: error_code(type(error)), "Exception"), limits.ERROR_TYPE_CHARACTERS_MAX)
    message = shorten_text(exception_text(error), limits.ERROR_MESSAGE_CHARACTERS_MAX, mask.cut)
    trace = safe_text(lambda: _traceback(error), "") or _frames(error) + f"{name}: {message}\n"
    return ErrorInfo(name, message, shorten_text(trace, limits.ERROR_TRACEBACK_CHARACTERS_MAX, mask.cut), data)


def _traceback(error: BaseException) -> str:
    """The traceback as Python prints it; nothing for an exception that has too many others behind it."""
    if sum(1 for _ in _related(error)) > RELATED_MAX:
        return ""
    found = TracebackException.from_exception(error, limit=-FRAMES_SEEN_MAX, lookup_lines=False)
    for one, shown in _pairs(error, found):
        shown.stack = _of_the_user(shown.stack, keeps_end=not isinstance(one, PerdureError))
    return "".join(found.format())


def _pairs(error: BaseException, shown: TracebackException) -> Iterator[tuple[BaseException, TracebackException]]:
    """An exception and what is shown of it, then those of its causes, contexts and members that are shown."""
    left = [(error, shown)]
    while left:
        one, found = left.pop()
        yield one, found
        behind = [(one.__cause__, found.__cause__), (one.__context__, found.__context__)]
        members = zip(one.exceptions, found.exceptions or (), strict=False) if isinstance(one, BaseExceptionGroup) else ()
        left += [(other, its) for other, its in (*behind, *members) if other is not None and its is not None]


def _of_the_user(stack: StackSummary, keeps_end: bool) -> StackSummary:
    """The innermost frames without Perdure's own; with them, where there are no others. `keeps_end` leaves those behind the user's last."""
    own = [number for number, frame in enumerate(stack) if not frame.filename.startswith(LIBRARY)]
    last = own[-1] if own else -1
    kept = [frame for number, frame in enumerate(stack) if not own or number in set(own) or (keeps_end and number > last)]
    return StackSummary.from_list(kept[-FRAMES_MAX:])


def _related(error: BaseException) -> Iterator[BaseException]:
    """An exception with its causes, contexts and members, up to more than `RELATED_MAX` of them."""
    left, seen = [error], set[int]()
    while left and len(seen) <= RELATED_MAX:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        members = one.exceptions[: RELATED_MAX + 1] if isinstance(one, BaseExceptionGroup) else ()
        left += [other for other in (one.__cause__, one.__context__, *members) if other is not None]


def _frames(error: BaseException) -> str:
    """The frames alone of an exception whose traceback can't be made."""
    return safe_text(lambda: "".join(StackSummary.extract(walk_tb(error.__traceback__), limit=-FRAMES_MAX).format()), "")


def encode_exception(error: BaseException, classes: Sequence[type[Exception]]) -> bytes | None:
    """What an exception of one of these classes, or a class below one, is rebuilt from; None of any other, or if its arguments can't be kept.

    Attributes that can't be kept are left out.
    """
    try:
        declared = next((kind for kind in classes if isinstance(error, kind)), None)
        if declared is None:
            return None
        kept = {name: value for name, value in vars(error).items() if name != "__notes__" and _is_plain(value)}
        args = _builtin(type(error), "__reduce__", MethodDescriptorType)(error)[1]  # an OSError has its file among these, and not in its `args`
        raw = values.encode(ExceptionData(list(args), kept, error_code(declared)), "the arguments of an error")
    except BaseException:
        return None
    return raw if len(raw) <= limits.ERROR_DATA_BYTES_MAX else None


def _is_plain(value: Any) -> bool:
    try:
        values.encode(value, "an attribute of an error")
    except ProgrammingError:
        return False
    return True


def rebuild_exception(info: ErrorInfo, classes: Sequence[type[Exception]]) -> Exception | None:
    """The exception itself, if its class or one above it is among these; None if it can't be made of what remains of it.

    Its own `__init__` is not called, which may take other arguments than those that were kept.
    """
    if info.data is None:
        return None
    try:
        kept = values.decode(info.data, ExceptionData, "an error")
        kind = _class(info.type, kept.declared, classes)
        made = _builtin(kind, "__new__", BuiltinFunctionType)(kind, *kept.args)
        _builtin(kind, "__init__", WrapperDescriptorType)(made, *kept.args)
        made.__dict__.update(kept.attributes)
    except Exception:  # whatever the class makes of it, the error itself is known, and arrives as StepFailed
        return None
    return made if isinstance(made, Exception) else None


def _class(name: str, declared: str, classes: Sequence[type[Exception]]) -> type[Exception]:
    """The class of this name among `classes` or below them, of several the newest; else the one that was declared, as then the workflow can't name it either.

    Raises:
        LookupError: there is neither.
    """
    named, left = list[type[Exception]](), list(classes)
    while left:
        kind = left.pop(0)
        named += [kind] if error_code(kind) == name else []
        left += kind.__subclasses__()
    return (named or [kind for kind in classes if error_code(kind) == declared])[-1]


def _builtin(kind: type, method: str, of: type) -> Any:
    """A method of the nearest class above that is not written in Python."""
    return next(found for one in kind.__mro__ if isinstance(found := one.__dict__.get(method), of))


def encode_refusal(error: BaseException) -> bytes:
    """That the value of an operation could not be made or kept, as bytes."""
    match error:
        case Unencodable(where=where, kind=what, why=why):
            return values.encode((Unencodable.code, where, what, why), "an error")
        case TooLarge(where=where, size_bytes=size_bytes, max_bytes=max_bytes):
            return values.encode((TooLarge.code, where, size_bytes, max_bytes), "an error")
    info = error_info(error)
    return values.encode(("", info.type, info.message, info.traceback), "an error")


def decode_refusal(path: Path, raw: bytes) -> Exception:
    """The error that `refused` wrote: the same live and on replay, so one that is not Perdure's own comes as `StepFailed`."""
    match values.decode(raw, list[Any], "an error"):
        case [Unencodable.code, where, what, why]:
            return Unencodable(where, what, why)
        case [TooLarge.code, where, size_bytes, max_bytes]:
            return TooLarge(where, size_bytes, max_bytes)
        case [_, *parts]:
            return StepFailed(path_text(path), "fatal", 1, ErrorInfo(*parts))
    raise TypeError(f"{raw!r} is no error")
