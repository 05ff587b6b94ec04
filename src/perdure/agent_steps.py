"""The parts that the integrations of libraries for agents share: the options of their steps, which failures are final, and the question to people about a tool.

A step of an agent records no arguments: its function is a closure over the request, which the workflow builds again on replay.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, cast

from perdure.code.approval_requests import ApproveKeywords
from perdure.code.context import Context, VerbCall
from perdure.code.declarations import Retry, Step
from perdure.code.durations import Duration
from perdure.code.results import Decision
from perdure.core.errors import BadValue

INTERRUPTED = "The call was interrupted and is not repeated. It is not known whether it had an effect."
"""The answer that a model gets for a tool that must not run twice, and whose process has died."""

HTTP_CLIENT_ERROR, HTTP_SERVER_ERROR = 400, 500
PASSING_STATUSES = frozenset((408, 409, 425, 429))
"""The statuses of refusals that a later attempt may not get: timeout, conflict, too early, too many requests."""


class AgentStepOptions(TypedDict, total=False):
    """The options of the steps of an agent, those of `step`: the retry policy, the timeout of each attempt, the longest time between heartbeats, whether an
    attempt may be repeated after an interruption, and how long it may continue after a failure or cancellation of the execution."""

    retry: Retry
    timeout: Duration | None
    heartbeat: Duration | None
    idempotent: bool
    grace: Duration | None


_OPTIONS = AgentStepOptions.__annotations__.keys()


def checked_options(what: str, options: Mapping[str, Any] | None) -> AgentStepOptions:
    """Returns the options of a step.

    Raises:
        BadValue: one is unknown, or its value is not accepted.
    """
    given = {} if options is None else options
    if not isinstance(given, Mapping):
        raise BadValue(what, given, "options of a step, such as {'timeout': '30s'}")
    for name in given:
        if name not in _OPTIONS:
            raise BadValue(what, name, f"one of {', '.join(_OPTIONS)}")
    if not isinstance(given.get("retry", Retry()), Retry):
        raise BadValue(f"retry in {what}", given["retry"], "a Retry, such as Retry(max=3)")
    found = cast(AgentStepOptions, dict(given))
    step = agent_step(what, _nothing, found)
    _ = step.rule, step.timeout_s, step.heartbeat_s, step.grace_s
    return found


async def _nothing() -> None:
    """Takes the place of a step's function while its options are checked."""


def agent_step(
    name: str,
    fn: Callable[[], Any],
    options: AgentStepOptions,
    raises: tuple[type[Exception], ...] = (),
    is_final: Callable[[BaseException], bool] = lambda error: False,
) -> Step[[], Any, Any]:
    """Returns a step of an agent. The workflow receives errors of `raises` as themselves; after one that `is_final`, there is no further attempt."""
    retry = options.get("retry", Retry())
    given = {key: value for key, value in options.items() if key != "retry"}
    careful = dataclasses.replace(retry, should_retry=lambda error: not is_final(error) and retry.again(error))
    return Step(fn, name, retry=careful, raises=raises, **given)  # type: ignore[arg-type]  # AgentStepOptions has their types


def is_refusal(status: int) -> bool:
    """Returns whether a provider has refused a request for what it is, so that another attempt is useless."""
    return HTTP_CLIENT_ERROR <= status < HTTP_SERVER_ERROR and status not in PASSING_STATUSES


def approval_options(given: ApproveKeywords | bool) -> ApproveKeywords | None:
    """Returns the options of the approvals of tools; None if people are not asked."""
    if isinstance(given, bool):
        return {} if given else None
    return given


def ask_about_tool(context: Context, agent: str, tool: str, details: Mapping[str, Any], options: ApproveKeywords) -> VerbCall[Decision[Any]]:
    """Asks people whether an agent may use a tool. The `details` are the arguments of the call and what else is known about it."""
    asked: ApproveKeywords = {"details": {"tool": tool, **details}, **options}
    return context.approve(f"May {agent} use {tool}?", **asked)


def rejection_reason(decision: Decision[Any]) -> str:
    """Returns the reason of a rejection, as the model gets it."""
    reason = "the time to decide is over" if decision.expired else f"rejected by {decision.by}"
    return f"{reason}: {decision.comment}" if decision.comment else reason
