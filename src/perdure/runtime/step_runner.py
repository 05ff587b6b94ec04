"""Runs one attempt of a step and turns whatever happens into an outcome.

The writes of a transactional step and the message with its outcome are one commit of the database. So the message exists exactly if the writes do, and the
engine that continues the execution finds it before anything else.
"""

import asyncio
import contextvars
import dataclasses
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from perdure.code.carried_context import restore_context
from perdure.code.declarations import Step, UndoHandler, returns_awaitable
from perdure.code.exception_data import encode_exception, error_info
from perdure.code.function_codec import FunctionCodec, codec_of_function
from perdure.code.step_environment import StepInfo, current_step
from perdure.core import error_codes, messages, values
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import ErrorInfo, Fatal, LogDamaged, ProgrammingError, RetryAfter, Rollback
from perdure.core.operations import Failure, Outcome, Success
from perdure.core.secret_masks import NO_MASK, Mask
from perdure.core.undo_plan import UndoArguments
from perdure.core.values import Blob, Value, offload_if_large
from perdure.runtime.blob_loader import BlobCache
from perdure.runtime.call_secrets import resolve_secrets
from perdure.runtime.holder import retry_with_backoff
from perdure.runtime.step_resources import DaemonThreads
from perdure.runtime.trace_context import carry_traces
from perdure.stores.protocol import TRANSACTIONS, Committed, Post, Store, TransactionGuard, TransactionRaised

T = TypeVar("T")

carry_traces()

ThreadCallback = Callable[["asyncio.Future[Any]"], None]
"""A callback that receives the future of the thread in which a sync step runs."""

NOT_BEGUN_FAILURE = Failure("cancelled", 0, ErrorInfo(error_codes.CANCELLED, "its result was no longer needed before it was begun"))
"""The outcome of an attempt that was cancelled before its function was called. The log records it in another form."""

StepRunner = Callable[[Any, Value, StepInfo, BlobCache, Executor | None, ThreadCallback], Awaitable[Outcome]]
"""Performs an attempt of a call, as `run_step` does. Tests replace it."""


async def run_step(fn: Any, args: Value, info: StepInfo, payloads: BlobCache, threads: Executor | None, busy: ThreadCallback) -> Outcome:
    """Runs `fn` with the encoded arguments, which may be a blob, and with its secrets. The outcome has the secrets masked.

    Everything that the function returns or raises becomes an outcome. If the attempt is cancelled while it waits for a thread or for its arguments, the
    function is not called, and the outcome is `NOT_BEGUN_FAILURE`.

    Raises:
        asyncio.CancelledError: the task was cancelled, mostly because the execution no longer needs the outcome.
    """
    try:
        outcome = await _run_step(fn, args, info, payloads, threads, busy)
        return info.mask.outcome(outcome) if info.mask else outcome
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return failure_of_exception(fn, error, info.mask)
    except BaseException as error:  # the user's step may raise anything; the error becomes its outcome
        outcome = failure_of_exception(fn, error, info.mask)
        return info.mask.outcome(outcome) if info.mask else outcome


async def ignore_own_cancellation(attempt: Awaitable[T], is_wanted: Callable[[], bool], task: "asyncio.Task[Any] | None") -> T | Failure:
    """Awaits an attempt that runs in this `task`, and returns a failure if its function cancels the task.

    The runtime cancels the task only after `is_wanted` has become false, so while it is true the function itself has cancelled it.

    Raises:
        asyncio.CancelledError: the outcome is no longer wanted.
    """
    assert task is not None, "an attempt runs in a task"
    try:
        outcome: T | Failure = await attempt
    except asyncio.CancelledError:
        if not is_wanted():
            raise
        outcome = Failure("failed", 1, ErrorInfo("CancelledError", "the step cancelled the task that it runs in"))
    if task.cancelling() and is_wanted():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)  # the function has cancelled the task at its end, and asyncio delivers that here
        while task.cancelling():
            task.uncancel()
    return outcome


def failure_of_generator_exit(fn: Any, error: GeneratorExit, me: "asyncio.Task[Any] | None", mask: Mask) -> Failure:
    """Returns the failure for a `GeneratorExit` that a step has raised: Python closes the coroutines around it, so only the outermost one can catch it.

    Raises:
        GeneratorExit: the coroutine itself is being closed, and its task does not continue.
    """
    try:
        running = asyncio.current_task()
    except RuntimeError:
        running = None
    if running is None or running is not me:
        raise error
    return failure_of_exception(fn, error, mask)


