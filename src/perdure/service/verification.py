"""Verifying: do the records of an execution agree? A pure function of what is seen of it: head, log, mail, holders, blobs, and those it waits for.

What is *damage* keeps an execution from going on as it should, or its records from being what they were; a *note* is worth knowing, and mends
itself, or harms nobody.

Verifying a store, execution by execution, while others work on it: what is found is looked at again, and is told if it is still so.

Finds what engines and workers have set aside because it can't be read: logs of executions, and messages.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Literal, Protocol, runtime_checkable

import msgspec

from perdure.core import log_format, messages
from perdure.core.attributes import index_attributes, value_of_sortable, values_by_name
from perdure.core.effects import outstanding_messages
from perdure.core.envelopes import QueuedMessage
from perdure.core.errors import PerdureError, SealedPayload, StoreError
from perdure.core.events import Event
from perdure.core.execution import Execution, needs_holder
from perdure.core.operation_state import PendingOperation
from perdure.core.operations import CallOperation, SpawnOperation
from perdure.core.paths import UNDO, Key, Path, QueueAddress, path_text
from perdure.core.program import program_name, program_text
from perdure.core.replay import fold_events
from perdure.core.traversal import referenced_blobs
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.runtime.quarantine import UNREADABLE
from perdure.service.execution_bundles import read_blobs_with_archives, stored_contents
from perdure.service.store_access import head_pages
from perdure.stores.protocol import Head, HeadFilter, ReadOnlyStore

WAKE_UP_LATE_S = 0.001
"""A time in a head may be later than the log's by so much, for rounding."""

READ_ERRORS = (PerdureError, KeyError, ValueError, IndexError, AttributeError, TypeError)
"""What reading and folding a log raises that is none."""

FindingKind = Literal["log", "head", "attributes", "asleep", "interrupted", "lost", "mail", "unread", "child", "blob", "pruned", "unreferenced"]
"""The log can't be read; the head says something else than the log; it is found by other attributes than it has; nothing will wake it; a call is with
nobody; what is to be done is on no queue;
a message can't be read; a message will do nothing; a child is not there, or its answer is not; a blob is missing or altered;
archives were pruned; a blob is of no use."""


