"""The workflow of an agent: it asks the model, runs the tools that the model calls, and returns their results, until the model answers.

Decisions about an answer (which tools it may use, whether it fits the schema) are recorded with it. A replay therefore judges nothing again, even if the
tools have changed since.
"""

import asyncio
import dataclasses
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from perdure.code.builtin_workflows import COMPOSITE_CODE as COMPOSITE
from perdure.code.builtin_workflows import DESCRIPTION, USED_SIGNAL
from perdure.code.context import Context
from perdure.code.declarations import CallOptions, CodeWorkflow
from perdure.code.results import Ok
from perdure.core import values
from perdure.core.attributes import checked_attributes
from perdure.core.errors import BadAnswer, BadExpression, JoinFailed, StepFailed, Unauthorized, Undecodable
from perdure.core.operations import Failure
from perdure.core.paths import Key
from perdure.definitions.expr import json_schema as schemas
from perdure.definitions.graph.node_scope import full_schema as whole
from perdure.definitions.graph.policy import NO_POLICY, Policy
from perdure.definitions.kinds.agents.agent_conversation import (
    PREVIEW_CHARACTERS_MAX,
    RESULT_CHARACTERS_MAX,
    AgentMailbox,
    Conversation,
    ModelCallBounds,
    model_text,
    time_exceeded,
)
from perdure.definitions.kinds.agents.agent_profile import AgentProfile, ask_model
from perdure.definitions.kinds.agents.agent_task import EXCEEDED, AgentResult, AgentTask, SpentBudget, ToolUse, budget_exceeded, check_tool_budget
from perdure.definitions.kinds.agents.agent_tools import UNAUTHORIZED_MAX, AgentTool, CountedTool, ToolCallVerdict, judge_tool_call, object_schema
from perdure.definitions.kinds.agents.attachments import parse_result
from perdure.definitions.kinds.agents.built_in_tools import ToolContext
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatMessage, ToolCall
from perdure.definitions.kinds.models.untrusted_text import untrusted


class AnswerShape(msgspec.Struct, frozen=True):
    """The JSON Schema of an answer, and the closed list from which the answer chooses the next steps."""

    schema: dict[str, Any] | None = None
    choose: tuple[str, ...] = ()
    may_choose_none: bool = False


