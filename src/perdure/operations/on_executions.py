"""Operations that read executions: one of them, or lists."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from perdure.code.durations import duration_seconds, whole_number
from perdure.core.paths import Key
from perdure.core.views import PublicEvent, StepView
from perdure.definitions.graph.execution_view import TokenCounts
from perdure.definitions.graph.shown_graph import ShownGraph
from perdure.service import bulk_requests, definition_views, execution_records, history, queries
from perdure.service.agent_memories import ShownMemory, list_memories, remove_memory
from perdure.service.bulk_requests import BulkFilter
from perdure.service.callers import LOCAL, Caller
from perdure.service.definition_views import CurrentDefinition
from perdure.service.execution_details import ExecutionDetails
from perdure.service.execution_details import execution_details as read_details
from perdure.service.execution_families import ExecutionFamily, read_family
from perdure.service.execution_graphs import read_graph
from perdure.service.execution_records import ExecutionRecord
from perdure.service.execution_searches import ExecutionSearch, narrowed_filter, search_executions
from perdure.service.history import EmittedValue
from perdure.service.judged_conditions import ConditionList, read_conditions
from perdure.service.live_text import LiveText, stream_live_text
from perdure.service.log_pages import LogPage, read_log
from perdure.service.missing_parts import MissingParts
from perdure.service.model_costs import ModelCosts, read_model_costs
from perdure.service.node_passages import PassagePage, read_passages
from perdure.service.page_cursors import cursor_text, page_limit, parse_cursor
from perdure.service.queries import ExecutionFilter, ExecutionStatus, ListedExecution
from perdure.service.step_traces import StepPage, read_steps
from perdure.service.store_access import StoreAccess
from perdure.service.tenant_changes import ChangeKind
from perdure.service.tenant_numbers import TenantNumbers, read_numbers
from perdure.service.watched_executions import watched_keys
from perdure.service.wire_types import NOTHING, EncodedInput, EncodedValue


class ExecutionPage(msgspec.Struct, frozen=True):
    """A page of a list of executions. `next` is the `after` of the next page; it is empty if this was the last.

    A search for text looks through a bounded number of executions for each page, so that a page may have few items, or none, and still a next one: `scanned`
    is how many it has looked through.
    """

    items: list[ListedExecution]
    next: str = ""
    scanned: int | None = None


class ExecutionInput(msgspec.Struct, frozen=True):
    """The arguments of an execution, by name or by position; None once they were removed with its log."""

    input: EncodedInput | None


# Read


async def read(access: StoreAccess, key: Key, at: int | None = None, caller: Caller = LOCAL, secret: bytes = b"") -> ExecutionRecord:
    """One execution: its status, input and result, what it runs, who started it, and the approvals that it waits for; with `at`, as of that event of its log.

    Raises:
        NotFound: there is no such execution.
        BadValue: its log has no such event, or has it no more.
    """
    return await execution_records.read_record(access, key, at, secret if caller.may("approver") else b"")


async def input(access: StoreAccess, key: Key) -> ExecutionInput:
    """The arguments with which an execution was started.

    Raises:
        NotFound: there is no such execution.
    """
    return ExecutionInput(await execution_records.read_input(access, key))


async def traces(access: StoreAccess, key: Key, at: int | None = None, after: int = 0, limit: int = 100) -> StepPage:
    """The steps of an execution in the order of opening, each with all its attempts, its input and its output: up to `limit` behind number `after`.

    With `at`, as they were after that event of its log.

    Raises:
        NotFound: there is no such execution.
        BadValue: the limit is invalid, or its log has no such event, or has it no more.
        NotReplayable: it runs a definition, and its log does not replay over that.
    """
    return await read_steps(access, key, at, whole_number(after, "after", 0), page_limit(limit))


async def graph(access: StoreAccess, key: Key, at: int | None = None) -> ShownGraph:
    """The graph of an execution as data: of a definition its plan, with the state of each step; of code its operations. With `at`, as of that event.

    Raises:
        NotFound: there is no such execution.
        BadValue: it has not begun, or its log has no such event, or has it no more.
        NotReplayable: it runs a definition, and its log does not replay over that.
    """
    return await read_graph(access, key, at)


async def passages(access: StoreAccess, key: Key, node: str, at: int | None = None, after: int = 0, limit: int = 100) -> PassagePage:
    """The passages of one node of the graph of an execution, in the order in which they began: up to `limit` behind number `after`. `node` is its id.

    Of code, the id is the path of an operation, and the passages are those at the same place in all turns of the loops around it. With `at`, as of that event.

    Raises:
        NotFound: there is no such execution.
        BadValue: the graph has no such node, the limit is invalid, or the log has no such event.
        NotReplayable: it runs a definition, and its log does not replay over that.
    """
    return await read_passages(access, key, node, at, whole_number(after, "after", 0), page_limit(limit))


async def conditions(access: StoreAccess, key: Key, path: str, at: int | None = None) -> ConditionList:
    """The conditions that one passage of a step of a definition has judged, row by row with the values of then; `path` is that of the step.

    They are evaluated again over the log. With `at`, those that were judged by that event of it.

    Raises:
        NotFound: there is no such execution.
        BadValue: it runs code, no step has begun at the path, or its log has no such event.
        NotReplayable: its log does not replay over the definition.
    """
    return await read_conditions(access, key, path, at)


async def definition(access: StoreAccess, key: Key, at: int | None = None) -> CurrentDefinition:
    """The definition that an execution runs by, in its canonical form: the present one or, with `at`, that of after an event of its log.

    Raises:
        NotFound: there is no such execution.
        BadValue: it runs code, or has not begun, or its log has no such event, or has it no more.
    """
    return await definition_views.definition_of(access.store, key, at)


async def tokens(access: StoreAccess, key: Key, at: int | None = None) -> TokenCounts:
    """The tokens of an execution of a definition: its counter, open steps, waiting joins, applied keys and outputs. With `at`, as of that event of its log.

    Raises:
        NotFound: there is no such execution.
        BadValue: it runs code, or had not begun, or its log has no such event, or has it no more.
        NotReplayable: its log does not replay over its definition.
    """
    return await definition_views.read_tokens(access.store, key, at)


async def summary(access: StoreAccess, key: Key) -> ListedExecution:
    """The list entry of an execution, read from its head alone.

    Raises:
        NotFound: there is no such execution.
    """
    return await queries.execution_summary(access, key)


async def status(access: StoreAccess, key: Key) -> ExecutionStatus:
    """The status of an execution, and in a sentence what it waits for.

    Raises:
        NotFound: there is no such execution.
    """
    return await queries.execution_status(access, key)


async def steps(access: StoreAccess, key: Key) -> list[StepView]:
    """The operations of an execution, in the order in which they were opened.

    Raises:
        NotFound: there is no such execution.
        NotReplayable: it runs a definition, and its log does not replay over that.
    """
    return await definition_views.step_views(access, access.folds.of(key))


async def details(access: StoreAccess, key: Key) -> ExecutionDetails:
    """The status, operations and values of an execution, and the same of the executions that it has started.

    Raises:
        NotFound: there is no such execution.
        NotReplayable: it runs a definition, and its log does not replay over that.
    """
    return await read_details(access, key)


async def family(access: StoreAccess, key: Key, at: int | None = None) -> ExecutionFamily:
    """The family of an execution: its parent and its children with theirs, up to 50, each with its status. With `at`, as they were at the time of that event.

    Raises:
        NotFound: there is no such execution.
        BadValue: its log has no such event, or has it no more.
    """
    return await read_family(access, key, at)


async def state(access: StoreAccess, key: Key, name: str | None = None, at: int | None = None) -> dict[str, EncodedValue]:
    """The values that a workflow has set for queries, by name; with `name`, only that one. With `at`, as of that event of its log.

    Raises:
        NotFound: there is no such execution.
        BadValue: its log has no such event, or has it no more.
    """
    return await queries.workflow_state(access, access.folds.of(key), name, at)


WAIT_MAX_S = 60.0
"""How long one call may wait for a result."""


READ_S = 10.0
"""How long reading a result may take that is there."""


class ResultSoFar(msgspec.Struct, frozen=True):
    """The result of an execution, if it has one: `value`. Otherwise `why` says what it waits for, and `missing` what it lacks to go on, such as an engine."""

    is_there: bool
    value: EncodedValue = NOTHING
    why: str = ""
    missing: str = ""


async def result(access: StoreAccess, key: Key, after: int = 0, wait_s: float = 0.0) -> ResultSoFar:
    """The result of an execution. It waits for up to `wait_s` (60 at most) until there is one. Ends up to the version `after` of the log do not count.

    Raises:
        NotFound: there is no such execution.
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled: it ended without a result.
        NeedsAttention: it is parked until a person acts on it.
    """
    head = await access.head(key)
    has_ended = head.ended_at_s is not None and head.version > after
    try:
        async with asyncio.timeout(max(min(wait_s, WAIT_MAX_S), READ_S if has_ended else 0.0)):
            return ResultSoFar(True, await access.result(key, after))
    except TimeoutError:
        missing = await MissingParts(access.store).of([key])
        return ResultSoFar(False, why=(await status(access, key)).why, missing=missing.get(key, ""))


class ExecutionChange(msgspec.Struct, frozen=True):
    """A change of an execution, which is as in a list: it ``began``, its status has ``changed``, or it has ``ended``. One that is watched has also ``changed``
    whenever its log has grown, to the `version` of the execution.

    After a ``reset``, which has no execution, some changes are missing: read the lists again.
    """

    number: int
    type: ChangeKind
    execution: ListedExecution | None = None


async def changes(access: StoreAccess, tenant: str, after: int = 0, follow: bool = True, watch: tuple[str, ...] = ()) -> AsyncGenerator[ExecutionChange, None]:
    """Yields what happens to the executions of the tenant, behind the change with the number `after`, or from now on; without `follow`, the changes so far.

    Several changes of one execution within a second may be one. Executions of Perdure's own workflows are not among them.

    `watch` names up to 50 executions that are followed more closely, whatever their workflow and status, each as ``workflow/id`` with both parts
    percent-encoded. Each is told once as ``changed`` when the stream begins, and then whenever its log has grown, at most 10 times a second. Such a change has
    the number of the change before it.

    Raises:
        BadValue: a text of `watch` names no execution, or there are too many.
    """
    keys = watched_keys(tenant, watch)
    async with aclosing(access.changes.of(tenant, frozenset(queries.INTERNAL_WORKFLOWS)).read(after, follow, keys)) as found:
        async for one in found:
            yield ExecutionChange(one.number, one.type, None if one.head is None else queries.summary_of(one.head))


def stream(access: StoreAccess, key: Key, after: int = 0, follow: bool = True, at: int | None = None) -> AsyncGenerator[EmittedValue, None]:
    """Yields the values that an execution emits after number `after`; with `follow`, until it ends. With `at`, those that it had emitted as of that event.

    Raises:
        NotFound: there is no such execution.
        BadValue: its log has no such event, or has it no more.
    """
    return history.stream_values(access, key, after, follow, at)


def live_text(access: StoreAccess, key: Key, after: int = 0, follow: bool = True) -> AsyncGenerator[LiveText, None]:
    """Yields what steps of an execution write before they have an outcome, such as the answer of a model; with `follow`, until the execution ends.

    A reader that comes back passes the last number, and gets again what is there: each piece takes the place of the text of its path from its offset on.

    Raises:
        NotFound: there is no such execution.
    """
    return stream_live_text(access, key, after, follow)


def events(access: StoreAccess, key: Key, after: int = 0, follow: bool = False) -> AsyncGenerator[PublicEvent, None]:
    """Yields the public events of an execution after the number `after`; with `follow`, until it ends.

    Raises:
        NotFound: there is no such execution.
    """
    return history.stream_history(access, key, after, follow)


async def log(access: StoreAccess, key: Key, after: int | None = None, before: int | None = None, limit: int = 100, payloads: bool = False) -> LogPage:
    """The events of an execution as they are in its log: up to `limit` behind number `after`, or before number `before`; without both, the last ones.

    A number is one that `at` takes elsewhere, to look at the execution as it was after that event. With `payloads`, events have the values that they carry.

    Raises:
        NotFound: there is no such execution.
        BadValue: a number or the limit is invalid, or both numbers are given.
    """
    behind = None if after is None else whole_number(after, "after", 0)
    return await read_log(access, key, behind, None if before is None else whole_number(before, "before"), page_limit(limit), payloads)


# Find


async def page(access: StoreAccess, which: ExecutionFilter, search: ExecutionSearch, limit: int = 100, after: str = "") -> ExecutionPage:
    """Lists executions, in pages of up to `limit`, 1,000 at most. The next page begins behind `after`, which is the `next` of the page before.

    A page of a search for text looks through at most 10,000 executions that match otherwise.

    Raises:
        BadValue, BadName: a condition is invalid.
    """
    size, begin = page_limit(limit), parse_cursor(after)
    asked = await narrowed_filter(access, which, search)
    if asked is None:
        return ExecutionPage([])
    if search.text:
        found, scanned, end = await search_executions(access, asked, search.text, size, begin)
        return ExecutionPage(found, cursor_text(end), scanned)
    found = await queries.list_executions(access, asked, size, begin)
    return ExecutionPage(found, cursor_text(queries.position_behind(found[-1], asked)) if len(found) == size else "")


COSTS_WITHIN_S = 86_400.0
FAILED_SINCE_S = 86_400.0


async def counts(access: StoreAccess, tenant: str, failed_since_s: float = FAILED_SINCE_S) -> TenantNumbers:
    """Counts what is going on, from indexes alone, each number up to 1,000: what is open, runs, needs attention, waits for people, and has failed.

    Failures of the last `failed_since_s` count, whenever their executions began; a list selects them by `failed_since`.

    Raises:
        BadValue: the duration is not valid.
    """
    return await read_numbers(access, tenant, duration_seconds(failed_since_s, "failed_since_s"))


async def model_costs(access: StoreAccess, tenant: str, within_s: float = COSTS_WITHIN_S, workflow: str = "") -> ModelCosts:
    """Sums what model calls of the last `within_s` have used and cost, by workflow, step and model, the highest cost first. They are kept for three months.

    Every answer that a provider gave counts, also one that was lost with its process and requested again. An agent that is a step of a definition counts for
    that step. Costs are those of the prices at the time of the call.

    Raises:
        BadValue: the duration is not valid.
    """
    return await read_model_costs(access, tenant, duration_seconds(within_s, "within_s"), workflow)


async def agent_memories(access: StoreAccess, tenant: str, agent: str) -> list[ShownMemory]:
    """Lists what an agent remembers, in order of name: by the name of its workflow, which for agents of a definition is ``NAME.agent``."""
    return await list_memories(access, tenant, agent)


async def forget_memory(access: StoreAccess, tenant: str, agent: str, memory: str) -> None:
    """Has an agent forget what it remembers under a name.

    Raises:
        NotFound: there is nothing of this name.
        StaleRecord: it was changed at the same time.
    """
    await remove_memory(access, tenant, agent, memory)


async def find(access: StoreAccess, tenant: str, text: str) -> Key:
    """Finds an execution by its id, a prefix of it, ``workflow/id``, ``@latest``, or ``@failed`` (the latest that failed).

    Raises:
        NotFound, Ambiguous: no execution matches, or several do.
    """
    return await queries.find_execution(access, text, tenant)


async def by_id(access: StoreAccess, tenant: str, id: str) -> Key:
    """Finds the only execution of this id.

    Raises:
        NotFound, Ambiguous: there is none, or several workflows have one.
    """
    return await queries.execution_by_id(access, tenant, id)


async def selected(access: StoreAccess, which: BulkFilter) -> list[Key]:
    """The executions that a filter selects, newest first, or in the order of its keys.

    Raises:
        BadValue, BadName: the filter is invalid.
    """
    return await bulk_requests.choose_executions(access, which)
