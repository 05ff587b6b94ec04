"""The dead letters of a client: executions that have failed or need attention, by what they have in common, and what is done about them.

No rule stands here: it is the typed face of `perdure.service.dead_letters`. What it says holds for its sync twin, `perdure.dead_letters`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from perdure.async_handle import AsyncHandle
from perdure.core.paths import Key
from perdure.programs.code.declare import checked_name
from perdure.programs.code.durations import Duration, whole
from perdure.programs.code.options import DEFAULT_TENANT
from perdure.sdk import Workflow
from perdure.service import dead_letters, queries
from perdure.service.access import Access, within
from perdure.service.dead_letters import DeadLetters, Which

Groups = list[DeadLetters]


class AsyncDeadLetterOffice:
    """What has failed or needs attention, on the store of a client. It is the client's `dead_letters`."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def groups(
        self,
        *,
        workflow: Workflow[..., Any] | str | None = None,
        id_prefix: str = "",
        since: Duration | datetime | None = None,
        fingerprint: str = "",
        limit: int = 10_000,
        tenant: str = DEFAULT_TENANT,
    ) -> Groups:
        """The dead letters by what they have in common, what failed last first; of at most `limit` executions, the newest.

        A `fingerprint`, or the beginning of one, chooses one group. Where there are more than `limit`, the groups say that they are not `complete`.

        Raises:
            BadValue: there is no group of that fingerprint, or several begin so.
        """
        name = workflow.code.name if isinstance(workflow, Workflow) else None if workflow is None else checked_name(workflow, "workflow")
        which = Which(
            tenant=checked_name(tenant, "tenant"), workflow=name, id_prefix=id_prefix, since=since, fingerprint=fingerprint, limit=whole(limit, "limit")
        )
        return await dead_letters.groups(self._access, which)

    async def requeue(
        self,
        execution: str | Key,
        reason: str = "",
        *,
        edits: Mapping[str, Any] | None = None,
        workflow: Workflow[..., Any] | None = None,
        wait: bool = False,
        timeout: Duration | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> AsyncHandle[Any]:
        """Run one again: from what failed or, with `edits` of its input, as a new execution from the beginning, for which this one is discarded.

        Edits are arguments by name; those that were given by position have their numbers, from 1, or their names where the `workflow` is given, which
        is then held against the input. Returns the handle of what goes on. With `wait`, the wish has been carried out.

        Raises:
            NotFound, BadValue: it is no dead letter, or can't be edited so.
            NeedsAttention: with `wait`, it went on and is parked again.
        """
        key = await self._key(execution, tenant)
        async with within(timeout, f"the requeuing of {key}"):
            code = None if workflow is None else workflow.code
            follows, after = await dead_letters.requeue(self._access, key, reason, edits=edits, code=code, wait=wait)
        return AsyncHandle(self._access, follows, Any, follows != key, after)

    async def discard(
        self, execution: str | Key, reason: str = "", *, wait: bool = False, timeout: Duration | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        """Take one off the list, and run nothing: it is cancelled as it stands, and whoever waited for it is not told again.

        Raises:
            NotFound, BadValue: it is no dead letter.
        """
        key = await self._key(execution, tenant)
        async with within(timeout, f"the discarding of {key}"):
            await dead_letters.discard(self._access, key, reason, wait)

    async def _key(self, execution: str | Key, tenant: str) -> Key:
        if isinstance(execution, Key):
            return execution
        return await queries.by_id(self._access, checked_name(tenant, "tenant"), checked_name(execution, "id"))
