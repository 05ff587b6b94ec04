"""Verifies that the records of an execution agree: head, log, messages, holders, blobs, and the executions that it waits for.

*Damage* keeps an execution from continuing correctly, or means that its records were altered; a *note* is worth knowing, and repairs itself or does no harm.

A store is verified execution by execution while other processes work on it. A finding is reported only if repeated observations confirm it. The module also
finds what engines and workers have put into quarantine because they could not read it.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Literal, Protocol, runtime_checkable

import msgspec

from perdure.core import log_format, messages
from perdure.core.attributes import index_attributes, split_attributes, value_of_sortable, values_by_name
from perdure.core.effects import outstanding_messages
from perdure.core.envelopes import QueuedMessage
from perdure.core.errors import UNREADABLE, PerdureError, SealedPayload, StoreError
from perdure.core.events import Event
from perdure.core.execution import Execution, needs_holder
from perdure.core.failure_causes import FAILED_AT, failure_attributes
from perdure.core.operation_state import PendingOperation
from perdure.core.operations import CallOperation, SpawnOperation
from perdure.core.paths import UNDO, Key, Path, QueueAddress, path_text
from perdure.core.program import execution_program, is_hosted, program_text
from perdure.core.replay import fold_events
from perdure.core.traversal import referenced_blobs
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.service.execution_bundles import read_blobs_with_archives, stored_contents
from perdure.service.store_access import head_pages
from perdure.stores.protocol import Head, HeadFilter, ReadOnlyStore

WAKE_UP_LATE_S = 0.001
"""The rounding error by which a time in a head may be later than in the log."""

READ_ERRORS = (PerdureError, KeyError, ValueError, IndexError, AttributeError, TypeError)
"""The errors that reading and folding a damaged log can raise."""

FindingKind = Literal["log", "head", "attributes", "asleep", "interrupted", "lost", "mail", "unread", "child", "blob", "pruned", "unreferenced"]
"""``log``: the log cannot be read. ``head``: the head contradicts the log. ``attributes``: the index has other attributes than the log. ``asleep``: nothing
will wake it. ``interrupted``: the holder of an attempt is gone. ``lost``: a task is on no queue. ``mail``: a message cannot be read. ``unread``: a message
will have no effect. ``child``: a child, or its answer, is missing. ``blob``: a blob is missing or altered. ``pruned``: archives were pruned.
``unreferenced``: nothing refers to a blob.
"""


class VerificationFinding(msgspec.Struct, frozen=True):
    """Something that is wrong, with advice. `path` is the operation concerned; `key` is None for a finding about no execution."""

    key: Key | None
    level: Literal["damage", "note"]
    kind: FindingKind
    path: str
    what: str
    advice: str


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an execution that verification reads: head, log rows and messages, and the state of what it refers to.

    `living` are the living holders, `work` the messages on its queues, `children` the heads of the executions that it waits for. `blobs` maps names to True,
    False (altered) or None (missing); `removed` maps the names of blobs that were removed on purpose to the time of that.
    """

    head: Head
    rows: Sequence[bytes]
    messages: Sequence[QueuedMessage] = ()
    living: frozenset[str] = frozenset()
    work: frozenset[tuple[QueueAddress, str]] = frozenset()
    blobs: Mapping[str, bool | None] = {}
    removed: Mapping[str, float] = {}
    children: Mapping[Key, Head] = {}


def verify_observation(observation: Observation) -> list[VerificationFinding]:
    """Returns what does not agree; an empty list if all is well."""
    key = observation.head.key
    try:
        execution = fold_events(key, log_format.decode_rows(observation.rows), observation.head.root)
    except READ_ERRORS as error:
        why = str(error) if isinstance(error, PerdureError) else f"an event does not fit what comes before it ({error!r})"
        return [
            VerificationFinding(
                key, "damage", "log", "", f"the log can't be read: {why}", "restore the database from a backup, or import the execution from an export"
            )
        ]
    said, unreadable = _message_findings(observation)
    answered = {(message.path, message.attempt) for message in said if isinstance(message, messages.SettleMessage)}
    found = [
        *unreadable,
        *_head_findings(observation.head, execution),
        *_attribute_findings(observation.head, execution),
        *_wake_up_findings(observation, execution),
        *_blob_findings(observation),
    ]
    for pending in execution.open.values():
        found += _call_findings(observation, execution, pending, answered)
        found += _child_findings(observation, pending, {path for path, _ in answered})
    return found + _unread_findings(observation, execution)


