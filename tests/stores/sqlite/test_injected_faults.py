"""The SQLite store when any one of its calls fails: those of SQLite, and those of the system. Nothing is lost or done twice, and all ends well.

A canonical run of a few executions, in virtual time, is made again for each of its calls. That call fails (before it was made, or
after it took effect), and perhaps all that come within some seconds after it. What has ended then must be what ends undisturbed.
"""

import asyncio
import errno
import fcntl
import os
import re
import socket
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from perdure import Context, Retry, step, step_info, workflow
from perdure.code.context import new_code_program
from perdure.core import events as e
from perdure.core import log_format, messages
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.errors import StoreError, StoreUnavailable
from perdure.core.execution import Execution
from perdure.core.paths import Key, path_text
from perdure.core.program import program_name
from perdure.core.replay import LoadBlob, fold_events, replay_program
from perdure.runtime.engine import Engine
from perdure.stores.protocol import Committed, Post, Store
from perdure.stores.sqlite import checkpoints as sqlite_checkpoints
from perdure.stores.sqlite import group_commit as sqlite_writer
from perdure.stores.sqlite import holders as sqlite_members
from perdure.stores.sqlite import notifications as sqlite_rings
from perdure.stores.sqlite import store as sqlite_store
from perdure.stores.sqlite.database_file import DatabaseFile
from perdure.stores.sqlite.store import SqliteStore
from perdure.stores.sqlite.table_schema import SCHEMA_VERSION
from perdure.testing.virtual_time import run
from tests.proof.auditor import listening
from tests.stores.sqlite.store_processes import database, key, tell
from tests.stores.sqlite.store_processes import step as one_step

T = TypeVar("T")

LEASE_S = 3.0
OUTAGE_S = 4.0
"""How long a fault stays that stays for a while: longer than the lease."""
ORDERS = 2
ENDED = 2 * ORDERS
"""Each order has a child."""

WRITE, LOCKED, ROOM, LOOK, DAMAGE, MEMORY, AGAIN, LOCAL = (
    "let this user write the file and its directory",
    "end what writes to it, or wait for it",
    "free some space on its disk",
    "look at the system's log",
    "restore it from a backup",
    "give this machine more",
    "try again",
    "on a local disk",
)
ADVICE = {
    "SQLITE_BUSY": LOCKED,
    "SQLITE_LOCKED": LOCKED,
    "SQLITE_PROTOCOL": LOCKED,
    "SQLITE_FULL": ROOM,
    "SQLITE_IOERR": LOOK,
    "SQLITE_IOERR_READ": LOOK,
    "SQLITE_IOERR_WRITE": LOOK,
    "SQLITE_IOERR_FSYNC": LOOK,
    "SQLITE_IOERR_LOCK": LOCAL,
    "SQLITE_IOERR_SHMMAP": LOCAL,
    "SQLITE_READONLY": WRITE,
    "SQLITE_CANTOPEN": WRITE,
    "SQLITE_NOMEM": MEMORY,
    "SQLITE_INTERRUPT": AGAIN,
    "SQLITE_CORRUPT": DAMAGE,
    "SQLITE_NOTADB": DAMAGE,
}
"""What is said to do about each error."""
KINDS = {"SQLITE_BUSY", "SQLITE_FULL", "SQLITE_IOERR_FSYNC", "SQLITE_NOMEM", "SQLITE_CORRUPT"}
"""One of each kind that the store treats in its own way."""
DAMAGES = {"SQLITE_CORRUPT", "SQLITE_NOTADB"}
"""Those that an engine may end with."""


def error_of(name: str) -> BaseException:
    """What Python's sqlite3 raises for an error of SQLite."""
    if name == "SQLITE_NOMEM":
        return MemoryError()
    error = (sqlite3.DatabaseError if name in DAMAGES else sqlite3.OperationalError)(f"planted {name}")
    error.sqlite_errorcode, error.sqlite_errorname = getattr(sqlite3, name), name
    return error


