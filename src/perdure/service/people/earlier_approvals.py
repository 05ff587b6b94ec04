"""Finds the waiting approvals that began with an earlier version and have no attributes, so that no index knows of them.

All waiting approvals are gone through once in a process. Later only the newest are, since an engine of an earlier version may still run: page by page, up to
one whose approvals were all seen before.
"""

import msgspec

from perdure.code.approval_attributes import OPEN_STATUSES
from perdure.core.operations import APPROVAL_WORKFLOW
from perdure.core.paths import Key
from perdure.stores.protocol import Head, HeadFilter, ReadOnlyStore, head_position

FIRST_PAGE, LATER_PAGE = 500, 50

SEEN_MAX = 1_000
"""How many of the newest approvals are remembered as seen."""


class EarlierApprovals:
    """The waiting approvals of one store without attributes."""

    def __init__(self, store: ReadOnlyStore) -> None:
        self._store = store
        self._known: dict[str, set[Key]] = {}
        self._seen: dict[str, list[Key]] = {}

    async def waiting(self, tenant: str) -> list[Head]:
        """The heads of those of a tenant, newest first."""
        known = self._known.setdefault(tenant, set())
        await self._look(tenant, known)
        if not known:
            return []
        waiting = await self._store.heads(HeadFilter(keys=tuple(known), statuses=OPEN_STATUSES, limit=len(known)))
        known.intersection_update(head.key for head in waiting)
        return sorted(waiting, key=lambda head: (head.created_at_s, head.key), reverse=True)

    async def _look(self, tenant: str, known: set[Key]) -> None:
        """Adds those that were not known."""
        before, newest = self._seen.get(tenant), list[Key]()
        which = HeadFilter(tenant=tenant, workflow=APPROVAL_WORKFLOW, statuses=OPEN_STATUSES, limit=FIRST_PAGE if before is None else LATER_PAGE)
        seen = set(before or ())
        while True:
            heads = await self._store.heads(which)
            known.update(head.key for head in heads if not head.attributes)
            newest += [head.key for head in heads[: SEEN_MAX - len(newest)]]
            if len(heads) < which.limit or all(head.key in seen for head in heads):
                break
            which = msgspec.structs.replace(which, after=head_position(heads[-1]))
        self._seen[tenant] = [*newest, *(key for key in before or () if key not in newest)][:SEEN_MAX] if before else newest
