"""The tables of the SQLite store, and what is done to them inside of one transaction. Nothing here begins or ends one.

An address is kept as JSON text, of three parts for an execution and two for a queue, so that no two addresses are the same
text. An execution is its `heads.number` elsewhere, which counts creations. One index answers a claim: by holder, by name (of a
program or a queue), by the time waited for; the order of a line in the memory store.
"""

import sqlite3
from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from math import inf
from typing import Any

import msgspec

from perdure.core.limits import UNCLAIMED_MAIL_S
from perdure.core.mail import Ack, Mail, Send
from perdure.core.paths import Address, Key, Queue
from perdure.stores.base import Answer, Assignment, Claim, Claimed, Commit, Committed, Conflict, Filter, Head, Lease, Log, Post, Superseded

SCHEMA_VERSION = 1
APPLICATION_ID = 0x50657264
NUMBERS_MAX = 100_000

_STRICT = " STRICT" if sqlite3.sqlite_version_info >= (3, 37) else ""
SCHEMA = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL){_STRICT};
INSERT INTO meta VALUES ('epoch', 1);
CREATE TABLE heads (
    number INTEGER PRIMARY KEY,
    address TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    program TEXT NOT NULL,
    root TEXT NOT NULL,
    version INTEGER NOT NULL,
    holder TEXT,
    wake_at_s REAL,
    mail_at_s REAL,
    status TEXT NOT NULL,
    created_at_s REAL NOT NULL,
    ended_at_s REAL,
    ready_at_s REAL GENERATED ALWAYS AS (coalesce(min(wake_at_s, mail_at_s), wake_at_s, mail_at_s)) VIRTUAL
){_STRICT};
CREATE INDEX heads_waiting ON heads (holder, program, ready_at_s);
CREATE INDEX heads_of_family ON heads (root, ready_at_s) WHERE ready_at_s IS NOT NULL;
CREATE TABLE log (execution INTEGER NOT NULL, version INTEGER NOT NULL, row BLOB NOT NULL){_STRICT};
CREATE UNIQUE INDEX log_of_execution ON log (execution, version);
CREATE TABLE mail (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    address TEXT NOT NULL,
    key TEXT NOT NULL,
    body BLOB NOT NULL,
    due_at_s REAL NOT NULL,
    queue TEXT,
    holder TEXT,
    deliveries INTEGER NOT NULL DEFAULT 0,
    unclaimed INTEGER,
    UNIQUE (address, key)
){_STRICT};
CREATE INDEX mail_waiting ON mail (holder, queue, due_at_s) WHERE queue IS NOT NULL;
CREATE INDEX mail_unclaimed ON mail (due_at_s) WHERE unclaimed IS NOT NULL;
CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, bytes BLOB NOT NULL){_STRICT};
PRAGMA application_id = {APPLICATION_ID};
"""

_HEAD = "address, program, root, version, holder, wake_at_s, mail_at_s, status, created_at_s, ended_at_s"
_MAIL = "number, address, key, body, due_at_s, deliveries"
_FIRST_DUE = "(SELECT min(due_at_s) FROM mail WHERE mail.address = heads.address)"

HEAD = f"SELECT {_HEAD} FROM heads WHERE address = ?"
NUMBER = "SELECT number FROM heads WHERE address = ?"
CREATE = """INSERT INTO heads (address, tenant, program, root, version, holder, wake_at_s, mail_at_s, status, created_at_s, ended_at_s)
    VALUES (?, ?, ?, ?, ?, ?, ?, (SELECT min(due_at_s) FROM mail WHERE address = ?), ?, ?, ?) ON CONFLICT (address) DO NOTHING"""
DECIDE = """UPDATE heads SET version = ?, program = ?, status = ?, wake_at_s = ?, ended_at_s = ?, holder = coalesce(holder, ?)
    WHERE number = ? AND version = ?"""
HAND_BACK = f"UPDATE heads SET holder = iif(?, NULL, holder), mail_at_s = {_FIRST_DUE} WHERE number = ? AND holder = ?"
COMPACT = "DELETE FROM log WHERE execution = ?"
APPEND = "INSERT INTO log (execution, version, row) VALUES (?, ?, ?)"
BLOB = "INSERT INTO blobs (sha256, bytes) VALUES (?, ?) ON CONFLICT (sha256) DO NOTHING"

DELIVER = "INSERT INTO mail (address, key, body, due_at_s, queue) VALUES (?, ?, ?, ?, ?) ON CONFLICT (address, key) DO NOTHING"
WAKE = "UPDATE heads SET mail_at_s = min(coalesce(mail_at_s, 9e999), ?) WHERE address = ?"
UNCLAIMED = "UPDATE mail SET unclaimed = 1 WHERE number = ?"
EXPECTED = "UPDATE mail SET unclaimed = NULL WHERE address = ? AND unclaimed IS NOT NULL"
ACKNOWLEDGE = "DELETE FROM mail WHERE address = ? AND key = ?"
SWEEP = f"SELECT {_MAIL} FROM mail WHERE unclaimed IS NOT NULL AND due_at_s <= ? ORDER BY due_at_s, number LIMIT ?"

# Of each line (of one holder and one name) the first few that are due; or, if the holders are dead, due or not.
_LINES = """SELECT number, {at} FROM ({{holders}}) AS who CROSS JOIN ({{names}}) AS name CROSS JOIN {table} AS waiting WHERE waiting.number IN (
    SELECT number FROM {table} WHERE holder IS who.column1 AND {name} = name.column1 AND {due} ORDER BY {at}, number LIMIT ?)"""
AWAKE = _LINES.format(table="heads", name="program", at="ready_at_s", due="ready_at_s <= ?")
ORPHANED = _LINES.format(table="heads", name="program", at="ready_at_s", due="? IS NOT NULL")
DUE_WORK = _LINES.format(table="mail", name="queue", at="due_at_s", due="due_at_s <= ?")
ORPHANED_WORK = _LINES.format(table="mail", name="queue", at="due_at_s", due="? IS NOT NULL")

# The same for one family, which is named first.
AWAKE_IN_FAMILY = """SELECT number, ready_at_s FROM heads WHERE root = ? AND ifnull(holder IN ({holders}), 1) AND program IN ({names})
    AND ready_at_s <= ? ORDER BY ready_at_s, number LIMIT ?"""
ORPHANED_IN_FAMILY = """SELECT number, ready_at_s FROM heads WHERE +root = ? AND holder IN ({holders}) AND program IN ({names})
    AND ? IS NOT NULL ORDER BY ready_at_s, number LIMIT ?"""

_CHOSEN = "number IN (SELECT value FROM json_each(?))"
ASSIGN = f"""UPDATE heads SET holder = ?, wake_at_s = NULL,
    mail_at_s = (SELECT min(due_at_s) FROM mail WHERE mail.address = heads.address AND due_at_s > ?) WHERE {_CHOSEN} RETURNING number, {_HEAD}"""
DUE_MAIL = f"SELECT {_MAIL} FROM mail WHERE address IN (SELECT value FROM json_each(?)) AND due_at_s <= ? ORDER BY number"
LEASE = f"UPDATE mail SET holder = ?, deliveries = deliveries + 1 WHERE {_CHOSEN} RETURNING {_MAIL}"
LET_GO = "UPDATE heads SET holder = NULL, wake_at_s = min(coalesce(wake_at_s, 9e999), ?) WHERE holder = ?"
LET_GO_OF_WORK = "UPDATE mail SET holder = NULL WHERE holder = ? AND queue IS NOT NULL"
HOLDERS = "SELECT holder FROM heads WHERE holder IS NOT NULL UNION SELECT holder FROM mail WHERE holder IS NOT NULL AND queue IS NOT NULL"
HOLDS = "SELECT EXISTS (SELECT 1 FROM heads WHERE holder = ?) OR EXISTS (SELECT 1 FROM mail WHERE holder = ? AND queue IS NOT NULL)"
ROWS = "SELECT row FROM log WHERE execution = (SELECT number FROM heads WHERE address = ?) AND version > ? ORDER BY version"
READ_BLOB = "SELECT bytes FROM blobs WHERE sha256 = ?"
ALL_MAIL = f"SELECT {_MAIL} FROM mail WHERE address = ? ORDER BY number"
EPOCH = "SELECT value FROM meta WHERE name = 'epoch'"
RAISE_EPOCH = "UPDATE meta SET value = value + 1 WHERE name = 'epoch'"


class Tables:
    """All that a transaction may do. After one that was rolled back, `reload` what is kept beside the tables.

    `holders` tells until when each holder lives: only the process that has the file knows any, so no table needs to. `stirred` is
    set by what may have made something ready.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.holders: dict[str, float] = {}
        self.stirred = False
        self.news = False
        self.about: dict[str, bytes] = {}
        self._execute = connection.execute
        self._executemany = connection.executemany
        self.reload()

    def reload(self) -> None:
        """Read again what is known of the tables without asking them."""
        self._numbers: dict[Key, int] = {}
        self._perhaps_holding: set[str] = {holder for (holder,) in self._execute(HOLDERS)}
        self.epoch: int = self._execute(EPOCH).fetchone()[0]
        self.stirred = False

    def change(self, change: Commit | Post, now_s: float) -> Answer:
        """Carry out one change, or find that nothing is to be changed."""
        if change.epoch not in (None, self.epoch):
            return Superseded(self.epoch)
        return self._post(change, now_s) if isinstance(change, Post) else self._commit(change, now_s)

    def claim(self, claim: Claim, now_s: float) -> Claimed:
        """Hand over what is ready."""
        if claim.epoch != self.epoch or not self._lives(claim.holder, now_s):
            return Claimed(now_s)
        dead = [holder for holder in sorted(self._perhaps_holding) if not self._lives(holder, now_s)]
        executions = self._assign(self._ready_executions(claim, dead, now_s), claim.holder, now_s)
        work = self._lease(self._ready_work(claim, dead, now_s), claim.holder)
        if executions or work:
            self._perhaps_holding.add(claim.holder)
            self._perhaps_holding.difference_update(holder for holder in dead if not self._execute(HOLDS, (holder, holder)).fetchone()[0])
        return Claimed(now_s, executions, work, self._next(claim))

    def leases(self, now_s: float) -> list[Lease]:
        """The holders that are known."""
        found = []
        for name in sorted(self.holders):
            (executions,) = self._execute("SELECT count(*) FROM heads WHERE holder = ?", (name,)).fetchone()
            (work,) = self._execute("SELECT count(*) FROM mail WHERE holder = ? AND queue IS NOT NULL", (name,)).fetchone()
            if self._lives(name, now_s) or executions or work:
                found.append(Lease(name, self._lives(name, now_s), executions, work, self.about.get(name, b"")))
        return found

    def _next(self, claim: Claim) -> float | None:
        times = []
        for name in claim.programs:
            family = "" if claim.root is None else " AND root = ?"
            root = () if claim.root is None else (text(claim.root),)
            for holder in (None, claim.holder):
                times += self._execute(f"SELECT min(ready_at_s) FROM heads WHERE holder IS ? AND program = ?{family}", (holder, name, *root)).fetchone()
        for name in claim.queues:
            times += self._execute("SELECT min(due_at_s) FROM mail WHERE holder IS NULL AND queue = ?", (name,)).fetchone()
        return min((at_s for at_s in times if at_s is not None), default=None)

    def let_go(self, holder: str, now_s: float) -> None:
        """Free, and wake, what `holder` held in an earlier life."""
        if holder in self._perhaps_holding:
            self._execute(LET_GO, (now_s, holder))
            self._execute(LET_GO_OF_WORK, (holder,))
            self._perhaps_holding.discard(holder)
            self.stirred = True

    def sweep(self, now_s: float, limit: int) -> list[Mail]:
        """Drop what has waited too long for an execution that was never started."""
        mail = [_mail(row) for row in self._execute(SWEEP, (now_s - UNCLAIMED_MAIL_S, limit)).fetchall()]
        self._acknowledge([Ack(swept.to, swept.key) for swept in mail])
        return mail

    def raise_epoch(self) -> int:
        """Begin a new epoch, in which nobody lives yet."""
        self._execute(RAISE_EPOCH)
        self.holders.clear()
        self.about.clear()
        self.stirred = True
        self.epoch += 1
        return self.epoch

    # Changes.

    def _commit(self, commit: Commit, now_s: float) -> Answer:
        version = commit.version + commit.count
        if commit.creates:
            number = self._create(
                Head(commit.key, commit.program, commit.root, version, commit.holder, commit.wake_at_s, None, commit.status, now_s, commit.ended_at_s)
            )
        else:
            number = self._number(commit.key)
            if number is not None:
                held_by = None if commit.release else commit.holder
                state = (version, commit.program, commit.status, commit.wake_at_s, commit.ended_at_s, held_by)
                if self._execute(DECIDE, (*state, number, commit.version)).rowcount == 0:
                    number = None
        if number is None:
            return Conflict(read_head(self._execute, commit.key))
        if commit.compacted is not None:
            self._execute(COMPACT, (number,))
            self._execute(APPEND, (number, commit.version, commit.compacted))
        if commit.count:
            self._execute(APPEND, (number, version, commit.row))
        created = self._carry_out(commit, now_s)
        if commit.creates or commit.release:
            self._execute(HAND_BACK, (commit.release, number, commit.holder))
        if not commit.release:
            self._perhaps_holding.add(commit.holder)
        if commit.release and self._execute("SELECT 1 FROM heads WHERE number = ? AND ready_at_s <= ?", (number, now_s)).fetchone():
            self.stirred = True
        if not commit.release and commit.wake_at_s is not None and commit.wake_at_s <= now_s:
            self.stirred = True
        self.news = self.news or commit.news
        return Committed(version, now_s, created)

    def _post(self, post: Post, now_s: float) -> Answer:
        return Committed(0, now_s, self._carry_out(post, now_s))

    def _carry_out(self, change: Commit | Post, now_s: float) -> tuple[Key, ...]:
        """Do what commits and posts share: acks, then sends, then blobs. Return the executions that were opened."""
        if change.acks:
            self._acknowledge(change.acks)
        opened = [send.to for send in change.sends if self._deliver(send, now_s)]
        if change.blobs:
            self._executemany(BLOB, change.blobs)
        return tuple(to for to in opened if isinstance(to, Key))

    def _deliver(self, send: Send, now_s: float) -> bool:
        """Deliver, unless the key is in the mail already. Return whether an execution was opened."""
        to, opens = send.to, send.opens
        queue = to.name if isinstance(to, Queue) else None
        opened = isinstance(to, Key) and opens is not None and self._create(Head(to, opens.program, opens.root, created_at_s=now_s)) is not None
        address, due_at_s = text(to), max(send.due_at_s, now_s)
        delivered = self._execute(DELIVER, (address, send.key, send.body, due_at_s, queue))
        if delivered.rowcount:
            number = delivered.lastrowid
            if queue is None and not self._execute(WAKE, (due_at_s, address)).rowcount:
                self._execute(UNCLAIMED, (number,))
        self.stirred = True
        return opened

    def _acknowledge(self, acks: Sequence[Ack]) -> None:
        self._executemany(ACKNOWLEDGE, [(text(ack.to), ack.key) for ack in acks])

    def _create(self, head: Head) -> int | None:
        """Make the head, to which the mail that waited for it belongs from now on. None if there is one."""
        address = text(head.key)
        state = (head.program, text(head.root), head.version, head.holder, head.wake_at_s, address, head.status, head.created_at_s, head.ended_at_s)
        created = self._execute(CREATE, (address, head.key.tenant, *state))
        if not created.rowcount:
            return None
        self._execute(EXPECTED, (address,))
        return self._remember(head.key, created.lastrowid)

    def _number(self, key: Key) -> int | None:
        number = self._numbers.get(key)
        if number is None and (row := self._execute(NUMBER, (text(key),)).fetchone()):
            return self._remember(key, row[0])
        return number

    def _remember(self, key: Key, number: int | None) -> int | None:
        if number is not None:
            if len(self._numbers) >= NUMBERS_MAX:
                self._numbers.clear()
            self._numbers[key] = number
        return number

    # Holding.

    def _lives(self, holder: str, now_s: float) -> bool:
        return self.holders.get(holder, -inf) > now_s

    def _ready_executions(self, claim: Claim, dead: list[str], now_s: float) -> list[int]:
        names, limit = sorted(claim.programs), claim.limit
        if claim.root is None:
            lines = ((AWAKE, [None, claim.holder]), (ORPHANED, dead))
            return self._first([(sql, holders, (*holders, *names, now_s, limit)) for sql, holders in lines], names, limit)
        lines = ((AWAKE_IN_FAMILY, [claim.holder]), (ORPHANED_IN_FAMILY, dead))
        return self._first([(sql, holders, (text(claim.root), *holders, *names, now_s, limit)) for sql, holders in lines], names, limit)

    def _ready_work(self, claim: Claim, dead: list[str], now_s: float) -> list[int]:
        names, limit = sorted(claim.queues), claim.limit
        lines: tuple[tuple[str, list[Any]], ...] = ((DUE_WORK, [None]), (ORPHANED_WORK, dead))
        return self._first([(sql, holders, (*holders, *names, now_s, limit)) for sql, holders in lines], names, limit)

    def _first(self, lines: list[tuple[str, list[Any], tuple[Any, ...]]], names: list[str], limit: int) -> list[int]:
        """The numbers of those that have waited longest in all of `lines`: statements, their holders and arguments."""
        found = []
        for sql, holders, arguments in lines:
            if holders and names:
                found += self._execute(_for(sql, len(holders), len(names)), arguments).fetchall()
        found.sort(key=lambda place: (-inf if place[1] is None else place[1], place[0]))
        return [number for number, _ in found[:limit]]

    def _assign(self, numbers: list[int], holder: str, now_s: float) -> tuple[Assignment, ...]:
        if not numbers:
            return ()
        heads = {number: (head[0], _head(head)) for number, *head in self._execute(ASSIGN, (holder, now_s, _json(numbers))).fetchall()}
        mail: dict[str, list[Mail]] = {address: [] for address, _ in heads.values()}
        for row in self._execute(DUE_MAIL, (_json([*mail]), now_s)).fetchall():
            mail[row[1]].append(_mail(row))
        return tuple(Assignment(head, tuple(mail[address])) for address, head in map(heads.__getitem__, numbers))

    def _lease(self, numbers: list[int], holder: str) -> tuple[Mail, ...]:
        if not numbers:
            return ()
        leased = {row[0]: _mail(row) for row in self._execute(LEASE, (holder, _json(numbers))).fetchall()}
        return tuple(map(leased.__getitem__, numbers))


