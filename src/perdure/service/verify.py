"""Verifying: do the records of an execution agree? A pure function of what is seen of it: head, log, mail, holders, blobs, and those it waits for.

What is *damage* keeps an execution from going on as it should, or its records from being what they were; a *note* is worth knowing, and mends
itself, or harms nobody.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from perdure.core import log, messages
from perdure.core.attributes import indexed, read
from perdure.core.effects import outstanding
from perdure.core.errors import PerdureError
from perdure.core.execution import Execution
from perdure.core.facts import is_in_hand
from perdure.core.folding import fold
from perdure.core.mail import Mail
from perdure.core.ops import Call, Spawn
from perdure.core.paths import UNDO, Key, Path, Queue, text
from perdure.core.program import program_name, shown
from perdure.core.promise import Promise
from perdure.runtime.endings import ENDED
from perdure.stores.base import Head

LATE_S = 0.001
"""A time in a head may be later than the log's by so much, for rounding."""

UNREADABLE = (PerdureError, KeyError, ValueError, IndexError, AttributeError, TypeError)
"""What reading and folding a log raises that is none."""

Kind = Literal["log", "head", "attributes", "asleep", "interrupted", "lost", "mail", "unread", "child", "blob", "pruned", "unreferenced"]
"""The log can't be read; the head says something else than the log; it is found by other attributes than it has; nothing will wake it; a call is with
nobody; what is to be done is on no queue;
a message can't be read; a message will do nothing; a child is not there, or its answer is not; a blob is missing or altered;
archives were pruned; a blob is of no use."""


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it should be, with what to do. `path` is the operation that it is about; `key` is None for what is about no execution."""

    key: Key | None
    level: Literal["damage", "note"]
    kind: Kind
    path: str
    what: str
    advice: str


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """What is seen of an execution: its head, the rows of its log, its mail, which holders live, and of what it refers to: the keys of the work on
    its queues, the blobs (None: missing; False: not what it is called), of those that were removed on purpose when that was, the heads of those that it
    waits for."""

    head: Head
    rows: Sequence[bytes]
    mail: Sequence[Mail] = ()
    living: frozenset[str] = frozenset()
    work: frozenset[tuple[Queue, str]] = frozenset()
    blobs: Mapping[str, bool | None] = {}
    removed: Mapping[str, float] = {}
    children: Mapping[Key, Head] = {}


def verify(sight: Sight) -> list[Finding]:
    """What does not agree; nothing is as it should be."""
    key = sight.head.key
    try:
        execution = fold(key, log.decode_all(sight.rows), sight.head.root)
    except UNREADABLE as error:
        why = str(error) if isinstance(error, PerdureError) else f"an event does not fit what comes before it ({error!r})"
        return [
            Finding(key, "damage", "log", "", f"the log can't be read: {why}", "restore the database from a backup, or import the execution from an export")
        ]
    said, unreadable = _messages(sight)
    answered = {(message.path, message.attempt) for message in said if isinstance(message, messages.Settle)}
    found = [*unreadable, *_head(sight.head, execution), *_attributes(sight.head, execution), *_asleep(sight, execution), *_blobs(sight)]
    for promise in execution.open.values():
        found += _call(sight, execution, promise, answered)
        found += _child(sight, promise, {path for path, _ in answered})
    return found + _unread(sight, execution)


def _messages(sight: Sight) -> tuple[list[messages.Message], list[Finding]]:
    said: list[messages.Message] = []
    unreadable: list[Finding] = []
    for mail in sight.mail:
        try:
            said.append(messages.decode_message(mail.body))
        except PerdureError as error:
            what = f"the message {mail.key} can't be read: {error}"
            unreadable.append(
                Finding(
                    sight.head.key, "damage", "mail", "", what, "engines set it aside; restore the database from a backup, or run a Perdure that can read it"
                )
            )
    return said, unreadable


def _head(head: Head, execution: Execution) -> Iterator[Finding]:
    started, ended = execution.started, execution.ended
    log_says: list[tuple[str, object, object]] = [
        ("version", head.version, execution.version),
        ("status", head.status, execution.status),
        ("time of its end", head.ended_at_s, None if ended is None else ended.at_s),
    ]
    if started is not None:
        log_says.append(("program", shown(head.program), program_name(execution.key.workflow, started.version)))
    for name, there, by_log in log_says:
        if there != by_log:
            yield Finding(
                head.key, "damage", "head", "", f"its {name} is {there} in the head, and {by_log} by the log", _RESTORE if name == "version" else _REMAKE
            )


def _attributes(head: Head, execution: Execution) -> Iterator[Finding]:
    """What it is found by is what it has, as soon as it has begun; until then, its head alone says it."""
    if execution.started is None:
        return
    there, by_log = dict(head.attributes), dict(indexed(execution.attributes))
    for name in sorted(there.keys() | by_log.keys()):
        if there.get(name) != by_log.get(name):
            what = f"its attribute {name} is {_shown(there.get(name))} in the index, and {_shown(by_log.get(name))} by the log"
            yield Finding(head.key, "damage", "attributes", "", f"{what}, so that lists that ask for it are wrong", _REMAKE)


def _shown(form: bytes | None) -> str:
    try:
        return "none" if form is None else repr(read(form))
    except PerdureError:
        return f"{form!r}, which is no value,"


_RESTORE = "restore the database from a backup"
_REMAKE = f"export it, and import it under another id: its head is then made from its log; or {_RESTORE}"


def _asleep(sight: Sight, execution: Execution) -> Iterator[Finding]:
    """What is held by somebody, dead or alive, is looked at by who holds it or takes it over; the rest has to be woken."""
    head = sight.head
    if head.holder is not None or head.status in ENDED:
        return
    by_log = 0.0 if is_in_hand(execution) else execution.wake_at()
    first_mail = min((mail.due_at_s for mail in sight.mail), default=None)
    for what, at_s, wakes_at_s in (
        ("what is due in it", by_log, _earliest(head.wake_at_s, head.mail_at_s)),
        ("the mail that it has", first_mail, _earliest(head.wake_at_s, head.mail_at_s)),
    ):
        if at_s is not None and (wakes_at_s is None or wakes_at_s > at_s + LATE_S):
            yield Finding(
                head.key, "damage", "asleep", "", f"nothing wakes it for {what}", "send it something that does nothing, such as perdure resume: that wakes it"
            )


def _earliest(*times_s: float | None) -> float | None:
    return min((at_s for at_s in times_s if at_s is not None), default=None)


def _call(sight: Sight, execution: Execution, promise: Promise, answered: set[tuple[Path, int]]) -> Iterator[Finding]:
    """An open call is with a living holder, or on its queue, or its answer has come."""
    if not isinstance(promise.op, Call) or (promise.path, promise.attempt) in answered:
        return
    key, where = sight.head.key, text(promise.path)
    if promise.state == "performing" and promise.by not in sight.living:
        what = f"try {promise.attempt} was begun by {promise.by}, which is gone"
        yield Finding(
            key, "note", "interrupted", where, what, f"run an engine that knows {shown(sight.head.program)}: it takes the execution over, and tries again"
        )
    if promise.state == "waiting":
        everything = {(send.to, send.key) for send in outstanding(execution, execution.open.keys() - {promise.path})}
        if not everything <= sight.work:
            what = f"try {promise.attempt} is on no queue, and nobody answers it"
            yield Finding(key, "damage", "lost", where, what, f"give its result with perdure preset {key.id} {where} VALUE, or export and import the execution")


def _child(sight: Sight, promise: Promise, answered: set[Path]) -> Iterator[Finding]:
    """Who is awaited is there, and has answered if it has ended."""
    if not isinstance(promise.op, Spawn) or promise.path in answered:
        return
    key, where = sight.head.key, text(promise.path)
    child = Key(key.tenant, promise.op.workflow, promise.op.id)
    head = sight.children.get(child)
    if head is None:
        what = f"it waits for {child}, which is not there"
        yield Finding(key, "damage", "child", where, what, f"give its result with perdure preset {key.id} {where} VALUE, or export and import the execution")
    elif head.status in ENDED and promise.path[0] != UNDO:
        what = f"it waits for {child}, which has ended ({head.status}) and has not told it"
        yield Finding(key, "damage", "child", where, what, f"give its result with perdure preset {key.id} {where} VALUE")


def _blobs(sight: Sight) -> Iterator[Finding]:
    for at_s in sight.removed.values():
        what = f"turns of it were archived, and the archives were pruned at {datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
        yield Finding(sight.head.key, "note", "pruned", "", what, "nothing; perdure archives says which turns those were")
    for name, whole in sight.blobs.items():
        if not whole:
            what = f"blob {name}, to which it refers, {'is missing' if whole is None else 'is not what it was'}"
            yield Finding(sight.head.key, "damage", "blob", "", what, "restore the database from a backup, or import the execution from an export")


def _unread(sight: Sight, execution: Execution) -> list[Finding]:
    if execution.ended is None or sight.head.holder in sight.living:
        return []
    what = "the message {} came when it had ended, and will do nothing"
    advice = f"nothing; an engine that knows {shown(sight.head.program)} clears it away"
    return [Finding(sight.head.key, "note", "unread", "", what.format(mail.key), advice) for mail in sight.mail]
