"""Retention: what executions have done is removed long after their end; that there were such, how they ended and when, is kept.

Each is dealt with by one commit, at the version at which it was looked at: an engine or a person that has gone on with it meanwhile wins. Whatever
interrupts this has removed some, and it goes on when it is begun again.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import NamedTuple

import msgspec

from perdure.core import log_format
from perdure.core.compaction import tombstone
from perdure.core.envelopes import Ack
from perdure.core.errors import BadValue
from perdure.core.execution import Execution
from perdure.core.operations import SpawnOperation
from perdure.core.paths import Key
from perdure.core.replay import fold_events
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.service.execution_bundles import Bundle, export_bundle
from perdure.service.store_access import head_pages
from perdure.stores.protocol import Commit, Committed, Head, HeadFilter, Store, StoreTime

PRUNE_BATCH = 200
"""How many are removed by one transaction of the store."""

PARENTS_MAX = 1000
"""How many of those who have waited for others are remembered."""
PRUNED_STATUSES = frozenset(("completed", "cancelled"))
"""What has failed may yet be retried."""

ArchiveWriter = Callable[[Key, Bundle], None]
"""Keeps an export of what is about to be removed; when it returns, that is safe."""


class RetentionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which are meant: those in one of these statuses that have ended before a time of the store, in seconds since 1970.

    With `forget_ids`, nothing at all is kept of them, also of those that were removed before: their ids may run again.
    """

    tenant: str
    before_s: float
    statuses: frozenset[str] = PRUNED_STATUSES
    workflow: str | None = None
    forget_ids: bool = False


class PrunedExecution(msgspec.Struct, frozen=True):
    """An execution that was removed, or would be, with by how many bytes its log and its mail became shorter."""

    key: Key
    status: str
    ended_at_s: float
    size_bytes: int


class _Removal(NamedTuple):
    """What is to be done with one execution, and what is said of it then."""

    change: Commit
    pruned: PrunedExecution


async def prune_executions(
    store: Store, which: RetentionFilter, archive: ArchiveWriter | None = None, dry_run: bool = False
) -> AsyncGenerator[PrunedExecution, None]:
    """Remove what is meant, the newest first, but for what somebody holds, what somebody has waited for who has not ended,
    and what would be undone with whom it was done for: that goes once the other is removed.

    Many are removed by one transaction of the store, each by a commit of its own in it.

    Raises:
        BadValue: a status is none of an end.
    """
    if not which.statuses or not which.statuses <= ENDED_STATUSES:
        raise BadValue("status", ", ".join(sorted(which.statuses)), f"some of {', '.join(sorted(ENDED_STATUSES))}")
    waiting = _WaitingParents(store)
    async for page in _one_page_behind(head_pages(store, HeadFilter(tenant=which.tenant, workflow=which.workflow, statuses=which.statuses))):
        old = [head for head in page if head.ended_at_s is not None and head.ended_at_s < which.before_s and head.holder is None]
        for start in range(0, len(old), PRUNE_BATCH):
            moment, found = await store.store_time(), list[_Removal]()
            for head in old[start : start + PRUNE_BATCH]:
                if (removal := await _removal_of(store, head, waiting, moment, which.forget_ids)) is not None:
                    if archive is not None and not dry_run:
                        archive(head.key, await export_bundle(store, head.key))
                    found.append(removal)
            for done in found if dry_run else await _remove_all(store, found):
                yield done.pruned
                waiting.forget(done.pruned.key)


async def _one_page_behind(pages: AsyncIterator[list[Head]]) -> AsyncIterator[list[Head]]:
    """Each page once the next was read: that begins behind its last head, which may then be forgotten."""
    before: list[Head] = []
    async for page in pages:
        yield before
        before = page
    yield before


async def _remove_all(store: Store, found: Sequence[_Removal]) -> list[_Removal]:
    """Those that were removed: whatever has changed meanwhile is left as it is."""
    answers = await store.commit([one.change for one in found]) if found else []
    return [one for one, answer in zip(found, answers, strict=True) if isinstance(answer, Committed)]


async def _removal_of(store: Store, head: Head, waiting: "_WaitingParents", moment: StoreTime, forget_id: bool) -> _Removal | None:
    """How one is removed; None if it must stay, or has been."""
    found = await store.read(head.key)
    if found is None or found.head != head or head.ended_at_s is None:
        return None
    execution = fold_events(head.key, log_format.decode_rows(found.payloads), head.root)
    removed = tombstone(execution, moment.now_s)
    if (removed is None and not forget_id) or await waiting.need(execution):
        return None
    mail = await store.messages(head.key)
    row = b"" if forget_id or removed is None else log_format.encode_row([removed])
    change = Commit(
        key=head.key,
        epoch=moment.epoch,
        holder="prune",
        version=head.version,
        program=head.program,
        root=head.root,
        row=row,
        count=0 if forget_id else 1,
        compacted=b"",
        status=head.status,
        ended_at_s=head.ended_at_s,
        release=True,
        acks=tuple(Ack(head.key, letter.key) for letter in mail),
        forgets=forget_id,
    )
    size_bytes = sum(map(len, found.payloads)) + sum(len(letter.body) for letter in mail) - len(row)
    return _Removal(change, PrunedExecution(head.key, head.status, head.ended_at_s, size_bytes))


class _WaitingParents:
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

    def forget(self, key: Key) -> None:
        """What this one has waited for is not undone with it any more."""
        self._known.pop(key, None)

    async def _look(self, key: Key) -> tuple[bool, frozenset[Key]]:
        if key not in self._known:
            found = await self._store.read(key)
            execution = fold_events(key, () if found is None else log_format.decode_rows(found.payloads))
            spawns = (known.op for known in execution.settled.values() if isinstance(known.op, SpawnOperation) and known.op.undo)
            undoes = frozenset(Key(key.tenant, spawn.workflow, spawn.id) for spawn in spawns)
            self._known[key] = found is not None and execution.ended is None, undoes
            if len(self._known) > PARENTS_MAX:
                del self._known[next(iter(self._known))]
        return self._known[key]
