"""What one run of an agent knows: the options of its steps, and the failure that ends it.

A tool that fails for good ends the run by cancelling it. If the error went through the SDK instead, the SDK would give the other tools of the same answer
some time to end, by a clock that a workflow does not have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, Never, TypeVar

from agents import AgentsException, RunConfig, UserError
from agents.items import TResponseStreamEvent
from openai import APIStatusError, OpenAIError

from perdure.agent_steps import AgentStepOptions, agent_step, is_refusal
from perdure.code.context import current_context
from perdure.code.step_environment import Resource
from perdure.core.errors import StepFailed, WrongVerb

T = TypeVar("T")

StreamHandler = Callable[[TResponseStreamEvent], Awaitable[None]]
"""The function that gets the events of a model's answer while they arrive."""

LOCKED = "conversation_locked"
"""The code of a refusal that a later request does not get, although its status says so: another request of the same conversation is going on."""

MODEL_ERRORS = (AgentsException, OpenAIError)
"""Errors of models that the workflow receives as themselves."""


@dataclass(frozen=True)
class RunSettings:
    """How the steps of an agent run, as `PerdureRunner` was told."""

    model: AgentStepOptions = field(default_factory=AgentStepOptions)
    tools: AgentStepOptions = field(default_factory=AgentStepOptions)
    tool_options: Mapping[str, AgentStepOptions | Literal[False]] = field(default_factory=dict)
    mcp: AgentStepOptions = field(default_factory=AgentStepOptions)
    sessions: AgentStepOptions = field(default_factory=AgentStepOptions)
    context: Resource[Any] | None = None
    on_event: StreamHandler | None = None


@dataclass(eq=False)
class AgentRun:
    """One run. `plain_config` is for agents that a tool runs within its step."""

    settings: RunSettings
    plain_config: RunConfig
    failure: BaseException | None = None
    task: asyncio.Task[Any] | None = None

    async def perform(self, running: Callable[[], Awaitable[T]]) -> T:
        """Runs the SDK until it returns or a tool fails for good."""
        token = _current.set(self)  # a task has the variables of the moment in which it is made
        try:
            self.task = asyncio.ensure_future(running())
        finally:
            _current.reset(token)
        try:
            result: T = await self.task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if self.failure is None or (current is not None and current.cancelling()):
                raise
            raise self.failure from None
        if self.failure is not None:
            raise self.failure
        return result

    async def fail(self, error: BaseException) -> Never:
        """Ends the run with an error."""
        if self.failure is None and self.task is not None:
            self.failure = error
            self.task.cancel()
        await asyncio.get_running_loop().create_future()  # until the cancellation arrives
        raise error


_current: ContextVar[AgentRun] = ContextVar("perdure_agent_run")


def current_run() -> AgentRun:
    """Returns the run that goes on here. Copies of agents belong to none, so that a later run may continue with them.

    Raises:
        UserError: the copy of an agent was given to the runner of the SDK.
    """
    run = _current.get(None)
    if run is None:
        raise UserError("An agent of a result of PerdureRunner was run by Runner. Use PerdureRunner().run(...) for it")
    return run


async def run_step(
    name: str,
    perform: Callable[[], Awaitable[Any]],
    options: AgentStepOptions,
    *,
    raises: tuple[type[Exception], ...] = (),
    interrupted: Any = None,
) -> Any:
    """Runs a request of an agent as a step of the workflow; returns what it returns, as plain data, or `interrupted` if it is in doubt and not repeated.

    Raises:
        StepFailed: the attempts are used up, or another one is useless.
        WrongVerb: the workflow is no longer running here.
    """
    context = current_context()
    if context is None:
        raise WrongVerb(f"{name} was begun in a workflow and continues outside of it", "await the agent in the workflow that runs it")
    try:
        return await context.step(agent_step(name, perform, options, raises, is_final))
    except StepFailed as failed:
        if failed.kind == "interrupted" and interrupted is not None:
            return interrupted
        raise


def is_final(error: BaseException) -> bool:
    """Returns whether the same request would fail again: it is wrong, or the provider has refused it for what it is."""
    if isinstance(error, APIStatusError):
        return is_refusal(error.status_code) and error.code != LOCKED
    return isinstance(error, AgentsException)