class FaultPlan:
    """Which call fails, with what, and for how long after it everything does. With `after`, the call is made, and then said to have failed."""

    def __init__(self, at: int = 0, error: Callable[[], BaseException] = RuntimeError, *, after: bool = False, lasts_s: float = 0.0) -> None:
        self.at, self.error, self.after, self.lasts_s = at, error, after, lasts_s
        self.counting = False
        self.calls: list[str] = []
        self._until_s = 0.0

    def make(self, what: str, call: Callable[[], T]) -> T:
        """Make the call, or let it fail."""
        if not self.counting:
            return call()
        self.calls.append(what)
        now_s = asyncio.get_running_loop().time() if self.lasts_s else 0.0
        if len(self.calls) == self.at:
            self._until_s = now_s + self.lasts_s
        elif now_s >= self._until_s:
            return call()
        if self.after:
            call()
        raise self.error()


class FaultyCursor(sqlite3.Cursor):
    """A cursor whose fetches may fail, and end its statement, as SQLite's do."""

    def fetchone(self) -> Any:
        return self._fetch(super().fetchone)

    def fetchall(self) -> list[Any]:
        return cast(list[Any], self._fetch(super().fetchall))

    def _fetch(self, fetch: Callable[[], object]) -> Any:
        try:
            return FaultyConnection.plan.make("fetch", fetch)
        except BaseException:
            self.close()
            raise