class VerificationFinding(msgspec.Struct, frozen=True):
    """Something that is not as it should be, with what to do. `path` is the operation that it is about; `key` is None for what is about no execution."""

    key: Key | None
    level: Literal["damage", "note"]
    kind: FindingKind
    path: str
    what: str
    advice: str


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What is seen of an execution: its head, the rows of its log, its mail, which holders live, and of what it refers to: the keys of the work on
    its queues, the blobs (None: missing; False: not what it is called), of those that were removed on purpose when that was, the heads of those that it
    waits for."""

    head: Head
    rows: Sequence[bytes]
    mail: Sequence[QueuedMessage] = ()
    living: frozenset[str] = frozenset()
    work: frozenset[tuple[QueueAddress, str]] = frozenset()
    blobs: Mapping[str, bool | None] = {}
    removed: Mapping[str, float] = {}
    children: Mapping[Key, Head] = {}


def verify_observation(sight: Observation) -> list[VerificationFinding]:
    """What does not agree; nothing is as it should be."""
    key = sight.head.key
    try:
        execution = fold_events(key, log_format.decode_rows(sight.rows), sight.head.root)
    except READ_ERRORS as error:
        why = str(error) if isinstance(error, PerdureError) else f"an event does not fit what comes before it ({error!r})"
        return [
            VerificationFinding(
                key, "damage", "log", "", f"the log can't be read: {why}", "restore the database from a backup, or import the execution from an export"
            )
        ]
    said, unreadable = _message_findings(sight)
    answered = {(message.path, message.attempt) for message in said if isinstance(message, messages.SettleMessage)}
    found = [
        *unreadable,
        *_head_findings(sight.head, execution),
        *_attribute_findings(sight.head, execution),
        *_wake_up_findings(sight, execution),
        *_blob_findings(sight),
    ]
    for pending in execution.open.values():
        found += _call_findings(sight, execution, pending, answered)
        found += _child_findings(sight, pending, {path for path, _ in answered})
    return found + _unread_findings(sight, execution)


def _message_findings(sight: Observation) -> tuple[list[messages.ExecutionMessage], list[VerificationFinding]]:
    said: list[messages.ExecutionMessage] = []
    unreadable: list[VerificationFinding] = []
    for mail in sight.mail:
        try:
            said.append(messages.decode_execution_message(mail.body))
        except PerdureError as error:
            what = f"the message {mail.key} can't be read: {error}"
            unreadable.append(
                VerificationFinding(
                    sight.head.key, "damage", "mail", "", what, "engines set it aside; restore the database from a backup, or run a Perdure that can read it"
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
    if started is not None:
        log_says.append(("program", program_text(head.program), program_name(execution.key.workflow, started.version)))
    for name, there, by_log in log_says:
        if there != by_log:
            yield VerificationFinding(
                head.key, "damage", "head", "", f"its {name} is {there} in the head, and {by_log} by the log", _RESTORE if name == "version" else _REMAKE
            )


def _attribute_findings(head: Head, execution: Execution) -> Iterator[VerificationFinding]:
    """What it is found by is what it has, as soon as it has begun; until then, its head alone says it."""
    if execution.started is None:
        return
    there, by_log = (values_by_name(indexed) for indexed in (head.attributes, index_attributes(execution.attributes)))
    for name in sorted(there.keys() | by_log.keys()):
        if there.get(name) != by_log.get(name):
            what = f"its attribute {name} is {_attribute_text(there.get(name))} in the index, and {_attribute_text(by_log.get(name))} by the log"
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


def _wake_up_findings(sight: Observation, execution: Execution) -> Iterator[VerificationFinding]:
    """What is held by somebody, dead or alive, is looked at by who holds it or takes it over; the rest has to be woken."""
    head = sight.head
    if head.holder is not None or head.status in ENDED_STATUSES:
        return
    by_log = 0.0 if needs_holder(execution) else execution.wake_at()
    first_mail = min((mail.due_at_s for mail in sight.mail), default=None)
    for what, at_s, wakes_at_s in (
        ("what is due in it", by_log, _earliest(head.wake_at_s, head.message_at_s)),
        ("the mail that it has", first_mail, _earliest(head.wake_at_s, head.message_at_s)),
    ):
        if at_s is not None and (wakes_at_s is None or wakes_at_s > at_s + WAKE_UP_LATE_S):
            yield VerificationFinding(
                head.key, "damage", "asleep", "", f"nothing wakes it for {what}", "send it something that does nothing, such as perdure resume: that wakes it"
            )


def _earliest(*times_s: float | None) -> float | None:
    return min((at_s for at_s in times_s if at_s is not None), default=None)


def _call_findings(sight: Observation, execution: Execution, pending: PendingOperation, answered: set[tuple[Path, int]]) -> Iterator[VerificationFinding]:
    """An open call is with a living holder, or on its queue, or its answer has come."""
    if not isinstance(pending.op, CallOperation) or (pending.path, pending.attempt) in answered:
        return
    key, where = sight.head.key, path_text(pending.path)
    if pending.state == "performing" and pending.by not in sight.living:
        what = f"try {pending.attempt} was begun by {pending.by}, which is gone"
        yield VerificationFinding(
            key,
            "note",
            "interrupted",
            where,
            what,
            f"run an engine that knows {program_text(sight.head.program)}: it takes the execution over, and tries again",
        )
    if pending.state == "waiting":
        everything = {(send.to, send.key) for send in outstanding_messages(execution, execution.open.keys() - {pending.path})}
        if not everything <= sight.work:
            what = f"try {pending.attempt} is on no queue, and nobody answers it"
            yield VerificationFinding(
                key, "damage", "lost", where, what, f"give its result with perdure preset {key.id} {where} VALUE, or export and import the execution"
            )


def _child_findings(sight: Observation, pending: PendingOperation, answered: set[Path]) -> Iterator[VerificationFinding]:
    """Who is awaited is there, and has answered if it has ended."""
    if not isinstance(pending.op, SpawnOperation) or pending.path in answered:
        return
    key, where = sight.head.key, path_text(pending.path)
    child = Key(key.tenant, pending.op.workflow, pending.op.id)
    head = sight.children.get(child)
    if head is None:
        what = f"it waits for {child}, which is not there"
        yield VerificationFinding(
            key, "damage", "child", where, what, f"give its result with perdure preset {key.id} {where} VALUE, or export and import the execution"
        )
    elif head.status in ENDED_STATUSES and pending.path[0] != UNDO:
        what = f"it waits for {child}, which has ended ({head.status}) and has not told it"
        yield VerificationFinding(key, "damage", "child", where, what, f"give its result with perdure preset {key.id} {where} VALUE")


def _blob_findings(sight: Observation) -> Iterator[VerificationFinding]:
    for at_s in sight.removed.values():
        what = f"turns of it were archived, and the archives were pruned at {datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
        yield VerificationFinding(sight.head.key, "note", "pruned", "", what, "nothing; perdure archives says which turns those were")
    for name, whole in sight.blobs.items():
        if not whole:
            what = f"blob {name}, to which it refers, {'is missing' if whole is None else 'is not what it was'}"
            yield VerificationFinding(sight.head.key, "damage", "blob", "", what, "restore the database from a backup, or import the execution from an export")


def _unread_findings(sight: Observation, execution: Execution) -> list[VerificationFinding]:
    if execution.ended is None or sight.head.holder in sight.living:
        return []
    what = "the message {} came when it had ended, and will do nothing"
    advice = f"nothing; an engine that knows {program_text(sight.head.program)} clears it away"
    return [VerificationFinding(sight.head.key, "note", "unread", "", what.format(mail.key), advice) for mail in sight.mail]


OBSERVATIONS_MAX = 3
"""So often something must be seen before it is told: in between, others may have changed one half of what is compared."""


@runtime_checkable
class ListsBlobs(Protocol):
    """What a store can do besides, if its blobs can be listed."""

    async def blob_names(self) -> list[str]:
        """The names of all blobs."""
        ...


class VerifiedExecution(msgspec.Struct, frozen=True):
    """What was found in one execution, and the blobs to which it refers."""

    key: Key
    findings: list[VerificationFinding]
    blobs: frozenset[str] = frozenset()


async def heads_to_verify(looking: ReadOnlyStore, keys: Sequence[Key] | None = None) -> list[Head]:
    """The heads of these executions, or of all of all tenants."""
    if keys is not None:
        return await looking.heads(HeadFilter(keys=tuple(keys), limit=len(keys)))
    return [head async for page in head_pages(looking, HeadFilter()) for head in page]


async def verify_executions(looking: ReadOnlyStore, keys: Iterable[Key]) -> AsyncGenerator[VerifiedExecution, None]:
    """What is found in each of these executions."""
    glance = _Observer(looking)
    for key in keys:
        sight = await glance.sight(key)
        found = [] if sight is None else verify_observation(sight)
        for _ in range(OBSERVATIONS_MAX - 1):
            if found:
                again = await _Observer(looking).sight(key)
                still = [] if again is None else verify_observation(again)
                found = [one for one in found if one in still]
        yield VerifiedExecution(key, found, frozenset(() if sight is None else sight.blobs))


def unreferenced_blob_findings(names: Iterable[str]) -> list[VerificationFinding]:
    """What is said of blobs to which nothing refers."""
    return [VerificationFinding(None, "note", "unreferenced", "", f"nothing refers to blob {name}", "perdure prune removes it") for name in sorted(names)]


class _Observer:
    """Looks at executions; who lives and what is on queues is looked at once."""

    def __init__(self, looking: ReadOnlyStore) -> None:
        self._looking = looking
        self._living: frozenset[str] | None = None
        self._work: dict[QueueAddress, frozenset[tuple[QueueAddress, str]]] = {}

    async def sight(self, key: Key) -> Observation | None:
        """What is seen of an execution; None if it is not there."""
        before = await self._looking.read(key)
        if before is None:
            return None
        children = await self._children(_fold_rows(key, before.rows))  # before the log is read for good: who had ended by then had told
        found = await stored_contents(self._looking, key)
        if found is None:
            return None
        (head, rows), mail = (found[0].head, found[0].rows), found[1]
        execution = _fold_rows(key, rows)
        children |= await self._children(execution, but=children)
        blobs = await self._blobs(rows, mail)
        times_s = {name: await self._looking.removed_at(name) for name, whole in blobs.items() if whole is None}
        removed = {name: at_s for name, at_s in times_s.items() if at_s is not None}
        there = {name: whole for name, whole in blobs.items() if name not in removed}
        living, work = await self._alive(), await self._work_of(execution)
        return Observation(head=head, rows=rows, mail=mail, living=living, work=work, blobs=there, removed=removed, children=children)

    async def _alive(self) -> frozenset[str]:
        if self._living is None:
            self._living = frozenset(lease.holder for lease in await self._looking.leases() if lease.alive)
        return self._living

    async def _work_of(self, execution: Execution) -> frozenset[tuple[QueueAddress, str]]:
        tenant = execution.key.tenant
        queues = {QueueAddress(tenant, one.op.queue) for one in execution.open.values() if isinstance(one.op, CallOperation) and one.by is None}
        for queue in queues - self._work.keys():
            self._work[queue] = frozenset((queue, mail.key) for mail in await self._looking.messages(queue))
        return frozenset[tuple[QueueAddress, str]]().union(*(self._work[queue] for queue in queues))

    async def _children(self, execution: Execution, but: Iterable[Key] = ()) -> dict[Key, Head]:
        tenant = execution.key.tenant
        keys = {Key(tenant, one.op.workflow, one.op.id) for one in execution.open.values() if isinstance(one.op, SpawnOperation)} - set(but)
        return {head.key: head for head in await self._looking.heads(HeadFilter(keys=tuple(keys), limit=len(keys)))} if keys else {}

    async def _blobs(self, rows: Sequence[bytes], mail: Sequence[QueuedMessage]) -> dict[str, bool | None]:
        found: dict[str, bool | None] = {}
        try:
            async for name, raw in read_blobs_with_archives(self._looking, referenced_blobs((*_decode_events(rows), *_decode_messages(mail)))):
                found[name] = None if raw is None else sha256(raw).hexdigest() == name
        except PerdureError:  # of an archive, whose name says so as well
            return found
        return found


def _fold_rows(key: Key, rows: Sequence[bytes]) -> Execution:
    """The execution, or one that knows nothing if its log can't be read, of which verifying tells."""
    try:
        return fold_events(key, log_format.decode_rows(rows))
    except READ_ERRORS:
        return Execution(key)


