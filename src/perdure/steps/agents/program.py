"""The program of an agent: ask the model, do what it asks for, tell it what came of that, until it answers. A workflow like any other.

What is decided of an answer (which tools may be used, whether it fits) is kept with it, so a replay judges nothing anew, whatever has become of the tools.
"""

import asyncio
import dataclasses
from collections.abc import Coroutine
from functools import partial
from typing import Any

import msgspec

from perdure.core.attributes import checked
from perdure.core.errors import BadAnswer, JoinFailed, StepFailed, Unauthorized
from perdure.core.ops import Err
from perdure.core.paths import Key
from perdure.programs.code.composite import ABOUT, USED
from perdure.programs.code.composite import WORKFLOW as COMPOSITE
from perdure.programs.code.context import Context
from perdure.programs.code.declare import Calling, CodeWorkflow
from perdure.programs.code.results import Ok
from perdure.steps.agents import answers
from perdure.steps.agents.answers import Wrong
from perdure.steps.agents.conversation import PREVIEW_CHARACTERS_MAX, RESULT_CHARACTERS_MAX, Conversation, Within, late, told
from perdure.steps.agents.mailbox import Mailbox
from perdure.steps.agents.profile import Profile, ask_model
from perdure.steps.agents.task import EXCEEDED, Result, Spent, Task, Used, exceeded, expect_tools_within
from perdure.steps.agents.tools import UNAUTHORIZED_MAX, Counted, Verdict, judged
from perdure.steps.models.messages import Answer, Message, ToolCall

SHOWN = "agent"
"""The state under which people see how far an agent is."""


