"""Mailboxes: messages that come to an agent while it works. Each is taken at the end of a turn; one that interrupts has the model call under way given up.

Conversations: all that a model is told, message by message, and the step that asks it.

What the log has of a request is what is new in it, and a digest of all: what stands before is the results that the log has already. So a log grows with what
was said and not with its square, though each request to a provider holds the whole conversation.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from perdure.code.context import Context
from perdure.code.declarations import Retry, Signal, Step
from perdure.core.paths import Key
from perdure.definitions.graph import ir
from perdure.definitions.graph.tool_calls import step_with_retry
from perdure.definitions.kinds.agents.agent_task import Budget, SpentBudget, budget_exceeded, check_budget
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatMessage, ChatRequest

IDLE = "365d"
"""How long a session waits for another message before it is over."""


class AgentMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an agent is told: text; whether that interrupts; the execution that waits for an answer, and as which message. With `is_over`, that was all."""

    content: str = ""
    interrupt: bool = False
    reply_to: Key | None = None
    reply_as: str = ""
    is_over: bool = False


SAID = Signal("agent_message", AgentMessage)


class AgentMailbox:
    """The messages of one agent. `interrupts` is what is given up when one interrupts."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._waiting: deque[AgentMessage] = deque()
        self._asking: list[AgentMessage] = []
        self._is_over = self._is_interrupted = False
        self._news: asyncio.Future[None] | None = None
        self._opened: asyncio.Task[None] | None = None
        self.interrupts: asyncio.Future[Any] | None = None

    def open(self) -> None:
        """Begin to take messages, beside what else is done."""
        self._opened = asyncio.create_task(self._listen(), name="mailbox")

    async def _listen(self) -> None:
        while not self._is_over:
            said = await self._ctx.listen(SAID, timeout=IDLE, default=AgentMessage(is_over=True))
            self._is_over = said.is_over
            if not said.is_over:
                self._waiting.append(said)
                if said.interrupt and self.interrupts is not None and not self.interrupts.done():
                    self._is_interrupted = True
                    self.interrupts.cancel()
            if self._news is not None and not self._news.done():
                self._news.set_result(None)

    def interrupted(self) -> bool:
        """Whether what was being asked was given up because of a message; asking that again says no."""
        found, self._is_interrupted = self._is_interrupted, False
        return found

    async def more(self, *, wait: bool) -> bool:
        """Whether there is a message that was not taken yet; with `wait`, once there is one, or it is over."""
        while wait and not self._waiting and not self._is_over:
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        return bool(self._waiting)

    def take(self) -> list[ChatMessage]:
        """What has come, as a model is told it."""
        taken = list(self._waiting)
        self._waiting.clear()
        self._asking += [said for said in taken if said.reply_to is not None]
        return [ChatMessage("user", said.content) for said in taken]

    def reply(self, **answer: Any) -> None:
        """Answer those who wait for it: with an ``output``, or the ``error`` because of which there is none."""
        for said in self._asking:
            if said.reply_to is not None:
                _ = self._ctx.send(said.reply_to, said.reply_as, answer)
        self._asking.clear()


MODEL_RETRY = Retry(max=5, wait=1.0, factor=2.0, max_wait=60.0)
"""A provider that is busy or down is asked again; what it refuses is not."""

TRY_S = 600.0
"""The time that each try of a model call has."""

RESULT_CHARACTERS_MAX = 32_000
"""More of a tool's result a model is not told."""

PREVIEW_CHARACTERS_MAX = 2_000
"""More of an earlier result does not stand in a task."""

ModelCaller = Callable[[ChatRequest], Awaitable[ChatAnswer]]
"""What sends one request to a model."""


class ModelCallBounds(NamedTuple):
    """What bounds a model call: the budget and how often it was granted, what is used of it, and what is left of its time."""

    budget: Budget
    times: int
    spent: SpentBudget
    left_s: float | None


class Conversation:
    """What was said so far, on top of a request without messages. `new` is what the model has not been asked with yet."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._messages: list[ChatMessage] = []
        self._asked = 0
        self._digest = sha256(msgspec.json.encode(request))

    def say(self, *messages: ChatMessage) -> None:
        """Add messages, for the next model call."""
        for message in messages:
            self._messages.append(message)
            self._digest.update(msgspec.json.encode(message))

    def heard(self, answer: ChatAnswer) -> None:
        """Add what the model answered."""
        text = answer.text
        if not text and answer.data is not None:
            text = msgspec.json.encode(answer.data).decode()
        self.say(ChatMessage("assistant", text, answer.calls))
        self._asked = len(self._messages)

    @property
    def new(self) -> tuple[ChatMessage, ...]:
        """What was said since the last answer."""
        return tuple(self._messages[self._asked :])

    @property
    def digest(self) -> str:
        """The SHA-256 of the whole request: with what stands in the log, anybody can tell what the model was told."""
        return self._digest.hexdigest()

    def asking(self, asker: ModelCaller, within: ModelCallBounds, retry: ir.RetryOptions | None = None) -> Step[Any, Any, Any]:
        """The step that asks the model with all that was said up to now."""
        messages, count = self._messages, len(self._messages)
        began_s: list[float] = []

        async def model(new: tuple[ChatMessage, ...], digest: str) -> ChatAnswer:
            check_budget(within.budget, within.spent, within.times)
            request = msgspec.structs.replace(self._request, messages=tuple(messages[:count]))
            if within.left_s is None:
                return await asker(request)
            now_s = asyncio.get_running_loop().time()
            began_s[:] = began_s or [now_s]
            try:
                async with asyncio.timeout(within.left_s - (now_s - began_s[0])) as bound:
                    return await asker(request)
            except TimeoutError:
                if not bound.expired():
                    raise
                raise time_exceeded(within.budget) from None

        return step_with_retry(Step(model, name="model", retry=MODEL_RETRY, timeout=TRY_S), retry, None)


def time_exceeded(budget: Budget) -> Exception:
    """The error that the time of a budget is over."""
    return budget_exceeded(
        "deadline_exceeded", f"the {budget.wall_s or 0:g} s that it had are over; retry the execution to grant them anew, or fork it with more"
    )


def model_text(value: Any, characters_max: int) -> str:
    """A value as a model is told it: text as it is, anything else as JSON, cut when it is long."""
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=_plain).decode()
    return text if len(text) <= characters_max else f"{text[:characters_max]}… (cut: it has {len(text):,} characters)"


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else repr(value)
