"""Verifying a store, execution by execution, while others work on it: what is found is looked at again, and is told if it is still so."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from hashlib import sha256
from typing import Protocol, runtime_checkable

import msgspec

from perdure.core import log, messages
from perdure.core.errors import PerdureError
from perdure.core.events import Event
from perdure.core.execution import Execution
from perdure.core.folding import fold
from perdure.core.mail import Mail
from perdure.core.ops import Call, Spawn
from perdure.core.paths import Key, Queue
from perdure.core.walk import blobs_of
from perdure.service.exporting import contents, referred
from perdure.service.paging import pages
from perdure.service.verify import UNREADABLE, Finding, Sight, verify
from perdure.stores.base import Filter, Head
from perdure.stores.looking import Looking

LOOKS = 3
"""So often something must be seen before it is told: in between, others may have changed one half of what is compared."""


@runtime_checkable
class ListsBlobs(Protocol):
    """What a store can do besides, if its blobs can be listed."""

    async def blob_names(self) -> list[str]:
        """The names of all blobs."""
        ...


class Verified(msgspec.Struct, frozen=True):
    """What was found in one execution, and the blobs to which it refers."""

    key: Key
    findings: list[Finding]
    blobs: frozenset[str] = frozenset()


async def heads_of(looking: Looking, keys: Sequence[Key] | None = None) -> list[Head]:
    """The heads of these executions, or of all of all tenants."""
    if keys is not None:
        return await looking.heads(Filter(keys=tuple(keys), limit=len(keys)))
    return [head async for page in pages(looking, Filter()) for head in page]


async def verified(looking: Looking, keys: Iterable[Key]) -> AsyncGenerator[Verified, None]:
    """What is found in each of these executions."""
    glance = _Eyes(looking)
    for key in keys:
        sight = await glance.sight(key)
        found = [] if sight is None else verify(sight)
        for _ in range(LOOKS - 1):
            if found:
                again = await _Eyes(looking).sight(key)
                still = [] if again is None else verify(again)
                found = [one for one in found if one in still]
        yield Verified(key, found, frozenset(() if sight is None else sight.blobs))


def unreferenced(names: Iterable[str]) -> list[Finding]:
    """What is said of blobs to which nothing refers."""
    return [Finding(None, "note", "unreferenced", "", f"nothing refers to blob {name}", "perdure prune removes it") for name in sorted(names)]


class _Eyes:
    """Looks at executions; who lives and what is on queues is looked at once."""

    def __init__(self, looking: Looking) -> None:
        self._looking = looking
        self._living: frozenset[str] | None = None
        self._work: dict[Queue, frozenset[tuple[Queue, str]]] = {}

    async def sight(self, key: Key) -> Sight | None:
        """What is seen of an execution; None if it is not there."""
        before = await self._looking.read(key)
        if before is None:
            return None
        children = await self._children(_folded(key, before.rows))  # before the log is read for good: who had ended by then had told
        found = await contents(self._looking, key)
        if found is None:
            return None
        (head, rows), mail = (found[0].head, found[0].rows), found[1]
        execution = _folded(key, rows)
        children |= await self._children(execution, but=children)
        blobs = await self._blobs(rows, mail)
        times_s = {name: await self._looking.removed_at(name) for name, whole in blobs.items() if whole is None}
        removed = {name: at_s for name, at_s in times_s.items() if at_s is not None}
        there = {name: whole for name, whole in blobs.items() if name not in removed}
        living, work = await self._alive(), await self._work_of(execution)
        return Sight(head=head, rows=rows, mail=mail, living=living, work=work, blobs=there, removed=removed, children=children)

    async def _alive(self) -> frozenset[str]:
        if self._living is None:
            self._living = frozenset(lease.holder for lease in await self._looking.leases() if lease.alive)
        return self._living

    async def _work_of(self, execution: Execution) -> frozenset[tuple[Queue, str]]:
        tenant = execution.key.tenant
        queues = {Queue(tenant, one.op.queue) for one in execution.open.values() if isinstance(one.op, Call) and one.by is None}
        for queue in queues - self._work.keys():
            self._work[queue] = frozenset((queue, mail.key) for mail in await self._looking.mail(queue))
        return frozenset[tuple[Queue, str]]().union(*(self._work[queue] for queue in queues))

    async def _children(self, execution: Execution, but: Iterable[Key] = ()) -> dict[Key, Head]:
        tenant = execution.key.tenant
        keys = {Key(tenant, one.op.workflow, one.op.id) for one in execution.open.values() if isinstance(one.op, Spawn)} - set(but)
        return {head.key: head for head in await self._looking.heads(Filter(keys=tuple(keys), limit=len(keys)))} if keys else {}

    async def _blobs(self, rows: Sequence[bytes], mail: Sequence[Mail]) -> dict[str, bool | None]:
        found: dict[str, bool | None] = {}
        try:
            async for name, raw in referred(self._looking, blobs_of((*_events(rows), *_said(mail)))):
                found[name] = None if raw is None else sha256(raw).hexdigest() == name
        except PerdureError:  # of an archive, whose name says so as well
            return found
        return found


def _folded(key: Key, rows: Sequence[bytes]) -> Execution:
    """The execution, or one that knows nothing if its log can't be read, of which verifying tells."""
    try:
        return fold(key, log.decode_all(rows))
    except UNREADABLE:
        return Execution(key)


def _events(rows: Sequence[bytes]) -> list[Event]:
    try:
        return log.decode_all(rows)
    except UNREADABLE:
        return []


def _said(mail: Sequence[Mail]) -> list[messages.Message | messages.Work]:
    said = []
    for one in mail:
        try:
            said.append(messages.decode(one.body))
        except UNREADABLE:
            continue
    return said
