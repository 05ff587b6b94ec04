"""Keeps the answers to reads of executions that have ended, so that such a read costs one read of the head as long as nothing has changed.

What is known of an execution that has ended follows from its log, its head and the catalog: it waits for no approval, engine or time. A kept answer is given
only while the head and what the catalog says are those of the answer. An execution that is retried, pruned or begun anew has another head.
"""

from collections import OrderedDict
from typing import Any, NamedTuple

from perdure.api.http_requests import ApiAnswer
from perdure.core.attributes import ShownAttributes, indexed_attribute_values
from perdure.core.paths import Key
from perdure.service.execution_records import ExecutionRecord, catalogued
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import Head, HeadFilter

ANSWERS_MAX = 1_000
ANSWER_BYTES_MAX = 16 * 1024
"""The largest answer that is kept."""


class _Kept(NamedTuple):
    head: Head
    attributes: ShownAttributes
    catalogued: tuple[str | None, str]
    answer: ApiAnswer


class EndedExecutions:
    """The answers for the executions of one store that were read last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()

    async def answer(self, access: StoreAccess, key: Key) -> ApiAnswer | None:
        """The answer for an execution; None if there is none that is still right."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if await _head(access, key) == kept.head and await catalogued(access, key, kept.attributes) == kept.catalogued:
            self._kept.move_to_end(key)
            return kept.answer
        _ = self._kept.pop(key, None)
        return None

    async def keep(self, access: StoreAccess, record: Any, answer: ApiAnswer) -> None:
        """Keeps the answer with a record of now, if the execution has ended."""
        if not isinstance(record, ExecutionRecord) or record.ended_at_s is None or record.approvals or len(answer.body) > ANSWER_BYTES_MAX:
            return
        head = await _head(access, record.key)
        if head is None or not _is_of(record, head):
            return  # it has changed since it was read
        self._kept[record.key] = _Kept(head, record.attributes, (record.workflow_id, record.workflow_name), answer)
        if len(self._kept) > ANSWERS_MAX:
            _ = self._kept.popitem(last=False)


async def _head(access: StoreAccess, key: Key) -> Head | None:
    return next(iter(await access.store.heads(HeadFilter(keys=(key,), limit=1))), None)


def _is_of(record: ExecutionRecord, head: Head) -> bool:
    """Returns whether a kept record is still right: every field that comes from the head has the value of this head."""
    return (
        (record.version, record.status, record.created_at_s) == (head.version, head.status, head.created_at_s)
        and record.runtime_state.executor.worker_origin == head.holder
        and record.due_at_s is None
        and (head.wake_at_s, head.message_at_s) == (None, None)
        and record.attributes == indexed_attribute_values(head.attributes)
    )
