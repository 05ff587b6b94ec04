"""Steps that are completed from outside: `ctx.external`.

An attempt is a request, made by a step that is given a token, and the wait for the message of somebody who has the token. While it waits, nothing is performed
and no memory is held. A completion that fails, or does not come in time, leads to another attempt by the retry policy of the step, with a token of its own. A
request whose process died is repeated with the same token, so that either of the two is completed by whoever received it.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from perdure.code.code_program import CodeProgram
from perdure.code.declarations import Step
from perdure.core import error_codes, values
from perdure.core.completions import Completion, ExternalAttempt
from perdure.core.errors import ErrorInfo, StepFailed, Undecodable
from perdure.core.operations import Failure, ReceiveOperation, SleepOperation
from perdure.core.paths import Path, path_text

Request = Callable[[Path, Callable[[], str]], Awaitable[Any]]
"""Runs the step at a path, with the token that the second argument makes."""


async def external_result(program: CodeProgram, path: Path, step: Step[Any, Any, Any], request: Request, kind: Any) -> Any:
    """Requests something and waits until it is completed from outside, attempt by attempt; returns the value as a `kind`.

    Raises:
        StepFailed: a request failed for good, the attempts are used up, or a completion said that another one is useless.
    """
    program.note_awaited(path)
    key = program.execution.key
    failures, number = 0, 0
    while True:
        number += 1
        attempt = ExternalAttempt(key, path, number)
        if _failed_before(program, attempt):
            continue
        await request(attempt.request, partial(_token, program, attempt))
        result = await _completed_value(program, attempt, step, kind)
        if not isinstance(result, Failure):
            return result[0]
        failures += 1
        program.remember(attempt.failure, partial(values.encode, result.error, "a failure"))
        if result.kind == "fatal" or failures >= step.rule.max:
            raise StepFailed(path_text(path), "exhausted" if result.kind == "failed" else result.kind, failures, result.error)
        await program.settle((*path, ("wait", number)), SleepOperation(step.rule.delay_s(failures, f"{key}:{path}:{failures}")))


def _token(program: CodeProgram, attempt: ExternalAttempt) -> str:
    return attempt.token(0 if program.execution.started is None else program.execution.started.seed)


def _failed_before(program: CodeProgram, attempt: ExternalAttempt) -> bool:
    """Returns whether the attempt has failed before the execution was reopened or forked. It is then not repeated, and does not count."""
    known = program.is_next(attempt.failure) if program.replaying else attempt.failure in program.execution.recalled_results.known
    if known:
        program.remember(attempt.failure, lambda: values.ENCODED_NONE)
    return known


async def _completed_value(program: CodeProgram, attempt: ExternalAttempt, step: Step[Any, Any, Any], kind: Any) -> tuple[Any] | Failure:
    """Waits for the completion of an attempt; returns its value, or its failure."""
    heartbeats, until_s, wait_s = 0, None, step.timeout_s
    while True:
        path = attempt.wait_after(heartbeats)
        limits_s = [one_s for one_s in (wait_s, step.heartbeat_s) if one_s is not None]
        settled = await program.settle(path, ReceiveOperation((attempt.message_name,), timeout_s=min(limits_s, default=None)))
        if not settled.messages:
            is_silent = wait_s is None or (step.heartbeat_s is not None and step.heartbeat_s < wait_s)
            why = f"no heartbeat within {step.heartbeat_s:g} s" if is_silent else f"not completed within {step.timeout_s:g} s"
            return Failure("timeout", 1, ErrorInfo(error_codes.TIMEOUT, why))
        message: Completion = program.decode(settled.messages[0].body, Completion, path)
        if not message.heartbeat:
            return _value_of(message, path, kind)
        if step.timeout_s is not None:
            until_s = settled.opened_at_s + step.timeout_s if until_s is None else until_s
            wait_s = max(until_s - settled.at_s, 0.0)
        heartbeats += 1


def _value_of(message: Completion, path: Path, kind: Any) -> tuple[Any] | Failure:
    if message.error is not None:
        return Failure("fatal" if message.final else "failed", 1, message.error)
    try:
        return (values.decode(message.value, kind, "the value of", path),)
    except Undecodable as error:
        return Failure("failed", 1, ErrorInfo(Undecodable.code, str(error)))
