"""Carries out changes by one call of a function of the database (migrations 0003 and 0007): one for simple commits, or `commit_1`, which takes arrays."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from perdure.core.attributes import IndexedAttributes
from perdure.core.envelopes import Ack, NewExecution, OutgoingMessage
from perdure.core.paths import Key, QueueAddress
from perdure.core.program import program_requirements
from perdure.stores.postgres.limited_queues import Fetch
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_rows import address_bytes, escape_nul, head_of
from perdure.stores.protocol import ChangeAnswer, Commit, Committed, Conflict, Post, Refused, StoreTime, Superseded, has_admission
from perdure.stores.records import RecordChange, Stale

LOCKS_MAX = 1024
"""How many advisory locks records and admissions share: Postgres has room for a limited number of locks."""

NO_ROWS = 1 << 62
"""A version behind every log."""

_CHANGES = "bigint bytea text text text text bytea text bigint int bytea bytea text float8 float8 float8 bool bool bool bool int bool"
_ACKS = "int bytea bytea float8"
_MESSAGES = "int int bytea bytea bytea float8 text text text bigint int"
_OPENED = "text text text text bytea text text bigint int text bytea bigint"
_RECORDS = "int text text text bigint bytea float8"
_TABLES = tuple(
    tuple(types.split())
    for types in (_CHANGES, _ACKS, _MESSAGES, _OPENED, "int bytea", "int text bytea", "int int text", "int int text bytea", _RECORDS, "int text bytea")
)
_TYPES = ("float8", "int[]", "bytea[]", "bytea[]", "text[]", *(f"{one}[]" for types in _TABLES for one in types))
CALL = f"SELECT * FROM perdure.commit_1({', '.join(f'${place}::{one}' for place, one in enumerate(_TYPES, 1))})"

_STEPS = "bigint bytea text text bigint int bytea text float8"
STEPS_CALL = f"SELECT * FROM perdure.commit_steps_1($1::float8, {', '.join(f'${place}::{one}[]' for place, one in enumerate(_STEPS.split(), 2))})"

STEP_CALL = f"SELECT * FROM perdure.commit_step_1($1::float8, {', '.join(f'${place}::{one}' for place, one in enumerate(_STEPS.split(), 2))})"

_NO_COMMIT = (None,) * (len(_TABLES[0]) - 2)


class CarriedOut(NamedTuple):
    """The answers to changes, the time and epoch of the store, and which listeners to notify."""

    answers: list[ChangeAnswer]
    moment: StoreTime
    wakes: bool
    news: bool


def only_adds_events(change: Commit | Post) -> bool:
    """Whether a change is a commit that only adds events to a log, as most are."""
    return (
        isinstance(change, Commit)
        and change.count > 0
        and not (change.acks or change.messages or change.creates or change.release or change.news or change.blobs or change.unless or change.forgets)
        and change.attributes is None
        and change.compacted is None
        and change.ended_at_s is None
        and not program_requirements(change.program)
    )


async def add_events(fetch: Fetch, commits: Sequence[Commit], clock_s: float | None) -> CarriedOut:
    """Carries out commits of different executions that only add events (see `only_adds_events`), in one statement."""
    if len(commits) == 1:
        return await _add_events_of_one(fetch, commits[0], clock_s)
    placed = sorted((address_bytes(commit.key), number) for number, commit in enumerate(commits))
    rows = [_events_row(address, commits[number]) for address, number in placed]
    ((now_s, epoch, outcomes, wakes),) = map(tuple, await fetch(STEPS_CALL, clock_s, *map(list, zip(*rows, strict=True))))
    answers: list[ChangeAnswer] = [Superseded(epoch)] * len(commits)
    for (_, number), outcome in zip(placed, outcomes, strict=True):
        if outcome == 0:
            answers[number] = Committed(_version_after(commits[number]), now_s)
        elif outcome == 1:
            answers[number] = Conflict(await _present_head(fetch, commits[number]))
    return CarriedOut(answers, StoreTime(now_s, epoch), bool(wakes), news=False)


async def _add_events_of_one(fetch: Fetch, commit: Commit, clock_s: float | None) -> CarriedOut:
    decided = (commit.program, commit.holder, commit.version, commit.count, commit.row, commit.status, _float(commit.wake_at_s))
    ((now_s, epoch, outcome, wakes),) = map(tuple, await fetch(STEP_CALL, clock_s, commit.epoch, address_bytes(commit.key), *decided))
    answer: ChangeAnswer = Superseded(epoch)
    if outcome == 0:
        answer = Committed(_version_after(commit), now_s)
    elif outcome == 1:
        answer = Conflict(await _present_head(fetch, commit))
    return CarriedOut([answer], StoreTime(now_s, epoch), bool(wakes), news=False)


def _events_row(address: bytes, commit: Commit) -> tuple[Any, ...]:
    names = (escape_nul(commit.program), escape_nul(commit.holder))
    return (commit.epoch, address, *names, commit.version, commit.count, commit.row, escape_nul(commit.status), _float(commit.wake_at_s))


async def carry_out(fetch: Fetch, changes: Sequence[Commit | Post], clock_s: float | None) -> CarriedOut:
    """Carries out changes, as `Store.commit` says, in one statement. The time is `clock_s`, or else the server's."""
    commits = [change for change in changes if isinstance(change, Commit) and only_adds_events(change)]
    if len(commits) == len(changes) == len({commit.key for commit in commits}):
        return await add_events(fetch, commits, clock_s)
    arrays = _ChangeArrays(changes)
    ((now_s, epoch, outcomes, which, present, created, wakes, news),) = map(tuple, await fetch(CALL, *arrays.arguments(clock_s)))
    opened = arrays.opened_by_change(created)
    answers: list[ChangeAnswer] = []
    for number, (change, outcome) in enumerate(zip(changes, outcomes, strict=True)):
        match outcome:
            case 0:
                answers.append(Committed(_version_after(change), now_s, tuple(opened.get(number, ()))))
            case 1:
                answers.append(Conflict(await _present_head(fetch, change)))
            case 2:
                answers.append(Superseded(epoch))
            case 3:
                answers.append(Stale(arrays.records[which[number] - 1].key, present[number]))
            case _:
                answers.append(arrays.refused(which[number], present[number]))
    return CarriedOut(answers, StoreTime(now_s, epoch), bool(wakes), bool(news))


