"""Removes the logs of executions long after their end, and leaves a tombstone: that they existed, how they ended and when.

Each is removed by one commit at the version that was read, so a concurrent change by an engine or a person wins. An interrupted run has removed some;
running it again removes the rest.
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
"""The number of executions that one transaction of the store removes."""

PARENTS_MAX = 1000
"""The number of parents whose state is cached."""
PRUNED_STATUSES = frozenset(("completed", "cancelled"))
"""The statuses pruned by default. Failed executions are left, because they may yet be retried."""

ArchiveWriter = Callable[[Key, Bundle], None]
"""Writes an export of an execution that is about to be removed. When it returns, the export must be durable."""


class RetentionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects the executions in one of `statuses` that ended before `before_s` (store time, seconds since 1970).

    With `forget_ids`, no tombstone is left, and existing tombstones are removed too: the ids can be used again.
    """

    tenant: str
    before_s: float
    statuses: frozenset[str] = PRUNED_STATUSES
    workflow: str | None = None
    forget_ids: bool = False


class PrunedExecution(msgspec.Struct, frozen=True):
    """An execution that was removed (in a dry run: would be), and by how many bytes its log and its messages became shorter."""

    key: Key
    status: str
    ended_at_s: float
    size_bytes: int


class _Removal(NamedTuple):
    """The commit that removes an execution, and the report of it."""

    change: Commit
    pruned: PrunedExecution


async def prune_executions(
    store: Store, which: RetentionFilter, archive: ArchiveWriter | None = None, dry_run: bool = False
) -> AsyncGenerator[PrunedExecution, None]:
    """Removes the selected executions, newest first, and yields each.

    Left are executions that have a holder, that a parent has waited for that has not ended, and that would be undone together with their parent: these can be
    removed after the parent. One transaction of the store removes many executions, each by its own commit.

    Raises:
        BadValue: a status is not one of an ended execution.
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


async def prune_heads(store: Store, heads: Sequence[Head]) -> list[PrunedExecution]:
    """Removes the executions of these heads that may be removed, as `prune_executions` does, in one transaction; returns them."""
    moment, waiting = await store.store_time(), _WaitingParents(store)
    ended = [head for head in heads if head.ended_at_s is not None and head.holder is None]
    found = [await _removal_of(store, head, waiting, moment, False) for head in ended]
    return [done.pruned for done in await _remove_all(store, [one for one in found if one is not None])]


async def _one_page_behind(pages: AsyncIterator[list[Head]]) -> AsyncIterator[list[Head]]:
    """Yields each page after the next was read. Reading it needs the last head of the page before, which the caller may remove."""
    before: list[Head] = []
    async for page in pages:
        yield before
        before = page
    yield before


async def _remove_all(store: Store, found: Sequence[_Removal]) -> list[_Removal]:
    """Commits the removals; returns those that took effect. Executions that changed in the meantime are left as they are."""
    answers = await store.commit([one.change for one in found]) if found else []
    return [one for one, answer in zip(found, answers, strict=True) if isinstance(answer, Committed)]


async def _removal_of(store: Store, head: Head, waiting: "_WaitingParents", moment: StoreTime, forget_id: bool) -> _Removal | None:
    """How one execution is removed; None if it must stay, or is a tombstone already."""
    found = await store.read(head.key)
    if found is None or found.head != head or head.ended_at_s is None:
        return None
    execution = fold_events(head.key, log_format.decode_rows(found.payloads), head.root)
    removed = tombstone(execution, moment.now_s)
    if (removed is None and not forget_id) or await waiting.need(execution):
        return None
    queued = await store.messages(head.key)
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
        acks=tuple(Ack(head.key, message.key) for message in queued),
        forgets=forget_id,
    )
    size_bytes = sum(map(len, found.payloads)) + sum(len(message.body) for message in queued) - len(row)
    return _Removal(change, PrunedExecution(head.key, head.status, head.ended_at_s, size_bytes))


class _WaitingParents:
    """Reads the parents that have waited for executions. The result is cached, since many children have the same parent."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[Key, tuple[bool, frozenset[Key]]] = {}

    async def need(self, execution: Execution) -> bool:
        """Whether a parent that has waited for the execution has not ended, or would undo it."""
        for parent in {parent.key for parent in execution.watchers}:
            goes_on, undoes = await self._look(parent)
            if goes_on or execution.key in undoes:
                return True
        return False

    def forget(self, key: Key) -> None:
        """Drops the cached state of a parent that was removed."""
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
