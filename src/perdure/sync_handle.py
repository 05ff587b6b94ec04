"""The handle of everybody else: `Handle`, the sync face of `AsyncHandle`, method by method. What holds of the async twin holds here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, overload

from perdure.async_handle import AsyncHandle, Change
from perdure.code.declarations import Signal
from perdure.code.durations import Duration
from perdure.core.views import PublicEvent, StepView
from perdure.definition_workflow import Definition
from perdure.loop_thread import LoopThread, run_in_user_transaction
from perdure.service.history import EmittedValue
from perdure.service.queries import ExecutionStatus, ListedExecution

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class Handle(Generic[R_co]):
    """One execution, to people and programs outside of it. See `AsyncHandle`."""

    def __init__(self, thread: LoopThread, inner: AsyncHandle[R_co]) -> None:
        self.key = inner.key
        self.created = inner.created
        self._thread = thread
        self._inner = inner

    def __repr__(self) -> str:
        return f"<handle of {self.key}>"

    @property
    def id(self) -> str:
        """See `AsyncHandle.id`."""
        return self.key.id

    def result(self, timeout: Duration | None = None) -> R_co:
        """See `AsyncHandle.result`."""
        return self._thread.call(self._inner.result(timeout))

    def summary(self) -> ListedExecution:
        """See `AsyncHandle.summary`."""
        return self._thread.call(self._inner.summary())

    def status(self) -> ExecutionStatus:
        """See `AsyncHandle.status`."""
        return self._thread.call(self._inner.status())

    def steps(self) -> list[StepView]:
        """See `AsyncHandle.steps`."""
        return self._thread.call(self._inner.steps())

    def query(self, key: str | None = None, default: Any = None) -> Any:
        """See `AsyncHandle.query`."""
        return self._thread.call(self._inner.query(key, default))

    def stream(self, after: int = 0, follow: bool = True) -> Iterator[EmittedValue]:
        """See `AsyncHandle.stream`."""
        return self._thread.drain(self._inner.stream(after, follow))

    def events(self, after: int = 0, follow: bool = False) -> Iterator[PublicEvent]:
        """See `AsyncHandle.events`."""
        return self._thread.drain(self._inner.events(after, follow))

    @overload
    def send(self, signal: Signal[T], body: T, *, key: str | None = ..., may_come: bool = ..., connection: Any = ...) -> None: ...
    @overload
    def send(self, signal: str, body: Any = ..., *, key: str | None = ..., may_come: bool = ..., connection: Any = ...) -> None: ...
    def send(self, signal: Signal[Any] | str, body: Any = None, *, key: str | None = None, may_come: bool = False, connection: Any = None) -> None:
        """See `AsyncHandle.send`. A `connection` is used in the caller's thread; one that belongs to an event loop is for an `AsyncHandle`."""
        sending = self._inner.send(signal, body, key=key, may_come=may_come, connection=connection)
        if connection is None:
            self._thread.call(sending)
        else:
            run_in_user_transaction(self._thread, self._inner._access.store, connection, sending)

    @overload
    def ask(self, signal: Signal[T], body: T, *, timeout: Duration | None = ...) -> Any: ...
    @overload
    def ask(self, signal: str, body: Any = ..., *, timeout: Duration | None = ...) -> Any: ...
    def ask(self, signal: Signal[Any] | str, body: Any = None, *, timeout: Duration | None = None) -> Any:
        """See `AsyncHandle.ask`."""
        return self._thread.call(self._inner.ask(signal, body, timeout=timeout))

    def cancel(self, reason: str = "", *, undo: bool = True, wait: bool = False, timeout: Duration | None = None) -> None:
        """See `AsyncHandle.cancel`."""
        self._thread.call(self._inner.cancel(reason, undo=undo, wait=wait, timeout=timeout))

    def terminate(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """See `AsyncHandle.terminate`."""
        self._thread.call(self._inner.terminate(reason, wait=wait, timeout=timeout))

    def undo(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """See `AsyncHandle.undo`."""
        self._thread.call(self._inner.undo(reason, wait=wait, timeout=timeout))

    def pause(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """See `AsyncHandle.pause`."""
        self._thread.call(self._inner.pause(reason, wait=wait, timeout=timeout))

    def resume(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """See `AsyncHandle.resume`."""
        self._thread.call(self._inner.resume(reason, wait=wait, timeout=timeout))

    def evict(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """See `AsyncHandle.evict`."""
        self._thread.call(self._inner.evict(reason, wait=wait, timeout=timeout))

    @overload
    def patch(self, change: Definition | Change, *, base: str = "", reason: str = "", wait: Literal[True] = True, timeout: Duration | None = None) -> int: ...
    @overload
    def patch(self, change: Definition | Change, *, base: str = "", reason: str = "", wait: bool = True, timeout: Duration | None = None) -> int | None: ...
    def patch(self, change: Definition | Change, *, base: str = "", reason: str = "", wait: bool = True, timeout: Duration | None = None) -> int | None:
        """See `AsyncHandle.patch`."""
        return self._thread.call(self._inner.patch(change, base=base, reason=reason, wait=wait, timeout=timeout))

    def withdraw_patches(self) -> int:
        """See `AsyncHandle.withdraw_patches`."""
        return self._thread.call(self._inner.withdraw_patches())

    def retry(self, reason: str = "", *, from_step: str | None = None, wait: bool = False, timeout: Duration | None = None) -> None:
        """See `AsyncHandle.retry`."""
        self._thread.call(self._inner.retry(reason, from_step=from_step, wait=wait, timeout=timeout))

    def rerun(self, *, id: str | None = None, version: int | None = None) -> Handle[R_co]:
        """See `AsyncHandle.rerun`."""
        return Handle(self._thread, self._thread.call(self._inner.rerun(id=id, version=version)))

    def fork(
        self, from_step: str | None = None, *, input: Sequence[Any] | Mapping[str, Any] | None = None, id: str | None = None, version: int | None = None
    ) -> Handle[R_co]:
        """See `AsyncHandle.fork`."""
        return Handle(self._thread, self._thread.call(self._inner.fork(from_step, input=input, id=id, version=version)))

    def preset(self, step: str, value: Any = None) -> None:
        """See `AsyncHandle.preset`."""
        self._thread.call(self._inner.preset(step, value))
