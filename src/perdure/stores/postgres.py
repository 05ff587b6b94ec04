"""A store in a Postgres database, for engines and workers of many processes. It is thin: the rules are those of `Store`, said in SQL.

A change takes an advisory lock for each execution that it decides or sends to, all of them at once and in order, before it looks at anything: so
nobody changes their heads or brings them mail meanwhile, whether there is a head that could be locked or not. A claim locks the rows that it takes,
and waits for nobody but those who hand over from the same queue with limits. An epoch begins, and limits change, when nothing is under way.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from importlib.resources import files
from typing import Any
from uuid import uuid4
from zlib import crc32

from msgspec.structs import astuple

from perdure.core.errors import ProgrammingError, StoreUnavailable
from perdure.core.limits import UNCLAIMED_MAIL_S
from perdure.core.mail import Mail, Send
from perdure.core.paths import Address, Key, Queue
from perdure.stores import postgres_attributes as attributes
from perdure.stores import postgres_queues as queues
from perdure.stores.base import (
    ALL,
    Answer,
    Assignment,
    Claim,
    Claimed,
    Commit,
    Committed,
    Conflict,
    Filter,
    Head,
    Lease,
    Limits,
    Log,
    Moment,
    Post,
    QueueStand,
    Superseded,
)
from perdure.stores.postgres_queues import ORPHANED, WANTED, Asked, Found
from perdure.stores.postgres_rows import HEAD, HEAD_TOLD, MAIL, as_bytes, head_of, mail_of
from perdure.stores.postgres_text import escaped, unescaped

CONNECT_S, ANSWER_S = 10.0, 60.0
"""How long to wait for a connection, and for the answer to a statement."""

EPOCH_LOCK, LOCKS_MAX = 0x50657264 << 16, 1024
"""The advisory lock of the epoch, and how many follow it for executions."""

SCHEMA = files("perdure.stores").joinpath("postgres.sql").read_text(encoding="utf-8")

_HERE = "WHERE sha256(address) = sha256($1)"
_DUE = "(SELECT min(due_at_s) FROM mail WHERE sha256(mail.address) = sha256(heads.address))"

LOCK = "SELECT pg_advisory_xact_lock{}($1) UNION ALL SELECT pg_advisory_xact_lock(number) FROM unnest($2::bigint[]) AS number"
MOMENT = "SELECT coalesce($1::float8, extract(epoch FROM clock_timestamp())::float8), epoch FROM meta"
CREATE = f"""INSERT INTO heads (address, {HEAD}, limited) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, (SELECT min(due_at_s) FROM mail {_HERE}),
    $10, $11, $12, $13, $14, $15, EXISTS (SELECT 1 FROM queues WHERE name = $13 AND name <> '')) ON CONFLICT DO NOTHING RETURNING number"""
DECIDE = f"""UPDATE heads SET version = $3, program = $4, status = $5, wake_at_s = $6, ended_at_s = $7, holder = coalesce(holder, $8)
    {_HERE} AND version = $2 RETURNING number"""
HAND_BACK = f"UPDATE heads SET holder = CASE WHEN $3 THEN NULL ELSE holder END, mail_at_s = {_DUE} WHERE number = $1 AND holder = $2 RETURNING limited AND $3"
DELIVER = """INSERT INTO mail (address, key, body, due_at_s, queue, lane, priority, limited) VALUES ($1, $2, $3, $4, $5, $6, $7,
    EXISTS (SELECT 1 FROM queues WHERE name = $5)) ON CONFLICT DO NOTHING RETURNING number"""
ACKNOWLEDGE = f"DELETE FROM mail {_HERE} AND sha256(key) = sha256($2) RETURNING limited AND holder IS NOT NULL"
SWEEP = f"""DELETE FROM mail WHERE number IN (SELECT number FROM mail WHERE queue IS NULL AND NOT limited AND due_at_s <= $1
    AND NOT EXISTS (SELECT 1 FROM heads WHERE sha256(heads.address) = sha256(mail.address)) ORDER BY due_at_s, number LIMIT $2) RETURNING {MAIL}"""

LIVES = "SELECT until_s > $1, EXISTS (SELECT 1 FROM queues) FROM holders WHERE name = $2 FOR KEY SHARE"  # Meanwhile it may renew, but not let go.
READY = f"""SELECT number, coalesce(ready_at_s, '-infinity') FROM heads WHERE NOT limited AND {WANTED}
    AND ((ready_at_s <= $1 AND (holder IS NULL OR holder = $4)) OR {ORPHANED})
    ORDER BY coalesce(ready_at_s, '-infinity'), number LIMIT $5 FOR UPDATE SKIP LOCKED"""
ASSIGN = f"""UPDATE heads SET holder = $2, wake_at_s = NULL, mail_at_s = {_DUE[:-1]} AND due_at_s > $3)
    WHERE number = ANY($1::bigint[]) RETURNING {HEAD_TOLD}, number"""
DUE_MAIL = f"""SELECT {MAIL}, heads.number FROM mail JOIN heads ON sha256(mail.address) = sha256(heads.address)
    WHERE heads.number = ANY($1::bigint[]) AND due_at_s <= $2 ORDER BY mail.number"""
WORK = f"""SELECT number, due_at_s FROM mail WHERE NOT limited AND queue = ANY($2::text[]) AND ((due_at_s <= $1 AND holder IS NULL) OR {ORPHANED})
    ORDER BY due_at_s, number LIMIT $3 FOR UPDATE SKIP LOCKED"""
LEASE = f"UPDATE mail SET holder = $2, deliveries = deliveries + 1 WHERE number = ANY($1::bigint[]) RETURNING {MAIL}"
NEXT = f"""SELECT least((SELECT min(ready_at_s) FROM heads WHERE NOT limited AND {WANTED} AND (holder IS NULL OR holder = $4)),
    (SELECT min(due_at_s) FROM mail WHERE NOT limited AND queue = ANY($1::text[]) AND holder IS NULL))"""
RENEW = "UPDATE holders SET until_s = $2, about = CASE WHEN $3 = ''::bytea THEN about ELSE $3 END WHERE name = $1 RETURNING name"
LET_GO = "UPDATE heads SET holder = NULL, wake_at_s = least(wake_at_s, $2) WHERE holder = $1 RETURNING number"
LET_GO_OF_WORK = "UPDATE mail SET holder = NULL WHERE holder = $1 RETURNING number"

LEASES = "SELECT name, until_s > $1, (SELECT count(*) FROM heads WHERE holder = name), (SELECT count(*) FROM mail WHERE holder = name), about FROM holders"
READ = f"SELECT {HEAD_TOLD}, array(SELECT row FROM log WHERE execution = number AND log.version > $2 ORDER BY log.version) FROM heads {_HERE}"
HEADS = f"""SELECT {HEAD_TOLD} FROM heads WHERE ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR workflow = $2)
    AND ($3::text[] IS NULL OR status = ANY($3)) AND starts_with(id, $4) AND ($5::bytea[] IS NULL OR address = ANY($5)) AND ($6::bytea IS NULL OR root = $6)
    AND ($7::float8 IS NULL OR created_at_s >= $7) AND number < coalesce((SELECT number FROM heads WHERE address = $8), {2**63 - 1}){{}}
    ORDER BY number DESC LIMIT $9"""


class PostgresStore:
    """A `Store` in the schema ``perdure`` of the database at `url` (``postgresql://user@host/database``), which it makes if there is none.

    It belongs to one event loop, and asks one thing after another through one connection, which hears the rings as well (no pooler in transaction
    mode may stand in between); `renew` in another loop has a connection of its own. What is acknowledged is durable as Postgres is with
    ``synchronous_commit = on``, which is set. Time is the server's, unless a test gives its `clock`.

    Raises:
        ProgrammingError: asyncpg is not installed.
    """

    def __init__(self, url: str, clock: Callable[[], float] | None = None) -> None:
        try:
            self._asyncpg: Any = import_module("asyncpg")
        except ImportError as missing:
            raise ProgrammingError('PostgresStore needs asyncpg; install it: pip install "perdure[postgres]"') from missing
        # The last is what asyncpg raises when the server has said farewell in between.
        self._errors = (self._asyncpg.PostgresError, self._asyncpg.InterfaceError, OSError, self._asyncpg.InternalClientError)
        self._url, self._clock, self._name = url, clock, uuid4().hex
        self._rings: dict[str, list[Callable[[], None]]] = {"perdure_wake": [], "perdure_news": []}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Any = None
        self._closed = False

    # What the protocol asks for: see `Store`.

    async def commit(self, changes: Sequence[Commit | Post]) -> list[Answer]:
        addresses = {change.key for change in changes if isinstance(change, Commit)} | {send.to for change in changes for send in change.sends}
        async with self._transaction(address for address in addresses if isinstance(address, Key)) as transaction:
            return [await transaction.change(change) for change in changes]

    async def claim(self, claim: Claim) -> Claimed:
        async with self._transaction() as transaction:
            return await transaction.claim(claim)

    async def read(self, key: Key, after: int = 0) -> Log | None:
        return next((Log(head_of(row), tuple(row[16])) for row in await self._ask(READ, as_bytes(key), after)), None)

    async def heads(self, which: Filter = ALL) -> list[Head]:
        statuses = None if which.statuses is None else [*map(escaped, which.statuses)]
        keys = None if which.keys is None else [*map(as_bytes, which.keys)]
        root, older_than = (key and as_bytes(key) for key in (which.root, which.older_than))
        named = (which.tenant, which.workflow, statuses, which.id_prefix, keys, root)
        where, wanted = attributes.meant(which.where, first=10)
        return [*map(head_of, await self._ask(HEADS.format(where), *named, which.created_from_s, older_than, which.limit, *wanted))]

    async def mail(self, to: Address) -> list[Mail]:
        return [*map(mail_of, await self._ask(f"SELECT {MAIL} FROM mail {_HERE} ORDER BY number", as_bytes(to)))]

    async def moment(self) -> Moment:
        async with self._transaction() as transaction:
            return transaction.moment

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> Moment:
        async with self._transaction() as transaction:
            await transaction.renew(holder, lease_s, about)
            return transaction.moment

    async def leases(self) -> list[Lease]:
        async with self._transaction() as transaction:
            leases = [Lease(*row) for row in await transaction.fetch(LEASES, transaction.moment.now_s)]
        return sorted((lease for lease in leases if lease.alive or lease.executions or lease.work), key=lambda lease: lease.holder)

    async def limit(self, queue: str, limits: Limits | None) -> None:
        async with self._transaction(alone=True) as transaction:
            await queues.limit(transaction.fetch, queue, limits)
            transaction.stirred = True

    async def queues(self) -> list[QueueStand]:
        async with self._transaction() as transaction:
            return await queues.stands(transaction.fetch, transaction.moment.now_s)

    async def relay(self, limit: int = 100) -> int:
        return 0  # There is one reach, so nothing ever leaves it.

    async def sweep(self, limit: int = 100) -> list[Mail]:
        async with self._transaction() as transaction:
            swept = map(mail_of, await transaction.fetch(SWEEP, transaction.moment.now_s - UNCLAIMED_MAIL_S, limit))
        return sorted(swept, key=lambda mail: (mail.due_at_s, mail.number))

    async def raise_epoch(self) -> int:
        async with self._transaction(alone=True) as transaction:
            await transaction.fetch("DELETE FROM holders")
            await transaction.fetch("UPDATE meta SET epoch = epoch + 1")
            transaction.stirred = True
            return transaction.moment.epoch + 1

    async def blob(self, sha256: str) -> bytes | None:
        return next((bytes(row[0]) for row in await self._ask("SELECT bytes FROM blobs WHERE sha256 = $1", sha256)), None)

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        return self._enlist("perdure_wake", ring)

    def on_news(self, ring: Callable[[], None]) -> Callable[[], None]:
        return self._enlist("perdure_news", ring)

    async def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            async with self._turn:
                with suppress(*self._errors):  # There may be no server any more to say farewell to.
                    await self._connection.close(timeout=CONNECT_S)

    # Transactions, and what carries them.

    async def _ask(self, sql: str, *arguments: object) -> list[Any]:
        async with self._transaction() as transaction:
            return [*await transaction.fetch(sql, *arguments)]

    @asynccontextmanager
    async def _transaction(self, executions: Iterable[Key] = (), *, alone: bool = False) -> AsyncIterator["_Transaction"]:
        """Do something entirely or not at all, in one epoch (`alone`: while nothing else is done); ring when it is durable."""
        lock, numbers = LOCK.format("" if alone else "_shared"), sorted({_lock(key) for key in executions})
        async with self._connected() as connection, connection.transaction(isolation="read_committed"):
            await connection.fetch(lock, EPOCH_LOCK, numbers)
            transaction = _Transaction(connection.fetch, Moment(*await connection.fetchrow(MOMENT, self._clock and self._clock())))
            yield transaction
            rung = [channel for channel, rings in zip(self._rings, (transaction.stirred, transaction.news), strict=True) if rings]
            for channel in rung:
                await connection.fetch("SELECT pg_notify($1, $2)", channel, self._name)
        for channel in rung:
            self._heard(None, 0, channel, None)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        """A connection that nobody else uses now. After a failure it is closed, as nobody knows how far it got."""
        loop = asyncio.get_running_loop()
        if self._loop is None or self._loop.is_closed():
            self._loop, self._connection, self._turn = loop, None, asyncio.Lock()
        at_home, unharmed = loop is self._loop, False
        try:
            async with self._turn if at_home else asyncio.Lock():
                if self._closed:
                    raise StoreUnavailable("the store has been closed; open a new one")
                connection = self._connection if at_home else None
                if is_new := connection is None or connection.is_closed():
                    settings = {"search_path": "perdure", "synchronous_commit": "on"}
                    connection = await self._asyncpg.connect(self._url, timeout=CONNECT_S, command_timeout=ANSWER_S, server_settings=settings)
                try:
                    if is_new:
                        await self._prepare(connection, at_home)
                    yield connection
                    unharmed = True
                finally:
                    if not (unharmed and at_home):
                        connection.terminate()
        except self._errors as error:
            raise StoreUnavailable(f"Postgres: {error or type(error).__name__}; look whether it runs, and whether the store's URL is right") from error

    async def _prepare(self, connection: Any, at_home: bool) -> None:
        """Make a new connection fit for use, and the tables unless they are there and of this version."""
        await connection.set_type_codec("text", schema="pg_catalog", encoder=escaped, decoder=unescaped, format="text")
        if await connection.fetchval("SELECT to_regclass('attributes')") is None:
            async with connection.transaction():
                await connection.fetch(LOCK.format(""), EPOCH_LOCK, [])
                await connection.execute(SCHEMA)
        if at_home:
            self._connection = connection
            for channel in self._rings:
                await connection.add_listener(channel, self._heard)

    def _enlist(self, channel: str, ring: Callable[[], None]) -> Callable[[], None]:
        rings = self._rings[channel]
        rings.append(ring)
        return lambda: rings.remove(ring) if ring in rings else None

    def _heard(self, _connection: object, _process: int, channel: str, name: object) -> None:
        if name != self._name:  # What this store does itself has rung already.
            for ring in tuple(self._rings[channel]):
                ring()


class _Transaction:
    """What is done in one transaction, hence at one time, and what that may have woken."""

    def __init__(self, fetch: Callable[..., Any], moment: Moment) -> None:
        self.fetch, self.moment = fetch, moment
        self.stirred = self.news = False

    async def _first(self, sql: str, *arguments: object) -> Any:
        """The first value of the first row; None if there is no row."""
        return next((row[0] for row in await self.fetch(sql, *arguments)), None)

    async def change(self, change: Commit | Post) -> Answer:
        """Carry out one change, or find that nothing is to be changed."""
        if change.epoch not in (None, self.moment.epoch):
            return Superseded(self.moment.epoch)
        if isinstance(change, Commit):
            return await self._commit(change)
        return Committed(0, self.moment.now_s, await self._carry_out(change))

    async def _commit(self, commit: Commit) -> Answer:
        version, now_s, address = commit.version + commit.count, self.moment.now_s, as_bytes(commit.key)
        if commit.creates:
            times = (commit.wake_at_s, None, commit.status, now_s, commit.ended_at_s)
            number = await self._create(Head(commit.key, commit.program, commit.root, version, commit.holder, *times))
        else:
            holder = None if commit.release else commit.holder
            state = (commit.program, commit.status, commit.wake_at_s, commit.ended_at_s, holder)
            number = await self._first(DECIDE, address, commit.version, version, *state)
        if number is None:
            return Conflict(next(map(head_of, await self.fetch(READ, address, 0)), None))
        if commit.compacted is not None:
            await self.fetch("DELETE FROM log WHERE execution = $1", number)
            await self.fetch("INSERT INTO log VALUES ($1, $2, $3)", number, commit.version, commit.compacted)
        if commit.count:
            await self.fetch("INSERT INTO log VALUES ($1, $2, $3)", number, version, commit.row)
        if commit.attributes is not None:
            await attributes.write(self.fetch, number, commit.attributes)
        created = await self._carry_out(commit)
        if commit.creates or commit.release:
            self.stirred |= bool(await self._first(HAND_BACK, number, commit.holder, commit.release))
        self.stirred |= bool(await self._first("SELECT ready_at_s <= $2 FROM heads WHERE number = $1", number, now_s))
        self.news |= commit.news
        return Committed(version, now_s, created)

    async def _carry_out(self, change: Commit | Post) -> tuple[Key, ...]:
        """Do what commits and posts share: acks, then sends, then blobs. Return the executions that were opened."""
        for ack in change.acks:
            self.stirred |= bool(await self._first(ACKNOWLEDGE, as_bytes(ack.to), ack.key.encode()))
        opened = [send.to for send in change.sends if await self._deliver(send)]
        for blob in change.blobs:
            await self.fetch("INSERT INTO blobs VALUES ($1, $2) ON CONFLICT DO NOTHING", *blob)
        self.stirred |= bool(change.sends)
        return tuple(to for to in opened if isinstance(to, Key))

    async def _deliver(self, send: Send) -> bool:
        """Deliver, unless the key is in the mail already. Return whether an execution was opened."""
        to, opens, opened = send.to, send.opens, None
        if isinstance(to, Key) and opens is not None:
            program, root, *more = astuple(opens)
            opened = await self._create(Head(to, program, root, 0, None, None, None, "pending", self.moment.now_s, None, *more))
        queue, due_at_s = to.name if isinstance(to, Queue) else None, max(send.due_at_s, self.moment.now_s)
        place = (due_at_s, queue, send.lane, send.priority)
        if await self.fetch(DELIVER, as_bytes(to), send.key.encode(), send.body, *place) and queue is None:
            await self.fetch(f"UPDATE heads SET mail_at_s = least(mail_at_s, $2) {_HERE}", as_bytes(to), due_at_s)
        return opened is not None

    async def _create(self, head: Head) -> Any:
        """Make the head, and return its number; None if there is one."""
        times = (head.wake_at_s, head.status, head.created_at_s, head.ended_at_s, head.queue, head.lane, head.priority)
        number = await self._first(CREATE, as_bytes(head.key), *head.key, head.program, as_bytes(head.root), head.version, head.holder, *times)
        if number is not None and head.attributes:
            await attributes.write(self.fetch, number, head.attributes)
        return number

    async def claim(self, claim: Claim) -> Claimed:
        """Hand over what is ready."""
        holder, now_s = claim.holder, self.moment.now_s
        alive, limited = next(map(tuple, await self.fetch(LIVES, now_s, holder)), (False, False))
        if claim.epoch != self.moment.epoch or not alive:
            return Claimed(now_s)
        root = claim.root and as_bytes(claim.root)
        asked = Asked(now_s, [*map(escaped, claim.programs)], root, holder, [*map(escaped, claim.queues)], claim.limit)
        executions, work = await self._ready(asked, limited)
        numbers = [one.number for one in executions]
        assigned = {row[16]: head_of(row) for row in await self.fetch(ASSIGN, numbers, holder, now_s)}
        mail = await self.fetch(DUE_MAIL, numbers, now_s)  # A later statement than the one that locks the heads, or it would miss what came between.
        handed = tuple(Assignment(assigned[number], tuple(mail_of(row) for row in mail if row[8] == number)) for number in numbers)
        numbers = [one.number for one in work]
        leased = {row[0]: mail_of(row) for row in await self.fetch(LEASE, numbers, holder)}
        times_s = [await self._first(NEXT, asked.queues, *asked[1:4]), *(await queues.next_times(self.fetch, asked) if limited else ())]
        next_at_s = min((at_s for at_s in times_s if at_s is not None), default=None)
        return Claimed(now_s, handed, tuple(leased[number] for number in numbers), next_at_s)

    async def _ready(self, asked: Asked, limited: bool) -> tuple[list[Found], list[Found]]:
        """The executions and the work to be handed over, longest waiting first, and locked; `limited`: some queue has limits."""
        locked = await queues.lock(self.fetch, asked) if limited else {}
        executions = [Found(*row) for row in await self.fetch(READY, *asked[:4], asked.limit)]
        work = [Found(*row) for row in await self.fetch(WORK, asked.now_s, asked.queues, asked.limit)]
        if limited:
            executions += await queues.executions(self.fetch, locked, asked)
            work += await queues.work(self.fetch, locked, asked)
            executions, work = (sorted(found, key=lambda one: (one.at_s, one.number))[: asked.limit] for found in (executions, work))
            await queues.serve(self.fetch, locked, executions, work, asked.now_s)
        return executions, work

    async def renew(self, holder: str, lease_s: float, about: bytes) -> None:
        """Prolong a life, begin one, or end it."""
        now_s = self.moment.now_s
        if lease_s <= 0:
            await self.fetch("DELETE FROM holders WHERE name = $1", holder)
            self.stirred = True
        elif not await self.fetch(RENEW, holder, now_s + lease_s, about):
            freed = [*await self.fetch(LET_GO, holder, now_s), *await self.fetch(LET_GO_OF_WORK, holder)]
            self.stirred = bool(freed)
            await self.fetch("INSERT INTO holders VALUES ($1, $2, $3)", holder, now_s + lease_s, about)


def _lock(key: Key) -> int:
    """The advisory lock of an execution, which it shares with others: Postgres has only so many."""
    return EPOCH_LOCK + 1 + crc32(as_bytes(key)) % LOCKS_MAX