def _float(at_s: float | None) -> float | None:
    """Returns a time that may be an int as a float, as drivers want all members of an array to be."""
    return None if at_s is None else float(at_s)


def _columns(rows: Iterable[tuple[Any, ...]], types: Iterable[str]) -> list[list[Any]]:
    """Returns the columns of rows. One that has only NULL or only false is empty, unless it is the first, which says how many rows there are.

    The function reads what is behind the end of an array as NULL, which counts as false. Most columns of most changes are so, and asyncpg checks each value.
    """
    first, *others = zip(*rows, strict=True)
    _, *kinds = types
    nothing = (True not in values if kind == "bool" else values.count(None) == len(values) for values, kind in zip(others, kinds, strict=True))
    return [[*first], *([] if is_nothing else [*values] for values, is_nothing in zip(others, nothing, strict=True))]


def _version_after(change: Commit | Post) -> int:
    if isinstance(change, Post):
        return 0
    return change.version if change.forgets else change.version + change.count


async def _present_head(fetch: Fetch, change: Commit | Post) -> Any:
    if isinstance(change, Post):
        return None
    return next(map(head_of, await fetch(SQL.read_execution, address_bytes(change.key), NO_ROWS)), None)


class _ChangeArrays:
    """The arguments of `commit_1`: a list of rows for each group of its arrays, in the order of the groups."""

    def __init__(self, changes: Iterable[Commit | Post]) -> None:
        self._tables: list[list[tuple[Any, ...]]] = [[] for _ in _TABLES]
        self._changes, self._acks, self._messages, self._opened, self._unless, self._blobs, self._refers, self._attributes, *rest = self._tables
        self._record_rows, self._record_attributes = rest
        self._places, self._plain, self._locks, self._programs = set[bytes](), set[bytes](), set[int](), set[str]()
        self._opens: list[tuple[int, OutgoingMessage, NewExecution]] = []
        self.records: list[RecordChange] = []
        for number, change in enumerate(changes, 1):
            if isinstance(change, Commit):
                self._add_commit(number, change)
            else:
                self._add_post(number, change)
            self._blobs += ((number, sha256, payload) for sha256, payload in change.blobs)
            self._add_messages(number, change)

    def arguments(self, clock_s: float | None) -> list[object]:
        """The arguments of the function."""
        places = sorted(self._places) if len(self._places) > 1 or self._plain else []
        columns = [column for rows, types in zip(self._tables, _TABLES, strict=True) for column in (_columns(rows, types) if rows else [[] for _ in types])]
        return [clock_s, sorted(self._locks), places, [*self._plain], [*map(escape_nul, self._programs)], *columns]

    def opened_by_change(self, created: Iterable[int]) -> dict[int, list[Key]]:
        """Returns the executions in these places, by the number of the change (from 0 on)."""
        found: dict[int, list[Key]] = {}
        for place in created:
            change, send, _ = self._opens[place - 1]
            assert isinstance(send.to, Key), "a message that opens an execution is sent to it"
            found.setdefault(change - 1, []).append(send.to)
        return found

    def refused(self, place: int, present: int) -> Refused:
        """The refusal of the start in this place."""
        _, send, opens = self._opens[place - 1]
        assert isinstance(send.to, Key), "a message that opens an execution is sent to it"
        assert opens.admission is not None, "only starts with an admission are refused"
        return Refused(send.to, opens.admission, present)

    def _add_commit(self, number: int, commit: Commit) -> None:
        address = address_bytes(commit.key)
        self._places.add(address)
        self._know(commit.program)
        names = (*map(escape_nul, commit.key), escape_nul(commit.program), address_bytes(commit.root), escape_nul(commit.holder))
        log = (commit.version, commit.count, commit.row, commit.compacted)
        times = map(_float, (commit.wake_at_s, commit.ended_at_s, commit.created_at_s))
        flags = (commit.creates, commit.release, commit.news, commit.forgets)
        attributes = None if commit.attributes is None else len(commit.attributes)
        self._changes.append((commit.epoch, address, *names, *log, escape_nul(commit.status), *times, *flags, attributes, False))
        self._unless += ((number, key.encode()) for key in commit.unless)
        self._add_attributes(number, 0, commit.attributes or ())

    def _add_post(self, number: int, post: Post) -> None:
        self._changes.append((post.epoch, *_NO_COMMIT, has_admission(post)))
        carried = {sha256 for sha256, _ in post.blobs}
        for group, names in enumerate((names for send in post.messages for names in send.refers), 1):
            self._refers += ((number, group if carried.isdisjoint(names) else 0, sha256) for sha256 in names)
        for change in post.records:
            self.records.append(change)
            self._lock(change.key)
            self._record_rows.append((number, *map(escape_nul, change.key), change.version, change.value, _float(change.expires_at_s)))
            self._record_attributes += ((len(self.records), escape_nul(name), value) for name, value in change.attributes)

    def _add_messages(self, number: int, change: Commit | Post) -> None:
        """Adds acknowledgements with the messages that depend on them, then messages."""
        sends: list[tuple[int, OutgoingMessage]] = []
        for ack in change.acks:
            self._add_ack(number, ack)
            if ack.unleased is not None:
                sends.append((len(self._acks), ack.unleased))
        sends += ((0, send) for send in change.messages)
        opened = {send.to for _, send in sends if send.opens is not None}
        if isinstance(change, Commit):
            opened.add(change.key)
            self._refers += ((number, 0, sha256) for send in change.messages for names in send.refers for sha256 in names)
        for ack_place, send in sends:
            address = address_bytes(send.to)
            if isinstance(send.to, Key):
                self._places.add(address)
                if send.to not in opened:
                    self._plain.add(address)
            self._add_message(number, ack_place, send, address)

    def _add_ack(self, number: int, ack: Ack) -> None:
        address = address_bytes(ack.to)
        if isinstance(ack.to, Key):
            self._places.add(address)
        self._acks.append((number, address, ack.key.encode(), _float(ack.postpone_to_s)))

    def _add_message(self, number: int, ack_place: int, send: OutgoingMessage, address: bytes) -> None:
        opens, queue, tenant = 0, None, None
        if isinstance(send.to, QueueAddress):
            queue, tenant = escape_nul(send.to.name), escape_nul(send.to.tenant)
        elif send.opens is not None:
            self._add_opened(number, send, send.opens)
            opens = len(self._opens)
        place = (queue, tenant, escape_nul(send.lane), send.priority, opens)
        self._messages.append((number, ack_place, address, send.key.encode(), send.body, float(send.due_at_s), *place))
        if opens and send.opens is not None:
            self._add_attributes(number, len(self._messages), send.opens.attributes)

    def _add_opened(self, number: int, send: OutgoingMessage, opens: NewExecution) -> None:
        assert isinstance(send.to, Key), "a message that opens an execution is sent to it"
        self._opens.append((number, send, opens))
        self._know(opens.program)
        admission: tuple[str | None, bytes | None, int | None] = (None, None, None)
        if opens.admission is not None:
            admission = (escape_nul(opens.admission.attribute), opens.admission.value, opens.admission.max)
            self._lock((send.to.tenant, opens.admission.attribute, opens.admission.value.hex()))
        names = (*map(escape_nul, send.to), escape_nul(opens.program), address_bytes(opens.root), escape_nul(opens.queue), escape_nul(opens.lane))
        self._opened.append((*names, opens.priority, len(opens.attributes), *admission))

    def _add_attributes(self, number: int, message: int, attributes: IndexedAttributes) -> None:
        self._attributes += ((number, message, escape_nul(name), value) for name, value in attributes)

    def _know(self, program: str) -> None:
        """Has a program recorded that needs capabilities, so that claims find it."""
        if program_requirements(program):
            self._programs.add(program)

    def _lock(self, place: tuple[str, ...]) -> None:
        self._locks.add(crc32(address_bytes(place)) % LOCKS_MAX)
