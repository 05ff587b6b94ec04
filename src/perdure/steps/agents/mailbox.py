"""Mailboxes: messages that come to an agent while it works. Each is taken at the end of a turn; one that interrupts has the model call under way given up."""

import asyncio
from collections import deque
from typing import Any

import msgspec

from perdure.core.paths import Key
from perdure.programs.code.context import Context
from perdure.programs.code.declare import Signal
from perdure.steps.models.messages import Message

IDLE = "365d"
"""How long a session waits for another message before it is over."""


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an agent is told: text; whether that interrupts; the execution that waits for an answer, and as which message. With `is_over`, that was all."""

    content: str = ""
    interrupt: bool = False
    reply_to: Key | None = None
    reply_as: str = ""
    is_over: bool = False


SAID = Signal("agent_message", Said)


class Mailbox:
    """The messages of one agent. `interrupts` is what is given up when one interrupts."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._waiting: deque[Said] = deque()
        self._asking: list[Said] = []
        self._is_over = self._is_interrupted = False
        self._news: asyncio.Future[None] | None = None
        self._opened: asyncio.Task[None] | None = None
        self.interrupts: asyncio.Future[Any] | None = None

    def open(self) -> None:
        """Begin to take messages, beside what else is done."""
        self._opened = asyncio.create_task(self._listen(), name="mailbox")

    async def _listen(self) -> None:
        while not self._is_over:
            said = await self._ctx.listen(SAID, timeout=IDLE, default=Said(is_over=True))
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

    def take(self) -> list[Message]:
        """What has come, as a model is told it."""
        taken = list(self._waiting)
        self._waiting.clear()
        self._asking += [said for said in taken if said.reply_to is not None]
        return [Message("user", said.content) for said in taken]

    def reply(self, **answer: Any) -> None:
        """Answer those who wait for it: with an ``output``, or the ``error`` because of which there is none."""
        for said in self._asking:
            if said.reply_to is not None:
                _ = self._ctx.send(said.reply_to, said.reply_as, answer)
        self._asking.clear()