# Reading, on any connection.

Execute = Callable[..., sqlite3.Cursor]


def read_head(execute: Execute, key: Key) -> Head | None:
    """The head of an execution."""
    row = execute(HEAD, (text(key),)).fetchone()
    return row and _head(row)


def read_log(execute: Execute, key: Key, after: int) -> Log | None:
    """The head and the rows that hold an event after version `after`; to be asked for in one transaction."""
    if (found := read_head(execute, key)) is None:
        return None
    rows = execute(ROWS, (text(key), after)).fetchall()
    return Log(found, tuple(row for (row,) in rows))


def read_heads(execute: Execute, which: Filter) -> list[Head]:
    """The heads that are meant, newest first."""
    where, arguments = ["1"], list[Any]()

    def only(condition: str, *values: Any) -> None:
        where.append(condition)
        arguments.extend(values)

    if which.tenant is not None:
        only("tenant = ?", which.tenant)
    if which.statuses is not None:
        only(f"status IN ({', '.join('?' * len(which.statuses))})", *sorted(which.statuses))
    if which.keys is not None:
        only(f"address IN ({', '.join('?' * len(which.keys))})", *map(text, which.keys))
    if which.root is not None:
        only("root = ?", text(which.root))
    if which.created_from_s is not None:
        only("created_at_s >= ?", which.created_from_s)
    if which.older_than is not None:
        only("number < (SELECT number FROM heads WHERE address = ?)", text(which.older_than))
    if which.workflow is not None:
        only("json_extract(address, '$[1]') = ?", which.workflow)
    rows = execute(f"SELECT {_HEAD} FROM heads WHERE {' AND '.join(where)} ORDER BY number DESC", arguments)
    heads = (head for head in map(_head, rows) if head.key.id.startswith(which.id_prefix))
    return list(islice(heads, which.limit))


