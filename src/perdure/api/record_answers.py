"""Keeps the answers to reads of executions, so that such a read costs little as long as nothing has changed.

What is known of an execution follows from its log, its head and the catalog and, until it has ended, from what the living processes publish: whether an engine
runs it, and what messages it takes. A kept answer is given only while all of this is as it was (the processes: as they were a moment ago). An execution that
goes on, is retried, pruned or begun anew has another head. Nothing is kept of one that waits for more than that: its begin, an approval, or a place in a queue;
nor of one that has changed between the last two reads, since it would be compared with the store in vain.
"""

import time
from collections import OrderedDict
from typing import Any, NamedTuple, TypeVar

from perdure.api.http_requests import ApiAnswer
from perdure.core.attributes import ShownAttributes, indexed_attribute_values
from perdure.core.paths import Key
from perdure.service.execution_records import ExecutionRecord, catalogued
from perdure.service.queries import head_due_at_s
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import Head, HeadFilter

T = TypeVar("T")

ANSWERS_MAX = 1_000
ANSWER_BYTES_MAX = 16 * 1024
"""The largest answer that is kept."""

PROCESSES_KNOWN_S = 0.1
"""For how long what the living processes publish is not read again. A lease, by which a process is known to live, lasts for seconds."""

REASONS_OF_QUEUES = frozenset(("queue", "queue_full"))
"""The codes of reasons for which the limits and contents of a queue are read."""

Processes = tuple[tuple[str, bytes], ...]
"""The living processes, and what each publishes."""


class _Kept(NamedTuple):
    """An answer, and what it follows from. `processes` are None for an execution that has ended."""

    head: Head
    attributes: ShownAttributes
    catalogued: tuple[str | None, str]
    processes: Processes | None
    answer: ApiAnswer


class _Seen(NamedTuple):
    """The version at which an execution that has not ended was read last, and whether that was its version in the read before as well."""

    version: int
    is_still: bool


class RecordAnswers:
    """The answers for the executions of one store that were read last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._seen: OrderedDict[Key, _Seen] = OrderedDict()
        self._processes: Processes = ()
        self._known_until_s = 0.0

    async def answer(self, access: StoreAccess, key: Key) -> ApiAnswer | None:
        """The answer for an execution; None if there is none that is still right."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if (
            await _head(access, key) == kept.head
            and (kept.processes is None or await self._known_processes(access) == kept.processes)
            and await catalogued(access, key, kept.attributes) == kept.catalogued
        ):
            self._kept.move_to_end(key)
            return kept.answer
        _ = self._kept.pop(key, None)
        return None

    async def begin(self, access: StoreAccess, key: Key) -> Processes | None:
        """Is called before an execution is read of which there is no answer: returns the living processes, if an answer is worth keeping; else None."""
        seen = self._seen.get(key)
        return await living_processes(access) if seen is not None and seen.is_still else None

    async def keep(self, access: StoreAccess, before: Processes | None, record: Any, answer: ApiAnswer) -> None:
        """Keeps the answer with a record of now, unless it follows from more than can be compared, or something of that has changed since it was read.

        `before` is what `begin` has returned.
        """
        if not isinstance(record, ExecutionRecord) or len(answer.body) > ANSWER_BYTES_MAX or record.started_at_s is None or record.approvals:
            return
        if record.status == "waiting_approval" or record.reason.code in REASONS_OF_QUEUES:
            return
        processes = None
        if record.ended_at_s is None:
            is_still = self._note_seen(record.key, record.version)
            if before is None or not is_still:
                return
            processes = before
        head = await _head(access, record.key)
        if head is None or not _is_of(record, head) or (processes is not None and await living_processes(access) != processes):
            return
        _put(self._kept, record.key, _Kept(head, record.attributes, (record.workflow_id, record.workflow_name), processes, answer))

    async def _known_processes(self, access: StoreAccess) -> Processes:
        """The processes that lived when they were read last, a moment ago."""
        if time.monotonic() >= self._known_until_s:
            self._processes = await living_processes(access)
            self._known_until_s = time.monotonic() + PROCESSES_KNOWN_S
        return self._processes

    def _note_seen(self, key: Key, version: int) -> bool:
        """Notes at which version an execution was read; returns whether that was its version in the last read."""
        last = self._seen.get(key)
        is_still = last is not None and last.version == version
        _put(self._seen, key, _Seen(version, is_still))
        return is_still


def _put(memory: OrderedDict[Key, T], key: Key, value: T) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > ANSWERS_MAX:
        _ = memory.popitem(last=False)


async def living_processes(access: StoreAccess) -> Processes:
    """The processes that live now."""
    return tuple([(one.holder, one.about) for one in await access.store.leases() if one.alive])


async def _head(access: StoreAccess, key: Key) -> Head | None:
    return next(iter(await access.store.heads(HeadFilter(keys=(key,), limit=1))), None)


def _is_of(record: ExecutionRecord, head: Head) -> bool:
    """Returns whether a record is still right: every field that comes from the head has the value of this head."""
    return (
        (record.version, record.status, record.created_at_s, record.due_at_s) == (head.version, head.status, head.created_at_s, head_due_at_s(head))
        and record.runtime_state.executor.worker_origin == head.holder
        and record.attributes == indexed_attribute_values(head.attributes)
    )
