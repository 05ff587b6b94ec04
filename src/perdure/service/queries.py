"""Answers queries about executions and about the processes that work on a store. Nothing is changed.

Votes and delegations that no engine has received yet are messages of their approval. Queries take them into account, though they take effect only when an
engine runs.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, get_args
from urllib.parse import unquote

import msgspec

from perdure.code.approval_requests import (
    APPROVAL_STATE_KEY,
    DELEGATION_SIGNAL,
    VOTE_SIGNAL,
    ApprovalState,
    ApprovalVerdict,
    Delegation,
    after_delegation,
    delegation_refusal,
    verdict_of_votes,
    vote_refusal,
)
from perdure.code.durations import Duration, duration_seconds
from perdure.code.results import Vote
from perdure.core import attributes, messages, values
from perdure.core import execution as folded
from perdure.core.attribute_filter import AttributeAlternatives, AttributeFilter, AttributeOrder, filter_alternatives
from perdure.core.attributes import ShownAttributes, checked_attribute_name, checked_attributes, index_attributes, split_attributes, value_of_sortable
from perdure.core.errors import Ambiguous, BadValue, LogDamaged, LogVersionUnsupported, NotFound, Undecodable
from perdure.core.execution import Execution
from perdure.core.failure_causes import ERROR_TYPE, FINGERPRINT, failed_since_condition, failure_conditions
from perdure.core.operations import (
    APPROVAL_WORKFLOW,
    BULK_WORKFLOW,
    COMPOSITE_WORKFLOW,
    EVENTS_WORKFLOW,
    HOOK_WORKFLOW,
    NOTICES_WORKFLOW,
    NOTIFICATION_WORKFLOW,
    PROPOSAL_AGENT_WORKFLOW,
    PROPOSAL_WORKFLOW,
    RECORDING_WORKFLOW,
    SCHEDULE_WORKFLOW,
    ReceiveOperation,
    SpawnOperation,
)
from perdure.core.paths import Key, path_text
from perdure.core.program import is_hosted, program_base
from perdure.runtime import holder
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.service.execution_folds import ExecutionFold
from perdure.service.execution_reasons import ExecutionReason, present_reason
from perdure.service.execution_tails import ExecutionTail
from perdure.service.past_states import read_past, read_past_time
from perdure.service.reruns import read_execution
from perdure.service.seed_statuses import SeedStatus, seed_status
from perdure.service.store_access import StoreAccess, head_pages
from perdure.service.wire_types import Version
from perdure.stores.protocol import Head, HeadFilter, HolderStatus, head_position
from perdure.stores.records import PagePosition, position_value


async def pending_decisions(access: StoreAccess, key: Key) -> list[Vote | Delegation]:
    """The votes and delegations among the messages of an approval, in the order in which an engine will receive them."""
    found: list[Vote | Delegation] = []
    kinds: dict[str, type[Vote | Delegation]] = {VOTE_SIGNAL.name: Vote, DELEGATION_SIGNAL.name: Delegation}
    for queued in await access.store.messages(key):
        try:
            message = messages.decode_execution_message(queued.body)
            if isinstance(message, messages.SignalMessage) and message.name in kinds:
                found.append(values.decode(await access.payload(message.body), kinds[message.name], f"a {message.name}"))
        except (Undecodable, LogDamaged, LogVersionUnsupported):  # the engine that receives it reports the error, or puts it into quarantine
            continue
    return found


async def approval_after_votes(access: StoreAccess, key: Key) -> tuple[ApprovalState, ApprovalVerdict | None] | None:
    """The state of an approval after its pending votes and delegations, and the verdict that they give; None if it has not begun.

    Raises:
        NotFound: no approval has this key.
    """
    raw = (await read_execution(access, key)).state.get(APPROVAL_STATE_KEY)
    if raw is None:
        return None
    shown: ApprovalState = values.decode(await access.payload(raw), ApprovalState, "an approval")
    found = None
    for one in await pending_decisions(access, key):
        if isinstance(one, Delegation):
            shown = shown if found is not None or delegation_refusal(shown, one) else after_delegation(shown, one)
        elif found is None and not vote_refusal(shown, one):
            shown = msgspec.structs.replace(shown, votes=(*shown.votes, one))
            found = verdict_of_votes(shown.request, shown.votes)
    return shown, found


STATUSES: tuple[str, ...] = get_args(folded.ExecutionStatus)
TEXT_BYTES_MAX = 16 * 1024
CANDIDATES_MAX = 5
"""The number of candidates that an `Ambiguous` error lists."""


class ListedExecution(msgspec.Struct, frozen=True):
    """One execution in a list.

    `version` counts its events; `workflow_version` is 0 while none is pinned; `due_at_s` is the time of its next timer or message. `seed_status` is the one of
    six statuses that other systems know which says most of `status`. One that is `hosted` runs a definition that came from the catalog or with its start, in
    any engine that has what the definition needs. `error_type` is the type of the error by which it failed, or the reason why it needs attention, and
    `fingerprint` is equal for all that failed alike; both are empty otherwise.
    """

    key: Key
    status: str
    workflow_version: int
    version: Version
    created_at_s: float
    ended_at_s: float | None
    due_at_s: float | None
    holder: str | None
    attributes: ShownAttributes = {}
    seed_status: SeedStatus = "running"
    hosted: bool = False
    error_type: str = ""
    fingerprint: str = ""


INTERNAL_WORKFLOWS = (
    APPROVAL_WORKFLOW,
    BULK_WORKFLOW,
    COMPOSITE_WORKFLOW,
    EVENTS_WORKFLOW,
    HOOK_WORKFLOW,
    NOTICES_WORKFLOW,
    NOTIFICATION_WORKFLOW,
    PROPOSAL_AGENT_WORKFLOW,
    PROPOSAL_WORKFLOW,
    RECORDING_WORKFLOW,
    SCHEDULE_WORKFLOW,
)
"""Perdure's own workflows. Their executions are listed only on request."""