class Checked(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was decided of an answer: of each call that it asks for, or of itself."""

    calls: tuple[Verdict, ...] = ()
    wrong: Wrong | None = None


class Shown(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far an agent is: what it has used, and the tools that it asked for last."""

    spent: Spent = Spent()
    asked_for: tuple[str, ...] = ()


def workflow(profile: Profile) -> CodeWorkflow:
    """The workflow that an agent is, whose executions come to a `Result`."""

    async def agent(ctx: Context, task: Task | str) -> Result:
        return await perform(ctx, profile, task)

    return CodeWorkflow(agent, profile.name)


async def perform(ctx: Context, profile: Profile, task: Task | str) -> Result:
    """Do a task as the agent of this profile.

    Raises:
        BadAnswer, Unauthorized: what the model answers is of no use, told so or not.
        Fatal: the budget is used up, of a type that says of what.
        StepFailed: the model could not be asked.
    """
    return await _Agent(ctx, profile, Task(prompt=task) if isinstance(task, str) else task).work()


class _Agent:
    """An agent at work."""

    def __init__(self, ctx: Context, profile: Profile, task: Task) -> None:
        self.ctx, self.profile, self.task = ctx, profile, task
        self.tools = profile.tools(task)
        self.shape = answers.shape(task, profile.schema)
        self.conversation = Conversation(profile.request(task, self.tools, self.shape.schema))
        self.budget = task.budget or profile.budget
        self.repairs = profile.repairs if task.repairs is None else task.repairs
        self.attempt = ctx.execution.attempt
        self.began_s = ctx.now().timestamp()
        self.spent = self.before = Spent()
        self.used: list[Used] = []
        self.turn = self.unauthorized = 0
        self.mailbox = Mailbox(ctx) if task.listens or task.session else None

    async def work(self) -> Result:
        """Answer the task, and with it whatever comes meanwhile; of a session, whatever comes until it is over."""
        if self.mailbox is not None:
            self.mailbox.open()
        result = Result()
        if not self.task.session:
            self.conversation.say(Message("user", first(self.task)))
            result = await self._replied()
        while self.mailbox is not None and await self.mailbox.more(wait=self.task.session):
            self._take_in()
            result = await self._replied()
        return result

    async def _replied(self) -> Result:
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

    async def _answered(self) -> Result:
        """Turn after turn, until the model answers and asks for no more tools."""
        repaired = misled = 0
        while True:
            answer = await self._asked()
            if answer is None:  # somebody interrupts: what was asked is given up
                continue
            checked = self._checked(answer)
            if answer.calls:
                self.conversation.say(*await self._used(answer, checked))
                self._take_in()
            elif checked.wrong is None:
                output = answers.output_of(answer, self.shape)
                return Result(output=output, spent=self.spent, tools=tuple(self.used), model=answer.model)
            else:
                repaired, misled = repaired + 1, misled + checked.wrong.is_unauthorized
                self._expect_repairable(checked.wrong, repaired, misled)
                self.conversation.say(Message("user", f"Your answer can't be used: {checked.wrong.why}. Answer again, mended."))

    def _expect_repairable(self, wrong: Wrong, repaired: int, misled: int) -> None:
        if wrong.is_unauthorized and misled > 1:
            raise Unauthorized(f"{self.profile.name} {wrong.why}")
        if wrong.is_final or repaired > max(self.repairs, wrong.is_unauthorized):
            raise BadAnswer(f"what {self.profile.name} answers can't be used: {wrong.why}")

    # asking

    async def _asked(self) -> Answer | None:
        """The model's next answer; None, if it was given up because somebody interrupts."""
        self.turn += 1
        within = Within(self.budget, self.attempt, self.spent.since(self.before), self._left_s())
        step = self.conversation.asking(partial(ask_model, deployment=self.profile.deployment), within, self.task.retry)
        asking = asyncio.ensure_future(self.ctx.step(step, self.conversation.new, self.conversation.digest))
        if self.mailbox is not None:
            self.mailbox.interrupts = asking
        try:
            answer: Answer = await asking
        except StepFailed as failed:
            if failed.error.type in EXCEEDED:
                raise exceeded(failed.error.type, failed.error.message) from None
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
        self.ctx.set(SHOWN, Shown(self.spent, tuple(call.name for call in answer.calls)))
        return answer

    def _take_in(self) -> None:
        if self.mailbox is not None:
            self.conversation.say(*self.mailbox.take())

    def _left_s(self) -> float | None:
        """What is left of the time, of which each retry grants as much again."""
        wall_s = self.budget.wall_s
        return None if wall_s is None else self.began_s + wall_s - self.ctx.now().timestamp()

    def _checked(self, answer: Answer) -> Checked:
        def check() -> Checked:
            if not answer.calls:
                return Checked(wrong=answers.wrong(answer, self.shape, self.profile.kind))
            asking = (*self.profile.approve, *self.task.approve)
            return Checked(tuple(self._judged(call, asking) for call in answer.calls))

        return self.ctx.keep(f"checked {self.turn}", check).value

    def _judged(self, call: ToolCall, asking: tuple[str, ...]) -> Verdict:
        verdict = judged(call, self.tools, asking)
        if verdict.how not in ("do", "ask"):
            return verdict
        return self.profile.governed(self.ctx.execution.parent or self.ctx.execution.key, self.task, call, verdict)

    # tools

    async def _used(self, answer: Answer, checked: Checked) -> list[Message]:
        """What has come of the tools that were asked for, in that order. They run side by side."""
        expect_tools_within(self.budget, self.spent.since(self.before), len(answer.calls), self.attempt)
        self.spent = self.spent.and_tools(len(answer.calls))
        self.unauthorized += sum(verdict.how == "unauthorized" for verdict in checked.calls)
        if self.unauthorized > UNAUTHORIZED_MAX:
            why = next(verdict.why for verdict in reversed(checked.calls) if verdict.how == "unauthorized")
            raise Unauthorized(f"{self.profile.name} asked {self.unauthorized} times for tools that it may not use: {why}")
        pairs = list(zip(answer.calls, checked.calls, strict=True))
        try:
            messages = await self._in_time(self.ctx.map(self.call, pairs, name=f"turn {self.turn}"))
        except JoinFailed as failed:
            raise next(iter(failed.errors.values())) from failed
        self.used += [Used(call.name, message.is_error) for call, message in zip(answer.calls, messages, strict=True)]
        return messages

    async def _in_time(self, verb: Coroutine[Any, Any, list[Message]]) -> list[Message]:
        left_s = self._left_s()
        if left_s is None:
            return await verb
        name = f"time of turn {self.turn}" + (f", attempt {self.attempt}" if self.attempt > 1 else "")
        done, pending = await self.ctx.wait(verb, timeout=max(left_s, 0.0), name=name)
        for task in pending:
            task.cancel()
            raise late(self.budget)
        return done[0].result()

    async def call(self, ctx: Context, one: tuple[ToolCall, Verdict]) -> Message:
        """What has come of one tool that was asked for, in a branch of its own, whose name this is."""
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
                if verdict.counted is not None:
                    use(ctx, verdict.counted)
                return Message("tool", told(value, RESULT_CHARACTERS_MAX), call_id=call.id, name=call.name)
            case Err(kind, attempts, error):
                if kind == "interrupted":
                    return _failed(call, f"interrupted: it is not known whether it happened ({error.message})")
                tries = f", {attempts} tries" if attempts > 1 else ""
                return _failed(call, f"failed ({kind}{tries}): {error.type}: {error.message}")
        raise AssertionError(call)


def use(ctx: Context, counted: Counted) -> None:
    """Add a use to a composite, in the commit that has what came of it."""
    if counted.input is not None:
        calling = Calling(id=counted.name, attributes=checked({ABOUT: counted.about}))
        _ = ctx.start(_Coded(dataclasses.replace(COMPOSITE, calling=calling)), counted.input)
    _ = ctx.send(Key(ctx.execution.key.tenant, COMPOSITE.name, counted.name), USED.name)


class _Coded:
    """A workflow of Perdure's own, to be started like one of a user."""

    def __init__(self, code: CodeWorkflow) -> None:
        self.code = code

    def signature(self, shape: Any) -> int:
        """What it takes; never called."""
        raise TypeError("it only says types")


def _failed(call: ToolCall, why: str) -> Message:
    return Message("tool", why, call_id=call.id, name=call.name, is_error=True)


def first(task: Task) -> str:
    """What a model is told of a task: what changes from task to task stands last, so that what comes before is found in a cache."""
    parts = [task.prompt]
    if task.input is not None:
        parts.append(f"Input:\n{told(task.input, RESULT_CHARACTERS_MAX)}")
    if task.context:
        shown = [f"- {name}: {told(value, PREVIEW_CHARACTERS_MAX)}" for name, value in task.context.items()]
        parts.append("\n".join(["What earlier steps have come to (long results are cut):", *shown]))
    if task.choose:
        none = ", or nothing if none of it fits" if task.may_choose_none else ""
        parts.append(f"Decide where to go on. Name in `next` one or several of: {', '.join(task.choose)}{none}; and in `reasoning` why.")
    return "\n\n".join(part for part in parts if part)
