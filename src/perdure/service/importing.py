"""Importing: executions from elsewhere go on here, from where they stood. What was being done there counts as interrupted.

Nothing tells whether the other goes on as well: what is imported runs a second time if it does, from where it was exported on.
"""

from collections.abc import Iterable, Mapping, Sequence
from uuid import uuid4

import msgspec

from perdure.core import events as e
from perdure.core import log, messages
from perdure.core.attributes import indexed
from perdure.core.copies import Copy
from perdure.core.effects import outstanding
from perdure.core.errors import AlreadyThere, ExportRefused, LogDamaged, StoreUnavailable
from perdure.core.facts import is_in_hand
from perdure.core.folding import fold
from perdure.core.mail import Send
from perdure.core.mailbox import Letter
from perdure.core.ops import Keep
from perdure.core.paths import Key
from perdure.core.walk import inside, rewritten
from perdure.programs.code.declare import checked_name
from perdure.programs.code.places import reply_path
from perdure.service.bundle import Bundle, Exported, Read
from perdure.stores.base import Commit, Conflict, Filter, Moment, Store, Superseded
from perdure.stores.blob_removal import blob_removal_of

WHY_PAUSED = "imported"
TRIES_MAX = 3
"""How often it is begun anew when the store begins an epoch meanwhile."""


class Imported(msgspec.Struct, frozen=True):
    """An execution that is there now, and how it stands."""

    key: Key
    status: str


def trusted(found: Read, unsigned: bool) -> Bundle:
    """What a file holds, if it was signed with the secret of this deployment, or if that does not matter.

    Raises:
        ExportRefused: it was not.
    """
    if not found.signed and not unsigned:
        raise ExportRefused("it was not signed with the PERDURE_SECRET of this deployment; take it with --unsigned (unsigned=True) if you trust who made it")
    return found.bundle


async def import_(store: Store, bundle: Bundle, *, id: str | None = None, paused: bool = False) -> list[Imported]:
    """Have the executions of a bundle here; the first under another `id`, if one is given; `paused`, all of them until they are resumed.

    Each is made by one commit, held by nobody, and all of them by one call of the store. What the logs imply is sent anew: work that
    waited on queues, and the starts of awaited children.

    Raises:
        AlreadyThere: there is one of them here; nothing was changed.
        ExportRefused: a log in it makes no sense.
    """
    first = bundle.executions[0].key
    names = {} if id is None else {first: first._replace(id=checked_name(id, "id"))}
    keys = [names.get(one.key, one.key) for one in bundle.executions]
    for _ in range(TRIES_MAX):
        if taken := await store.heads(Filter(keys=tuple(keys), limit=1)):
            raise AlreadyThere(taken[0].key)
        moment = await store.moment()
        try:
            commits = [_commit(one, bundle, names, moment, paused) for one in bundle.executions]
        except (LogDamaged, KeyError, ValueError, IndexError) as error:
            raise ExportRefused(f"a log in it makes no sense: {error!r}") from error
        if bundle.removed:
            await blob_removal_of(store).note(bundle.removed)
        answers = await store.commit(_with_blobs(commits, bundle.blobs))
        for commit, answer in zip(commits, answers, strict=True):
            if isinstance(answer, Conflict):
                raise AlreadyThere(commit.key)
        if not any(isinstance(answer, Superseded) for answer in answers):
            return [Imported(commit.key, commit.status) for commit in commits]
    raise StoreUnavailable("the store begins one epoch after the other; nothing was imported, try again")


def _with_blobs(commits: Sequence[Commit], blobs: Mapping[str, bytes]) -> list[Commit]:
    return [msgspec.structs.replace(commits[0], blobs=tuple(blobs.items())), *commits[1:]]


def _commit(one: Exported, bundle: Bundle, names: Mapping[Key, Key], moment: Moment, paused: bool) -> Commit:
    """What makes one execution: its log with what is known here by another name or number, and its mail."""
    first = bundle.executions[0]
    key, rows = names.get(one.key, one.key), [log.decode(row) for row in one.rows]
    letters = [messages.decode_message(letter.body) for letter in one.mail]
    change = _Change(names, 1 + max(_numbers([*letters, *(event for row in rows for event in row)]), default=-1))
    rows = [[rewritten(event, change) for event in row] for row in rows]
    compacted = next((row for row in reversed(rows) if isinstance(row[-1], e.Snapshot)), None)
    behind = rows if compacted is None else rows[rows.index(compacted) + 1 :]
    events = [event for row in behind for event in row]
    root = names.get(first.key, first.key) if one.root == first.root else one.root
    execution = fold(key, (*(compacted or ()), *events), root)
    version = execution.version - len(events)
    if execution.version != one.version:
        raise LogDamaged(f"the log of {one.key} goes to {execution.version}, and its head is at {one.version}")
    if paused and execution.ended is None and execution.parked is None:
        events.append(e.Parked("paused", max(moment.now_s, execution.now_s), (WHY_PAUSED,)))
        execution.apply(events[-1])
    attributes = execution.attributes if execution.started is not None else next((said.attributes for said in letters if isinstance(said, messages.Start)), ())
    answered = {said.path for said in letters if isinstance(said, messages.Settle)}
    sends = [Send(key, letter.key, messages.encode(rewritten(said, change)), letter.due_at_s) for letter, said in zip(one.mail, letters, strict=True)]
    return Commit(
        key=key,
        epoch=moment.epoch,
        holder=f"import-{uuid4().hex}",
        version=version,
        program=one.program,
        root=root,
        creates=True,
        created_at_s=next((event.at_s for event in (execution.started, execution.ended) if event is not None), None),
        row=log.encode(events) if events else b"",
        count=len(events),
        compacted=None if compacted is None else log.encode(compacted),
        status=execution.status,
        wake_at_s=moment.now_s if is_in_hand(execution) else execution.wake_at(),
        ended_at_s=None if execution.ended is None else execution.ended.at_s,
        release=True,
        sends=(*sends, *(_to_what_is_there(send, bundle, names) for send in outstanding(execution, answered))),
        attributes=indexed(attributes),
    )


def _to_what_is_there(send: Send, bundle: Bundle, names: Mapping[Key, Key]) -> Send:
    """A start of what comes along opens nothing: the other does not have to wait for it."""
    comes_along = any(names.get(one.key, one.key) == send.to for one in bundle.executions)
    return msgspec.structs.replace(send, opens=None) if comes_along else send


def _numbers(things: Iterable[e.Event | messages.Message]) -> Iterable[int]:
    """The numbers that the mail of the other store had, as far as they matter still."""
    return (part.number for thing in things for part in inside(thing) if isinstance(part, e.Arrived | e.Refused | Letter))


class _Change:
    """Names as they are here, and the numbers of mail put before all that the mail of this store will have."""

    def __init__(self, names: Mapping[Key, Key], shift: int) -> None:
        self._names = names
        self._shift = max(shift, 0)

    def __call__(self, thing: object) -> object:
        match thing:
            case Key():
                return self._names.get(thing, thing)
            case e.Arrived(number) | e.Refused(number) | Letter(number) if self._shift:
                return msgspec.structs.replace(thing, number=number - self._shift)
            case e.Received(_, numbers) if self._shift:
                return msgspec.structs.replace(thing, numbers=tuple(number - self._shift for number in numbers))
            case e.Opened(path, Keep(role="reply") as op) | Copy(path, Keep(role="reply") as op) if self._shift:
                number = int(op.label) - self._shift
                return msgspec.structs.replace(thing, path=reply_path(path[:-1], number), op=msgspec.structs.replace(op, label=str(number)))
        return thing
