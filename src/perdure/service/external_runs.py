"""Reports on executions that are run externally: by a program outside, which knows the execution and says how its work goes.

An execution is run externally while a step in it waits for its completion (`ctx.external`). What the program reports completes that step, once, or shows that
the work is alive. If several steps wait, a report names one by its token. Of an execution that waits for no such completion, nothing can be reported: what an
engine or a worker performs is known from them.
"""

from typing import Any, Literal

from perdure.core import values
from perdure.core.completions import Completion, bad_token, read_token
from perdure.core.errors import CompletionRefused, ErrorInfo, HasEnded
from perdure.core.paths import Key, path_text
from perdure.service.step_completions import complete_attempt, error_of, report_heartbeat, waiting_attempts
from perdure.service.store_access import StoreAccess

ReportedOutcome = Literal["completed", "failed"]
ReportedStatus = Literal["running", "completed", "failed"]

A_RUN = "an external run"


async def report_outcome(access: StoreAccess, key: Key, token: str, status: ReportedOutcome, value: bytes, error: ErrorInfo | None) -> None:
    """Completes the step that waits, durably; or fails its attempt, after which its retry policy decides.

    Raises:
        BadValue: the token is that of another execution, or of none.
        CompletionRefused, AlreadyCompleted: nothing waits for this report.
        HasEnded: the execution has ended.
    """
    chosen = await _token(access, key, token)
    if status == "completed":
        await complete_attempt(access, chosen, Completion(value=value))
    else:
        await complete_attempt(access, chosen, Completion(error=error or error_of("the runner reported a failure")))


async def report_alive(access: StoreAccess, key: Key, token: str) -> None:
    """Reports that the work is alive. See `report_outcome` for what is raised; the work can be stopped then."""
    await report_heartbeat(access, await _token(access, key, token))


def reported_value(outputs: bytes, steps: Any) -> bytes:
    """The result of a run with the results of its steps, as the runner has reported them; without `steps`, the `outputs` alone."""
    return outputs if steps is None else values.encode({"outputs": values.decode(outputs, Any, "outputs"), "steps": steps}, "a report")


async def _token(access: StoreAccess, key: Key, token: str) -> str:
    """The token of the attempt that a report is about: the given one, or that of the only attempt that waits."""
    if token:
        if read_token(token).attempt.key != key:
            raise bad_token(token)
        return token
    execution = await access.folds.of(key).refresh()
    waiting = waiting_attempts(execution)
    if len(waiting) == 1 and execution.started is not None:
        return waiting[0].token(execution.started.seed)
    if execution.ended is not None:
        raise HasEnded(key, execution.status, "a report")
    if waiting:
        listed = ", ".join(path_text(one.path) for one in waiting)
        raise CompletionRefused(key, A_RUN, f"several steps wait for their completion ({listed}), so the report has to give the token of one")
    raise CompletionRefused(key, A_RUN, "no step in it waits for a completion from outside")