class ExecutionStatus(msgspec.Struct, frozen=True):
    """The status of one execution; `why` says in a sentence what it waits for, and `remedy` what to do about it (empty: nothing). Times are seconds since 1970.

    `version` is the number of its last event; `definition` the hash of its present definition (empty for code); `forgotten` the number of forgotten iterations
    of each loop, by its path; `unread` the number of messages, by name, that have arrived and that nothing waits for. `decided` says that its approvals are
    decided, which takes effect when an engine runs. `archived` says that forgotten iterations were archived; if all archives are pruned,
    `archives_pruned_at_s` is when. For `hosted`, see `ListedExecution`.
    """

    key: Key
    status: str
    why: str
    workflow_version: int
    version: Version
    created_at_s: float
    started_at_s: float | None
    ended_at_s: float | None
    deadline_at_s: float | None
    due_at_s: float | None
    open: int
    settled: int
    emitted: int
    attributes: ShownAttributes = {}
    definition: str = ""
    forgotten: dict[str, int] = {}
    unread: dict[str, int] = {}
    decided: bool = False
    archived: bool = False
    archives_pruned_at_s: float | None = None
    hosted: bool = False
    remedy: str = ""


class HolderView(msgspec.Struct, frozen=True):
    """A process that works on a store: its process information (empty if it publishes none), what it holds, and whether it is alive.

    `tenants` are those that it serves (None: all).
    """

    name: str
    kind: str
    host: str
    pid: int
    programs: list[str]
    queues: list[str]
    started_at_s: float | None
    executions: int
    tasks: int
    alive: bool
    tenants: list[str] | None = None


# One execution


async def execution_summary(access: StoreAccess, key: Key) -> ListedExecution:
    """The list entry of one execution, from its head alone.

    Raises:
        NotFound: there is no such execution.
    """
    return summary_of(await access.head(key))


async def execution_status(access: StoreAccess, key: Key) -> ExecutionStatus:
    """The status of an execution, from its whole log.

    Raises:
        NotFound: there is no such execution.
    """
    async with access.tails.use(key) as tail:
        return (await status_and_reason(access, tail))[0]


