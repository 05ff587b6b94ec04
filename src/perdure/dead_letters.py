"""The dead letters of everybody else: `DeadLetterOffice`, the sync face of `AsyncDeadLetterOffice`. What holds of the async twin holds here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from perdure.async_dead_letters import AsyncDeadLetterOffice, Groups
from perdure.core.paths import Key
from perdure.handle import Handle
from perdure.loop_thread import LoopThread
from perdure.programs.code.durations import Duration
from perdure.programs.code.options import DEFAULT_TENANT
from perdure.sdk import Workflow


class DeadLetterOffice:
    """What has failed or needs attention, on the store of a client. See `AsyncDeadLetterOffice`."""

    def __init__(self, thread: LoopThread, inner: AsyncDeadLetterOffice) -> None:
        self._thread = thread
        self._inner = inner

    def groups(
        self,
        *,
        workflow: Workflow[..., Any] | str | None = None,
        id_prefix: str = "",
        since: Duration | datetime | None = None,
        fingerprint: str = "",
        limit: int = 10_000,
        tenant: str = DEFAULT_TENANT,
    ) -> Groups:
        """See `AsyncDeadLetterOffice.groups`."""
        found = self._inner.groups(workflow=workflow, id_prefix=id_prefix, since=since, fingerprint=fingerprint, limit=limit, tenant=tenant)
        return self._thread.call(found)

    def requeue(
        self,
        execution: str | Key,
        reason: str = "",
        *,
        edits: Mapping[str, Any] | None = None,
        workflow: Workflow[..., Any] | None = None,
        wait: bool = False,
        timeout: Duration | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Handle[Any]:
        """See `AsyncDeadLetterOffice.requeue`."""
        follows = self._inner.requeue(execution, reason, edits=edits, workflow=workflow, wait=wait, timeout=timeout, tenant=tenant)
        return Handle(self._thread, self._thread.call(follows))

    def discard(self, execution: str | Key, reason: str = "", *, wait: bool = False, timeout: Duration | None = None, tenant: str = DEFAULT_TENANT) -> None:
        """See `AsyncDeadLetterOffice.discard`."""
        self._thread.call(self._inner.discard(execution, reason, wait=wait, timeout=timeout, tenant=tenant))
