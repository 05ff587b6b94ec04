"""The asyncio interface of a client to recordings: somebody calls tools one by one, and a definition is made of the calls.

It holds no rules, but gives `perdure.operations.on_recordings` its typed interface. `perdure.sync_recordings` is generated from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.declarations import checked_name
from perdure.code.durations import Duration, duration_seconds, whole_number
from perdure.core import values
from perdure.operations import on_recordings
from perdure.operations.local_service import LocalService
from perdure.operations.on_recordings import ListedRecording, RecordingDetails, RecordingSuggestions, ToolCallAnswer
from perdure.recording.recorded_definition import StepOrder
from perdure.recording.recording_catalog import RecordedDocument
from perdure.service.catalog import CatalogDefinition
from perdure.service.page_cursors import PAGE_MAX
from perdure.service.service_access import ServiceAccess

Recorded = list[ListedRecording]


class AsyncRecordings:
    """The recordings of a client's store, by their ids. It is the client's `recordings`. A process with the tools has to run them: ``perdure mcp --record``."""

    def __init__(self, access: ServiceAccess) -> None:
        self._access = access

    def _service(self, tenant: str) -> LocalService:
        return LocalService(self._access, checked_name(tenant, "tenant"))

    async def list(self, *, open: bool | None = None, limit: int = 100, tenant: str = DEFAULT_TENANT) -> Recorded:
        """Lists up to `limit` recordings, newest first: all, or those that are `open`, or that have ended."""
        found: Recorded = []
        call, after, left = self._service(tenant), "", whole_number(limit, "limit")
        while len(found) < left:
            page = await call(on_recordings.page, tenant, open=open, limit=min(left - len(found), PAGE_MAX), after=after)
            found += page.items
            if page.next is None:
                break
            after = page.next
        return found

    async def start(
        self, recording: str = "", *, title: str = "", input: Mapping[str, Any] | None = None, deadline: Duration | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        """Starts a recording, unless there is one of this id, and returns its id. `input` has the values of ``@input``.

        Raises:
            BadName, BadValue: the id, the title or the deadline is not valid.
        """
        deadline_s = None if deadline is None else duration_seconds(deadline, "deadline")
        service = self._service(tenant)
        given = None if input is None else dict(input)
        return (await service(on_recordings.start, tenant, recording, title, input=given, deadline_s=deadline_s, author=service.author)).key.id

    async def get(self, recording: str, *, after: int = 0, limit: int = 100, tenant: str = DEFAULT_TENANT) -> RecordingDetails:
        """A recording with its calls behind number `after`.

        Raises:
            NotFound: there is no such recording.
        """
        return await self._service(tenant)(on_recordings.read, tenant, recording, after, limit)

    async def call(
        self, recording: str, tool: str, arguments: Mapping[str, Any] | None = None, *, call_id: str = "", tenant: str = DEFAULT_TENANT
    ) -> ToolCallAnswer:
        """Calls a tool by its full name, ``server.tool``, and records the call as a step. Repeated under one `call_id`, it is made once.

        Raises:
            NotFound, HasEnded: there is no such recording, or it has ended.
        """
        return await self._service(tenant)(on_recordings.call, tenant, recording, tool, dict(arguments or {}), call_id)

    async def cancel_call(self, recording: str, call_id: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Ends a call that waits or runs, by its id.

        Raises:
            NotFound, HasEnded: there is no such recording, or it has ended.
        """
        await self._service(tenant)(on_recordings.cancel_call, tenant, recording, call_id)

    async def preset(
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
        raw = values.encode(result, "the result")
        return (await self._service(tenant)(on_recordings.preset, tenant, recording, raw, step=step, tool=tool, arguments=dict(arguments or {}))).step

    async def set_input(self, recording: str, input: Mapping[str, Any], *, tenant: str = DEFAULT_TENANT) -> None:
        """Sets values of ``@input``, besides those that are known or in their place.

        Raises:
            NotFound, HasEnded: there is no such recording, or it has ended.
        """
        await self._service(tenant)(on_recordings.set_input, tenant, recording, dict(input))

    async def end(self, recording: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Ends a recording, once the calls that have begun have ended.

        Raises:
            NotFound, HasEnded: there is no such recording, or it has ended.
        """
        await self._service(tenant)(on_recordings.end, tenant, recording)

    async def suggestions(self, recording: str, *, steps: Sequence[str] = (), failed: bool = False, tenant: str = DEFAULT_TENANT) -> RecordingSuggestions:
        """Finds what the literals in the arguments may have been: references to earlier results and to the input, and loops over lists.

        `definition` and `save` take the keys of those that you `accept`.

        Raises:
            NotFound: there is no such recording.
            BadValue: no call is left, or a step is not one of the recording.
        """
        return await self._service(tenant)(on_recordings.suggestions, tenant, recording, [*steps], failed=failed)

    async def definition(
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
        return await self._service(tenant)(on_recordings.definition, tenant, recording, name, [*steps], order=order, failed=failed, accept=[*accept])

    async def save(
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
        service = self._service(tenant)
        given: dict[str, Any] = {"order": order, "failed": failed, "accept": [*accept], "draft": draft, "note": note}
        return await service(on_recordings.save, tenant, recording, slug, service.author, [*steps], **given)
