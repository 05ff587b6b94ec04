"""Counts executions by workflow, hour, outcome and version, from the index of heads alone.

A count looks at a bounded number of executions, the newest first. Where it stops before it has seen all, the result says from which time on it is complete.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from perdure.code.durations import whole_number
from perdure.core.attributes import indexed_attribute_values
from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.core.program import CATALOG_PROGRAM, program_base
from perdure.definitions.graph.graph_workflow import HASH_ATTRIBUTE, VERSION_ATTRIBUTE
from perdure.service.execution_records import read_input
from perdure.service.store_access import HEADS_PER_PAGE, StoreAccess
from perdure.service.wire_types import EncodedInput
from perdure.stores.protocol import Head, HeadFilter, head_position

HOUR_S = 3_600.0
HOURS_MAX = 7 * 24
WORKFLOWS_MAX = 100
"""Of how many workflows one request counts the outcomes."""

SCANNED_MAX = 20_000
"""How many executions one request looks at, of all its workflows together."""

INPUTS_MAX = 50


class HourOutcomes(msgspec.Struct, frozen=True):
    """The executions that were started within one hour, by their present status. `hour_at_s` is the beginning of the hour, in UTC."""

    hour_at_s: float
    statuses: dict[str, int]


class WorkflowOutcomes(msgspec.Struct, frozen=True):
    """The outcomes of one workflow: the hours in which executions were started, the earliest first.

    `counted_from_at_s` is the time from which on all are counted: the beginning of the range, or later if the workflow has started more than are looked at.
    """

    workflow: str
    hours: list[HourOutcomes]
    counted_from_at_s: float
    is_partial: bool


class OutcomeCounts(msgspec.Struct, frozen=True):
    """The outcomes of workflows, in the order in which they were asked for, within a range of time."""

    items: list[WorkflowOutcomes]
    from_at_s: float
    until_at_s: float


class VersionUse(msgspec.Struct, frozen=True):
    """How many executions that have not ended began with a version: its number and the hash of its definition, both empty for a document that was given with
    the start, or for an execution of which the version is not known yet. Of code, the version is a whole number and there is no hash.
    """

    version: str
    hash: str
    count: int
    oldest_at_s: float


class WorkflowUse(msgspec.Struct, frozen=True):
    """The executions of a workflow that have not ended, by version, the most first. With `is_partial`, there are more than were looked at."""

    workflow: str
    total: int
    versions: list[VersionUse]
    is_partial: bool


class RecentInput(msgspec.Struct, frozen=True):
    """The input of an execution, by name or by position; None once it was removed with the log."""

    key: Key
    status: str
    created_at_s: float
    input: EncodedInput | None


async def count_outcomes(access: StoreAccess, tenant: str, workflows: Sequence[str], hours: int) -> OutcomeCounts:
    """Counts the executions of workflows that were started within the last hours, by hour and present status.

    Raises:
        BadValue: there are too many workflows, or the number of hours is not valid.
    """
    if whole_number(hours, "hours") > HOURS_MAX:
        raise BadValue("hours", hours, f"a whole number from 1 to {HOURS_MAX}")
    wanted = list(dict.fromkeys(workflows))
    if not 1 <= len(wanted) <= WORKFLOWS_MAX:
        raise BadValue("workflow", f"{len(wanted)} workflows", f"1 to {WORKFLOWS_MAX} names")
    now_s = (await access.store.store_time()).now_s
    from_s = (now_s // HOUR_S - hours + 1) * HOUR_S
    most = max(SCANNED_MAX // len(wanted), 1)
    items = [await _outcomes(access, HeadFilter(tenant=tenant, workflow=name, created_from_s=from_s), most) for name in wanted]
    return OutcomeCounts(items, from_s, now_s)


async def _outcomes(access: StoreAccess, which: HeadFilter, most: int) -> WorkflowOutcomes:
    heads, is_partial = await newest_heads(access, which, most)
    counted = Counter((head.created_at_s // HOUR_S * HOUR_S, head.status) for head in heads)
    hours = dict[float, dict[str, int]]()
    for (hour_s, status), count in sorted(counted.items()):
        hours.setdefault(hour_s, {})[status] = count
    from_s = heads[-1].created_at_s if is_partial and heads else which.created_from_s or 0.0
    return WorkflowOutcomes(which.workflow or "", [HourOutcomes(*one) for one in hours.items()], from_s, is_partial)


async def newest_heads(access: StoreAccess, which: HeadFilter, most: int) -> tuple[list[Head], bool]:
    """The newest executions that a filter selects, `most` of them, and whether there are more."""
    found = list[Head]()
    while len(found) <= most:
        limit = min(HEADS_PER_PAGE, most + 1 - len(found))
        after = head_position(found[-1], which.order) if found else None
        page = await access.store.heads(msgspec.structs.replace(which, after=after, limit=limit))
        found += page
        if len(page) < limit:
            return found, False
    return found[:most], True


async def count_versions_in_use(access: StoreAccess, tenant: str, workflow: str) -> WorkflowUse:
    """Counts the executions of a workflow that have not ended, by the version with which they began."""
    heads, is_partial = await newest_heads(access, HeadFilter(tenant=tenant, workflow=workflow, ended=False), SCANNED_MAX)
    by_version = dict[tuple[str, str], list[Head]]()
    for head in heads:
        by_version.setdefault(_version_of(head), []).append(head)
    versions = [VersionUse(version, hash, len(having), having[-1].created_at_s) for (version, hash), having in by_version.items()]
    return WorkflowUse(workflow, len(heads), sorted(versions, key=lambda one: (-one.count, one.version, one.hash)), is_partial)


def _version_of(head: Head) -> tuple[str, str]:
    shown = indexed_attribute_values(head.attributes)
    if HASH_ATTRIBUTE in shown:
        return str(shown.get(VERSION_ATTRIBUTE, "")), str(shown[HASH_ATTRIBUTE])
    name, _, version = program_base(head.program).rpartition("@")
    return (version, "") if version.isdecimal() and not name.startswith(CATALOG_PROGRAM) else ("", "")


async def recent_inputs(access: StoreAccess, tenant: str, workflow: str, limit: int) -> list[RecentInput]:
    """The inputs of the latest executions of a workflow, newest first.

    Raises:
        BadValue: the limit is not valid.
    """
    if whole_number(limit, "limit") > INPUTS_MAX:
        raise BadValue("limit", limit, f"a whole number from 1 to {INPUTS_MAX}")
    heads = await access.store.heads(HeadFilter(tenant=tenant, workflow=workflow, limit=limit))
    return [RecentInput(head.key, head.status, head.created_at_s, await read_input(access, head.key)) for head in heads]
