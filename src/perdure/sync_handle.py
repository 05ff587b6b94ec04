"""The handle of sync programs.

Made from `perdure.async_handle` by ``python -m tools.make_sync``, but for what that leaves alone: change the async methods, and run it.
"""

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
        """The id, unique per tenant and workflow."""
        return self._inner.id

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the end and return what the workflow returned; at once, if it has ended. A paused execution is waited for.

        What was before this handle's `resume` or `retry` does not count. While something is missing for it to go on, such as an engine that knows
        the workflow, a warning says so, after two seconds and once a minute.

        Raises:
            ExecutionFailed, DeadlineExceeded, ExecutionCancelled: how else it ended.
            NeedsAttention: it is parked until somebody looks at it.
            Timeout: it did not end in time, for the reason in `why`; it goes on.
            NotFound: there is no such execution any more.
        """
        return self._thread.call(self._inner.result(timeout))

    def summary(self) -> ListedExecution:
        """What `Client.list` says of it: its status, version, times and attributes. That is one row of the store, however long the execution is."""
        return self._thread.call(self._inner.summary())

    def status(self) -> ExecutionStatus:
        """How it stands, and in a sentence why it waits.

        The first call of a client reads the whole log for that, 100,000 steps in one or two seconds, the next ones what is new; `summary` reads none of it.
        """
        return self._thread.call(self._inner.status())

    def steps(self) -> list[StepView]:
        """Every operation that it knows, settled and open, in the order in which they were opened; of a definition, by its verbs."""
        return self._thread.call(self._inner.steps())

    def query(self, key: str | None = None, default: Any = None) -> Any:
        """What the workflow has set under `key` (`default`, if it has not), or all that it has set as a dict; also after its end."""
        return self._thread.call(self._inner.query(key, default))

    def stream(self, after: int = 0, follow: bool = True) -> Iterator[EmittedValue]:
        """The values that the workflow emits, from number `after` + 1 on, as they come; ends when the execution ends.

        Without `follow`, those that are there. A stream is resumed with the number of the last value that was dealt with. Values in
        turns of a loop that were forgotten since are gone; the next one says how many are missing before it.
        """
        return self._thread.drain(self._inner.stream(after, follow))

    def events(self, after: int = 0, follow: bool = False) -> Iterator[PublicEvent]:
        """What happened to the execution, as public events after the one with the id `after`; with `follow`, also what comes, until its end."""
        return self._thread.drain(self._inner.events(after, follow))

    # By hand: what joins a transaction runs in the caller's thread.
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
        """Send a message and wait for the reply that the workflow gives with ``message.complete(reply)``.

        Raises:
            NotFound, HasEnded: nobody would read it.
            NoReply: the execution ended without a reply, or its mailbox was full.
            Timeout: there was no reply in time; the message stays where it is.
        """
        return self._thread.call(self._inner.ask(signal, body, timeout=timeout))

    def cancel(self, reason: str = "", *, undo: bool = True, wait: bool = False, timeout: Duration | None = None) -> None:
        """Have the workflow unwind, undo what it has done unless that is not wanted, and end as cancelled.

        Like its siblings it is durable when this returns; with `wait`, it has taken effect.
        """
        self._thread.call(self._inner.cancel(reason, undo=undo, wait=wait, timeout=timeout))

    def terminate(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """End the execution as cancelled, at once; the workflow gets no say."""
        self._thread.call(self._inner.terminate(reason, wait=wait, timeout=timeout))

    def pause(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Begin nothing more until resumed; what is being done is finished and remembered."""
        self._thread.call(self._inner.pause(reason, wait=wait, timeout=timeout))

    def resume(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Have a paused or parked execution go on from where it stands."""
        self._thread.call(self._inner.resume(reason, wait=wait, timeout=timeout))

    def evict(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Have the execution leave the engine that has it, and go on from its log, there or elsewhere.

        Async steps in progress there are cancelled and begun again, which counts neither as a try nor as an interruption; sync ones are finished first.
        """
        self._thread.call(self._inner.evict(reason, wait=wait, timeout=timeout))

    @overload
    def patch(self, change: Definition | Change, *, base: str = "", reason: str = "", wait: Literal[True] = True, timeout: Duration | None = None) -> int: ...
    @overload
    def patch(self, change: Definition | Change, *, base: str = "", reason: str = "", wait: bool = True, timeout: Duration | None = None) -> int | None: ...
    def patch(self, change: Definition | Change, *, base: str = "", reason: str = "", wait: bool = True, timeout: Duration | None = None) -> int | None:
        """Have an execution of a definition go on by another one; what has begun stays as it is. Return the number of the event from which on it does.

        `change` is that definition, or a change of the present one: a JSON Patch of its canonical form or of its nodes and edges, operations by id,
        ``{operations, description}`` or ``{workflow_tag, patch_spec}``. A change raises the minor version. With `base`, only if that is still the hash of the
        definition by which it goes on. An engine judges it; without `wait`, it is kept until one does, and None is returned.

        Raises:
            PatchRefused: what has begun does not fit it, and nothing was changed.
            BadDefinition: the change can't be carried out, or what it makes is not valid.
        """
        return self._thread.call(self._inner.patch(change, base=base, reason=reason, wait=wait, timeout=timeout))

    def withdraw_patches(self) -> int:
        """Take back the patches that no engine has judged yet, such as those of a `patch` that was not waited for; return how many.

        Raises:
            PatchRefused: an engine has judged them meanwhile, or may be about to.
        """
        return self._thread.call(self._inner.withdraw_patches())

    def undo(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Undo what a completed execution has done, by its own handlers, last first and once; its result stays. Of one that failed or was cancelled, undo
        what could not be undone then."""
        self._thread.call(self._inner.undo(reason, wait=wait, timeout=timeout))

    def retry(self, reason: str = "", *, from_step: str | None = None, wait: bool = False, timeout: Duration | None = None) -> None:
        """Have a failed execution go on from what failed, and a parked one from where it stands; what had succeeded is not done again.

        With `from_step`, what a failed one did from that step on is done again; what was begun earlier is not.
        """
        self._thread.call(self._inner.retry(reason, from_step=from_step, wait=wait, timeout=timeout))

    def rerun(self, *, id: str | None = None, version: int | None = None) -> Handle[R_co]:
        """Begin a new execution with the same input, under a new id; return its handle.

        Raises:
            AlreadyExists: the id is taken.
        """
        return Handle(self._thread, self._thread.call(self._inner.rerun(id=id, version=version)))

    def fork(
        self, from_step: str | None = None, *, input: Sequence[Any] | Mapping[str, Any] | None = None, id: str | None = None, version: int | None = None
    ) -> Handle[R_co]:
        """Begin a new execution with what this one had reached: all, or with `from_step` what was begun earlier; return its handle.

        What is open here is opened anew there; messages that this one has not read stay with it. `input` replaces the arguments, by position or,
        as a mapping, by name; `version` the pinned version of the workflow.

        Raises:
            BadValue: it has not come to that step.
            AlreadyExists: the id is taken.
        """
        return Handle(self._thread, self._thread.call(self._inner.fork(from_step, input=input, id=id, version=version)))

    def preset(self, step: str, value: Any = None) -> None:
        """Give the result of a step in place of its work: of one that is open, now; of one that is yet to come or failed, when it is asked for.

        Raises:
            BadValue: the step has its result already.
        """
        self._thread.call(self._inner.preset(step, value))