async def _run_step(fn: Any, args: Value, info: StepInfo, payloads: BlobCache, threads: Executor | None, busy: ThreadCallback) -> Outcome:
    raw = args if type(args) is bytes else await load_value(args, payloads)
    if isinstance(fn, UndoHandler):
        fn, raw = fn.step, await undo_arguments(raw, payloads)
    if info.life is not None and info.life.places:
        raw = await resolve_secrets(raw, info.life, threads)
    codec, inner, is_async = (fn.codec, fn.fn, fn.is_async) if isinstance(fn, Step) else (codec_of_function(fn), fn, returns_awaitable(fn))
    positional, named = codec.decode_args(raw, "the arguments of step", info.path)
    restore_context(info.carried)
    loop = asyncio.get_running_loop()

    if is_async:
        if not info.begin(loop.time()):
            return NOT_BEGUN_FAILURE
        token = current_step.set(info)  # as `_await_in_step` does, without a further coroutine for each step
        try:
            result = await inner(*positional, **named)
        finally:
            current_step.reset(token)
        return _success_of_result(codec, result, info)

    def call() -> Outcome | _AwaitableResult:
        """Calls the function and encodes its result, both in the thread, because a future can't carry a `StopIteration`."""
        if not info.begin(loop.time()):
            return NOT_BEGUN_FAILURE
        try:
            result = inner(*positional, **named)
            return _AwaitableResult(result) if inspect.isawaitable(result) else _success_of_result(codec, result, info)
        except BaseException as error:  # as above
            return failure_of_exception(fn, error, info.mask)

    context = contextvars.copy_context()
    context.run(current_step.set, info)
    # A loop of another class decides itself what a thread is: in virtual time it is inline.
    if isinstance(threads, DaemonThreads) and isinstance(loop, asyncio.BaseEventLoop):
        thread = threads.run(partial(context.run, call))
    else:
        thread = loop.run_in_executor(threads, context.run, call)
    busy(thread)
    came = await asyncio.shield(thread)
    return _success_of_result(codec, await _await_in_step(info, came.result), info) if isinstance(came, _AwaitableResult) else came


class _AwaitableResult(NamedTuple):
    """An awaitable that a plain function has returned, to be awaited on the event loop."""

    result: Awaitable[Any]


def _success_of_result(codec: FunctionCodec, result: Any, info: StepInfo) -> Success:
    return Success(codec.encode_result(result, "the result of step", info.path))


async def load_value(value: Value, payloads: BlobCache) -> bytes:
    """Returns the bytes of a value, which may be in a blob."""
    return await retry_with_backoff(lambda: payloads.get(value.sha256)) if isinstance(value, Blob) else value


async def undo_arguments(raw: bytes, payloads: BlobCache) -> bytes:
    """Returns the arguments of an undo handler: the result of its step, followed by the arguments of the step."""
    done = values.decode(raw, UndoArguments, "what is to be undone")
    args, kwargs = values.decode(
        await load_value(done.args, payloads), tuple[list[msgspec.Raw], dict[str, msgspec.Raw]], "the arguments of what is to be undone"
    )
    return values.encode(((msgspec.Raw(await load_value(done.result, payloads)), *args), kwargs), "the arguments of what undoes")


async def _await_in_step(info: StepInfo, work: Awaitable[Any]) -> Any:
    """Awaits `work` with `step_info()` set. The setting ends with it, so that later callbacks do not count as part of the step."""
    token = current_step.set(info)
    try:
        return await work
    finally:
        current_step.reset(token)


def failure_of_exception(fn: Any, error: BaseException, mask: Mask = NO_MASK) -> Failure:
    """Returns the failure for an exception of a step: whether the step may be retried, and when at the earliest. It never raises."""
    try:
        return _classified_failure(fn, error, mask)
    except BaseException as wrong:  # a broken exception class, or a condition of the retry policy that raised
        return Failure("fatal", 1, error_info(wrong, mask))