async def status_and_reason(access: StoreAccess, tail: ExecutionTail) -> tuple[ExecutionStatus, ExecutionReason]:
    """The status of an execution, and why it does not go on."""
    head, execution = tail.head, tail.execution
    started = execution.started
    asked = [await approval_after_votes(access, key) for key in _open_approvals(execution)] if execution.status == "waiting_approval" else []
    decided = bool(asked) and all(one is not None and one[1] is not None for one in asked)
    approval = next((one[0] for one in asked[:1] if one is not None), None)
    reason = await present_reason(access.store, head, execution, tail.attempts, approval)
    if decided:
        text = f"the decision is recorded, and takes effect when an engine runs; {reason.text}"
        reason = msgspec.structs.replace(reason, text=text)
    status = ExecutionStatus(
        head.key,
        execution.status,
        reason.text,
        _pinned(head),
        execution.version,
        head.created_at_s,
        None if started is None else started.at_s,
        None if execution.ended is None else execution.ended.at_s,
        execution.deadline_at_s,
        head_due_at_s(head),
        len(execution.open),
        len(execution.settled),
        execution.emitted,
        attributes.indexed_attribute_values(head.attributes),
        "" if execution.definition is None else f"sha256:{execution.definition.sha256}",
        {path_text(path): before for path, before in execution.trimmed.items() if before},
        unread_messages(execution),
        decided,
        execution.archive is not None,
        None if execution.archive is None else await access.store.removed_at(execution.archive),
        is_hosted(head.program),
        reason.remedy,
    )
    return status, reason


def _open_approvals(execution: Execution) -> list[Key]:
    """The approvals that an execution waits for."""
    children = (pending.op for pending in execution.open.values() if isinstance(pending.op, SpawnOperation) and pending.op.workflow == APPROVAL_WORKFLOW)
    return [Key(execution.key.tenant, APPROVAL_WORKFLOW, child.id) for child in children]


async def past_approval(access: StoreAccess, execution: Execution) -> ApprovalState | None:
    """The state of the approval that an execution of the past waits for first, as of the last event that is folded; None if there is none, or it is not known.

    Votes that no engine had received by then do not count.
    """
    for key in _open_approvals(execution)[:1]:
        try:
            past = await read_past_time(access.store, key, execution.now_s)
        except NotFound:
            return None
        raw = None if past is None else past.fold().state.get(APPROVAL_STATE_KEY)
        return None if raw is None else values.decode(await access.payload(raw), ApprovalState, "an approval")
    return None


def unread_messages(execution: Execution) -> dict[str, int]:
    """The number of messages, by name, that have arrived and that nothing waits for."""
    awaited = {name for pending in execution.open.values() if isinstance(pending.op, ReceiveOperation) for name in pending.op.names}
    return dict(Counter(message.name for message in execution.mailbox.messages.values() if message.name not in awaited))


async def workflow_state(access: StoreAccess, fold: ExecutionFold, name: str | None = None, at: int | None = None) -> dict[str, bytes]:
    """The values that a workflow has set, encoded, by name; with `name`, only that one, if there is one. With `at`, those as of that event of its log.

    Raises:
        NotFound: there is no such execution.
        BadValue: its log has no such event, or has it no more.
    """
    execution = await fold.refresh() if at is None else (await read_past(access.store, fold.key, at)).fold()
    wanted = execution.state if name is None else {name: execution.state[name]} if name in execution.state else {}
    return {one: await access.payload(value) for one, value in wanted.items()}


def decoded_state(found: Mapping[str, bytes], name: str | None, default: Any) -> Any:
    """The value of `name` in what `workflow_state` has found (`default` if none), or all values if `name` is None."""
    decoded = {one: values.decode(raw, Any, f"the value of {one}") for one, raw in found.items()}
    return decoded if name is None else decoded.get(name, default)


# Lists

HEADS_AT_A_TIME = 100
"""The least number of heads that one read fetches if some may be left out."""


class ExecutionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects executions of a tenant, and their order: newest first, or by the attribute `order_by`.

    `since` is a time, or a number of seconds before now; one of the alternatives in `where` must hold. `error_type` and `fingerprint` select executions that
    have failed or need attention, by the type of the error and by the fingerprint of failures that are alike, or its beginning; `failed_since`, those for which
    that has been so since a time, or a number of seconds. Perdure's own executions, such as those of approvals, are included only with `internal`, or if
    `workflow` names theirs.
    """

    tenant: str
    workflow: str | None = None
    status: tuple[str, ...] | None = None
    id_prefix: str = ""
    since: float | datetime | None = None
    error_type: str = ""
    fingerprint: str = ""
    failed_since: float | datetime | None = None
    where: AttributeAlternatives = ((),)
    order_by: str | None = None
    descending: bool = False
    internal: bool = False

    def __post_init__(self) -> None:
        """Checks the filter.

        Raises:
            BadValue, BadName: a condition is invalid.
        """
        for name, text in (("id_prefix", self.id_prefix), ("error_type", self.error_type), ("fingerprint", self.fingerprint)):
            if not isinstance(text, str):
                raise BadValue(name, text, "text")
        if self.descending and self.order_by is None:
            raise BadValue("descending", self.descending, "given together with an attribute to order by; without one the list begins with the newest")
        _ = checked_statuses(self.status)
        for name, since in (("since", self.since), ("failed_since", self.failed_since)):
            if isinstance(since, datetime) and since.tzinfo is None:
                raise BadValue(name, since, "a time with its zone, such as datetime.now(UTC) - timedelta(hours=1), or a duration")
        if self.order_by is not None:
            _ = checked_attribute_name(self.order_by)

    @property
    def order(self) -> AttributeOrder | None:
        """The order of the list, if it is by an attribute."""
        return None if self.order_by is None else AttributeOrder(self.order_by, bool(self.descending))


def execution_filter(
    tenant: str,
    *,
    workflow: str | None = None,
    status: str | Iterable[str] | None = None,
    id_prefix: str = "",
    since: Duration | datetime | None = None,
    error_type: str = "",
    fingerprint: str = "",
    failed_since: Duration | datetime | None = None,
    where: AttributeFilter | None = None,
    order_by: str | None = None,
    descending: bool = False,
    internal: bool = False,
) -> ExecutionFilter:
    """Builds a filter from what users write.

    Raises:
        BadValue, BadName: a condition is invalid.
    """
    return ExecutionFilter(
        tenant=tenant,
        workflow=workflow,
        status=None if status is None else (status,) if isinstance(status, str) else tuple(status),
        id_prefix=id_prefix,
        since=since if since is None or isinstance(since, datetime) else duration_seconds(since, "since"),
        error_type=error_type,
        fingerprint=fingerprint,
        failed_since=failed_since if failed_since is None or isinstance(failed_since, datetime) else duration_seconds(failed_since, "failed_since"),
        where=filter_alternatives(where),
        order_by=order_by,
        descending=descending,
        internal=internal,
    )


async def list_executions(access: StoreAccess, which: ExecutionFilter, limit: int, after: PagePosition | None = None) -> list[ListedExecution]:
    """Lists the executions that match every condition, behind a position in the list."""
    wanted = msgspec.structs.replace(await head_filter(access, which), after=after, limit=limit)
    return [summary_of(head) for head in await _listed_heads(access, wanted, which.internal)]


async def count_executions(access: StoreAccess, which: ExecutionFilter, most: int) -> int:
    """Counts the executions that match every condition, up to `most`, from the index alone."""
    return len(await _listed_heads(access, msgspec.structs.replace(await head_filter(access, which), limit=most), which.internal))


async def head_filter(access: StoreAccess, which: ExecutionFilter) -> HeadFilter:
    """The filter in the form that stores take."""
    order, statuses = which.order, None if which.status is None else frozenset(which.status)
    given = which.where[0] if len(which.where) == 1 else ()
    failed_from_s = await _since_s(access, which.failed_since)
    recently = () if failed_from_s is None else (failed_since_condition(failed_from_s),)
    return HeadFilter(
        tenant=which.tenant,
        workflow=which.workflow,
        statuses=statuses,
        ended=False if order is not None and statuses is not None and not statuses & ENDED_STATUSES else None,
        id_prefix=which.id_prefix,
        created_from_s=await _since_s(access, which.since),
        order=order,
        where=(*failure_conditions(which.error_type, which.fingerprint), *recently, *given),
        any_of=which.where if len(which.where) > 1 else (),
    )


def position_behind(last: ListedExecution | None, which: ExecutionFilter) -> PagePosition | None:
    """The position behind the last execution of a page; None before the first.

    Raises:
        BadValue: it is no execution of the list.
    """
    if last is None:
        return None
    if not isinstance(last, ListedExecution):
        raise BadValue("after", last, "the last execution of the page before, as the list has it")
    return PagePosition(last.key, last.created_at_s, position_value(index_attributes(checked_attributes(last.attributes)), which.order))


async def _listed_heads(access: StoreAccess, which: HeadFilter, internal: bool) -> list[Head]:
    """The heads that match; those of Perdure's own workflows only on request."""
    if internal or which.workflow is not None:
        return await access.store.heads(which)
    found, left = list[Head](), msgspec.structs.replace(which, limit=max(which.limit, HEADS_AT_A_TIME))
    while True:
        page = await access.store.heads(left)
        found += [head for head in page if head.key.workflow not in INTERNAL_WORKFLOWS]
        if len(page) < left.limit or len(found) >= which.limit:
            return found[: which.limit]
        left = msgspec.structs.replace(left, after=head_position(page[-1], which.order))


