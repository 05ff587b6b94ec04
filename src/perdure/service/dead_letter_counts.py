"""Counts dead letters by what failed, from the index of heads alone, and reads one sample of each group."""

import msgspec

from perdure.core.attributes import split_attributes, value_of_sortable
from perdure.core.failure_causes import DEAD_STATUSES, ERROR_TYPE, FAILED_AT, FINGERPRINT
from perdure.service import queries
from perdure.service.dead_letter_groups import DeadLetter, read_dead_letter
from perdure.service.execution_counts import newest_heads
from perdure.service.queries import INTERNAL_WORKFLOWS, ExecutionFilter
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import Head

SCANNED_MAX = 10_000
"""How many dead letters one request looks at, the newest executions first."""

SAMPLES_MAX = 100
"""Of how many groups a sample is read."""


class CountedDeadLetters(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters of one workflow that failed alike. `statuses` counts them by status; `sample` is the one that failed last, with the place and the message.

    The first failed at `first_at_s`, the last at `last_at_s`. `sample` is None of groups beyond the first 100, and if it was retried meanwhile.
    """

    fingerprint: str
    workflow: str
    error_type: str
    count: int
    statuses: dict[str, int]
    first_at_s: float
    last_at_s: float
    sample: DeadLetter | None


class DeadLetterCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of dead letters, the most recent failure first. `scanned` were looked at; with `is_partial`, there are more, and counts are lower bounds."""

    items: list[CountedDeadLetters]
    scanned: int
    is_partial: bool


async def count_dead_letters(access: StoreAccess, which: ExecutionFilter) -> DeadLetterCounts:
    """Counts the dead letters that a filter selects, by workflow and fingerprint."""
    filtered = await queries.head_filter(access, msgspec.structs.replace(which, status=which.status or tuple(DEAD_STATUSES)))
    heads, is_partial = await newest_heads(access, filtered, SCANNED_MAX)
    by_group: dict[tuple[str, str], list[tuple[float, Head]]] = {}
    for head in heads:
        if head.status in DEAD_STATUSES and (which.internal or which.workflow is not None or head.key.workflow not in INTERNAL_WORKFLOWS):
            added = _added(head)
            at_s = added.get(FAILED_AT, head.ended_at_s or head.created_at_s)
            by_group.setdefault((str(added.get(FINGERPRINT, "")), head.key.workflow), []).append((_seconds(at_s), head))
    groups = sorted(by_group.items(), key=lambda group: -max(at_s for at_s, _ in group[1]))
    items = [await _counted(access, *name, ended, number < SAMPLES_MAX) for number, (name, ended) in enumerate(groups)]
    return DeadLetterCounts(items=items, scanned=len(heads), is_partial=is_partial)


async def _counted(access: StoreAccess, fingerprint: str, workflow: str, ended: list[tuple[float, Head]], is_sampled: bool) -> CountedDeadLetters:
    last_at_s, last = max(ended, key=lambda one: one[0])
    statuses = {status: sum(head.status == status for _, head in ended) for status in sorted({head.status for _, head in ended})}
    return CountedDeadLetters(
        fingerprint=fingerprint,
        workflow=workflow,
        error_type=str(_added(last).get(ERROR_TYPE, "")),
        count=len(ended),
        statuses=statuses,
        first_at_s=min(at_s for at_s, _ in ended),
        last_at_s=last_at_s,
        sample=await read_dead_letter(access, queries.summary_of(last)) if is_sampled else None,
    )


def _added(head: Head) -> dict[str, object]:
    return {name: value_of_sortable(form) for name, form in split_attributes(head.attributes)[0]}


def _seconds(value: object) -> float:
    us: float | None = getattr(value, "us", None)
    return us / 1e6 if us is not None else value if isinstance(value, float) else 0.0
