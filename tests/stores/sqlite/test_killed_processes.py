"""Processes that share a file are killed and stopped at any instant, again and again: nothing that was acknowledged is lost, or there twice."""

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from perdure.stores.protocol import HeadFilter, Post
from perdure.stores.sqlite.store import SqliteStore
from tests.stores.sqlite.store_processes import WAIT_S, database, key, opening, several, tell

EXECUTIONS = 12

ENGINE = """
import asyncio, os, random, secrets, sys
from perdure.core.envelopes import Ack
from perdure.stores.protocol import Committed
from tests.stores.sqlite.store_processes import *

steps, rng = int(sys.argv[2]), random.Random(sys.argv[3])

async def work(store, me, epoch, assignment):
    head, acks = assignment.head, tuple(Ack(message.to, message.key) for message in assignment.messages)
    version = head.version
    while version < steps:
        await asyncio.sleep(rng.random() * 0.004)
        token = secrets.token_hex(8)
        ends, parks = version + 1 == steps, rng.random() < 0.3
        fields = {"status": "completed"} if ends else {"wake_at_s": 0.0} if parks else {}
        mail = (message(key("mailbox"), token),)
        change = step(head.key, version, row=token.encode(), epoch=epoch, holder=me, creates=False, release=ends or parks, acks=acks, messages=mail, **fields)
        (answer,) = await store.commit([change])
        if not isinstance(answer, Committed):
            return
        os.write(1, f"{token}\\n".encode())  # it was acknowledged
        version, acks = answer.version, ()
        if ends or parks:
            return

async def main():
    store, me, bell = SqliteStore(sys.argv[1], synchronous="OFF"), f"engine {os.getpid()}", asyncio.Event()
    loop = asyncio.get_running_loop()
    store.on_wake(lambda: loop.call_soon_threadsafe(bell.set))
    epoch = (await store.renew(me, 2.0)).epoch
    while True:
        bell.clear()
        await store.renew(me, 2.0)
        executions = (await store.claim(claim(me, epoch, limit=3))).executions
        await asyncio.gather(*(work(store, me, epoch, assignment) for assignment in executions))
        if not executions:
            try:
                await asyncio.wait_for(bell.wait(), 0.2)
            except TimeoutError:
                pass

asyncio.run(main())
"""


def chaos(file: Path, seed: int, kills: int, steps: int) -> tuple[list[str], int]:
    """Let engines take so many steps in each execution, and kill or stop one now and then; return what they were acknowledged, and how many died."""
    rng, died = random.Random(seed), 0
    began_s = time.monotonic()
    engines: list[subprocess.Popen[bytes]] = []

    def begin() -> None:
        command = [sys.executable, "-c", ENGINE, str(file), str(steps), str(rng.random())]
        with file.with_name("acknowledged").open("ab") as told:  # whose lines are short enough to be whole
            engines.append(subprocess.Popen(command, stdout=told, cwd=Path(__file__).parents[3]))

    def end(engine: subprocess.Popen[bytes]) -> None:
        engine.kill()
        engine.wait()

    for _ in range(3):
        begin()
    while not done(file):
        assert time.monotonic() - began_s < 4 * WAIT_S + kills
        assert [engine.poll() for engine in engines] == [None] * 3
        time.sleep(rng.uniform(0.0, 0.5))
        if died < kills:
            victim = engines.pop(rng.randrange(len(engines)))
            if rng.random() < 0.3:
                victim.send_signal(signal.SIGSTOP)
                time.sleep(rng.uniform(0.0, 0.3))
            end(victim)
            died += 1
            begin()
    for engine in engines:
        end(engine)
    return file.with_name("acknowledged").read_text().split(), died


def done(file: Path) -> bool:
    with database(file) as connection:
        (left,) = connection.execute("SELECT count(*) FROM heads WHERE status <> 'completed'").fetchone()
        return not left


@pytest.mark.parametrize(("seed", "kills", "steps"), [(1, 4, 60), *(pytest.param(seed, 60, 1_500, marks=pytest.mark.prove) for seed in range(2, 7))])
def test_whatever_is_killed_nothing_is_lost_or_done_twice(tmp_path: Path, seed: int, kills: int, steps: int) -> None:
    file = tmp_path / "perdure.db"
    store = SqliteStore(file)
    asyncio.run(store.commit([Post(messages=(opening(key("mailbox")),)), *(Post(messages=(opening(each),)) for each in several(EXECUTIONS))]))
    with database(file) as connection:
        connection.execute("UPDATE heads SET program = 'of nobody', status = 'completed' WHERE address LIKE '%mailbox%'")
    acknowledged, died = chaos(file, seed, kills, steps)
    heads = asyncio.run(store.heads(HeadFilter(limit=1_000)))
    rows = Counter[str]()
    for head in heads:
        log = asyncio.run(store.read(head.key))
        assert log is not None
        assert len(log.payloads) == head.version == (0 if head.key == key("mailbox") else steps), head
        rows.update(row.decode() for row in log.payloads)
    assert max(rows.values()) == 1
    assert set(acknowledged) <= rows.keys(), "what was acknowledged is there"
    letters = [message.key for message in asyncio.run(store.messages(key("mailbox")))]
    assert sorted(letters) == sorted([*rows, "start"]), "what was sent with a step is there with it, once"
    assert all(asyncio.run(store.messages(each)) == [] for each in several(EXECUTIONS))
    with database(file) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    tell(f"{died} engines died, {len(acknowledged)} of {EXECUTIONS * steps} steps were acknowledged before")
    asyncio.run(store.close())