def checked_statuses(wanted: str | Iterable[str] | None) -> frozenset[str] | None:
    """The statuses of a filter as a set; None means any.

    Raises:
        BadValue: one of them is no status.
    """
    if wanted is None:
        return None
    found = frozenset((wanted,) if isinstance(wanted, str) else wanted)
    for one in found:
        if one not in STATUSES:
            raise BadValue("status", one, f"one of {', '.join(STATUSES)}")
    return found


async def _since_s(access: StoreAccess, since: float | datetime | None) -> float | None:
    if since is None or isinstance(since, datetime):
        return None if since is None else since.timestamp()
    return (await access.store.store_time()).now_s - since


async def list_holders(access: StoreAccess) -> list[HolderView]:
    """Lists the processes that work on the store: the living ones, and dead ones that still hold something."""
    return [_holder_view(lease) for lease in await access.store.leases()]


# Finding one execution


async def find_execution(access: StoreAccess, text: str, tenant: str) -> Key:
    """Finds the execution that `text` names. The first of these that matches anything decides: a key as it is displayed, ``@latest`` or ``@failed``, an id or
    ``workflow/id``, a prefix of an id or of ``workflow/id``.

    Raises:
        NotFound: nothing matches.
        Ambiguous: several executions match.
    """
    if text in ("@latest", "@failed"):
        failed = frozenset(("failed",)) if text == "@failed" else None
        found = [head.key for head in await _listed_heads(access, HeadFilter(tenant=tenant, statuses=failed, limit=1), internal=False)]
        return _only_key(text, found)
    if not _is_text(text):
        raise BadValue("execution", text, "an id or the beginning of one, workflow/id, @latest or @failed")
    if (shown := _as_shown(text)) is not None and (found := await _existing(access, [shown])):
        return found[0]
    whole_ids, begun = await keys_of_id(access, tenant, text)
    named = _as_named(tenant, text)
    if exact := list(dict.fromkeys((*whole_ids, *await _existing(access, named)))):
        return _only_key(text, exact)
    for key in named:
        which = HeadFilter(tenant=key.tenant, workflow=key.workflow, id_prefix=key.id, limit=CANDIDATES_MAX + 1)
        begun += [head.key for head in await access.store.heads(which)]
    return _only_key(text, list(dict.fromkeys(begun)))


