"""What a process may be watched by: the engine, the worker, the store and the API call these methods, and nothing where there is no observer.

The methods are called on the event loop, many times a second: they are quick, wait for nothing and raise nothing. What they are told has happened; nothing
depends on what they do with it.
"""

from collections.abc import Sequence
from typing import Protocol

from perdure.code.step_environment import StepInfo
from perdure.core.events import Event
from perdure.core.execution import Execution
from perdure.core.operations import Outcome
from perdure.stores.protocol import Claimed


class ObservedAttempt(Protocol):
    """An attempt of a step that is being observed."""

    def ended(self, outcome: Outcome | None) -> None:
        """Takes note of its outcome; None if it was cancelled, or is answered by another process."""
        ...


class ObservedRequest(Protocol):
    """An HTTP request that is being observed."""

    def ended(self, route: str, status: int) -> None:
        """Takes note of the template of its route, and of the status of its answer."""
        ...


class Observer(Protocol):
    """Observes a process."""

    def begin_attempt(self, info: StepInfo, target: str, queue: str) -> ObservedAttempt | None:
        """Takes note that an attempt of the step `target` begins, in the context in which it runs. `queue` is empty for a step that its engine performs.

        Returns None if it is not to be observed any further.
        """
        ...

    def decided(self, execution: Execution, events: Sequence[Event], waited_s: float) -> None:
        """Takes note of a durable decision of this engine. `waited_s` is the time since the claim that brought it; 0 if no claim did."""
        ...

    def claimed(self, claimed: Claimed) -> None:
        """Takes note of what a claim has returned."""
        ...

    def committed(self, changes: int, took_s: float) -> None:
        """Takes note of a commit of the store with so many changes."""
        ...

    def store_failed(self) -> None:
        """Takes note that a commit or a claim has failed."""
        ...

    def lost_lease(self, kind: str) -> None:
        """Takes note that an ``engine`` or a ``worker`` has lost everything that it held."""
        ...

    def begin_request(self, method: str, headers: dict[str, str]) -> ObservedRequest:
        """Takes note that the API answers a request, in the context in which it does."""
        ...
