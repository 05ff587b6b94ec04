"""Operations on dead letters: executions that have failed, or need attention."""

import msgspec

from perdure.core.paths import Key
from perdure.service import dead_letter_groups
from perdure.service.dead_letter_counts import DeadLetterCounts, count_dead_letters
from perdure.service.dead_letter_groups import DeadLetterFilter, DeadLetterGroup
from perdure.service.queries import ExecutionFilter
from perdure.service.store_access import StoreAccess
from perdure.service.wire_types import EncodedValue


class Requeued(msgspec.Struct, frozen=True):
    """The execution that continues, and the version of its log after which its end counts."""

    key: Key
    after: int


async def groups(access: StoreAccess, which: DeadLetterFilter) -> list[DeadLetterGroup]:
    """Groups dead letters by what failed, the most recent failure first.

    Raises:
        BadValue: no group has the fingerprint, or several have that prefix.
    """
    return await dead_letter_groups.group_dead_letters(access, which)


async def counts(access: StoreAccess, which: ExecutionFilter) -> DeadLetterCounts:
    """Counts dead letters by what failed, the most recent failure first, with one sample of each group, from the index: of up to 10,000, the newest.

    A group is requeued or discarded by a bulk execution whose filter has its workflow and fingerprint.

    Raises:
        BadValue, BadName: a condition is invalid.
    """
    return await count_dead_letters(access, which)


async def requeue(
    access: StoreAccess, key: Key, reason: str = "", edits: dict[str, EncodedValue] | None = None, wait: bool = False, version: int | None = None
) -> Requeued:
    """Runs a dead letter again from what failed. With `edits` of its input, or another `version` of its code, it begins anew as another execution, and this one
    is discarded.

    Edits are keyed by argument name; arguments that were passed by position are keyed by their number, from 1. The same edits of the same execution start one
    new execution. With `wait`, the request has taken effect.

    Raises:
        NotFound, BadValue: it is no dead letter, or the edits do not fit.
        NeedsAttention: with `wait`, it continued and is parked again.
    """
    return Requeued(*await dead_letter_groups.requeue_dead_letter(access, key, reason, edits=edits, version=version, wait=wait))


async def discard(access: StoreAccess, key: Key, reason: str = "", wait: bool = False) -> None:
    """Cancels a dead letter without running anything. Has no effect on one that was discarded before.

    Raises:
        NotFound, BadValue: it is no dead letter.
    """
    await dead_letter_groups.discard_dead_letter(access, key, reason, wait)
