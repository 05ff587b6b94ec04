"""Runs what pydantic-ai calls a durable operation as a step of the workflow that calls it.

A step of an agent has no recorded arguments: its function is a closure over the request, which the workflow builds again on replay. So the log has what
models and tools answer, and not once more with each request the whole conversation. The names of the steps are those of pydantic-ai.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, Literal, ParamSpec, TypeVar, cast

from opentelemetry import context as telemetry
from pydantic_ai import ToolsetTool
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.durable_exec import (
    BoundDurableOperation,
    DurableOperation,
    DurableOperationId,
    JournalCallableOperationBackend,
    RoleBasedOperationConfig,
    ToolsetCallToolId,
    ToolsetValidateToolArgumentsId,
    record_durable_unit,
)
from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRequestRejectedError,
    RunCancelled,
    ToolFailed,
    UsageLimitExceeded,
    UserError,
)

from perdure.agent_steps import INTERRUPTED, AgentStepOptions, agent_step, checked_options, is_refusal
from perdure.code.context import current_context
from perdure.code.step_environment import Resource
from perdure.core.errors import StepFailed

P = ParamSpec("P")
T = TypeVar("T")
ParamsT = TypeVar("ParamsT")
WireT = TypeVar("WireT")
ResultT = TypeVar("ResultT")

METADATA_KEY = "perdure"
"""The key of a tool's metadata under which its options are."""

RAISED = (AgentRunError, UserError)
"""Errors that the workflow receives as themselves when a step has failed with one, so that an agent falls back to its next model, for example."""

FINAL = (UserError, UsageLimitExceeded, ContentFilterError, ModelRequestRejectedError, ModelQuotaExceededError, RunCancelled)
"""Errors after which the same request is not attempted again."""


def _is_final(error: BaseException) -> bool:
    """Whether the same request would fail again: it is wrong, or the provider has refused it for what it is."""
    return isinstance(error, FINAL) or (isinstance(error, ModelHTTPError) and is_refusal(error.status_code))


def operation_options(
    *, model: AgentStepOptions, tool: AgentStepOptions, mcp: AgentStepOptions, event: AgentStepOptions
) -> RoleBasedOperationConfig[AgentStepOptions]:
    """Returns the options of all operations of an agent. Those in a tool's metadata replace those of all tools, one by one."""

    def of_tool(operation_id: DurableOperationId, called: object | None, tool_name: str) -> AgentStepOptions | Literal[False]:
        base = mcp if getattr(operation_id, "toolset_kind", "mcp") == "mcp" else tool
        metadata = called.tool_def.metadata if isinstance(called, ToolsetTool) else None
        own = (metadata or {}).get(METADATA_KEY)
        if own is False:
            return False
        found = base if own is None else cast(AgentStepOptions, {**base, **checked_options(f"the options of tool {tool_name}", own)})
        if isinstance(operation_id, ToolsetValidateToolArgumentsId):  # a validator has no effect, so it may always run again
            found = cast(AgentStepOptions, {**found, "idempotent": True})
        return found

    return RoleBasedOperationConfig(model=model, event=event, capability=tool, tool=tool, resolve_tool=of_tool)


class LoopThreads(Executor):
    """The executor of plain functions of an agent: in a step the threads of the running loop; in a workflow, whose loop has none, it calls them at once."""

    runs_at_once = True

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Calls `fn` in a thread of the running loop; returns a future of this loop, which asyncio takes as it is."""
        return asyncio.get_running_loop().run_in_executor(None, partial(fn, *args, **kwargs))


THREADS = LoopThreads()


class StepOperationBackend(JournalCallableOperationBackend[AgentStepOptions]):
    """Runs each operation as a step of the current workflow. With `deps`, an operation has the open resource as its dependencies."""

    def __init__(
        self, *, agent_name: str, default_model_id: str | None, options: RoleBasedOperationConfig[AgentStepOptions], deps: Resource[Any] | None
    ) -> None:
        super().__init__(agent_name=agent_name, default_model_id=default_model_id, config=options)
        self._deps = deps

    def bind(self, operation: DurableOperation[ParamsT, WireT, ResultT]) -> BoundDurableOperation[ParamsT, WireT, ResultT]:
        """Returns the function that performs an operation."""
        if self._deps is not None:
            operation = dataclasses.replace(operation, handler=_with_resource(operation.handler, self._deps))
        return super().bind(operation)

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: AgentStepOptions,
    ) -> object:
        """Runs `body` as a step; outside of workflow code, runs it as it is.

        Raises:
            ToolFailed: the process died in a tool that must not run twice; the model is told so.
            StepFailed: the attempts are used up, or another one is useless.
        """
        context = current_context()
        if context is None:
            return await body()
        has_run = False
        span = telemetry.get_current()

        async def perform() -> Any:
            nonlocal has_run
            has_run = True
            token = telemetry.attach(span)
            try:
                with AbstractAgent.using_thread_executor(THREADS):
                    return await body()
            finally:
                telemetry.detach(token)

        try:
            return await context.step(agent_step(name, perform, config, RAISED, _is_final))
        except StepFailed as failed:
            if failed.kind == "interrupted" and isinstance(operation_id, ToolsetCallToolId):
                raise ToolFailed(INTERRUPTED) from failed
            raise
        finally:
            record_durable_unit(executed=has_run)


def _with_resource(handler: Callable[[ParamsT], Awaitable[ResultT]], deps: Resource[Any]) -> Callable[[ParamsT], Awaitable[ResultT]]:
    """Returns the handler of an operation that gives it the open resource as the dependencies of its run."""

    async def handle(params: ParamsT) -> ResultT:
        if current_context() is not None:  # the operation is part of another one, which has the resource already
            return await handler(params)
        opened = await deps
        given: Any = params
        name = "ctx" if hasattr(given, "ctx") else "run_context"
        return await handler(dataclasses.replace(given, **{name: dataclasses.replace(getattr(given, name), deps=opened)}))

    return handle