class FaultyConnection(sqlite3.Connection):
    """A connection each of whose calls may fail, and its opening too."""

    plan = FaultPlan()

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self.plan.make("connect", lambda: sqlite3.Connection.__init__(self, *arguments, **settings))

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        return self.plan.make(sql, lambda: self.cursor(FaultyCursor).execute(sql, *arguments))

    def executemany(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        return self.plan.make(sql, lambda: self.cursor(FaultyCursor).executemany(sql, *arguments))


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """All happens in one thread, so in virtual time, and twice the same."""
    with pytest.MonkeyPatch.context() as patched:
        for module in (sqlite_writer, sqlite_checkpoints):
            patched.setattr(module, "start_daemon_thread", lambda *_: None)
        patched.setattr(sqlite_members, "start_listening", lambda _heard: None)
        patched.setattr(DatabaseFile, "factory", FaultyConnection)
        yield


@pytest.fixture(autouse=True)
def _no_faults() -> Iterator[None]:
    yield
    FaultyConnection.plan = FaultPlan()


# The canonical run.


tries: Counter[tuple[Key, str, int]] = Counter()
"""How often each try of a step has run."""


def note() -> None:
    info = step_info()
    tries[info.execution, path_text(info.path), info.attempt] += 1


@step
async def double(number: int) -> int:
    note()
    await asyncio.sleep(0.2)
    return 2 * number


@step(retry=Retry(max=3, wait="100ms", factor=1, jitter=0))
async def unsteady(number: int) -> int:
    note()
    if step_info().attempt == 1:
        raise ConnectionError("at first")
    return -number


@step
async def large(number: int) -> str:
    note()
    return str(number) * 70_000


@workflow
async def part(ctx: Context, number: int) -> int:
    """A child."""
    return await ctx.step(double, number)


@workflow
async def order(ctx: Context, number: int) -> list[int]:
    """Steps, one of which fails at first and one of which returns much, a sleep and a child."""
    one = await ctx.step(unsteady, number)
    await ctx.sleep(1.5)
    size = len(await ctx.step(large, number))
    return [one, size, await ctx.call(part, one)]


WORKFLOWS = {one.code.name: one.code for one in (order, part)}


class ErrorRecorder:
    """A store, and the errors that it has raised."""

    def __init__(self, store: Store, told: list[BaseException]) -> None:
        self._store, self._told = store, told

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if not asyncio.iscoroutinefunction(method):
            return method

        async def ask(*arguments: Any, **named: Any) -> Any:
            try:
                return await method(*arguments, **named)
            except Exception as error:
                self._told.append(error)
                raise

        return ask


class FaultRun:
    """One run. `told` are the errors that the store has raised, `ended` those that have ended an engine, `problems` what it calls defects."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.told: list[BaseException] = []
        self.ended: list[BaseException] = []
        self.problems: list[str] = []
        self.calls: list[str] = []
        self._engines: dict[Store, Engine] = {}
        self._stopping = False

    def run(self, plan: FaultPlan) -> "FaultRun":
        """Run with these faults of SQLite; check what must be true of each run."""
        return self.run_with(plan, plan)

    def run_with(self, plan: FaultPlan, sqlite_plan: FaultPlan) -> "FaultRun":
        """The same with faults of the system."""
        tries.clear()
        FaultyConnection.plan = sqlite_plan
        with listening(self.problems):
            run(lambda: self._run(plan), limit_s=300.0, handles_max=300_000)
        self.calls = plan.calls
        assert not self.problems, self.problems
        assert set(tries.values()) <= {1}, f"a try ran twice: {tries}"
        with database(self.file) as found:
            assert found.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return self

    async def _run(self, plan: FaultPlan) -> None:
        clock = asyncio.get_running_loop().time
        began_s = clock()
        stores = [SqliteStore(self.file, clock, synchronous="OFF") for _ in range(2)]
        store, client = (cast(Store, ErrorRecorder(each, self.told)) for each in stores)
        plan.counting = True
        serving = [asyncio.create_task(self._serve(each)) for each in (store, client)]
        for number in range(ORDERS):
            await self._post(client, number)
        with database(self.file) as found:
            while found.execute("SELECT count(*) FROM heads WHERE ended_at_s IS NOT NULL").fetchone() != (ENDED,):
                assert not any(task.done() for task in serving), serving
                await asyncio.sleep(0.25)
        self.took_s = clock() - began_s
        self._stopping = True
        for engine in self._engines.values():
            engine.stop()
        await asyncio.gather(*serving)
        for each in stores:
            await each.close()
        plan.counting = False
        last = SqliteStore(self.file, clock, synchronous="OFF")
        self.outcomes = await self._outcomes(last)
        await last.close()

    async def _serve(self, store: Store) -> None:
        """Run an engine, and another when it has ended because the file is said to be of no use."""
        while not self._stopping:
            engine = self._engines[store] = Engine(store, WORKFLOWS.values(), lease_s=LEASE_S, idle_s=0.5, seed=lambda: 7)
            try:
                await engine.run()
            except StoreError as error:
                self.ended.append(error)
                await asyncio.sleep(0.5)

    async def _post(self, client: Store, number: int) -> None:
        to = Key("default", "order", str(number))
        start = messages.encode_message(messages.StartMessage(1, order.code.codec.encode_args((number,), {}, "input"), 7))
        post = Post(messages=(OutgoingMessage(to, f"start:{to}", start, opens=NewExecution(program_name("order", 0), to)),))
        while True:
            try:
                await client.commit([post])
                return
            except StoreError:
                await asyncio.sleep(0.1)

    async def _outcomes(self, store: Store) -> dict[str, object]:
        """How everything has ended; each log must fold, and replay."""
        outcomes: dict[str, object] = {}
        for head in await store.heads():
            found = await store.read(head.key)
            assert found is not None
            events = log_format.decode_rows(found.payloads)
            settled = [event.path for event in events if isinstance(event, e.SettledEvent)]
            assert len(settled) == len(set(settled)), f"{head.key} settles twice: {settled}"
            outcomes |= {f"{head.key} {path_text(event.path)}": event.outcome for event in events if isinstance(event, e.SettledEvent)}
            ended = fold_events(head.key, events, head.root).ended
            outcomes[str(head.key)] = ended and (ended.status, ended.outcome)
            assert await replayed(store, head.key, head.root, events) is None
        return outcomes


async def replayed(store: Store, key: Key, root: Key, events: Sequence[e.Event]) -> object:
    """How the program differs from what the log remembers; None if it does not."""
    last = max(index for index, event in enumerate(events) if type(event) not in {*e.COMMAND_EVENTS, e.SnapshotEvent})
    instance = new_code_program(WORKFLOWS[key.workflow], key)
    rebuilding, answer = replay_program(Execution(key, root), events[:last], instance), cast(Any, None)
    try:
        while True:
            asked: LoadBlob = rebuilding.send(answer)
            answer = await store.blob(asked.blob.sha256)
    except StopIteration as end:
        return end.value
    finally:
        instance.close()


# Calls of SQLite.


def check(world: FaultRun, undisturbed: FaultRun, advice: str, ends: bool) -> None:
    """What must be true of a run with faults: all has ended as undisturbed, and whoever was told of an error was told what to do."""
    assert world.outcomes == undisturbed.outcomes
    for error in world.told:
        assert isinstance(error, StoreError), repr(error)
        assert re.search(advice, str(error)), error
    assert ends or all(isinstance(error, StoreUnavailable) for error in world.told)
    assert ends or not world.ended, "the engine goes on by itself"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> FaultRun:
    """A run without faults, which all others must be like."""
    return FaultRun(tmp_path_factory.mktemp("undisturbed") / "perdure.db").run(FaultPlan())


def sweep(file: Path, every: int, name: str, mode: str, undisturbed: FaultRun) -> None:
    """Let one call after another fail, each in a run of its own."""
    calls = range(1 + list(ADVICE).index(name) * 37 % every, len(undisturbed.calls) + 1, every)
    for at in calls:
        plan = FaultPlan(at, lambda: error_of(name), after=mode == "after", lasts_s=OUTAGE_S if mode == "while" else 0.0)
        try:
            check(FaultRun(file.with_name(f"{at}.db")).run(plan), undisturbed, ADVICE[name], name in DAMAGES)
        except BaseException as failure:
            failure.add_note(f"{name} {mode} at call {at}, {plan.calls[at - 1]}")
            raise
    tell(f"{len(calls)} of {len(undisturbed.calls)} calls")


MODES = [(name, mode) for name in ADVICE for mode in ("before", "after", "while") if mode != "after" or ADVICE[name] != LOCKED]
"""A lock is missed before a call takes effect; all else may also be told after it has."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode"), MODES)
def test_whichever_call_of_sqlite_fails_nothing_is_lost_or_done_twice_and_work_goes_on(file: Path, name: str, mode: str, undisturbed: FaultRun) -> None:
    sweep(file, 331, name, mode, undisturbed)