def _classified_failure(fn: Any, error: BaseException, mask: Mask) -> Failure:
    match error:
        case Rollback():
            return Failure("rollback", 1, error_info(error, mask))
        case ProgrammingError() | LogDamaged() | Fatal():
            return Failure("fatal", 1, error_info(error, mask))
        case KeyboardInterrupt() | SystemExit():
            return Failure("fatal", 1, ErrorInfo(type(error).__name__, "raised in a step; it does not end the engine"))
        case asyncio.CancelledError():
            return Failure("failed", 1, ErrorInfo("CancelledError", "the step cancelled itself"))
    after_s = error.wanted_s if isinstance(error, RetryAfter) else None
    if not isinstance(fn, Step):
        return Failure("failed", 1, error_info(error, mask), after_s=after_s)
    info = error_info(error, mask, encode_exception(error, fn.raises))
    return Failure("failed", 1, info, after_s=after_s) if fn.retry.again(error) else Failure("fatal", 1, info)


def is_transactional(fn: Any) -> bool:
    """Whether a step or an undo handler is transactional."""
    step = fn.step if isinstance(fn, UndoHandler) else fn
    return isinstance(step, Step) and step.transaction


async def form_of_attempt(step: Step[Any, Any, Any], args: Value, info: StepInfo, payloads: BlobCache) -> Step[Any, Any, Any]:
    """Returns a step in the form in which an attempt performs it: the transactional one, if it has one that applies to its arguments.

    If that can't be found out, the step that is returned raises the error. Without the transaction, what the step writes could be written twice.
    """
    changed = step.transactional
    if changed is None or step.form is None:
        return step
    raw = await load_value(args, payloads)
    try:
        positional, named = changed.codec.decode_args(raw, "the arguments of step", info.path)
        return changed if await _await_in_step(info, step.form.applies(*positional, **named)) else step
    except Exception as error:  # it may be any, as those of steps
        return dataclasses.replace(step, fn=partial(_raise, error), form=None)


async def _raise(error: Exception, *_: Any, **__: Any) -> None:
    raise error


async def run_transactional_step(
    store: Store, call: tuple[Step[Any, Any, Any] | UndoHandler, Value], info: StepInfo, guard: TransactionGuard, threads: Executor | None = None
) -> Outcome | None:
    """Performs an attempt of a transactional step and returns its outcome, which the commit has also sent as a message. A failure is rolled back.

    Returns None if the guard refuses the commit, because another holder has the execution or the task.
    """
    fn, args = call
    step = fn.step if isinstance(fn, UndoHandler) else fn
    database = store.part(TRANSACTIONS)
    if database is None:
        why = f"step {step.name} needs a transaction, which this store does not offer to steps; use SQLite or Postgres"
        return Failure("fatal", 1, ErrorInfo(error_codes.WRONG_STORE, why))
    try:
        payloads = BlobCache(store)
        raw = await load_value(args, payloads)
        raw = await undo_arguments(raw, payloads) if isinstance(fn, UndoHandler) else raw
        raw = await resolve_secrets(raw, info.life, threads) if info.life is not None and info.life.places else raw
        positional, named = step.codec.decode_args(raw, "the arguments of step", info.path)
        restore_context(info.carried)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # as above
        return info.mask.outcome(failure_of_exception(step, error, info.mask))

    settled: list[Success] = []

    async def work(transaction: Any) -> Post:
        token = current_step.set(info)
        try:
            result = await step.fn(transaction, *positional, **named)
        finally:
            current_step.reset(token)
        blobs: dict[str, bytes] = {}
        settled[:] = [Success(offload_if_large(info.mask.value(step.codec.encode_result(result, "the result of step", info.path)), blobs))]
        settle = messages.SettleMessage(info.path, info.attempt, settled[0])
        acks = () if guard.work is None else (guard.work,)
        return Post(
            epoch=guard.epoch,
            messages=(OutgoingMessage(info.execution, messages.attempt_answer_key(info.path, info.attempt), messages.encode_message(settle)),),
            acks=acks,
            blobs=tuple(blobs.items()),
        )

    answer = await retry_with_backoff(lambda: database.transact(guard, work))
    if isinstance(answer, TransactionRaised):
        return info.mask.outcome(failure_of_exception(step, answer.error, info.mask))
    return settled[0] if isinstance(answer, Committed) else None
