"""Performing a call: the function runs once, and whatever comes of it is an outcome."""

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec

from perdure.core import values
from perdure.core.errors import ErrorInfo, Fatal, LogDamaged, ProgrammingError, RetryAfter, Rollback
from perdure.core.masks import NO_MASK, Mask
from perdure.core.ops import Err, Ok, Outcome
from perdure.core.values import Blob, Value
from perdure.programs.code.codec import Codec, codec_of
from perdure.programs.code.declare import Step, Undo, waits
from perdure.programs.code.failures import error_info, remains
from perdure.programs.code.info import StepInfo, running
from perdure.programs.code.undo import Done
from perdure.runtime.holder import persistently
from perdure.runtime.payloads import Payloads
from perdure.runtime.secrets import reveal

T = TypeVar("T")

Busy = Callable[["asyncio.Future[Any]"], None]
"""What is told of the future of the thread in which a sync step runs."""

NOT_BEGUN = Err("cancelled", 0, ErrorInfo("Cancelled", "it was not begun before nobody waited for it any more"))
"""The outcome of a try whose function was not called, as it was cancelled before. The log says the same in its own words."""

Performer = Callable[[Any, Value, StepInfo, Payloads, Executor | None, Busy], Awaitable[Outcome]]
"""Makes a try of a call, as `perform` does."""


async def perform(fn: Any, args: Value, info: StepInfo, payloads: Payloads, threads: Executor | None, busy: Busy) -> Outcome:
    """Run `fn` with the encoded arguments, which may be a blob, with the secrets that it is given in their places. What comes of it has none of them.

    Whatever the function raises or returns is an outcome, and nothing else. A function that still waits for a thread, or for its arguments, when its try is
    cancelled is not called: the outcome is `NOT_BEGUN`.

    Raises:
        asyncio.CancelledError: the task was cancelled, mostly because nobody wants the answer any more.
    """
    try:
        outcome = await _performed(fn, args, info, payloads, threads, busy)
        return info.mask.outcome(outcome) if info.mask else outcome
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return failure(fn, error, info.mask)
    except BaseException as error:
        outcome = failure(fn, error, info.mask)
        return info.mask.outcome(outcome) if info.mask else outcome


async def uncancelled(trying: Awaitable[T], is_wanted: Callable[[], bool], task: "asyncio.Task[Any] | None") -> T | Err:
    """What comes of a try that runs in this `task`, though its function may cancel the task: while `is_wanted`, nobody else has.

    Raises:
        asyncio.CancelledError: the outcome is not wanted any more.
    """
    assert task is not None, "it runs in a task"
    try:
        outcome: T | Err = await trying
    except asyncio.CancelledError:
        if not is_wanted():
            raise
        outcome = Err("failed", 1, ErrorInfo("CancelledError", "the step cancelled the task that it runs in"))
    if task.cancelling() and is_wanted():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)  # where it was cancelled at last, and has not noticed yet
        while task.cancelling():
            task.uncancel()
    return outcome


def failed_from_outside(fn: Any, error: GeneratorExit, me: "asyncio.Task[Any] | None", mask: Mask) -> Err:
    """What a `GeneratorExit` comes to that a function has awaited: Python closes all coroutines around it, and raises it in the outermost of a task alone.

    Raises:
        GeneratorExit: it is the coroutine itself that is closed, and not its task that goes on.
    """
    try:
        running = asyncio.current_task()
    except RuntimeError:
        running = None
    if running is None or running is not me:
        raise error
    return failure(fn, error, mask)


async def _performed(fn: Any, args: Value, info: StepInfo, payloads: Payloads, threads: Executor | None, busy: Busy) -> Outcome:
    raw = await payload(args, payloads)
    if isinstance(fn, Undo):
        fn, raw = fn.step, await of_what_is_undone(raw, payloads)
    if info.life is not None and info.life.places:
        raw = await reveal(raw, info.life, threads)
    codec, inner, is_async = (fn.codec, fn.fn, fn.is_async) if isinstance(fn, Step) else (codec_of(fn), fn, waits(fn))
    positional, named = codec.decode_args(raw, "the arguments of step", info.path)
    loop = asyncio.get_running_loop()

    if is_async:
        return _success(codec, await _inside(info, inner(*positional, **named)), info) if info.begin(loop.time()) else NOT_BEGUN

    def call() -> Outcome | _Awaited:
        """Runs in the thread, where everything that the function makes is looked at too: no future can carry a `StopIteration`."""
        if not info.begin(loop.time()):
            return NOT_BEGUN
        try:
            result = inner(*positional, **named)
            return _Awaited(result) if inspect.isawaitable(result) else _success(codec, result, info)
        except BaseException as error:
            return failure(fn, error, info.mask)

    context = contextvars.copy_context()
    context.run(running.set, info)
    thread = loop.run_in_executor(threads, context.run, call)
    busy(thread)
    came = await asyncio.shield(thread)
    return _success(codec, await _inside(info, came.result), info) if isinstance(came, _Awaited) else came


class _Awaited(NamedTuple):
    """What a plain function has returned that is to be awaited, in the loop."""

    result: Awaitable[Any]


def _success(codec: Codec, result: Any, info: StepInfo) -> Ok:
    return Ok(codec.encode_result(result, "the result of step", info.path))


async def payload(value: Value, payloads: Payloads) -> bytes:
    """The bytes of a value, wherever they are kept."""
    return await persistently(lambda: payloads.get(value.sha256)) if isinstance(value, Blob) else value


async def of_what_is_undone(raw: bytes, payloads: Payloads) -> bytes:
    """The arguments of a handler: the result of what it undoes, and its arguments."""
    done = values.decode(raw, Done, "what is to be undone")
    args, kwargs = values.decode(await payload(done.args, payloads), tuple[list[msgspec.Raw], dict[str, msgspec.Raw]], "the arguments of what is to be undone")
    return values.encode(((msgspec.Raw(await payload(done.result, payloads)), *args), kwargs), "the arguments of what undoes")


async def _inside(info: StepInfo, work: Awaitable[Any]) -> Any:
    """Await `work` where `step_info()` answers; what is called back from outside of it must not be taken for the step."""
    token = running.set(info)
    try:
        return await work
    finally:
        running.reset(token)


def failure(fn: Any, error: BaseException, mask: Mask = NO_MASK) -> Err:
    """What an error that a step raised comes to: whether it may be tried again, and when at the earliest. Nothing that was raised can fail here."""
    try:
        return _failure(fn, error, mask)
    except BaseException as wrong:  # its class does not even bear being looked at, or what the retry rule asks has failed
        return Err("fatal", 1, error_info(wrong, mask))


def _failure(fn: Any, error: BaseException, mask: Mask) -> Err:
    match error:
        case Rollback():
            return Err("rollback", 1, error_info(error, mask))
        case ProgrammingError() | LogDamaged() | Fatal():
            return Err("fatal", 1, error_info(error, mask))
        case KeyboardInterrupt() | SystemExit():
            return Err("fatal", 1, ErrorInfo(type(error).__name__, "raised in a step; it does not end the engine"))
        case asyncio.CancelledError():
            return Err("failed", 1, ErrorInfo("CancelledError", "the step cancelled itself"))
    after_s = error.wanted_s if isinstance(error, RetryAfter) else None
    if not isinstance(fn, Step):
        return Err("failed", 1, error_info(error, mask), after_s=after_s)
    info = error_info(error, mask, remains(error, fn.raises))
    return Err("failed", 1, info, after_s=after_s) if fn.retry.again(error) else Err("fatal", 1, info)