def _message_findings(observation: Observation) -> tuple[list[messages.ExecutionMessage], list[VerificationFinding]]:
    said: list[messages.ExecutionMessage] = []
    unreadable: list[VerificationFinding] = []
    for queued in observation.messages:
        try:
            said.append(messages.decode_execution_message(queued.body))
        except PerdureError as error:
            what = f"the message {queued.key} can't be read: {error}"
            unreadable.append(
                VerificationFinding(
                    observation.head.key,
                    "damage",
                    "mail",
                    "",
                    what,
                    "engines skip it; restore the database from a backup, or run a version of Perdure that can read it",
                )
            )
    return said, unreadable


def _head_findings(head: Head, execution: Execution) -> Iterator[VerificationFinding]:
    started, ended = execution.started, execution.ended
    log_says: list[tuple[str, object, object]] = [
        ("version", head.version, execution.version),
        ("status", head.status, execution.status),
        ("time of its end", head.ended_at_s, None if ended is None else ended.at_s),
    ]
    if started is not None and not (execution.removed is not None and is_hosted(head.program)):  # a tombstone does not say who ran it
        log_says.append(("program", program_text(head.program), execution_program(execution)))
    for name, there, by_log in log_says:
        if there != by_log:
            yield VerificationFinding(
                head.key, "damage", "head", "", f"its {name} is {there} in the head, but {by_log} by the log", _RESTORE if name == "version" else _REMAKE
            )


def _attribute_findings(head: Head, execution: Execution) -> Iterator[VerificationFinding]:
    """Compares the index with the attributes of the log. Until an execution has begun, only its head has attributes."""
    if execution.started is None:
        return
    added, given = split_attributes(head.attributes)
    by_fold = index_attributes(execution.attributes)
    if added and execution.removed is None:  # heads of earlier versions do not have them, and a tombstone does not say where it failed
        has_time = any(name == FAILED_AT for name, _ in added)  # those of some earlier versions do not have it
        by_log = tuple(one for one in failure_attributes(execution) if has_time or one[0] != FAILED_AT)
        given, by_fold = head.attributes, (*by_log, *by_fold)
    there, in_log = values_by_name(given), values_by_name(by_fold)
    for name in sorted(there.keys() | in_log.keys()):
        if there.get(name) != in_log.get(name):
            what = f"its attribute {name} is {_attribute_text(there.get(name))} in the index, but {_attribute_text(in_log.get(name))} by the log"
            yield VerificationFinding(head.key, "damage", "attributes", "", f"{what}, so that lists that ask for it are wrong", _REMAKE)


def _attribute_text(forms: list[bytes] | None) -> str:
    return "none" if forms is None else ", ".join(map(_value_text, forms))


def _value_text(form: bytes) -> str:
    try:
        return repr(value_of_sortable(form))
    except PerdureError:
        return f"{form!r}, which is no value,"


_RESTORE = "restore the database from a backup"
_REMAKE = f"export it, and import it under another id: its head is then made from its log; or {_RESTORE}"


def _wake_up_findings(observation: Observation, execution: Execution) -> Iterator[VerificationFinding]:
    """Checks that something will wake an execution without a holder. A holder, or the one that takes over from it, looks at its executions by itself."""
    head = observation.head
    if head.holder is not None or head.status in ENDED_STATUSES:
        return
    by_log = 0.0 if needs_holder(execution) else execution.wake_at()
    first_message_at_s = min((queued.due_at_s for queued in observation.messages), default=None)
    for what, at_s, wakes_at_s in (
        ("what is due in it", by_log, _earliest(head.wake_at_s, head.message_at_s)),
        ("the messages that it has", first_message_at_s, _earliest(head.wake_at_s, head.message_at_s)),
    ):
        if at_s is not None and (wakes_at_s is None or wakes_at_s > at_s + WAKE_UP_LATE_S):
            yield VerificationFinding(
                head.key, "damage", "asleep", "", f"nothing wakes it for {what}", "post it a command without effect, such as perdure resume: that wakes it"
            )


def _earliest(*times_s: float | None) -> float | None:
    return min((at_s for at_s in times_s if at_s is not None), default=None)


def _call_findings(observation: Observation, execution: Execution, pending: PendingOperation, answered: set[tuple[Path, int]]) -> Iterator[VerificationFinding]:
    """Checks that each open call has a living holder, is on its queue, or has an answer among the messages."""
    if not isinstance(pending.op, CallOperation) or (pending.path, pending.attempt) in answered:
        return
    key, where = observation.head.key, path_text(pending.path)
    if pending.state == "performing" and pending.by not in observation.living:
        what = f"attempt {pending.attempt} was begun by {pending.by}, which is gone"
        yield VerificationFinding(
            key,
            "note",
            "interrupted",
            where,
            what,
            f"run an engine that knows {program_text(observation.head.program)}: it takes the execution over and makes another attempt",
        )
    if pending.state == "waiting":
        everything = {(send.to, send.key) for send in outstanding_messages(execution, execution.open.keys() - {pending.path})}
        if not everything <= observation.work:
            what = f"attempt {pending.attempt} is on no queue, so no worker will perform it"
            yield VerificationFinding(
                key, "damage", "lost", where, what, f"give its result with perdure preset {key.id} {where} VALUE, or export and import the execution"
            )


