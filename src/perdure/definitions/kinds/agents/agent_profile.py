"""The profile of an agent: its model, instructions, tools and limits, before it has a task."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.definitions.graph.policy import NO_POLICY, Policy
from perdure.definitions.kinds.agents.agent_task import AgentTask, ApiSource, Budget
from perdure.definitions.kinds.agents.agent_tools import AgentTool, ToolCallVerdict
from perdure.definitions.kinds.deployment import NOTHING_MORE, Deployment
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatRequest, ToolCall
from perdure.definitions.kinds.models.untrusted_text import RULE

USUAL = Budget()
REPAIRS = 1
"""How often the model may repair an answer before the agent fails."""

DEFAULT_PROMPT = "default"
"""The name of the default model of a deployment. A deployment with a single model needs none."""

PREFIX = f"""\
You are an agent that does one task inside of a durable workflow, by calling tools and then answering.

- Use only the tools that you are given.
{RULE}
- Tools that do not depend on each other may be called in one answer; they run side by side.
- When a tool fails you receive the reason: correct the arguments, try another way, or say in your answer that it can't be done.
- "interrupted" means that it is not known whether it happened: find out before you do it again.
- A person may have to approve a tool; a rejection is final for what was asked.
- When the task is done, answer at once and call no further tools.\
"""
"""The beginning of every system prompt. It is constant, so that providers can cache it together with the tools and instructions that follow."""


async def ask_model(request: ChatRequest, deployment: Deployment, stream: bool = False, asker: tuple[str, str] | None = None) -> ChatAnswer:
    """Requests an answer of the model that the deployment has under its name. With `stream`, its text is the live text of the step while it comes. What it
    has used is recorded for the `asker`, a workflow and a step of it (None: those that run here).
    """
    from perdure.definitions.kinds.models.model_fallback import request_answer  # here, as it takes a library that is optional
    from perdure.definitions.kinds.models.usage_recorder import Asker

    return await request_answer(request, deployment, stream, None if asker is None else Asker(*asker))


@dataclasses.dataclass(frozen=True)
class AgentProfile:
    """The profile of an agent. `find` returns the tool of a name, `own` are the default tools, `apis` further ones. Answers fit `schema` and are decoded as
    `kind`. If there are `final` tools, the agent ends when one of them has succeeded, with what that has returned, as text; other answers are refused.
    """

    name: str
    find: Callable[[str], AgentTool | None]
    own: Sequence[str] = ()
    apis: Sequence[ApiSource] = ()
    model: str = ""
    instructions: str = ""
    schema: Mapping[str, Any] | None = None
    kind: Any = Any
    budget: Budget = USUAL
    approve: Sequence[str] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    repairs: int = REPAIRS
    stream: bool = False
    final: Sequence[str] = ()
    deployment: Deployment = NOTHING_MORE
    policy: Policy = NO_POLICY

    def tools(self, task: AgentTask, of_apis: Sequence[AgentTool] = ()) -> dict[str, AgentTool]:
        """The tools for a task, in the order in which it names them, and those that are operations of an API.

        Raises:
            BadValue: a name is unknown, or two tools have it.
        """
        found: dict[str, AgentTool] = {}
        for name in self.own if task.tools is None else task.tools:
            tool = self.find(name)
            if tool is None:
                raise BadValue(f"the tools of {self.name}", name, f"one of its own tools: {', '.join(self.own) or 'none'}")
            found[name] = tool
        for tool in of_apis:
            if tool.name in found:
                raise BadValue(f"the tools of {self.name}", tool.name, "tools of different names; name the operation by its method and path")
            found[tool.name] = tool
        return {name: tool if tool.about is None else tool.about(found) for name, tool in found.items()}

    def governed(self, key: Key, task: AgentTask, call: ToolCall, verdict: ToolCallVerdict) -> ToolCallVerdict:
        """Checks a call that would be performed against the policy of the execution. `key` is the execution that started the agent."""
        if self.policy is NO_POLICY:
            return verdict
        about: dict[str, Any] = {"workflow": key.workflow, "version": task.version, "tenant": key.tenant, "id": key.id, "step": task.step}
        about |= {"kind": "agent", "tool": call.name, "input": call.args}
        for one in self.policy.of(about):
            if one.allowed_tools is not None and call.name not in one.allowed_tools:
                allowed = ", ".join(one.allowed_tools) or "none"
                return ToolCallVerdict("unauthorized", f"tried to use {call.name!r}, which is unauthorized; allowed are {allowed}")
            if one.requires_approval:
                verdict = msgspec.structs.replace(verdict, how="ask")
        said = self.policy.judge("tool", about)
        if said.deny:
            return ToolCallVerdict("unauthorized", f"may not use {call.name!r}: {said.deny}")
        return msgspec.structs.replace(verdict, how="ask", why=said.ask) if said.ask else verdict

    def request(self, task: AgentTask, tools: Mapping[str, AgentTool], schema: dict[str, Any] | None) -> ChatRequest:
        """The part of every request that does not change: all but the messages.

        Raises:
            BadValue: no model is named, and there is no default.
        """
        known = self.deployment.models
        model = task.model or self.model or (DEFAULT_PROMPT if DEFAULT_PROMPT in known else next(iter(known), "") if len(known) == 1 else "")
        if not model:
            listed = ", ".join(sorted(known)) or "none"
            raise BadValue(
                f"the model of {self.name}", model, f"the name of a model; known here are {listed}. Name one of them, or call one {DEFAULT_PROMPT!r}"
            )
        system = "\n\n".join(part for part in (PREFIX, self.instructions, task.system) if part)
        return ChatRequest(
            model=model,
            messages=(),
            system=system,
            tools=tuple(tool.spec for tool in tools.values()),
            schema=schema,
            temperature=self.temperature if task.temperature is None else task.temperature,
            max_tokens=self.max_tokens if task.max_tokens is None else task.max_tokens,
        )
