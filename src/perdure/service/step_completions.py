"""Completes steps from outside, for whoever has the token of an attempt.

The first completion of an attempt counts: all of them have one idempotency key, so the store and the execution keep one. Which one that is, each caller reads
afterwards; so of two callers at the same time, one receives `AlreadyCompleted`.
"""

from contextlib import suppress
from uuid import uuid4

import msgspec

from perdure.code import exception_data
from perdure.core import error_codes, messages, values
from perdure.core.completions import Completion, ExternalAttempt, bad_token, read_token
from perdure.core.errors import AlreadyCompleted, CompletionRefused, ErrorInfo, HasEnded, NotFound
from perdure.core.execution import Execution
from perdure.core.operations import CallOperation, ReceiveOperation
from perdure.core.paths import path_text
from perdure.service.execution_operations import send_signal
from perdure.service.store_access import StoreAccess

HEARTBEATS_PER_LIMIT = 3
"""How often at most the log takes a heartbeat within the time after which one is overdue."""


def error_of(error: str | BaseException) -> ErrorInfo:
    """Returns an error as data: an exception, or the text of one."""
    return exception_data.error_info(error) if isinstance(error, BaseException) else ErrorInfo(error_codes.TASK_FAILED, error)


def waiting_attempts(execution: Execution) -> list[ExternalAttempt]:
    """Returns the attempts that wait for their completion, in the order of opening."""
    opened = (ExternalAttempt.waiting_at(execution.key, path) for path, pending in execution.open.items() if isinstance(pending.op, ReceiveOperation))
    return [one for one in opened if one is not None and one.request in execution.settled]


async def complete_attempt(access: StoreAccess, token: str, completion: Completion) -> None:
    """Completes the attempt of a token, durably. It takes effect as soon as an engine runs.

    Raises:
        BadValue: the token was given to nobody.
        AlreadyCompleted: it was completed before.
        CompletionRefused: the attempt is not wanted any more.
        HasEnded, Removed: the execution has ended without it.
    """
    attempt = read_token(token).attempt
    execution = await _wanted(access, token)
    body = values.encode(msgspec.structs.replace(completion, id=uuid4().hex), "a completion")
    with suppress(HasEnded):  # in the meantime: below it is said whether with another completion
        await send_signal(access, attempt.key, messages.SignalMessage(attempt.message_name, body, _message_key(attempt)))
    counts = await _counting(access, attempt)
    if counts is None:
        execution = await access.folds.of(attempt.key).refresh()
        raise HasEnded(attempt.key, execution.status, "a completion") if execution.ended is not None else _refused(attempt, execution)
    if counts != body:
        raise _already_completed(attempt)


async def report_heartbeat(access: StoreAccess, token: str) -> None:
    """Reports that the work of an attempt is alive; without a `heartbeat` of its step, only checks that it is wanted.

    Raises:
        BadValue, AlreadyCompleted, CompletionRefused, HasEnded, Removed: as for `complete_attempt`; the work can be stopped.
    """
    attempt = read_token(token).attempt
    execution = await _wanted(access, token)
    waits = attempt.waits(execution)
    requested = execution.settled.get(attempt.request)
    if not waits or requested is None or not isinstance(requested.op, CallOperation) or requested.op.heartbeat_s is None:
        return
    since_s = (await access.store.store_time()).now_s - execution.open[waits[-1]].opened_at_s
    if since_s >= requested.op.heartbeat_s / HEARTBEATS_PER_LIMIT:
        body = values.encode(Completion(heartbeat=True), "a heartbeat")
        await send_signal(access, attempt.key, messages.SignalMessage(attempt.message_name, body, f"heartbeat:{path_text(waits[-1])}"))


async def _wanted(access: StoreAccess, token: str) -> Execution:
    """Returns the execution of a token whose attempt can be completed; see `complete_attempt` for what is raised."""
    found = read_token(token)
    attempt = found.attempt
    try:
        execution = await access.folds.of(attempt.key).refresh()
    except NotFound:
        raise bad_token(token) from None
    if execution.removed is not None:
        raise HasEnded(attempt.key, execution.status, "a completion")
    if not (execution.started is not None and found.fits(execution.started.seed)):
        raise bad_token(token)
    if await _counting(access, attempt) is not None:
        raise _already_completed(attempt)
    if execution.ended is not None:
        raise HasEnded(attempt.key, execution.status, "a completion")
    waits = attempt.waits(execution)
    if execution.cancelling is not None or not (attempt.request in execution.open or (waits and waits[-1] in execution.open)):
        raise _refused(attempt, execution)
    return execution


def _message_key(attempt: ExternalAttempt) -> str:
    return f"completion:{path_text(attempt.request)}"


async def _counting(access: StoreAccess, attempt: ExternalAttempt) -> bytes | None:
    """Returns the completion of an attempt that counts, None if there is none: what the execution has, or else what waits for an engine.

    The queue is read first. What waits there may come behind one that has left it, and that one is then found in the log.
    """
    key = _message_key(attempt)
    waiting = [messages.decode_execution_message(one.body) for one in await access.store.messages(attempt.key) if one.key == f"message:{key}"]
    execution = await access.folds.of(attempt.key).refresh()
    received = [one for path in attempt.waits(execution) if path in execution.settled for one in execution.settled[path].messages]
    bodies = [one.body for one in (*received, *execution.mailbox.messages.values()) if one.key == key]
    bodies += [one.body for one in waiting if isinstance(one, messages.SignalMessage)]
    return await access.payload(bodies[0]) if bodies else None


def _already_completed(attempt: ExternalAttempt) -> AlreadyCompleted:
    return AlreadyCompleted(attempt.key, path_text(attempt.request), "it was completed before, and the first completion counts")


def _refused(attempt: ExternalAttempt, execution: Execution) -> CompletionRefused:
    why = "the execution is being cancelled" if execution.cancelling is not None else "it has timed out, or its branch was cancelled"
    return CompletionRefused(attempt.key, path_text(attempt.request), why)
