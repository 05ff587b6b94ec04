"""The limit: the least that makes steps durable, an asyncio loop over one SQLite table.

Each outcome of a step is a row, each execution has a head row, and each decision is durable before the next step begins: n steps
are n + 1 commits, and what several executions decide at once is one transaction, committed by a thread of its own. There is no
replay, no lease, no retry and no recovery but to read the heads and go on. `bench/bare.py` has it do what Perdure does.
"""

import asyncio
import gc
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import msgspec

from bench._side import serve, until

TABLE = "CREATE TABLE IF NOT EXISTS log (execution INTEGER, path TEXT, payload BLOB NOT NULL, PRIMARY KEY (execution, path)) WITHOUT ROWID"
INSERT = "INSERT INTO log VALUES (?, ?, ?)"
UPDATE = "UPDATE log SET payload = ? WHERE execution = ? AND path = ?"
READ_HEAD = "SELECT payload FROM log WHERE execution = ? AND path = ?"
READ_HEADS = "SELECT execution, payload FROM log WHERE path = ?"
READ_OUTCOMES = "SELECT payload FROM log WHERE execution = ? AND path < ? ORDER BY path"

HEAD = "~"
"""The path of a head: behind those of all steps, so that the last outcome and the head are on one page."""
LOCK_WAIT_S = 10.0
FIRST_OF_CLIENT = 1_000_000
"""A client counts its executions from here, so that they are not those of the engine."""


class Head(msgspec.Struct, array_like=True):
    """Where an execution is: `done` steps of `steps`, of which the last returned `number`."""

    flow: str
    steps: int
    done: int
    number: int


encode = msgspec.msgpack.Encoder().encode
decode_head = msgspec.msgpack.Decoder(Head).decode
decode_number = msgspec.msgpack.Decoder(int).decode

Change = tuple[int, str, bytes, bytes | None]
"""A row to insert (execution, path, payload), and the new payload of the execution's head, if there is one already."""


async def increment(number: int) -> int:
    """The smallest step there is."""
    return number + 1


