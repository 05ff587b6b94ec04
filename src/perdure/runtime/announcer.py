"""Announces events of executions to those that listen, in the commit in which they happen."""

from collections.abc import Sequence
from typing import Protocol

from perdure.core.envelopes import OutgoingMessage
from perdure.core.events import Event
from perdure.core.execution import Execution


class Announcer(Protocol):
    """Knows who listens to the announcements of a tenant."""

    def lacks_listeners(self, execution: Execution, events: Sequence[Event]) -> bool:
        """Whether there is an event to announce among these, and who listens to it must be read first, by `read_listeners`."""
        ...

    async def read_listeners(self, tenant: str) -> None:
        """Reads who listens to the events of a tenant. It may raise what a store raises."""
        ...

    def messages(self, execution: Execution, events: Sequence[Event], version: int) -> tuple[OutgoingMessage, ...]:
        """Returns the messages that announce the events that an execution appends at `version`, as far as somebody listens."""
        ...
