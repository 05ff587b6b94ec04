"""The conversation of an agent with its model, and the mailbox for messages that arrive meanwhile.

The log holds the new messages of each request and a digest of the whole request; the earlier messages follow from results that the log already has. The log
therefore grows linearly with the conversation, although each request to a provider contains all of it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from perdure.code.context import Context
from perdure.code.declarations import Retry, Signal, Step
from perdure.core import error_codes
from perdure.core.paths import Key
from perdure.definitions.format.verb_shapes import AGENT_MESSAGE
from perdure.definitions.graph import ir
from perdure.definitions.graph.tool_calls import step_with_retry
from perdure.definitions.kinds.agents.agent_task import Budget, SpentBudget, budget_exceeded, check_budget
from perdure.definitions.kinds.agents.shared_budget import shared_call
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatMessage, ChatRequest

IDLE = "365d"
"""How long a session waits for the next message before it ends."""


class AgentMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message to an agent. With `interrupt`, the model call in flight is cancelled; `reply_to` and `reply_as` name the execution that waits for a reply,
    and the message in which it expects it. `is_over` ends the session.
    """

    content: str = ""
    interrupt: bool = False
    reply_to: Key | None = None
    reply_as: str = ""
    is_over: bool = False


SAID = Signal(AGENT_MESSAGE, AgentMessage)


class AgentMailbox:
    """The messages of one agent. The agent takes them at the end of a turn; a message that interrupts cancels the future `interrupts`."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._waiting: deque[AgentMessage] = deque()
        self._asking: list[AgentMessage] = []
        self._is_over = self._is_interrupted = False
        self._news: asyncio.Future[None] | None = None
        self._opened: asyncio.Task[None] | None = None
        self.interrupts: asyncio.Future[Any] | None = None

    def open(self) -> None:
        """Starts to receive messages in a task of its own."""
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
        """Whether a message has cancelled the model call. Reading it resets it."""
        found, self._is_interrupted = self._is_interrupted, False
        return found

    async def more(self, *, wait: bool) -> bool:
        """Whether a message waits to be taken. With `wait`, returns once there is one, or once the session is over."""
        while wait and not self._waiting and not self._is_over:
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        return bool(self._waiting)

    def take(self) -> list[ChatMessage]:
        """Takes the messages that have arrived, as messages to the model."""
        taken = list(self._waiting)
        self._waiting.clear()
        self._asking += [said for said in taken if said.reply_to is not None]
        return [ChatMessage("user", said.content) for said in taken]

    def reply(self, **answer: Any) -> None:
        """Replies to the executions that wait for it, with an ``output`` or an ``error``."""
        for said in self._asking:
            if said.reply_to is not None:
                _ = self._ctx.send(said.reply_to, said.reply_as, answer)
        self._asking.clear()


MODEL_RETRY = Retry(max=5, wait=1.0, factor=2.0, max_wait=60.0)
"""Calls are repeated while a provider is busy or unavailable; a rejected request is not repeated."""

TRY_S = 600.0
"""The timeout of one attempt of a model call."""

RESULT_CHARACTERS_MAX = 32_000
"""The most characters of a tool's result that the model reads."""

PREVIEW_CHARACTERS_MAX = 2_000
"""The most characters of an earlier result in a task."""

ModelCaller = Callable[[ChatRequest], Awaitable[ChatAnswer]]
"""Sends one request to a model."""


class ModelCallBounds(NamedTuple):
    """The bounds of a model call: the budget, how often it was granted, what was spent of it, and in all, and the time that is left."""

    budget: Budget
    times: int
    spent: SpentBudget
    total: SpentBudget
    left_s: float | None


class Conversation:
    """All messages so far, on top of a request without messages. `new` are those that no request has contained yet."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._messages: list[ChatMessage] = []
        self._asked = 0
        self._digest = sha256(msgspec.json.encode(request))

    def say(self, *messages: ChatMessage) -> None:
        """Adds messages to the next request."""
        for message in messages:
            self._messages.append(message)
            self._digest.update(msgspec.json.encode(message))

    def heard(self, answer: ChatAnswer) -> None:
        """Adds an answer of the model."""
        text = answer.text
        if not text and answer.data is not None:
            text = msgspec.json.encode(answer.data).decode()
        self.say(ChatMessage("assistant", text, answer.calls, thinking=answer.thinking))
        self._asked = len(self._messages)

    @property
    def new(self) -> tuple[ChatMessage, ...]:
        """The messages since the last answer."""
        return tuple(self._messages[self._asked :])

    @property
    def digest(self) -> str:
        """The SHA-256 of the whole request. Together with the log it proves what the model has read."""
        return self._digest.hexdigest()

    def asking(self, asker: ModelCaller, within: ModelCallBounds, retry: ir.RetryOptions | None = None) -> Step[Any, Any, Any]:
        """The step that sends all messages so far to the model."""
        messages, count = self._messages, len(self._messages)
        began_s: list[float] = []

        async def model(new: tuple[ChatMessage, ...], digest: str) -> ChatAnswer:
            request = msgspec.structs.replace(self._request, messages=tuple(messages[:count]))
            if not within.budget.shared:
                check_budget(within.budget, within.spent, within.times)
                return await in_time(request)
            async with shared_call(within.budget, within.total, within.times) as spent:
                answer = await in_time(request)
                spent(within.total.and_(answer.usage))
                return answer

        async def in_time(request: ChatRequest) -> ChatAnswer:
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
    """The error for a budget whose time is over."""
    return budget_exceeded(
        error_codes.DEADLINE_EXCEEDED, f"the {budget.wall_s or 0:g} s that it had are over; retry the execution to grant them anew, or fork it with more"
    )


def model_text(value: Any, characters_max: int) -> str:
    """A value as text for a model: text unchanged, anything else as JSON, cut if it is long."""
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=_plain).decode()
    return text if len(text) <= characters_max else f"{text[:characters_max]}… (cut: it has {len(text):,} characters)"


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else repr(value)
