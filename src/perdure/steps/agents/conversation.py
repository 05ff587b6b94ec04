"""Conversations: all that a model is told, message by message, and the step that asks it.

What the log has of a request is what is new in it, and a digest of all: what stands before is the results that the log has already. So a log grows with what
was said and not with its square, though each request to a provider holds the whole conversation.
"""

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from perdure.programs.code.declare import Retry, Step
from perdure.programs.graph import ir
from perdure.programs.graph.tools import tuned
from perdure.steps.agents.task import Budget, Spent, exceeded, expect_within
from perdure.steps.models.messages import Answer, Message, Request

MODEL_RETRY = Retry(max=5, wait=1.0, factor=2.0, max_wait=60.0)
"""A provider that is busy or down is asked again; what it refuses is not."""

TRY_S = 600.0
"""The time that each try of a model call has."""

RESULT_CHARACTERS_MAX = 32_000
"""More of a tool's result a model is not told."""

PREVIEW_CHARACTERS_MAX = 2_000
"""More of an earlier result does not stand in a task."""

Asker = Callable[[Request], Awaitable[Answer]]
"""What sends one request to a model."""


class Within(NamedTuple):
    """What bounds a model call: the budget and how often it was granted, what is used of it, and what is left of its time."""

    budget: Budget
    times: int
    spent: Spent
    left_s: float | None


class Conversation:
    """What was said so far, on top of a request without messages. `new` is what the model has not been asked with yet."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._messages: list[Message] = []
        self._asked = 0
        self._digest = sha256(msgspec.json.encode(request))

    def say(self, *messages: Message) -> None:
        """Add messages, for the next model call."""
        for message in messages:
            self._messages.append(message)
            self._digest.update(msgspec.json.encode(message))

    def heard(self, answer: Answer) -> None:
        """Add what the model answered."""
        text = answer.text
        if not text and answer.data is not None:
            text = msgspec.json.encode(answer.data).decode()
        self.say(Message("assistant", text, answer.calls))
        self._asked = len(self._messages)

    @property
    def new(self) -> tuple[Message, ...]:
        """What was said since the last answer."""
        return tuple(self._messages[self._asked :])

    @property
    def digest(self) -> str:
        """The SHA-256 of the whole request: with what stands in the log, anybody can tell what the model was told."""
        return self._digest.hexdigest()

    def asking(self, asker: Asker, within: Within, retry: ir.Retry | None = None) -> Step[Any, Any, Any]:
        """The step that asks the model with all that was said up to now."""
        messages, count = self._messages, len(self._messages)
        began_s: list[float] = []

        async def model(new: tuple[Message, ...], digest: str) -> Answer:
            expect_within(within.budget, within.spent, within.times)
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
                raise late(within.budget) from None

        return tuned(Step(model, name="model", retry=MODEL_RETRY, timeout=TRY_S), retry, None)


def late(budget: Budget) -> Exception:
    """The error that the time of a budget is over."""
    return exceeded("deadline_exceeded", f"the {budget.wall_s or 0:g} s that it had are over; retry the execution to grant them anew, or fork it with more")


def told(value: Any, characters_max: int) -> str:
    """A value as a model is told it: text as it is, anything else as JSON, cut when it is long."""
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=_plain).decode()
    return text if len(text) <= characters_max else f"{text[:characters_max]}… (cut: it has {len(text):,} characters)"


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else repr(value)
