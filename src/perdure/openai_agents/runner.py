"""The runner of agents in workflows.

The workflow runs what the SDK runs between requests: instructions, guardrails, hooks, handoffs and the choice of the next tool, which must be deterministic
like all of a workflow. Requests to models, tools, MCP servers and sessions run in steps, on the loop of the engine.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Literal, Never, TypeVar, Unpack, cast

from agents import Agent, Model, ModelRetrySettings, ModelSettings, RunConfig, Runner, RunResult, RunState, ToolApprovalItem, TResponseInputItem, UserError
from agents.run import RunOptions

from perdure.agent_steps import AgentStepOptions, approval_options, ask_about_tool, checked_options, rejection_reason
from perdure.code.approval_requests import ApproveKeywords
from perdure.code.context import Context, current_context, shared_context
from perdure.code.step_environment import Resource
from perdure.openai_agents.agent_run import AgentRun, RunSettings, StreamHandler
from perdure.openai_agents.durable_agents import DurableAgents, check_settings
from perdure.openai_agents.model_steps import DurableModel, DurableModelProvider
from perdure.openai_agents.session_steps import durable_session
from perdure.openai_agents.tool_steps import checked_tool_options

TContext = TypeVar("TContext")

_NO_WAITS = ModelSettings(retry=ModelRetrySettings(max_retries=0))
"""The step of a request retries, and not the SDK in the workflow."""


class PerdureRunner:
    """Runs agents of the OpenAI Agents SDK in a workflow: ``result = await PerdureRunner().run(agent, "Tea or coffee?")``.

    Each request to a model, each call of a tool and each request to an MCP server or a session is a step: it is recorded once, and after a crash what has
    settled is not repeated. The name of the starting agent is part of the names of its steps, so a running execution needs it unchanged. Elsewhere, also in a
    step, the agent runs as it would with `Runner.run`.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        model: AgentStepOptions | None = None,
        tools: AgentStepOptions | None = None,
        tool_options: Mapping[str, AgentStepOptions | Literal[False]] | None = None,
        mcp: AgentStepOptions | None = None,
        sessions: AgentStepOptions | None = None,
        context: Resource[Any] | None = None,
        approvals: ApproveKeywords | bool = False,
        on_event: StreamHandler | None = None,
    ) -> None:
        """Declares how agents run in workflows.

        `name` takes the place of the starting agent's in the names of steps. `model`, `tools`, `mcp` and `sessions` are the options of the steps that ask
        models, call function tools, and use MCP servers and sessions; `tool_options` replace single ones by the name of the tool, and with False the workflow
        calls the tool itself, without a step. `context` is the resource that tools have as ``ctx.context``. With `approvals`, which may be options of
        `ctx.approve`, each call of a tool that needs an approval asks people. `on_event` gets the events of each answer of a model while they arrive, in the
        step of the request.

        Raises:
            BadValue: an option of a step is unknown, or its value is not accepted.
        """
        self.name = name
        self.approvals = approval_options(approvals)
        self.settings = RunSettings(
            model=checked_options("PerdureRunner(model)", model),
            tools=checked_options("PerdureRunner(tools)", tools),
            tool_options=checked_tool_options(tool_options),
            mcp=checked_options("PerdureRunner(mcp)", mcp),
            sessions=checked_options("PerdureRunner(sessions)", sessions),
            context=context,
            on_event=on_event,
        )

    async def run(
        self, starting_agent: Agent[TContext], input: str | list[TResponseInputItem] | RunState[TContext], **options: Unpack[RunOptions[TContext]]
    ) -> RunResult:
        """Runs an agent until it has an output, as `Runner.run` does, with the same options; in a workflow, by steps.

        Returns:
            The result of the SDK. Its agents are copies of the given ones. A session is written before it returns.

        Raises:
            UserError: the agent needs something that a workflow does not have; the message says what to use.
            StepFailed: a request or a tool has failed for good, and its error is none that can be raised itself.
        """
        if current_context() is None:
            return await Runner.run(starting_agent, input, **options)
        with shared_context(f"agent:{self.name or starting_agent.name}"):
            return await self._run_by_steps(starting_agent, input, options)

    def run_streamed(self, *arguments: Any, **options: Any) -> Never:
        """Refuses to stream.

        Raises:
            UserError: always; the message says what to use.
        """
        raise UserError(
            "A workflow can't hand out an answer while it arrives, because a replay has it as a whole. Use PerdureRunner(on_event=...).run(agent, ...), "
            "whose handler gets each event in the step of the request; outside of a workflow, use Runner.run_streamed"
        )

    async def _run_by_steps(
        self, agent: Agent[TContext], given: str | list[TResponseInputItem] | RunState[TContext], options: RunOptions[TContext]
    ) -> RunResult:
        config = _config(options.get("run_config"))
        run = AgentRun(self.settings, config)
        inner = options.copy()
        inner["run_config"] = _durable_config(config)
        session = options.get("session")
        if session is not None:
            inner["session"] = durable_session(session, self.settings.sessions)
        durable = DurableAgents().copy_of(agent)
        result = await run.perform(lambda: Runner.run(durable, given, **inner))
        while result.interruptions and self.approvals is not None:
            state = await self._decided(result, self.approvals)
            result = await run.perform(lambda state=state: Runner.run(durable, state, **inner))  # type: ignore[misc]  # mypy can't infer the default
        return result

    async def _decided(self, result: RunResult, options: ApproveKeywords) -> RunState[Any]:
        """Asks about all calls that need an approval, at the same time; returns the state of the run with the decisions."""
        context = cast(Context, current_context())
        asked = [ask_about_tool(context, item.agent.name, item.name or "", {"arguments": _arguments(item)}, options) for item in result.interruptions]
        decisions = await asyncio.gather(*asked)
        state: RunState[Any] = result.to_state()
        for item, decision in zip(result.interruptions, decisions, strict=True):
            if decision:
                state.approve(item)
            else:
                state.reject(item, rejection_message=rejection_reason(decision))
        return state


def _arguments(item: ToolApprovalItem) -> Any:
    """Returns the arguments of a call as data, or as the model wrote them if they are no JSON."""
    try:
        return json.loads(item.arguments or "{}")
    except ValueError:
        return item.arguments


def _config(given: RunConfig | dict[str, Any] | None) -> RunConfig:
    """Returns the configuration of a run, without traces.

    Raises:
        UserError: it has something that a workflow does not have.
    """
    config = RunConfig() if given is None else RunConfig(**given) if isinstance(given, dict) else given
    if config.sandbox is not None:
        raise UserError("run_config.sandbox can't be used in a workflow. Run the agent in a step, with Runner.run")
    check_settings(config.model_settings, "run_config")
    return dataclasses.replace(config, tracing_disabled=True)


def _durable_config(config: RunConfig) -> RunConfig:
    model = config.model
    return dataclasses.replace(
        config,
        model=DurableModel(lambda: model) if isinstance(model, Model) else model,
        model_provider=DurableModelProvider(config.model_provider),
        model_settings=_NO_WAITS if config.model_settings is None else config.model_settings.resolve(_NO_WAITS),
    )
