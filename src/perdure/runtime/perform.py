"""Performing a call: the function runs once, and whatever comes of it is an outcome."""

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any

import msgspec

from perdure.core import values
from perdure.core.errors import ErrorInfo, Fatal, LogDamaged, ProgrammingError, RetryAfter, Rollback
from perdure.core.ops import Err, Ok, Outcome
from perdure.core.values import Blob, Value
from perdure.programs.code.codec import codec_of
from perdure.programs.code.declare import Step, Undo, waits
from perdure.programs.code.failures import error_info
from perdure.programs.code.info import StepInfo, running
from perdure.programs.code.undo import Done
from perdure.runtime.holder import persistently
from perdure.runtime.payloads import Payloads
from perdure.runtime.secrets import reveal

Busy = Callable[["asyncio.Future[Any]"], None]
"""What is told of the future of the thread in which a sync step runs."""

Performer = Callable[[Any, Value, StepInfo, Payloads, Executor | None, Busy], Awaitable[Outcome]]
"""Makes a try of a call, as `perform` does."""


async def perform(fn: Any, args: Value, info: StepInfo, payloads: Payloads, threads: Executor | None, busy: Busy) -> Outcome:
    """Run `fn` with the encoded arguments, which may be a blob, with the secrets that it is given in their places. What comes of it has none of them.

    Raises:
        asyncio.CancelledError: nobody wants the answer any more.
    """
    outcome = await _performed(fn, args, info, payloads, threads, busy)
    return info.life.mask.outcome(outcome) if info.life is not None and info.life.mask else outcome


async def _performed(fn: Any, args: Value, info: StepInfo, payloads: Payloads, threads: Executor | None, busy: Busy) -> Outcome:
    try:
        raw = await payload(args, payloads)
        if isinstance(fn, Undo):
            fn, raw = fn.step, await of_what_is_undone(raw, payloads)
        if info.life is not None and info.life.places:
            raw = await reveal(raw, info.life, threads)
        codec, inner, is_async = (fn.codec, fn.fn, fn.is_async) if isinstance(fn, Step) else (codec_of(fn), fn, waits(fn))
        positional, named = codec.decode_args(raw, "the arguments of step", info.path)
        if is_async:
            result = await _inside(info, inner(*positional, **named))
        else:
            context = contextvars.copy_context()
            context.run(running.set, info)
            thread = asyncio.get_running_loop().run_in_executor(threads, context.run, lambda: inner(*positional, **named))
            busy(thread)
            result = await asyncio.shield(thread)
            if inspect.isawaitable(result):
                result = await _inside(info, result)
        return Ok(values.encode(result, "the result of step", info.path))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return failure(fn, error)
    except BaseException as error:
        return failure(fn, error)


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


def failure(fn: Any, error: BaseException) -> Err:
    """What an error that a step raised comes to: whether it may be tried again, and when at the earliest."""
    match error:
        case ProgrammingError() | LogDamaged() | Fatal() | Rollback():
            return Err("fatal", 1, error_info(error))
        case KeyboardInterrupt() | SystemExit():
            return Err("fatal", 1, ErrorInfo(type(error).__name__, "raised in a step; it does not end the engine"))
        case asyncio.CancelledError():
            return Err("failed", 1, ErrorInfo("CancelledError", "the step cancelled itself"))
    info, after_s = error_info(error), error.after_s if isinstance(error, RetryAfter) else None
    if not isinstance(fn, Step):
        return Err("failed", 1, info, after_s=after_s)
    if isinstance(error, fn.raises):
        try:
            data = values.encode(list(error.args), "the arguments of an error")
        except ProgrammingError as unencodable:
            return Err("fatal", 1, error_info(unencodable))
        info = ErrorInfo(info.type, info.message, info.traceback, data)
    try:
        again = fn.retry.again(error)
    except Exception as wrong:
        return Err("fatal", 1, error_info(wrong))
    return Err("failed", 1, info, after_s=after_s) if again else Err("fatal", 1, info)
