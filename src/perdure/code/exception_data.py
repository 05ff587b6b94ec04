"""Converts exceptions of user code to data that the log can hold, and rebuilds them from it.

No exception of user code makes this fail: texts are repaired and bounded, and a placeholder replaces what can't be read.
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
"""How many frames of a traceback are kept: the innermost ones of the user's code."""

FRAMES_SEEN_MAX = 10 * FRAMES_MAX
"""How many frames are searched for those."""

LIBRARY = values.__file__.rpartition("core")[0]
"""The directory of Perdure's own code, whose frames do not help the user."""

RELATED_MAX = 50
"""The most causes, contexts and members of groups that are shown with an exception; with more, it is shown alone."""


class ExceptionData(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The data from which an exception is rebuilt: its arguments, its attributes, and the class in `raises` that declared it, if that is known."""

    args: list[Any]
    attributes: dict[str, Any]
    declared: str = ""


def error_info(error: BaseException, mask: Mask = NO_MASK, data: bytes | None = None) -> ErrorInfo:
    """Returns an exception as data, with its traceback from the user's first frame on. `mask` hides secrets where a text is cut."""
    name = shorten_text(safe_text(lambda: error_code(type(error)), "Exception"), limits.ERROR_TYPE_CHARACTERS_MAX)
    message = shorten_text(exception_text(error), limits.ERROR_MESSAGE_CHARACTERS_MAX, mask.cut)
    trace = safe_text(lambda: _traceback(error), "") or _frames(error) + f"{name}: {message}\n"
    return ErrorInfo(name, message, shorten_text(trace, limits.ERROR_TRACEBACK_CHARACTERS_MAX, mask.cut), data)


def _traceback(error: BaseException) -> str:
    """Returns the traceback as Python prints it; empty for an exception with too many related ones."""
    if sum(1 for _ in _related(error)) > RELATED_MAX:
        return ""
    found = TracebackException.from_exception(error, limit=-FRAMES_SEEN_MAX, lookup_lines=False)
    for one, shown in _pairs(error, found):
        shown.stack = _of_the_user(shown.stack, keeps_end=not isinstance(one, PerdureError))
    return "".join(found.format())


def _pairs(error: BaseException, shown: TracebackException) -> Iterator[tuple[BaseException, TracebackException]]:
    """Yields an exception with its summary, then its causes, contexts and members that are shown, with theirs."""
    left = [(error, shown)]
    while left:
        one, found = left.pop()
        yield one, found
        behind = [(one.__cause__, found.__cause__), (one.__context__, found.__context__)]
        members = zip(one.exceptions, found.exceptions or (), strict=False) if isinstance(one, BaseExceptionGroup) else ()
        left += [(other, its) for other, its in (*behind, *members) if other is not None and its is not None]


def _of_the_user(stack: StackSummary, keeps_end: bool) -> StackSummary:
    """Returns the innermost frames without Perdure's own, unless there are no others. With `keeps_end`, the frames after the user's last stay."""
    own = [number for number, frame in enumerate(stack) if not frame.filename.startswith(LIBRARY)]
    last = own[-1] if own else -1
    kept = [frame for number, frame in enumerate(stack) if not own or number in set(own) or (keeps_end and number > last)]
    return StackSummary.from_list(kept[-FRAMES_MAX:])


def _related(error: BaseException) -> Iterator[BaseException]:
    """Yields an exception with its causes, contexts and members, stopping after more than `RELATED_MAX`."""
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
    """Returns only the frames of an exception whose traceback can't be formatted."""
    return safe_text(lambda: "".join(StackSummary.extract(walk_tb(error.__traceback__), limit=-FRAMES_MAX).format()), "")


def encode_exception(error: BaseException, classes: Sequence[type[Exception]], *, bytes_max: int | None = limits.ERROR_DATA_BYTES_MAX) -> bytes | None:
    """Encodes the data of an exception of one of these classes or their subclasses.

    Attributes that can't be encoded are left out. None for an exception of any other class, if its arguments can't be encoded, or if the data is longer
    than `bytes_max`.
    """
    try:
        declared = next((kind for kind in classes if isinstance(error, kind)), None)
        if declared is None:
            return None
        kept = {name: value for name, value in vars(error).items() if name != "__notes__" and _is_plain(value)}
        args = _builtin(type(error), "__reduce__", MethodDescriptorType)(error)[1]  # an OSError has its file among these, and not in its `args`
        raw = values.encode(ExceptionData(list(args), kept, error_code(declared)), "the arguments of an error")
    except BaseException:  # the user's exception class may raise anything here; the error is then stored without its data
        return None
    return raw if bytes_max is None or len(raw) <= bytes_max else None


def _is_plain(value: Any) -> bool:
    try:
        values.encode(value, "an attribute of an error")
    except ProgrammingError:
        return False
    return True


def rebuild_exception(info: ErrorInfo, classes: Sequence[type[Exception]]) -> Exception | None:
    """Rebuilds an exception whose class or base class is among these; None if its data does not suffice.

    Its `__init__` is not called, because it may take other arguments than those that were kept.
    """
    if info.data is None:
        return None
    try:
        kept = values.decode(info.data, ExceptionData, "an error")
        kind = _class(info.type, kept.declared, classes)
        made = _builtin(kind, "__new__", BuiltinFunctionType)(kind, *kept.args)
        _builtin(kind, "__init__", WrapperDescriptorType)(made, *kept.args)
        made.__dict__.update(kept.attributes)
    except Exception:  # a class that can't be rebuilt loses nothing: the error is known, and is raised as StepFailed
        return None
    return made if isinstance(made, Exception) else None


def _class(name: str, declared: str, classes: Sequence[type[Exception]]) -> type[Exception]:
    """Returns the class of this name among `classes` and their subclasses, of several the newest; else the declared class.

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
    """Returns a method of the nearest base class that is not written in Python."""
    return next(found for one in kind.__mro__ if isinstance(found := one.__dict__.get(method), of))


def encode_refusal(error: BaseException) -> bytes:
    """Encodes the error with which the value of an operation could not be computed or kept."""
    match error:
        case Unencodable(where=where, kind=what, why=why):
            return values.encode((Unencodable.code, where, what, why), "an error")
        case TooLarge(where=where, size_bytes=size_bytes, max_bytes=max_bytes):
            return values.encode((TooLarge.code, where, size_bytes, max_bytes), "an error")
    info = error_info(error)
    return values.encode(("", info.type, info.message, info.traceback), "an error")


def decode_refusal(path: Path, raw: bytes) -> Exception:
    """Returns the error that `encode_refusal` wrote. It is the same live and on replay, so an error that is not Perdure's own becomes a `StepFailed`."""
    match values.decode(raw, list[Any], "an error"):
        case [Unencodable.code, where, what, why]:
            return Unencodable(where, what, why)
        case [TooLarge.code, where, size_bytes, max_bytes]:
            return TooLarge(where, size_bytes, max_bytes)
        case [_, *parts]:
            return StepFailed(path_text(path), "fatal", 1, ErrorInfo(*parts))
    raise TypeError(f"{raw!r} is no error")
