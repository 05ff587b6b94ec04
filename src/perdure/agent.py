"""The public class `Agent`: a workflow that a language model drives through tools."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, checked_name
from perdure.core.errors import BadValue
from perdure.definitions.kinds.agents.agent_profile import REPAIRS, AgentProfile
from perdure.definitions.kinds.agents.agent_task import AgentTask, ApiSource, Budget
from perdure.definitions.kinds.agents.agent_tools import AgentTool, schema_of, tool_of
from perdure.definitions.kinds.agents.agent_workflow import perform_agent_task
from perdure.definitions.kinds.agents.built_in_tools import ToolContext
from perdure.definitions.kinds.deployment import NOTHING_MORE, Deployment
from perdure.definitions.kinds.kind_registry import KindRegistry
from perdure.definitions.kinds.models.model_messages import Attachment
from perdure.workflow_function import Workflow

__all__ = ["Agent", "AgentTask", "Attachment", "Budget"]

R_co = TypeVar("R_co", covariant=True)

TAKES = {
    "type": "object",
    "properties": {"task": {"type": "string", "description": "what the agent should do, with everything that it must know"}},
    "required": ["task"],
}
"""The JSON Schema of the input that a model passes to an agent that it uses as a tool."""


class Agent(Workflow[[AgentTask | str], R_co]):
    """A workflow in which a model decides which tools to use.

        triage = Agent("triage", model="large", tools=[search], output=Ticket)
        triage.run("Look at ticket 7")

    Each model call and each tool call is an operation, so a crash repeats none that has settled. A fork from ``model#2`` with another task, such as
    ``AgentTask(prompt=..., model="small")``, keeps the first model call and its tool calls.
    """

    def __init__(
        self,
        name: str,
        *,
        model: str = "",
        instructions: str = "",
        tools: Sequence[Any] = (),
        handoffs: Sequence[Workflow[..., Any]] = (),
        output: type[R_co] | dict[str, Any] | None = None,
        budget: Budget | None = None,
        approve: Sequence[str] = (),
        temperature: float | None = None,
        max_tokens: int | None = None,
        repairs: int = REPAIRS,
        stream: bool = False,
        about: str = "",
        deployment: Deployment = NOTHING_MORE,
    ) -> None:
        """Declares an agent.

        `tools` are steps, functions, workflows, definitions, agents, and names of Perdure's built-in tools and kinds; or operations of an API as
        ``{"openapi": {"url": …}, "operations": […]}``. `handoffs` are agents, or other workflows, to which it may hand its task over: their answer is then its
        own. `output` is a type or a JSON Schema; without one, the answer is text. Each use of a tool named in `approve` waits for an approval. An answer that
        does not fit `output` is corrected up to `repairs` times. With `stream`, readers see its answers while they come (`handle.live_text`). `about` is the
        description that other agents see when this one is their tool.

        Raises:
            BadValue: an argument is invalid.
        """
        workflows = {one.code.name: one for one in (*tools, *handoffs) if isinstance(one, Workflow)}
        is_type = output is not None and not isinstance(output, dict)
        self.profile = AgentProfile(
            checked_name(name, "agent"),
            ToolContext(_by_name(tools, handoffs), KindRegistry(deployment), workflows, deployment).find,
            (*_names(tools), *_names(handoffs)),
            tuple(_operations(name, one) for one in tools if isinstance(one, Mapping)),
            model=model,
            instructions=instructions,
            schema=schema_of(output, f"the output of {name}") if is_type else output,  # type: ignore[arg-type]  # it is one of the two
            kind=output if is_type else Any,
            budget=Budget() if budget is None else budget,
            approve=approve,
            temperature=temperature,
            max_tokens=max_tokens,
            repairs=repairs,
            stream=stream,
            deployment=deployment,
        )
        self.about, self.takes = about or instructions, TAKES
        super().__init__(_workflow(self.profile), lambda: list(workflows.values()))

    def __repr__(self) -> str:
        return f"<agent {self.code.name}>"


def _workflow(profile: AgentProfile) -> CodeWorkflow:
    """The workflow that runs the agent and returns its answer.

    Raises:
        BadValue: the profile is not sound.
    """
    _expect_sound(profile)

    async def agent(ctx: Context, task: AgentTask | str) -> Any:
        return (await perform_agent_task(ctx, profile, task)).output

    agent.__annotations__ = {"ctx": Context, "task": AgentTask | str, "return": profile.kind}
    return CodeWorkflow(agent, profile.name)


def _by_name(tools: Sequence[Any], handoffs: Sequence[Workflow[..., Any]]) -> dict[str, Any]:
    given = [*(one for one in tools if not isinstance(one, str | Mapping)), *map(_handoff, handoffs)]
    return {tool_of(one).name: one for one in given}


def _names(tools: Sequence[Any]) -> list[str]:
    return [one if isinstance(one, str) else tool_of(one).name for one in tools if not isinstance(one, Mapping)]


def _handoff(workflow: Workflow[..., Any]) -> AgentTool:
    """The tool by which an agent hands its task over."""
    tool = tool_of(workflow)
    about = f"Hand the task over to {tool.name}, whose answer is then yours; tell everything that it must know. {tool.description}"
    return dataclasses.replace(tool, description=about.strip(), hands_over=True)


def _operations(name: str, given: Mapping[str, Any]) -> ApiSource:
    try:
        return msgspec.convert(given, ApiSource)
    except msgspec.ValidationError as error:
        raise BadValue(f"the tools of {name}", dict(given), f'operations of an API, {{"openapi": {{"url": …}}, "operations": […]}}: {error}') from None


def _expect_sound(profile: AgentProfile) -> None:
    own = profile.own
    if len(set(own)) < len(own):
        raise BadValue(f"the tools of {profile.name}", own, "tools of different names")
    _ = profile.budget.wall_s, profile.tools(AgentTask())
    for unknown in sorted(set(profile.approve) - set(own)) if not profile.apis else ():  # the names of operations are in their documents
        raise BadValue(f"approve of {profile.name}", unknown, f"a tool that it has: {', '.join(own) or 'none'}")
