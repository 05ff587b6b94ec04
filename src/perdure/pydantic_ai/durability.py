"""The capability `PerdureDurability`: in a workflow, all I/O of an agent of pydantic-ai is made of steps; elsewhere, the agent is as it would be without.

The workflow runs the agent: its graph, instructions, validators and the choice of the next tool, which must be deterministic like all of a workflow. Plain
functions among these are called at once and not in a thread. Model requests, tools and handlers of events run in steps, on the loop of the engine.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import AgentRunResult, DeferredToolRequests, DeferredToolResults
from pydantic_ai.agent import AbstractAgent, EventStreamHandler
from pydantic_ai.capabilities import WrapRunHandler
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    conversation_id_from_run_id,
    replay_scope,
)
from pydantic_ai.messages import AgentStreamEvent
from pydantic_ai.models import Model
from pydantic_ai.tools import AgentDepsT, RunContext

from perdure.agent_steps import AgentStepOptions, approval_options, checked_options
from perdure.code.approval_requests import ApproveKeywords
from perdure.code.context import Context, current_context, shared_context
from perdure.code.step_environment import Resource
from perdure.core.errors import Fatal, WrongVerb
from perdure.pydantic_ai.operation_backend import METADATA_KEY, THREADS, StepOperationBackend, operation_options
from perdure.pydantic_ai.tool_approvals import decide_tools

_EVENTS: TypeAdapter[Any] = TypeAdapter(AgentStreamEvent)


class PerdureDurability(BaseDurabilityCapability[AgentDepsT]):
    """Makes an agent of pydantic-ai durable in a workflow: ``Agent(model, name="shopper", capabilities=[PerdureDurability()])``.

    Each model request, each call of a tool and each call of an MCP server is a step: it is recorded once, and after a crash what has settled is not repeated.
    The name of the agent is part of the names of its steps, so a running execution needs it unchanged. An agent in a tool is part of the tool's step.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Perdure",
        durable_unit_noun="step",
        durable_container_noun="workflow",
        codec=JSON_CODEC,
        serialization_failure=lambda error: Fatal(f"The result of a step of an agent can't be stored: {error}. Return plain data, or what pydantic can write."),
        # A step may not run on the loop of the workflow, nor the other way round, so each step enters what it needs.
        toolset_lifecycles={"function": "enter-never", "mcp": "enter-never", "dynamic": "enter-never"},
        tool_config_key=METADATA_KEY,
        accepts_cancellation_token=False,
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
    )

    def __init__(
        self,
        *,
        name: str | None = None,
        models: Mapping[str, Model] | None = None,
        model: AgentStepOptions | None = None,
        tools: AgentStepOptions | None = None,
        mcp: AgentStepOptions | None = None,
        deps: Resource[AgentDepsT] | None = None,
        approvals: ApproveKeywords | bool = False,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        events: AgentStepOptions | None = None,
        emits: bool = False,
    ) -> None:
        """Declares how an agent runs in workflows.

        `name` takes the place of the agent's in the names of steps. `models` are the further models that runs may use, by name. `model`, `tools`, `mcp` and
        `events` are the options of the steps that ask models, call tools, call MCP servers, and handle events; the metadata ``{"perdure": {...}}`` of a tool
        replaces single ones, and ``{"perdure": False}`` lets the workflow call the tool itself, without a step. `deps` is the resource that steps have as
        ``ctx.deps``. With `approvals`, which may be options of `ctx.approve`, each tool that requires an approval asks people. The `event_stream_handler`
        gets the events of a model's response in the step of the request while they arrive, and each other event in a step. With `emits`, the workflow appends
        each event to the stream of the execution, those of a response after it is recorded.

        Raises:
            BadValue: an option of a step is unknown, or its value is not accepted.
        """
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)
        self.deps = deps
        self.approvals = approval_options(approvals)
        self.emits = emits
        self._options = operation_options(
            model=checked_options("PerdureDurability(model)", model),
            tool=checked_options("PerdureDurability(tools)", tools),
            mcp=checked_options("PerdureDurability(mcp)", mcp),
            event=checked_options("PerdureDurability(events)", events),
        )

    @property
    def in_durable_context(self) -> bool:
        """True in workflow code, and False in a step or elsewhere."""
        return current_context() is not None

    def get_durable_operation_backend(self) -> StepOperationBackend:
        """Returns what runs the operations of the agent as steps."""
        return StepOperationBackend(agent_name=self.name, default_model_id=self.default_model_id, options=self._options, deps=self.deps)

    def get_default_run_id(self) -> str | None:
        """Returns an id that is the same on every replay."""
        context = current_context()
        return None if context is None else str(context.uuid())

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Returns an id that is the same on every replay."""
        return conversation_id_from_run_id(run_id) if self.in_durable_context else None

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Runs the agent: in a workflow without threads, with durable waits, and without traces of what is replayed."""
        if not self.in_durable_context:
            return await handler()
        with AbstractAgent.using_thread_executor(THREADS), AbstractAgent.using_sleep(_sleep), shared_context(f"agent:{self.name}"), replay_scope():
            return await super().wrap_run(ctx, handler=handler)

    async def handle_deferred_tool_calls(self, ctx: RunContext[AgentDepsT], *, requests: DeferredToolRequests) -> DeferredToolResults | None:
        """Asks people about the tools that require an approval, if that was declared."""
        context = current_context()
        if context is None or self.approvals is None:
            return None
        return await decide_tools(context, self.name, requests, self.approvals)

    @property
    def has_wrap_run_event_stream(self) -> bool:
        """True if the events of a run are handled or emitted."""
        return (self.emits and self.in_durable_context) or super().has_wrap_run_event_stream

    async def wrap_run_event_stream(self, ctx: RunContext[AgentDepsT], *, stream: AsyncIterable[AgentStreamEvent]) -> AsyncIterable[AgentStreamEvent]:
        """Hands out the events of a run, and appends them to the stream of the execution if that was declared."""
        async for event in super().wrap_run_event_stream(ctx, stream=stream):
            context = current_context() if self.emits else None
            if context is not None:
                context.emit(_EVENTS.dump_python(event, mode="json"))
            yield event


async def _sleep(seconds: float) -> None:
    await _workflow("a wait of an agent").sleep(max(seconds, 0.0))


def _workflow(what: str) -> Context:
    context = current_context()
    if context is None:
        raise WrongVerb(f"{what} was begun in a workflow and continues outside of it", "await the agent in the workflow that runs it")
    return context
