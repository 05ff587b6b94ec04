"""The recordings of a client of sync programs.

Made from `perdure.async_recordings` by ``python -m tools.make_sync``, but for what that leaves alone: change the async methods, and run it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.async_recordings import AsyncRecordings, Recorded
from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.durations import Duration
from perdure.loop_thread import LoopThread
from perdure.operations.on_recordings import RecordingDetails, RecordingSuggestions, ToolCallAnswer
from perdure.recording.recorded_definition import StepOrder
from perdure.recording.recording_catalog import RecordedDocument
from perdure.service.catalog import CatalogDefinition


class Recordings:
    """The recordings of a client's store. See `AsyncRecordings`."""

    def __init__(self, thread: LoopThread, inner: AsyncRecordings) -> None:
        self._thread = thread
        self._inner = inner

    def list(self, *, open: bool | None = None, limit: int = 100, tenant: str = DEFAULT_TENANT) -> Recorded:
        """Lists up to `limit` recordings, newest first: all, or those that are `open`, or that have ended."""
        return self._thread.call(self._inner.list(open=open, limit=limit, tenant=tenant))

    def start(
        self, recording: str = "", *, title: str = "", input: Mapping[str, Any] | None = None, deadline: Duration | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        """Starts a recording, unless there is one of this id, and returns its id. `input` has the values of ``@input``.

        Raises:
            BadName, BadValue: the id, the title or the deadline is not valid.
        """
        return self._thread.call(self._inner.start(recording, title=title, input=input, deadline=deadline, tenant=tenant))

    def get(self, recording: str, *, after: int = 0, limit: int = 100, tenant: str = DEFAULT_TENANT) -> RecordingDetails:
        """A recording with its calls behind number `after`.

        Raises:
            NotFound: there is no such recording.
        """
        return self._thread.call(self._inner.get(recording, after=after, limit=limit, tenant=tenant))

    def call(self, recording: str, tool: str, arguments: Mapping[str, Any] | None = None, *, call_id: str = "", tenant: str = DEFAULT_TENANT) -> ToolCallAnswer:
        """Calls a tool by its full name, ``server.tool``, and records the call as a step. Repeated under one `call_id`, it is made once.

        Raises:
            NotFound, HasEnded: there is no such recording, or it has ended.
        """
        return self._thread.call(self._inner.call(recording, tool, arguments, call_id=call_id, tenant=tenant))

    def cancel_call(self, recording: str, call_id: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Ends a call that waits or runs, by its id.

        Raises:
            NotFound, HasEnded: there is no such recording, or it has ended.
        """
        self._thread.call(self._inner.cancel_call(recording, call_id, tenant=tenant))

    def preset(
        self,
        recording: str,
        result: Any,
        *,
        step: str = "",
        tool: str = "",
        arguments: Mapping[str, Any] | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> str:
        """Gives the result of a call that is not made, and returns its step: of a `tool` with these arguments, or of a `step` that is to come or has failed.

        Raises:
            NotFound, HasEnded: there is no such recording, or it has ended.
            BadValue: both or neither of step and tool are given, or the step has its result or runs.
        """
        return self._thread.call(self._inner.preset(recording, result, step=step, tool=tool, arguments=arguments, tenant=tenant))

    def set_input(self, recording: str, input: Mapping[str, Any], *, tenant: str = DEFAULT_TENANT) -> None:
        """Sets values of ``@input``, besides those that are known or in their place.

        Raises:
            NotFound, HasEnded: there is no such recording, or it has ended.
        """
        self._thread.call(self._inner.set_input(recording, input, tenant=tenant))

    def end(self, recording: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Ends a recording, once the calls that have begun have ended.

        Raises:
            NotFound, HasEnded: there is no such recording, or it has ended.
        """
        self._thread.call(self._inner.end(recording, tenant=tenant))

    def suggestions(self, recording: str, *, steps: Sequence[str] = (), failed: bool = False, tenant: str = DEFAULT_TENANT) -> RecordingSuggestions:
        """Finds what the literals in the arguments may have been: references to earlier results and to the input, and loops over lists.

        `definition` and `save` take the keys of those that you `accept`.

        Raises:
            NotFound: there is no such recording.
            BadValue: no call is left, or a step is not one of the recording.
        """
        return self._thread.call(self._inner.suggestions(recording, steps=steps, failed=failed, tenant=tenant))

    def definition(
        self,
        recording: str,
        name: str = "",
        *,
        steps: Sequence[str] = (),
        order: StepOrder = "recorded",
        failed: bool = False,
        accept: Sequence[str] = (),
        tenant: str = DEFAULT_TENANT,
    ) -> RecordedDocument:
        """Makes the definition of a recording, of the calls with a result or of the chosen `steps`, and says what was found in it. Nothing is stored.

        What is accepted of the `suggestions`, by their keys, takes the place of literals.

        Raises:
            NotFound: there is no such recording.
            BadValue: no call is left, or one can't stand in a definition.
        """
        return self._thread.call(self._inner.definition(recording, name, steps=steps, order=order, failed=failed, accept=accept, tenant=tenant))

    def save(
        self,
        recording: str,
        slug: str,
        *,
        steps: Sequence[str] = (),
        order: StepOrder = "recorded",
        failed: bool = False,
        accept: Sequence[str] = (),
        draft: bool = False,
        note: str = "",
        tenant: str = DEFAULT_TENANT,
    ) -> CatalogDefinition:
        """Publishes the definition of a recording under a slug, as its first version or the next one; with `draft`, keeps it as a draft.

        Raises:
            NotFound: there is no such recording.
            BadValue: no call is left, or one can't stand in a definition.
            BadDefinition: the document is not valid; the error has all findings.
            DefinitionOwned: a watched file has the definition.
        """
        return self._thread.call(
            self._inner.save(recording, slug, steps=steps, order=order, failed=failed, accept=accept, draft=draft, note=note, tenant=tenant)
        )
