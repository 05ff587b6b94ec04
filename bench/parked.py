"""A million parked executions on one file: what each takes, and what they cost the others.

    python -m bench.parked [EXECUTIONS] [--dir DIRECTORY]

The executions have UUIDs as ids and a small input; their logs are those of a real one. Each time is printed beside a limit measured in the same run: that of
a store with few parked. The memory is that of a process whose engine has parked 20,000 and has then been idle until all were evicted. The files (some 500
bytes an execution) are in a temporary directory below DIRECTORY, by default the working directory.
"""

import argparse
import asyncio
import gc
import os
import sqlite3
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

from msgspec.structs import replace

from perdure import Context, Signal, step, workflow
from perdure.core import messages, values
from perdure.core.envelopes import OutgoingMessage
from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.stores.protocol import Claim, Commit, HeadFilter, Post, StoredLog
from perdure.stores.sqlite.store import SqliteStore

EXECUTIONS, AT_ONCE, ROUNDS = 1_000_000, 2_000, 20
MEMORY_EXECUTIONS = 20_000
IDLE_S = 2.0
BYTES_MAX, READY_S_MAX, WAKE_MS_MAX = 700, 2.0, 20.0

released = Signal("released", int)


@step
async def add(number: int) -> int:
    """The step behind the wait."""
    return number + 1


@workflow
async def parked(ctx: Context, order: dict[str, int]) -> int:
    """Waits for a message, then performs one step."""
    return await ctx.step(add, order["number"] + await ctx.listen(released))


def some_key() -> Key:
    """The key of a new execution."""
    return Key("default", "parked", str(uuid.uuid4()))


def start(number: int) -> bytes:
    """The encoded input of an execution."""
    return parked.code.codec.encode_args(({"number": number, "lines": 3},), {}, "the input")


@contextmanager
def engine_on(store: SqliteStore, idle_s: float) -> Iterator[Engine]:
    """An engine on a store."""
    yield Engine(store, [parked.code], idle_s=idle_s)


async def real_log(path: Path) -> StoredLog:
    """The head and log of an execution that an engine has parked."""
    store = SqliteStore(path)
    key = some_key()
    with engine_on(store, 60.0) as engine:
        running = asyncio.create_task(engine.run())
        await engine.ready()
        await engine.start(key, start(1))
        log = None
        while log is None or log.head.status != "waiting":
            await asyncio.sleep(0.01)
            log = await store.read(key)
        engine.stop()
        await running
    await store.close()
    return log


async def park(path: Path, like: StoredLog, executions: int) -> float:
    """Parks executions that have the log of `like`; returns the seconds."""
    store, began_s = SqliteStore(path, synchronous="NORMAL"), time.perf_counter()
    epoch = (await store.renew("bench", 600)).epoch
    head, row = like.head, b"".join(like.payloads[:1])
    made = Commit(key=head.key, epoch=epoch, holder="bench", version=0, program=head.program, root=head.key, creates=True, row=row, count=head.version)
    for _ in range(0, executions, AT_ONCE):
        keys = [some_key() for _ in range(min(AT_ONCE, executions))]
        await store.commit([replace(made, key=key, root=key, status=head.status, release=True) for key in keys])
        await store.renew("bench", 600)
    await store.close()
    return time.perf_counter() - began_s