@pytest.mark.prove
@pytest.mark.parametrize(("name", "mode"), MODES)
def test_that_is_so_of_every_call(file: Path, name: str, mode: str, undisturbed: FaultRun) -> None:
    asks_often = mode == "while" and ADVICE[name] == LOCKED  # each millisecond, which makes a run take half a second
    sweep(file, 1 if name in KINDS and not asks_often else 7, name, mode, undisturbed)


@pytest.mark.parametrize("every", [199, pytest.param(1, marks=pytest.mark.prove)])
@pytest.mark.parametrize("name", [name for name in ADVICE if ADVICE[name] == LOCKED])
def test_locks_that_are_not_waited_for_are_told_of_and_work_goes_on(file: Path, every: int, name: str, undisturbed: FaultRun) -> None:
    with pytest.MonkeyPatch.context() as patched:
        for module in (sqlite_store, sqlite_writer):
            patched.setattr(module, "WRITE_WAIT_MAX_S", -1.0)
        sweep(file, every, name, "while", undisturbed)


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.prove)])
@pytest.mark.parametrize("name", ADVICE)
def test_whichever_call_of_opening_fails_that_is_said_and_the_next_opening_succeeds(file: Path, every: int, name: str) -> None:
    plan = FaultyConnection.plan = FaultPlan()
    plan.counting = True
    asyncio.run(SqliteStore(file.with_name("counted.db"), synchronous="OFF").close())
    calls = len(plan.calls)
    opened = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None  # noqa: PTH112, PTH208  # as short as it gets
    for at in range(1 + list(ADVICE).index(name) % every, calls + 1, every):
        plan = FaultyConnection.plan = FaultPlan(at, lambda: error_of(name))
        plan.counting = True
        its = file.with_name(f"{at}.db")
        refusals = []
        try:
            asyncio.run(SqliteStore(its, synchronous="OFF").close())
        except StoreError as error:
            refusals.append(str(error))
        assert all(ADVICE[name] in refusal for refusal in refusals), f"{plan.calls[at - 1]}: {refusals}"
        plan.counting = False
        store = SqliteStore(its, synchronous="OFF")
        assert asyncio.run(store.heads()) == []
        asyncio.run(store.close())
    assert opened is None or len(os.listdir("/proc/self/fd")) <= opened  # noqa: PTH208  # the same


@pytest.mark.slow
async def test_an_error_that_somebody_keeps_keeps_no_lock(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_writer, "WRITE_WAIT_MAX_S", 0.5)
    store = SqliteStore(file)

    def fail(tables: Any) -> None:
        rows = tables._execute("SELECT * FROM meta, (VALUES (1), (2))")
        assert rows.fetchone()[0] == SCHEMA_VERSION
        raise error_of("SQLITE_IOERR")

    with pytest.raises(StoreUnavailable, match=LOOK) as kept:
        await store._writer.write(fail)
    assert isinstance((await store.commit([one_step(key())]))[0], Committed)
    assert kept.value.__cause__ is not None
    await store.close()


