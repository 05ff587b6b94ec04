"""Copies of agents, and of those that they hand over to, that request by steps. The agents themselves stay as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from agents import Agent, Handoff, Model, ModelSettings, RunContextWrapper, UserError
from agents.sandbox import SandboxAgent

from perdure.openai_agents.mcp_steps import checked_server
from perdure.openai_agents.model_steps import DurableModel
from perdure.openai_agents.tool_steps import durable_tool

TContext = TypeVar("TContext")


class DurableAgents:
    """The durable copies of the agents of a run. Each agent has one, also if agents hand over in a circle."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Agent[Any], Agent[Any]]] = {}

    def copy_of(self, agent: Agent[TContext]) -> Agent[TContext]:
        """Returns the copy of an agent; of a copy, itself.

        Raises:
            UserError: a tool, a server or a setting of the agent needs more than a workflow has.
        """
        if (known := self._made.get(id(agent))) is not None:
            return known[1]
        if isinstance(agent, SandboxAgent):
            raise UserError(f"Agent {agent.name} works in a sandbox, which can't be used in a workflow. Run it in a step, with Runner.run")
        check_settings(agent.model_settings, f"agent {agent.name}")
        made = agent.clone(
            model=_durable_model(agent.model),
            model_settings=agent.model_settings,
            tools=[durable_tool(tool, agent) for tool in agent.tools],
            mcp_servers=[checked_server(server, agent) for server in agent.mcp_servers],
            handoffs=[],
        )
        self._made[id(agent)] = self._made[id(made)] = (agent, made)
        made.handoffs = [self._handoff(one) for one in agent.handoffs]
        return made

    def _handoff(self, target: Agent[Any] | Handoff[Any, Any]) -> Agent[Any] | Handoff[Any, Any]:
        if isinstance(target, Agent):
            return self.copy_of(target)
        if isinstance(target.on_invoke_handoff, _HandoffCall):
            return target
        return dataclasses.replace(target, on_invoke_handoff=_HandoffCall(target.on_invoke_handoff, self))


@dataclasses.dataclass(frozen=True, eq=False)
class _HandoffCall:
    """Hands over to the copy of an agent."""

    invoke: Callable[[RunContextWrapper[Any], str], Awaitable[Any]]
    agents: DurableAgents

    async def __call__(self, ctx: RunContextWrapper[Any], arguments: str) -> Any:
        return self.agents.copy_of(cast("Agent[Any]", await self.invoke(ctx, arguments)))


def _durable_model(model: str | Model | None) -> str | Model | None:
    return DurableModel(lambda: model) if isinstance(model, Model) and not isinstance(model, DurableModel) else model


def check_settings(settings: ModelSettings | None, where: str) -> None:
    """Refuses settings by which the SDK would wait in the workflow, by a clock that it does not have.

    Raises:
        UserError: there is one.
    """
    for name in ("retry", "timeout"):
        if getattr(settings, name, None) is not None:
            instead = "Retry(...)" if name == "retry" else "'1m'"
            raise UserError(f"model_settings.{name} of {where} can't be used in a workflow. Use PerdureRunner(model={{'{name}': {instead}}})")
