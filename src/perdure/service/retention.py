"""Retention: what executions have done is removed long after their end; that there were such, how they ended and when, is kept.

Each is dealt with by one commit, at the version at which it was looked at: an engine or a person that has gone on with it meanwhile wins. Whatever
interrupts this has removed some, and it goes on when it is begun again.
"""

from collections.abc import AsyncGenerator, Callable
from uuid import uuid4

import msgspec

from perdure.core import log
from perdure.core.errors import BadValue
from perdure.core.execution import Execution
from perdure.core.folding import fold
from perdure.core.mail import Ack
from perdure.core.ops import Spawn
from perdure.core.paths import Key
from perdure.core.tombstone import tombstone
from perdure.runtime.endings import ENDED
from perdure.service.bundle import Bundle
from perdure.service.exporting import contents, export
from perdure.service.paging import pages
from perdure.stores.base import Commit, Committed, Filter, Head, Store

PARENTS_MAX = 1000
"""How many of those who have waited for others are remembered."""
DEFAULT = frozenset(("completed", "cancelled"))
"""What has failed may yet be retried."""

Archive = Callable[[Key, Bundle], None]
"""Keeps an export of what is about to be removed; when it returns, that is safe."""


class Old(msgspec.Struct, frozen=True, kw_only=True):
    """Which are meant: those in one of these statuses that have ended before a time of the store, in seconds since 1970."""

    tenant: str
    before_s: float
    statuses: frozenset[str] = DEFAULT
    workflow: str | None = None


class Pruned(msgspec.Struct, frozen=True):
    """An execution that was removed, or would be, with how many bytes its log and its mail took."""

    key: Key
    status: str
    ended_at_s: float
    size_bytes: int


async def prune(store: Store, which: Old, archive: Archive | None = None, dry_run: bool = False) -> AsyncGenerator[Pruned, None]:
    """Remove what is meant, the newest first, but for what somebody holds, what somebody has waited for who has not ended,
    and what would be undone with whom it was done for: that goes once the other is removed.

    Raises:
        BadValue: a status is none of an end.
    """
    if not which.statuses or not which.statuses <= ENDED:
        raise BadValue("status", ", ".join(sorted(which.statuses)), f"some of {', '.join(sorted(ENDED))}")
    waiting = _Waiting(store)
    async for page in pages(store, Filter(tenant=which.tenant, workflow=which.workflow, statuses=which.statuses)):
        for head in page:
            old = head.ended_at_s is not None and head.ended_at_s < which.before_s
            if old and head.holder is None and (done := await _prune(store, head, waiting, None if dry_run else archive or _nowhere)) is not None:
                yield done


async def _prune(store: Store, head: Head, waiting: "_Waiting", archive: Archive | None) -> Pruned | None:
    """Remove one, once it is archived; without that, only say what would be removed."""
    found = await contents(store, head.key)
    if found is None or found[0].head != head:
        return None
    rows, mail = found[0].rows, found[1]
    execution = fold(head.key, log.decode_all(rows), head.root)
    moment = await store.moment()
    made = tombstone(execution, moment.now_s)
    if made is None or head.ended_at_s is None or await waiting.need(execution):
        return None
    pruned = Pruned(head.key, head.status, head.ended_at_s, sum(map(len, rows)) + sum(len(letter.body) for letter in mail))
    if archive is None:
        return pruned
    if archive is not _nowhere:
        archive(head.key, await export(store, head.key))
    kept, removed = made
    change = Commit(
        key=head.key,
        epoch=moment.epoch,
        holder=f"prune-{uuid4().hex}",
        version=head.version,
        program=head.program,
        root=head.root,
        row=log.encode([removed]),
        count=1,
        compacted=log.encode(kept),
        status=head.status,
        ended_at_s=head.ended_at_s,
        release=True,
        acks=tuple(Ack(head.key, letter.key) for letter in mail),
    )
    (answer,) = await store.commit([change])
    return pruned if isinstance(answer, Committed) else None


def _nowhere(_: Key, __: Bundle) -> None:
    """No archive is wanted."""


class _Waiting:
    """Those who have waited for others, looked at once for many children of the same."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[Key, tuple[bool, frozenset[Key]]] = {}

    async def need(self, execution: Execution) -> bool:
        """Whether somebody has waited for it who has not ended, or with whom it would be undone."""
        for parent in {parent.key for parent in execution.watchers}:
            goes_on, undoes = await self._look(parent)
            if goes_on or execution.key in undoes:
                return True
        return False

    async def _look(self, key: Key) -> tuple[bool, frozenset[Key]]:
        if key not in self._known:
            found = await self._store.read(key)
            execution = fold(key, () if found is None else log.decode_all(found.rows))
            spawns = (known.op for known in execution.settled.values() if isinstance(known.op, Spawn) and known.op.undo)
            undoes = frozenset(Key(key.tenant, spawn.workflow, spawn.id) for spawn in spawns)
            self._known[key] = found is not None and execution.ended is None, undoes
            if len(self._known) > PARENTS_MAX:
                del self._known[next(iter(self._known))]
        return self._known[key]
