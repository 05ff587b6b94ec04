"""Tells several observers, in order, as one."""

from collections.abc import Sequence

from perdure.code.step_environment import StepInfo
from perdure.core.events import Event
from perdure.core.execution import Execution
from perdure.core.operations import Outcome
from perdure.runtime.observer import ObservedAttempt, ObservedRequest, Observer
from perdure.stores.protocol import Claimed


class SeveralObservers:
    """An `Observer` that tells all of `observers`."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def begin_attempt(self, info: StepInfo, target: str, queue: str) -> ObservedAttempt | None:
        """See `Observer.begin_attempt`."""
        begun = [observed for one in self._observers if (observed := one.begin_attempt(info, target, queue)) is not None]
        return _SeveralAttempts(begun) if len(begun) > 1 else begun[0] if begun else None

    def decided(self, execution: Execution, events: Sequence[Event], waited_s: float) -> None:
        """See `Observer.decided`."""
        for one in self._observers:
            one.decided(execution, events, waited_s)

    def claimed(self, claimed: Claimed) -> None:
        """See `Observer.claimed`."""
        for one in self._observers:
            one.claimed(claimed)

    def committed(self, changes: int, took_s: float) -> None:
        """See `Observer.committed`."""
        for one in self._observers:
            one.committed(changes, took_s)

    def store_failed(self) -> None:
        """See `Observer.store_failed`."""
        for one in self._observers:
            one.store_failed()

    def lost_lease(self, kind: str) -> None:
        """See `Observer.lost_lease`."""
        for one in self._observers:
            one.lost_lease(kind)

    def begin_request(self, method: str, headers: dict[str, str]) -> ObservedRequest:
        """See `Observer.begin_request`."""
        return _SeveralRequests([one.begin_request(method, headers) for one in self._observers])


class _SeveralAttempts:
    __slots__ = ("_attempts",)

    def __init__(self, attempts: list[ObservedAttempt]) -> None:
        self._attempts = attempts

    def ended(self, outcome: Outcome | None) -> None:
        """See `ObservedAttempt.ended`."""
        for one in self._attempts:
            one.ended(outcome)


class _SeveralRequests:
    __slots__ = ("_requests",)

    def __init__(self, requests: list[ObservedRequest]) -> None:
        self._requests = requests

    def ended(self, route: str, status: int) -> None:
        """See `ObservedRequest.ended`."""
        for one in self._requests:
            one.ended(route, status)