# Calls of the system.


ELSEWHERE, LIMIT = "name another file with db=", "raise the limit"
LOCK_CALLS, FILE_CALLS = ("flock",), ("open", "stat", "fstat", "mkdir", "unlink", "listdir", "scandir")
SYSTEM = {
    "ENOLCK": (LOCK_CALLS, LOCAL),
    "EOPNOTSUPP": (LOCK_CALLS, LOCAL),
    "EACCES": (FILE_CALLS, ELSEWHERE),
    "EIO": ((*FILE_CALLS, *LOCK_CALLS), f"{ELSEWHERE}|{LOCAL}"),
    "EMFILE": (("open", "listdir", "scandir"), LIMIT),
    "ENOSPC": (("open", "mkdir"), ROOM),
    "EROFS": (("open", "mkdir", "unlink"), ELSEWHERE),
}
"""The errors of the system, the calls that fail with them, and what is said to do."""


@contextmanager
def system(plan: FaultPlan, names: Sequence[str], directory: Path) -> Iterator[None]:
    """Let calls of the system on files in `directory`, or on descriptors, follow the plan."""

    def planned(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def make(*arguments: Any, **settings: Any) -> Any:
            if isinstance(arguments[0], int) or str(arguments[0]).startswith(str(directory)):
                return plan.make(name, lambda: call(*arguments, **settings))
            return call(*arguments, **settings)

        return make

    with pytest.MonkeyPatch.context() as patched:
        for name in names:
            module = fcntl if name == "flock" else os
            patched.setattr(module, name, planned(name, getattr(module, name)))
        yield


def sweep_system(file: Path, every: int, name: str, lasts_s: float, undisturbed: FaultRun) -> None:
    names, advice = SYSTEM[name]
    counted, number = FaultPlan(), getattr(errno, name)
    with system(counted, names, file.parent):
        FaultRun(file.with_name("counted.db")).run_with(counted, FaultPlan())
    for at in range(1 + number % every, len(counted.calls) + 1, every):
        plan = FaultPlan(at, lambda: OSError(number, os.strerror(number)), lasts_s=lasts_s)
        with system(plan, names, file.parent):
            try:
                check(FaultRun(file.with_name(f"{at}.db")).run_with(plan, FaultPlan()), undisturbed, advice, LOCAL in advice)
            except BaseException as failure:
                failure.add_note(f"{name} for {lasts_s} s at call {at}, {plan.calls[at - 1]}")
                raise
    tell(f"{len(counted.calls)} calls")


@pytest.mark.parametrize("every", [83, pytest.param(1, marks=pytest.mark.prove)])
@pytest.mark.parametrize("lasts_s", [0.0, OUTAGE_S])
@pytest.mark.parametrize("name", SYSTEM)
def test_whichever_call_of_the_system_fails_nothing_is_lost_and_work_goes_on(file: Path, every: int, lasts_s: float, name: str, undisturbed: FaultRun) -> None:
    sweep_system(file, every, name, lasts_s, undisturbed)


# Rings.


class Mute(socket.socket):
    """A socket that can't send."""

    def sendto(self, *_: Any) -> int:
        raise OSError(errno.EPERM, "not permitted")


def refused(*_: Any) -> Any:
    raise OSError(errno.EAFNOSUPPORT, "no such addresses here")


@pytest.mark.slow
@pytest.mark.parametrize("made", [refused, Mute, socket.socket], ids=["no sockets", "no sending", "no receiving"])
def test_without_notifications_work_continues_within_a_poll(file: Path, made: Any, undisturbed: FaultRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_members, "start_listening", sqlite_rings.start_listening)
    monkeypatch.setattr(sqlite_rings, "start_daemon_thread", lambda *_: None)
    monkeypatch.setattr(sqlite_rings, "_socket", None)
    monkeypatch.setattr(socket, "socket", made)
    world = FaultRun(file).run(FaultPlan())
    opened = sqlite_rings._socket
    if opened is not None:
        opened.close()
    assert world.outcomes == undisturbed.outcomes
    assert world.told == []
    assert world.took_s < undisturbed.took_s + 10.0