def _child_findings(observation: Observation, pending: PendingOperation, answered: set[Path]) -> Iterator[VerificationFinding]:
    """Checks that an awaited child exists and, if it has ended, has answered."""
    if not isinstance(pending.op, SpawnOperation) or pending.path in answered:
        return
    key, where = observation.head.key, path_text(pending.path)
    child = Key(key.tenant, pending.op.workflow, pending.op.id)
    head = observation.children.get(child)
    if head is None:
        what = f"it waits for {child}, which does not exist"
        yield VerificationFinding(
            key, "damage", "child", where, what, f"give its result with perdure preset {key.id} {where} VALUE, or export and import the execution"
        )
    elif head.status in ENDED_STATUSES and pending.path[0] != UNDO:
        what = f"it waits for {child}, which has ended ({head.status}) without answering"
        yield VerificationFinding(key, "damage", "child", where, what, f"give its result with perdure preset {key.id} {where} VALUE")


def _blob_findings(observation: Observation) -> Iterator[VerificationFinding]:
    for at_s in observation.removed.values():
        what = f"iterations of it were archived, and the archives were pruned at {datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
        yield VerificationFinding(observation.head.key, "note", "pruned", "", what, "nothing; perdure archives shows which iterations those were")
    for name, whole in observation.blobs.items():
        if not whole:
            what = f"blob {name}, to which it refers, {'is missing' if whole is None else 'was altered'}"
            yield VerificationFinding(
                observation.head.key, "damage", "blob", "", what, "restore the database from a backup, or import the execution from an export"
            )


def _unread_findings(observation: Observation, execution: Execution) -> list[VerificationFinding]:
    if execution.ended is None or observation.head.holder in observation.living:
        return []
    what = "the message {} arrived after the end, and will have no effect"
    advice = f"nothing; an engine that knows {program_text(observation.head.program)} removes it"
    return [VerificationFinding(observation.head.key, "note", "unread", "", what.format(queued.key), advice) for queued in observation.messages]


OBSERVATIONS_MAX = 3
"""How many observations must confirm a finding: between two reads, another process may have changed one half of what is compared."""


@runtime_checkable
class ListsBlobs(Protocol):
    """A store that can list its blobs."""

    async def blob_names(self) -> list[str]:
        """The names of all blobs."""
        ...


class VerifiedExecution(msgspec.Struct, frozen=True):
    """The findings of one execution, and the blobs to which it refers."""

    key: Key
    findings: list[VerificationFinding]
    blobs: frozenset[str] = frozenset()


async def heads_to_verify(store: ReadOnlyStore, keys: Sequence[Key] | None = None) -> list[Head]:
    """The heads of these executions, or of all executions of all tenants."""
    if keys is not None:
        return await store.heads(HeadFilter(keys=tuple(keys), limit=len(keys)))
    return [head async for page in head_pages(store, HeadFilter()) for head in page]


async def verify_executions(store: ReadOnlyStore, keys: Iterable[Key]) -> AsyncGenerator[VerifiedExecution, None]:
    """Verifies each of these executions."""
    observer = _Observer(store)
    for key in keys:
        observation = await observer.observe(key)
        found = [] if observation is None else verify_observation(observation)
        for _ in range(OBSERVATIONS_MAX - 1):
            if found:
                again = await _Observer(store).observe(key)
                still = [] if again is None else verify_observation(again)
                found = [one for one in found if one in still]
        yield VerifiedExecution(key, found, frozenset(() if observation is None else observation.blobs))


def unreferenced_blob_findings(names: Iterable[str]) -> list[VerificationFinding]:
    """The findings for blobs to which nothing refers."""
    return [VerificationFinding(None, "note", "unreferenced", "", f"nothing refers to blob {name}", "perdure prune removes it") for name in sorted(names)]