async def execution_by_id(access: StoreAccess, tenant: str, id: str) -> Key:
    """Finds the only execution of this id.

    Raises:
        NotFound, Ambiguous: there is none, or several workflows have one.
    """
    exact, _ = await keys_of_id(access, tenant, id)
    return _only_key(id, exact)


def _is_text(text: object) -> bool:
    try:
        return isinstance(text, str) and 1 <= len(text.encode()) <= TEXT_BYTES_MAX
    except UnicodeEncodeError:
        return False


def _only_key(text: str, found: Sequence[Key]) -> Key:
    if not found:
        raise NotFound(text)
    if len(found) > 1:
        raise Ambiguous(text, found[:CANDIDATES_MAX], more=len(found) > CANDIDATES_MAX)
    return found[0]


async def keys_of_id(access: StoreAccess, tenant: str, id: str) -> tuple[list[Key], list[Key]]:
    """The executions of this id, and some of those whose id has it as a prefix."""
    exact, begun = list[Key](), list[Key]()
    async for key in _keys(access, HeadFilter(tenant=tenant, id_prefix=id)):
        if key.id == id:
            exact.append(key)
        elif len(begun) <= CANDIDATES_MAX:
            begun.append(key)
    return exact, begun


async def _keys(access: StoreAccess, which: HeadFilter) -> AsyncIterator[Key]:
    async for page in head_pages(access.store, which):
        for head in page:
            yield head.key


async def _existing(access: StoreAccess, keys: Sequence[Key]) -> list[Key]:
    return [head.key for head in await access.store.heads(HeadFilter(keys=tuple(keys), limit=len(keys)))] if keys else []


def _as_shown(text: str) -> Key | None:
    """Parses a key from its displayed form; None if `text` is not one."""
    parts = [unquote(part) for part in text.split("/")]
    if len(parts) != 3:
        return None
    key = Key(parts[0], parts[1], parts[2])
    return key if str(key) == text else None


def _as_named(tenant: str, text: str) -> list[Key]:
    """The keys that ``workflow/id`` may mean. Each part may contain a slash, or be percent-encoded as in displayed keys."""
    splits = [(text[:at], text[at + 1 :]) for at, character in enumerate(text) if character == "/"]
    pairs = [*splits, *((unquote(workflow), unquote(id)) for workflow, id in splits)]
    return list(dict.fromkeys(Key(tenant, workflow, id) for workflow, id in pairs if workflow and id))


# Views of heads and holders


def summary_of(head: Head) -> ListedExecution:
    """The list entry of the execution with this head."""
    added = {name: value_of_sortable(form) for name, form in split_attributes(head.attributes)[0]}
    due_at_s = None if head.status in ENDED_STATUSES else head_due_at_s(head)
    return ListedExecution(
        head.key,
        head.status,
        _pinned(head),
        head.version,
        head.created_at_s,
        head.ended_at_s,
        due_at_s,
        head.holder,
        attributes.indexed_attribute_values(head.attributes),
        seed_status(head.status),
        is_hosted(head.program),
        str(added.get(ERROR_TYPE, "")),
        str(added.get(FINGERPRINT, "")),
    )


def _pinned(head: Head) -> int:
    version = program_base(head.program).rpartition("@")[2]
    return int(version) if version.isascii() and version.isdigit() else 0


def head_due_at_s(head: Head) -> float | None:
    """When something is due for an execution: a time that it waits for, or a message."""
    return min((at_s for at_s in (head.wake_at_s, head.message_at_s) if at_s is not None), default=None)


def _holder_view(lease: HolderStatus) -> HolderView:
    said = holder.decode_process_info(lease.about)
    if said is None:
        return HolderView(lease.holder, "", "", 0, [], [], None, lease.executions, lease.work, lease.alive)
    tenants = None if said.tenants is None else list(said.tenants)
    held = (lease.executions, lease.work, lease.alive)
    return HolderView(lease.holder, said.kind, said.host, said.pid, said.programs, said.queues, said.started_at_s, *held, tenants)