def read_mail(execute: Execute, to: Address) -> list[Mail]:
    """All mail of an address."""
    return [_mail(row) for row in execute(ALL_MAIL, (text(to),)).fetchall()]


def read_blob(execute: Execute, sha256: str) -> bytes | None:
    """The payload of this name."""
    row: tuple[bytes] | None = execute(READ_BLOB, (sha256,)).fetchone()
    return row and row[0]


def text(address: Address) -> str:
    """An address as the tables have it."""
    return _json(address)


def _json(data: object) -> str:
    return _encode(data).decode()


def _address(text: str) -> Address:
    parts = _decode(text)
    return Key(*parts) if len(parts) == 3 else Queue(*parts)


def _key(text: str) -> Key:
    return Key(*_decode(text))


def _head(row: Sequence[Any]) -> Head:
    address, program, root, *rest = row
    return Head(_key(address), program, _key(root), *rest)


def _mail(row: Sequence[Any]) -> Mail:
    number, address, *rest = row
    return Mail(number, _address(address), *rest)


@cache
def _for(sql: str, holders: int, names: int) -> str:
    """The statement with room for so many holders and names. (They can't be passed as JSON: SQLite ends its strings at a NUL.)"""
    return sql.format(holders=_values(holders), names=_values(names))


def _values(count: int) -> str:
    return f"VALUES {', '.join(['(?)'] * count)}"


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[str]).decode