class AnswerError(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem with an answer. `is_unauthorized`: it names a next step that is not in the list. `is_final`: the model is not asked to repair it."""

    why: str
    is_unauthorized: bool = False
    is_final: bool = False


def answer_shape(task: AgentTask, own: Mapping[str, Any] | None) -> AnswerShape:
    """The shape of the answer to `task`; `own` is the schema of the agent, if it has one."""
    given = task.schema if task.schema is not None else own
    schema = whole(dict(given or {}))
    if not task.choose:
        return AnswerShape(schema)
    named = {"type": "array", "items": {"enum": list(task.choose)}, "description": "where to go on"}
    properties = {"next": named if task.may_choose_none else {**named, "minItems": 1}, "reasoning": {"type": "string", "description": "why"}}
    base = object_schema(schema or {})
    required = ["next", *(name for name in base.get("required", ()) if name != "next")]
    merged = {**base, "properties": {**base.get("properties", {}), **properties}, "required": required}
    return AnswerShape(merged, task.choose, task.may_choose_none)


def answer_error(answer: ChatAnswer, shape: AnswerShape, kind: Any = Any) -> AnswerError | None:
    """The problem with an answer that calls no tools and has to decode as `kind`; None if there is no problem."""
    if answer.finish == "filter":
        return AnswerError("the provider withheld the answer", is_final=True)
    if answer.finish == "length":
        return AnswerError("the answer was cut off, as it was longer than max_tokens; answer more briefly")
    if shape.schema is None:
        return None if answer.text or answer.data is not None else AnswerError("the answer is empty")
    data = answer_data(answer)
    if data is None:
        return AnswerError("the answer is not the data that was asked for; answer with JSON that fits the schema, and nothing else")
    return data_error(data, shape, kind)


def data_error(data: Any, shape: AnswerShape, kind: Any = Any) -> AnswerError | None:
    """The problem with data that has to fit the schema of `shape` and to decode as `kind`; None if there is no problem, or no schema."""
    if shape.schema is None:
        return None
    if shape.choose and isinstance(data, dict):
        chosen = data.get("next")
        named = [chosen] if isinstance(chosen, str) else chosen if isinstance(chosen, list) else []
        for one in named:
            if one not in shape.choose:
                return AnswerError(f"chose the step {str(one)[:60]!r}, which is not allowed; choose one of {', '.join(shape.choose)}", is_unauthorized=True)
    try:
        problems = schemas.schema_problems(shape.schema, data)
        if not problems:
            _ = values.decode(values.encode(data, "the answer"), kind, "the answer")
    except BadExpression as error:
        return AnswerError(str(error), is_final=True)
    except Undecodable as error:
        problems = [error.why]
    return AnswerError(f"the answer does not fit: {'; '.join(problems[:5])}") if problems else None


def answer_data(answer: ChatAnswer) -> Any:
    """The data of an answer. If the provider does not support schemas, the data is parsed from the text."""
    if answer.data is not None:
        return answer.data
    text = answer.text.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def answer_output(answer: ChatAnswer, shape: AnswerShape) -> Any:
    """The output of a valid answer: its data if there is a schema, else its text."""
    if shape.schema is None:
        return answer.text if answer.data is None else answer.data
    return answer_data(answer)


PROGRESS = "agent"
"""The name of the state that shows the progress of an agent."""


class CheckedAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The decisions about one answer: a verdict for each tool call, or the problem with the answer itself.

    `judges_handoffs`: the answer of a handoff has to fit the schema, and ends the work on the message of its own turn only. In older logs it is absent: the
    answer of a handoff is then not checked, and ends the work on later messages, too.
    """

    calls: tuple[ToolCallVerdict, ...] = ()
    wrong: AnswerError | None = None
    judges_handoffs: bool = False


class AgentProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress of an agent: what it has spent, and the tools that it called last."""

    spent: SpentBudget = SpentBudget()
    asked_for: tuple[str, ...] = ()


def agent_workflow(profile: AgentProfile) -> CodeWorkflow:
    """The workflow for an agent profile; its executions return an `AgentResult`."""

    async def agent(ctx: Context, task: AgentTask | str) -> AgentResult:
        return await perform_agent_task(ctx, profile, task)

    return CodeWorkflow(agent, profile.name)


async def perform_agent_task(ctx: Context, profile: AgentProfile, task: AgentTask | str) -> AgentResult:
    """Performs a task as the agent of this profile.

    Raises:
        BadAnswer, Unauthorized: the answers of the model can't be used, even after the repairs that it was allowed.
        Fatal: the budget is used up; the type of the error names the limit.
        StepFailed: the model could not be called.
    """
    task = AgentTask(prompt=task) if isinstance(task, str) else task
    return await _Agent(ctx, profile, task, await _tools_of_apis(ctx, profile, task)).work()


async def _tools_of_apis(ctx: Context, profile: AgentProfile, task: AgentTask) -> list[AgentTool]:
    """The tools that are operations of APIs, as the log says or a step describes them."""
    apis = (*profile.apis, *task.apis)
    if not apis:
        return []
    from perdure.definitions.kinds.agents.api_tools import api_tools, description_step  # here, as few agents use an API
    from perdure.definitions.kinds.openapi.operation_schemas import OperationTool

    described: list[list[OperationTool]] = await ctx.step(description_step(profile.deployment), apis)
    return api_tools(apis, described, profile.deployment)


class _Agent:
    """The state of one agent while it works on a task."""

    def __init__(self, ctx: Context, profile: AgentProfile, task: AgentTask, of_apis: Sequence[AgentTool]) -> None:
        self.ctx, self.profile, self.task = ctx, profile, task
        self.tools = profile.tools(task, of_apis)
        self.shape = answer_shape(task, profile.schema)
        self.conversation = Conversation(profile.request(task, self.tools, self.shape.schema))
        self.budget = task.budget or profile.budget
        self.repairs = profile.repairs if task.repairs is None else task.repairs
        self.attempt = ctx.execution.attempt
        self.began_s = ctx.now().timestamp()
        self.spent = self.before = SpentBudget()
        self.used: list[ToolUse] = []
        self.handed_over: list[Any] = []
        self.judges_handoffs = False
        self.turn = self.unauthorized = 0
        self.mailbox = AgentMailbox(ctx) if task.listens or task.session else None

    async def work(self) -> AgentResult:
        """Answers the task and the messages that arrive meanwhile. A session answers messages until it ends."""
        if self.mailbox is not None:
            self.mailbox.open()
        result = AgentResult()
        if not self.task.session:
            self.conversation.say(ChatMessage("user", task_prompt(self.task), attachments=self.task.attachments))
            result = await self._replied()
        while self.mailbox is not None and await self.mailbox.more(wait=self.task.session):
            self._take_in()
            result = await self._replied()
        return result

    async def _replied(self) -> AgentResult:
        if self.task.session:  # each message is granted the budget
            self.before, self.began_s = self.spent, self.ctx.now().timestamp()
        try:
            result = await self._answered()
        except Exception as error:
            if self.mailbox is not None:
                _ = self.mailbox.take()
                self.mailbox.reply(error=f"{type(error).__qualname__}: {error}")
            raise
        if self.mailbox is not None:
            self.mailbox.reply(output=result.output)
        return result

    async def _answered(self) -> AgentResult:
        """Runs turns until the model answers without calling a tool."""
        repaired = misled = 0
        while True:
            answer = await self._asked()
            if answer is None:  # an interruption: the model call is dropped
                continue
            checked = self._checked(answer)
            if answer.calls:
                messages = await self._used(answer, checked)
                self.conversation.say(*messages)
                ends = [*self.handed_over, *(one.text for one in messages if one.name in self.profile.final and not one.is_error)]
                if ends:
                    return AgentResult(output=ends[0], spent=self.spent, tools=tuple(self.used), model=answer.model)
                self._take_in()
            elif checked.wrong is None:
                output = answer_output(answer, self.shape)
                return AgentResult(output=output, spent=self.spent, tools=tuple(self.used), model=answer.model)
            else:
                repaired, misled = repaired + 1, misled + checked.wrong.is_unauthorized
                self._expect_repairable(checked.wrong, repaired, misled)
                self.conversation.say(ChatMessage("user", f"Your answer can't be used: {checked.wrong.why}. Correct it and answer again."))

    def _expect_repairable(self, wrong: AnswerError, repaired: int, misled: int) -> None:
        if wrong.is_unauthorized and misled > 1:
            raise Unauthorized(f"{self.profile.name} {wrong.why}")
        if wrong.is_final or repaired > max(self.repairs, wrong.is_unauthorized):
            raise BadAnswer(f"what {self.profile.name} answers can't be used: {wrong.why}")

    # asking

    async def _asked(self) -> ChatAnswer | None:
        """The next answer of the model; None if a message interrupted the call."""
        self.turn += 1
        within = ModelCallBounds(self.budget, self.attempt, self.spent.since(self.before), self.spent, self._left_s())
        stream = self.profile.stream if self.task.stream is None else self.task.stream
        step = self.conversation.asking(partial(ask_model, deployment=self.profile.deployment, stream=stream, asker=self._asker()), within, self.task.retry)
        asking = asyncio.ensure_future(self.ctx.step(step, self.conversation.new, self.conversation.digest))
        if self.mailbox is not None:
            self.mailbox.interrupts = asking
        try:
            answer: ChatAnswer = await asking
        except StepFailed as failed:
            if failed.error.type in EXCEEDED:
                raise budget_exceeded(failed.error.type, failed.error.message) from None
            raise
        except asyncio.CancelledError:
            if self.mailbox is None or not self.mailbox.interrupted():
                raise
            self._take_in()
            return None
        finally:
            if self.mailbox is not None:
                self.mailbox.interrupts = None
        self.spent = self.spent.and_(answer.usage)
        self.conversation.heard(answer)
        self.ctx.set(PROGRESS, AgentProgress(self.spent, tuple(call.name for call in answer.calls)))
        return answer

    def _asker(self) -> tuple[str, str] | None:
        """The workflow and the step of the definition that asks; None for an agent that is none."""
        parent = self.ctx.execution.parent
        return (parent.workflow, self.task.step) if parent is not None and self.task.step else None

    def _take_in(self) -> None:
        if self.mailbox is not None:
            self.conversation.say(*self.mailbox.take())

    def _left_s(self) -> float | None:
        """The time that is left. Each retry of the execution grants the whole time again."""
        wall_s = self.budget.wall_s
        return None if wall_s is None else self.began_s + wall_s - self.ctx.now().timestamp()

    def _checked(self, answer: ChatAnswer) -> CheckedAnswer:
        def check() -> CheckedAnswer:
            if not answer.calls:
                wrong = answer_error(answer, self.shape, self.profile.kind)
                if wrong is None and self.profile.final:
                    wrong = AnswerError(f"the work is not done before one of these tools has succeeded: {', '.join(self.profile.final)}; call one of them")
                return CheckedAnswer(wrong=wrong)
            asking = (*self.profile.approve, *self.task.approve)
            return CheckedAnswer(tuple(self._judged(call, asking) for call in answer.calls), judges_handoffs=True)

        return self.ctx.keep(f"checked {self.turn}", check).value

    def _judged(self, call: ToolCall, asking: tuple[str, ...]) -> ToolCallVerdict:
        verdict = judge_tool_call(call, self.tools, asking)
        if verdict.how not in ("do", "ask"):
            return verdict
        return self.profile.governed(self.ctx.execution.parent or self.ctx.execution.key, self.task, call, verdict)

    # tools

    async def _used(self, answer: ChatAnswer, checked: CheckedAnswer) -> list[ChatMessage]:
        """The results of the tool calls of an answer, in their order. The tools run side by side."""
        check_tool_budget(self.budget, self.spent.since(self.before), len(answer.calls), self.attempt)
        self.spent = self.spent.and_tools(len(answer.calls))
        self.unauthorized += sum(verdict.how == "unauthorized" for verdict in checked.calls)
        if self.unauthorized > UNAUTHORIZED_MAX:
            why = next(verdict.why for verdict in reversed(checked.calls) if verdict.how == "unauthorized")
            raise Unauthorized(f"{self.profile.name} asked {self.unauthorized} times for tools that it may not use: {why}")
        self.judges_handoffs = checked.judges_handoffs
        if self.judges_handoffs:
            self.handed_over.clear()
        pairs = list(zip(answer.calls, checked.calls, strict=True))
        try:
            messages = await self._in_time(self.ctx.map(self.call, pairs, name=f"turn {self.turn}"))
        except JoinFailed as failed:
            raise next(iter(failed.errors.values())) from failed
        self.used += [ToolUse(call.name, message.is_error) for call, message in zip(answer.calls, messages, strict=True)]
        return messages

    async def _in_time(self, verb: Coroutine[Any, Any, list[ChatMessage]]) -> list[ChatMessage]:
        left_s = self._left_s()
        if left_s is None:
            return await verb
        name = f"time of turn {self.turn}" + (f", attempt {self.attempt}" if self.attempt > 1 else "")
        done, pending = await self.ctx.wait(verb, timeout=max(left_s, 0.0), name=name)
        for task in pending:
            task.cancel()
            raise time_exceeded(self.budget)
        return done[0].result()

    async def call(self, ctx: Context, one: tuple[ToolCall, ToolCallVerdict]) -> ChatMessage:
        """Performs one tool call in a branch of its own. The branch is named after this method, so renaming it would break replay."""
        call, verdict = one
        if verdict.how in ("unfit", "unauthorized"):
            return _failed(call, verdict.why)
        if verdict.how == "ask":
            asked = verdict.why or f"May {self.profile.name} use {call.name}?"
            decision = await ctx.approve(asked, details={"agent": self.profile.name, "tool": call.name, "arguments": call.args}, name=f"approve:{call.name}")
            if not decision:
                return _failed(call, f"rejected{f' by {decision.by}' if decision.by else ''}{f': {decision.comment}' if decision.comment else ''}")
        tool = self.tools[call.name]
        does, given = tool.call(call.args)
        match await ctx.attempt(does, **given):
            case Ok(value):
                if tool.is_shown:
                    ctx.emit(value)
                if tool.hands_over:
                    if self.judges_handoffs and (wrong := self._handoff_error(ctx, value)) is not None:
                        return _failed(call, f"{call.name} has answered, but {wrong.why}. Hand over again and say what to answer, or answer yourself")
                    self.handed_over.append(value)
                if verdict.counted is not None:
                    record_composite_use(ctx, verdict.counted)
                told = parse_result(value)
                return ChatMessage("tool", model_text(told.value, RESULT_CHARACTERS_MAX), call_id=call.id, name=call.name, attachments=told.attachments)
            case Failure(kind, attempts, error):
                if kind == "interrupted":
                    return _failed(call, f"interrupted: it is not known whether it happened ({error.message})")
                tries = f", {attempts} attempts" if attempts > 1 else ""
                return _failed(call, f"failed ({kind}{tries}): {error.type}: {error.message}")
        raise AssertionError(call)

    def _handoff_error(self, ctx: Context, value: Any) -> AnswerError | None:
        if self.shape.schema is None:
            return None

        def check() -> AnswerError | None:
            what = "the answer of a handoff"
            data = msgspec.to_builtins(values.decode(values.encode(value, what), Any, what))  # as JSON has it: a time is text
            return data_error(data, self.shape, self.profile.kind)

        return ctx.keep("checked", check).value


def record_composite_use(ctx: Context, counted: CountedTool) -> None:
    """Counts a use of a composite, in the commit that holds the result of the call."""
    if counted.input is not None:
        calling = CallOptions(id=counted.name, attributes=checked_attributes({DESCRIPTION: counted.about}))
        _ = ctx.start(_BuiltInWorkflow(dataclasses.replace(COMPOSITE, calling=calling)), counted.input)
    _ = ctx.send(Key(ctx.execution.key.tenant, COMPOSITE.name, counted.name), USED_SIGNAL.name)


class _BuiltInWorkflow:
    """Gives a built-in workflow the interface of a user's workflow, so that `ctx.start` accepts it."""

    def __init__(self, code: CodeWorkflow) -> None:
        self.code = code

    def signature(self, shape: Any) -> int:
        """Declares the types of the workflow; it is never called."""
        raise TypeError("it only declares types")


def _failed(call: ToolCall, why: str) -> ChatMessage:
    return ChatMessage("tool", why, call_id=call.id, name=call.name, is_error=True)


def task_prompt(task: AgentTask) -> str:
    """The prompt for a task. The parts that differ between tasks come last, so that providers can cache the beginning."""
    parts = [task.prompt]
    if task.input is not None:
        parts.append(f"Input:\n{untrusted(model_text(task.input, RESULT_CHARACTERS_MAX))}")
    if task.context:
        shown = "\n".join(f"- {name}: {model_text(value, PREVIEW_CHARACTERS_MAX)}" for name, value in task.context.items())
        parts.append(f"What earlier steps have come to (long results are cut):\n{untrusted(shown)}")
    if task.choose:
        none = ", or nothing if none of it fits" if task.may_choose_none else ""
        parts.append(f"Decide where to go on. Name in `next` one or several of: {', '.join(task.choose)}{none}; and in `reasoning` why.")
    return "\n\n".join(part for part in parts if part)


def definition_agents(name: str, around: ToolContext, deployment: Deployment, policy: Policy = NO_POLICY) -> CodeWorkflow:
    """The workflow `name` that runs the agents of a definition. The agent of a step uses only those tools of `around` that the step names."""
    return agent_workflow(AgentProfile(name, around.find, (), deployment=deployment, policy=policy))