class _Observer:
    """Observes executions. Living holders and the tasks of each queue are read once."""

    def __init__(self, store: ReadOnlyStore) -> None:
        self._store = store
        self._living: frozenset[str] | None = None
        self._work: dict[QueueAddress, frozenset[tuple[QueueAddress, str]]] = {}

    async def observe(self, key: Key) -> Observation | None:
        """Observes one execution; None if it does not exist."""
        before = await self._store.read(key)
        if before is None:
            return None
        children = await self._children(_fold_rows(key, before.payloads))  # before the final read of the log, which then has the answers of ended children
        found = await stored_contents(self._store, key)
        if found is None:
            return None
        (head, rows), queued = (found[0].head, found[0].payloads), found[1]
        execution = _fold_rows(key, rows)
        children |= await self._children(execution, but=children)
        blobs = await self._blobs(rows, queued)
        times_s = {name: await self._store.removed_at(name) for name, whole in blobs.items() if whole is None}
        removed = {name: at_s for name, at_s in times_s.items() if at_s is not None}
        there = {name: whole for name, whole in blobs.items() if name not in removed}
        living, work = await self._alive(), await self._work_of(execution)
        return Observation(head=head, rows=rows, messages=queued, living=living, work=work, blobs=there, removed=removed, children=children)

    async def _alive(self) -> frozenset[str]:
        if self._living is None:
            self._living = frozenset(lease.holder for lease in await self._store.leases() if lease.alive)
        return self._living

    async def _work_of(self, execution: Execution) -> frozenset[tuple[QueueAddress, str]]:
        tenant = execution.key.tenant
        queues = {QueueAddress(tenant, one.op.queue) for one in execution.open.values() if isinstance(one.op, CallOperation) and one.by is None}
        for queue in queues - self._work.keys():
            self._work[queue] = frozenset((queue, task.key) for task in await self._store.messages(queue))
        return frozenset[tuple[QueueAddress, str]]().union(*(self._work[queue] for queue in queues))

    async def _children(self, execution: Execution, but: Iterable[Key] = ()) -> dict[Key, Head]:
        tenant = execution.key.tenant
        keys = {Key(tenant, one.op.workflow, one.op.id) for one in execution.open.values() if isinstance(one.op, SpawnOperation)} - set(but)
        return {head.key: head for head in await self._store.heads(HeadFilter(keys=tuple(keys), limit=len(keys)))} if keys else {}

    async def _blobs(self, rows: Sequence[bytes], queued: Sequence[QueuedMessage]) -> dict[str, bool | None]:
        found: dict[str, bool | None] = {}
        try:
            async for name, raw in read_blobs_with_archives(self._store, referenced_blobs((*_decode_events(rows), *_decode_messages(queued)))):
                found[name] = None if raw is None else sha256(raw).hexdigest() == name
        except PerdureError:  # a damaged archive is in `found` as altered already
            return found
        return found


def _fold_rows(key: Key, rows: Sequence[bytes]) -> Execution:
    """The execution, or an empty one if its log cannot be read: `verify_observation` reports that."""
    try:
        return fold_events(key, log_format.decode_rows(rows))
    except READ_ERRORS:
        return Execution(key)


def _decode_events(rows: Sequence[bytes]) -> list[Event]:
    try:
        return log_format.decode_rows(rows)
    except READ_ERRORS:
        return []


def _decode_messages(queued: Sequence[QueuedMessage]) -> list[messages.ExecutionMessage | messages.TaskMessage]:
    said = []
    for one in queued:
        try:
            said.append(messages.decode_message_or_task(one.body))
        except READ_ERRORS:
            continue
    return said


HEADS_EXAMINED_MAX = 10_000
"""The number of executions that are read at most, newest first."""


class UnreadableItem(msgspec.Struct, frozen=True):
    """A log that cannot be read, or with `message` the message of this key; and why."""

    key: Key
    message: str
    why: str


async def find_unreadable(store: ReadOnlyStore) -> AsyncIterator[UnreadableItem]:
    """Finds what cannot be read of the executions that need attention or have messages waiting, up to `HEADS_EXAMINED_MAX` executions."""
    left = HEADS_EXAMINED_MAX
    async for page in head_pages(store, HeadFilter()):
        for head in page:
            if left and _is_concerned(head):
                left -= 1
                async for found in _unreadable_items(store, head):
                    yield found


def _is_concerned(head: Head) -> bool:
    return head.status == "needs_attention" or head.message_at_s is not None


async def _unreadable_items(store: ReadOnlyStore, head: Head) -> AsyncIterator[UnreadableItem]:
    try:
        found = await store.read(head.key)
        log_format.decode_rows(() if found is None else found.payloads)
    except UNREADABLE as error:
        yield UnreadableItem(head.key, "", str(error))
    try:
        queued = await store.messages(head.key)
    except SealedPayload as error:
        yield UnreadableItem(head.key, "some", str(error))
        return
    for one in queued:
        try:
            messages.decode_execution_message(one.body)
        except StoreError as error:
            yield UnreadableItem(head.key, one.key, str(error))