def _decode_events(rows: Sequence[bytes]) -> list[Event]:
    try:
        return log_format.decode_rows(rows)
    except READ_ERRORS:
        return []


def _decode_messages(mail: Sequence[QueuedMessage]) -> list[messages.ExecutionMessage | messages.TaskMessage]:
    said = []
    for one in mail:
        try:
            said.append(messages.decode_message_or_task(one.body))
        except READ_ERRORS:
            continue
    return said


HEADS_EXAMINED_MAX = 10_000
"""How many executions are read at most, the newest of those that may be concerned."""


class UnreadableItem(msgspec.Struct, frozen=True):
    """Something of an execution that can't be read here: its log, or with `message` the mail of this key; and why."""

    key: Key
    message: str
    why: str


async def find_unreadable(looking: ReadOnlyStore) -> AsyncIterator[UnreadableItem]:
    """What can't be read of the executions that need attention or have mail waiting, up to a bound."""
    left = HEADS_EXAMINED_MAX
    async for page in head_pages(looking, HeadFilter()):
        for head in page:
            if left and _is_concerned(head):
                left -= 1
                async for found in _unreadable_items(looking, head):
                    yield found


def _is_concerned(head: Head) -> bool:
    return head.status == "needs_attention" or head.message_at_s is not None


async def _unreadable_items(looking: ReadOnlyStore, head: Head) -> AsyncIterator[UnreadableItem]:
    try:
        found = await looking.read(head.key)
        log_format.decode_rows(() if found is None else found.rows)
    except UNREADABLE as error:
        yield UnreadableItem(head.key, "", str(error))
    try:
        mail = await looking.messages(head.key)
    except SealedPayload as error:
        yield UnreadableItem(head.key, "some", str(error))
        return
    for one in mail:
        try:
            messages.decode_execution_message(one.body)
        except StoreError as error:
            yield UnreadableItem(head.key, one.key, str(error))