def connect(path: Path) -> sqlite3.Connection:
    """A connection as durable as Perdure's: WAL, and each commit waits for the disk."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=LOCK_WAIT_S)
    for setting in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = 1", "checkpoint_fullfsync = 1"):
        connection.execute(f"PRAGMA {setting}")
    connection.execute(TABLE)
    return connection


class GroupCommit:
    """Writes changes; those that come while a transaction is committed are the next one."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[Change, asyncio.Future[None]]] = []
        self._busy = False
        self._batches = SimpleQueue[list[tuple[Change, asyncio.Future[None]]]]()
        self._thread = Thread(target=self._commit_batches, daemon=True)
        self._thread.start()

    async def commit(self, change: Change) -> None:
        """Return when the change is durable."""
        durable = self._loop.create_future()
        self._waiting.append((change, durable))
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._hand_over)  # when the other tasks that are ready now have added theirs
        await durable

    def close(self) -> None:
        """End the thread, and close the connection."""
        self._batches.put([])
        self._thread.join()
        self._connection.close()

    def _hand_over(self) -> None:
        batch, self._waiting = self._waiting, []
        self._busy = bool(batch)
        if batch:
            self._batches.put(batch)

    def _commit_batches(self) -> None:
        while batch := self._batches.get():
            self._write(batch)
            self._loop.call_soon_threadsafe(self._done, batch)

    def _write(self, batch: list[tuple[Change, asyncio.Future[None]]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(INSERT, [change[:3] for change, _ in batch])
        self._connection.executemany(UPDATE, [(head, execution, HEAD) for (execution, _, _, head), _ in batch if head is not None])
        self._connection.execute("COMMIT")

    def _done(self, batch: list[tuple[Change, asyncio.Future[None]]]) -> None:
        for _, durable in batch:
            durable.set_result(None)
        self._loop.call_soon(self._hand_over)


class Bare:
    """The executions of the file at `path`. Its methods are those of every side that `bench/bare.py` compares."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._started = 0
        self._holding, self._held = False, 0
        self._first_held_s = 0.0

    async def open(self, clients: bool = False) -> None:
        """Begin; with `clients`, also serve those of other processes, which find the port in a file beside the database."""
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)  # as the other sides
        self._connection = connect(self._path)
        self._writer = GroupCommit(self._connection)
        if clients:
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_datagram_endpoint(lambda: Server(self.serve_execution), local_addr=("127.0.0.1", 0))
            port_file(self._path).write_text(str(transport.get_extra_info("sockname")[1]))

    async def move(self, path: str) -> None:
        """Go on with a new file."""
        await self.close()
        self._path = Path(path)
        await self.open()

    async def close(self) -> None:
        """End the writer, if there is one."""
        if hasattr(self, "_writer"):
            self._writer.close()

    async def one_by_one(self, name: str, argument: int, times: int) -> list[float]:
        """Run executions one after the other; the seconds from start to result of each."""
        taken = []
        for _ in range(times):
            begun_s = time.perf_counter()
            await self._run(name, argument)
            taken.append(time.perf_counter() - begun_s)
        return taken

    async def together(self, name: str, argument: int, executions: int) -> float:
        """Run executions all at once; the seconds until all have ended."""
        begun_s = time.perf_counter()
        await asyncio.gather(*(self._run(name, argument) for _ in range(executions)))
        return time.perf_counter() - begun_s

    async def hold(self, executions: int, steps: int) -> None:
        """Start executions of `steps`, one that never ends here, and `steps`; return when each waits in that one."""
        self._holding = True
        self._tasks = [asyncio.create_task(self._run("held_up", 2 * steps + 1)) for _ in range(executions)]

        async def all_held() -> bool:
            return self._held == executions

        await until(all_held)

    async def recovered(self, executions: int) -> tuple[float, float]:
        """Read the heads, and go on; when the first step ran and when all had ended, on the monotonic clock."""
        heads = [(execution, decode_head(payload)) for execution, payload in self._connection.execute(READ_HEADS, (HEAD,))]
        assert len(heads) == executions
        await asyncio.gather(*(self._advance(execution, head) for execution, head in heads))
        return self._first_held_s, time.monotonic()

    async def grow(self, steps: int) -> None:
        """Run one execution of many steps."""
        await self._run("count", steps)

    async def reread(self) -> float:
        """Read what the last execution has recorded; the seconds that it takes."""
        begun_s = time.perf_counter()
        number = 0
        for (payload,) in self._connection.execute(READ_OUTCOMES, (self._started, HEAD)):
            number = decode_number(payload)
        (head,) = self._connection.execute(READ_HEAD, (self._started, HEAD)).fetchone()
        assert number == decode_head(head).number
        return time.perf_counter() - begun_s

    async def from_client(self, argument: int, times: int) -> list[float]:
        """As a client in another process: insert a start, notify the engine, wait for its notice, read the result; the seconds of each."""
        connection, taken = connect(self._path), []
        notices = Notices()
        port = int(port_file(self._path).read_text())
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: notices, remote_addr=("127.0.0.1", port))
        for _ in range(times):
            begun_s = time.perf_counter()
            self._started += 1
            execution = FIRST_OF_CLIENT + self._started
            connection.execute(INSERT, (execution, HEAD, encode(Head("count", argument, 0, 0))))
            transport.sendto(str(execution).encode())
            await notices.next()
            (head,) = connection.execute(READ_HEAD, (execution, HEAD)).fetchone()
            assert decode_head(head).number == argument
            taken.append(time.perf_counter() - begun_s)
        transport.close()
        connection.close()
        return taken

    async def serve_execution(self, execution: int) -> None:
        """Advance what a client has started."""
        (head,) = self._connection.execute(READ_HEAD, (execution, HEAD)).fetchone()
        await self._advance(execution, decode_head(head))

    async def _run(self, flow: str, steps: int) -> None:
        self._started += 1
        execution, head = self._started, Head(flow, steps, 0, 0)
        await self._writer.commit((execution, HEAD, encode(head), None))
        await self._advance(execution, head)

    async def _advance(self, execution: int, head: Head) -> None:
        if head.flow == "joined":
            await asyncio.gather(*(self._branch(execution, head, branch) for branch in range(head.steps)))
        while head.done < head.steps:
            held = head.flow == "held_up" and head.done == head.steps // 2
            head.number = await (self._hold(head.number) if held else increment(head.number))
            outcome = {"node": f"n{head.done}", "port": "success", "output": head.number} if head.flow == "nodes" else head.number
            head.done += 1
            await self._writer.commit((execution, f"{head.done:06}", encode(outcome), encode(head)))

    async def _branch(self, execution: int, head: Head, branch: int) -> None:
        number = await increment(branch)
        head.done += 1
        await self._writer.commit((execution, f"{branch:06}", encode(number), encode(head)))

    async def _hold(self, number: int) -> int:
        self._held += 1
        if self._holding:
            await asyncio.Event().wait()
        self._first_held_s = self._first_held_s or time.monotonic()
        return number + 1


class Server(asyncio.DatagramProtocol):
    """Advances an execution for each datagram that names one, and sends it back at its end."""

    def __init__(self, advance: Callable[[int], Awaitable[None]]) -> None:
        self._advance = advance
        self._tasks = set[asyncio.Task[None]]()

    def connection_made(self, transport: Any) -> None:
        """Remember where answers go out."""
        self._transport: asyncio.DatagramTransport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Begin."""
        task = asyncio.create_task(self._answer(data, addr))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, data: bytes, addr: Any) -> None:
        await self._advance(int(data))
        self._transport.sendto(data, addr)


class Notices(asyncio.DatagramProtocol):
    """Waits for one datagram at a time."""

    def __init__(self) -> None:
        self._received = asyncio.Queue[bytes]()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Wake the client."""
        self._received.put_nowait(data)

    async def next(self) -> bytes:
        """Wait for the next datagram."""
        return await self._received.get()


def port_file(path: Path) -> Path:
    """Where the engine of a database says on which port it listens."""
    return path.with_suffix(".port")


if __name__ == "__main__":
    serve(Bare(Path(sys.argv[1])))