def size_bytes(path: Path) -> int:
    """The size of a file with nothing left in its log."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


async def ready_ms(path: Path) -> float:
    """How long a worker takes from opening the file until it is ready."""
    began_s = time.perf_counter()
    store = SqliteStore(path)
    with engine_on(store, 60.0) as engine:
        running = asyncio.create_task(engine.run())
        await engine.ready()
        taken_s = time.perf_counter() - began_s
        engine.stop()
        await running
    await store.close()
    return taken_s * 1000


async def wake_ms(path: Path, keys: list[Key]) -> list[float]:
    """How long each takes from the message to its end, in an engine that is ready."""
    store, taken = SqliteStore(path), list[float]()
    with engine_on(store, 60.0) as engine:
        running = asyncio.create_task(engine.run())
        await engine.ready()
        for key in keys:
            ending = engine.ending(key)
            began_s = time.perf_counter()
            await store.commit([Post(messages=(message(key),))])
            await ending
            taken.append((time.perf_counter() - began_s) * 1000)
        engine.stop()
        await running
    await store.close()
    return taken


async def claim_ms(path: Path, keys: list[Key]) -> list[float]:
    """How long a claim of one that was just waked takes."""
    store, taken = SqliteStore(path), list[float]()
    epoch = (await store.renew("bench", 600)).epoch
    for key in keys:
        await store.commit([Post(messages=(message(key),))])
        began_s = time.perf_counter()
        claimed = await store.claim(Claim(holder="bench", epoch=epoch, programs=frozenset(parked.code.programs)))
        taken.append((time.perf_counter() - began_s) * 1000)
        assert len(claimed.executions) == 1
    await store.close()
    return taken


def message(key: Key) -> OutgoingMessage:
    """The message that an execution waits for."""
    body = messages.encode_message(messages.SignalMessage(released.name, values.encode(1, "a message")))
    return OutgoingMessage(key, f"released {key.id}", body)


async def newest_keys(path: Path, count: int) -> list[Key]:
    """The keys of some parked executions."""
    store = SqliteStore(path)
    heads = await store.heads(HeadFilter(limit=count))
    await store.close()
    return [head.key for head in heads]


def rss_bytes() -> int:
    """The memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def memory(path: Path, executions: int) -> tuple[int, int, int]:
    """The memory of this process before it parks executions, right after, and once they have been idle."""
    store = SqliteStore(path, synchronous="NORMAL")
    with engine_on(store, IDLE_S) as engine:
        running = asyncio.create_task(engine.run())
        await engine.ready()
        gc.collect()
        before = rss_bytes()
        for first in range(0, executions, AT_ONCE):
            await asyncio.gather(*(engine.start(some_key(), start(number)) for number in range(first, first + AT_ONCE)))
        after = rss_bytes()
        await asyncio.sleep(IDLE_S + 5.0)
        idle = rss_bytes()
        engine.stop()
        await running
    await store.close()
    return before, after, idle


async def measure(executions: int, place: Path) -> None:
    """Measures in a directory below `place`, and prints."""
    with tempfile.TemporaryDirectory(dir=place) as directory:
        path, empty = Path(directory) / "many.db", Path(directory) / "few.db"
        like = await real_log(path)
        await park(empty, like, 2 * ROUNDS)
        empty_bytes = size_bytes(empty)
        park_s = await park(path, like, executions)
        each = (size_bytes(path) - empty_bytes) / executions
        print(f"{executions:,} parked in {park_s:.0f} s ({executions / park_s:,.0f}/s, synchronous=NORMAL)")
        print(f"  bytes each        {each:8.0f}      {'ok' if each <= BYTES_MAX else 'over'} (goal {BYTES_MAX})")
        readies, limits = [await ready_ms(path) for _ in range(5)], [await ready_ms(empty) for _ in range(5)]
        said(f"ready, goal {READY_S_MAX * 1000:.0f} ms", readies, limits, READY_S_MAX * 1000)
        many, few = await newest_keys(path, 2 * ROUNDS), await newest_keys(empty, 2 * ROUNDS)
        said(f"one waked, goal {WAKE_MS_MAX:.0f} ms", await wake_ms(path, many[:ROUNDS]), await wake_ms(empty, few[:ROUNDS]), WAKE_MS_MAX)
        said("a claim of one", await claim_ms(path, many[ROUNDS:]), await claim_ms(empty, few[ROUNDS:]), WAKE_MS_MAX)
    with tempfile.TemporaryDirectory(dir=place) as directory:
        child = await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.parked", "memory", str(Path(directory) / "memory.db"))
        await child.wait()


def said(what: str, values: list[float], limits: list[float], goal_ms: float) -> None:
    """Prints one time beside its limit."""
    middle, limit = median(values), median(limits)
    print(f"  {what:26} {middle:8.2f} ms, with few parked {limit:.2f} ms, ratio {middle / limit:.2f}; {'ok' if middle <= goal_ms else 'over'}")


def main(*arguments: str) -> None:
    """Measures so many executions; or, in a process of its own, the memory."""
    if arguments[:1] == ("memory",):
        before, after, idle = asyncio.run(memory(Path(arguments[1]), MEMORY_EXECUTIONS))
        sizes = [f"{value / 2**20:.0f} MB" for value in (before, after, idle)]
        print(f"  memory of an engine: {sizes[0]} before, {sizes[1]} with {MEMORY_EXECUTIONS:,} parked just now, {sizes[2]} once they are idle")
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("executions", type=int, nargs="?", default=EXECUTIONS)
    parser.add_argument("--dir", type=Path, default=Path.cwd(), help="where to put the files")
    options = parser.parse_args(arguments)
    asyncio.run(measure(options.executions, options.dir))


if __name__ == "__main__":
    main(*sys.argv[1:])
