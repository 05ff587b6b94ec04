"""Channels to those who call tools in this process: progress and questions of a server go straight to them.

They are no part of what is recorded. A call that is performed in another process than the one of its caller, or after that has gone, has no channel: its
progress is in the log alone, and what its server asks becomes an approval.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from perdure.code.step_environment import StepInfo
from perdure.core.paths import Key
from perdure.mcp.elicited_approvals import Answer, CallOfStep, Question


class CallChannel(Protocol):
    """Whoever has called a tool and waits. Only one that `takes_questions` is asked."""

    takes_questions: bool

    async def report(self, done: float, total: float | None, message: str | None) -> None:
        """Tells of the progress."""
        ...

    async def ask(self, question: Question) -> Answer:
        """Asks what the server wants to know."""
        ...


class CallChannels:
    """The channels of the calls that wait in this process, by the execution of the recording and the id of the call."""

    def __init__(self) -> None:
        self._open: dict[tuple[Key, str], CallChannel] = {}

    def of(self, execution: Key, call_id: str) -> CallChannel | None:
        """Returns the channel of a call, if there is one."""
        return self._open.get((execution, call_id))

    @contextmanager
    def opened(self, execution: Key, call_id: str, channel: CallChannel) -> Iterator[None]:
        """Keeps a channel open for the duration of a block."""
        self._open[execution, call_id] = channel
        try:
            yield
        finally:
            if self._open.get((execution, call_id)) is channel:
                del self._open[execution, call_id]


NO_CHANNELS = CallChannels()
"""Those of a process in which nobody calls."""


class AskedCaller(CallOfStep):
    """Asks whoever has called, over a channel."""

    def __init__(self, channel: CallChannel, info: StepInfo) -> None:
        super().__init__(info)
        self._channel = channel

    async def ask(self, question: Question) -> Answer:
        """Asks the caller."""
        return await self._channel.ask(question)

    async def withdraw(self) -> None:
        """Has no effect: the question ends with the request in which it was asked."""
