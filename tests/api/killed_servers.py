"""Servers that are killed under load: `perdure dev` processes on one database, and clients that repeat each start until it is acknowledged."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from perdure.api.loopback_access import DevServer, read_dev_server

FLOWS = """
import os
from perdure import Context, step, workflow


@step(idempotent=False)
async def mark(name: str) -> None:
    with open(os.environ["MARKS"], "ab", buffering=0) as file:
        file.write(name.encode() + b"\\n")


@workflow
async def marked(ctx: Context, name: str) -> str:
    await ctx.step(mark, name)
    return name
"""

READY_S = 60.0
"""How long a server may take to begin."""

GIVE_UP_S = 120.0
"""How long a client tries to start one execution."""


class DevProcess:
    """A `perdure dev` with a directory of its own: the process that watches, and the one that serves."""

    def __init__(self, directory: Path, db: str, marks: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        (directory / "flows.py").write_text(FLOWS)
        self._command = [sys.executable, "-m", "perdure.cli", "--db", db, "dev", "flows.py", "--no-reload", "--port", "0"]
        self._environment = {**os.environ, "MARKS": str(marks)}
        self._watching: subprocess.Popen[bytes] | None = None
        self.kills = 0

    @property
    def server(self) -> DevServer | None:
        """Where it serves at present, as far as is known."""
        return read_dev_server(self.directory / ".perdure/dev.json")

    def begin(self) -> None:
        """Begins to serve."""
        log = (self.directory / "log").open("ab")
        self._watching = subprocess.Popen(self._command, cwd=self.directory, env=self._environment, stdout=log, stderr=log, start_new_session=True)
        log.close()

    def kill(self) -> None:
        """Ends both processes without a word."""
        if self._watching is None:
            return
        children = Path(f"/proc/{self._watching.pid}/task/{self._watching.pid}/children")
        served = [int(one) for one in children.read_text().split()] if children.exists() else []
        self._watching.kill()
        self._watching.wait()
        for one in served:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        self.kills += 1
        self._watching = None


class Started(NamedTuple):
    """What a client was told about one start: the key of its execution, and how often it had to ask."""

    key: str
    workflow: str
    id: str
    asked: int


async def start_until_acknowledged(servers: list[DevProcess], key: str, draw: random.Random) -> Started:
    """Starts an execution with an idempotency key, at any server, again until one acknowledges it."""
    asked, until_s = 0, time.monotonic() + GIVE_UP_S
    async with httpx2.AsyncClient(timeout=10) as client:
        while time.monotonic() < until_s:
            place = draw.choice(servers).server
            if place is not None:
                asked += 1
                with suppress(httpx2.TransportError):
                    headers = {"authorization": f"Bearer {place.token}", "idempotency-key": key}
                    answer = await client.post(f"{place.url}/api/executions", json={"workflow": "marked", "input": [key]}, headers=headers)
                    if answer.status_code in (200, 201):
                        return Started(key, answer.json()["workflow"], answer.json()["id"], asked)
                    assert answer.status_code in (401, 503), answer.text
            await asyncio.sleep(draw.uniform(0.01, 0.2))
    raise AssertionError(f"{key} was not acknowledged within {GIVE_UP_S:g} s")


Start = Callable[[list[DevProcess], str, random.Random], Awaitable[Started]]
"""Starts an execution under a key, again until a server acknowledges it."""


class Outcome(NamedTuple):
    """What happened: the kills, the requests, and how often each execution has had its effect."""

    kills: int
    asked: int
    effects: Counter[str]
    statuses: Counter[str]


async def storm(directory: Path, db: str, *, servers: int, starts: int, kills: int, seed: int, start: Start = start_until_acknowledged) -> Outcome:
    """Starts executions with 8 clients while servers are killed in turns, and waits until all executions have ended.

    Raises:
        AssertionError: a start was acknowledged that did not take effect once.
    """
    marks, draw = directory / "marks", random.Random(seed)
    marks.touch()
    running = [DevProcess(directory / f"server{number}", db, marks) for number in range(servers)]
    keys = iter([f"k{number}" for number in range(starts)])
    told: list[Started] = []

    async def client() -> None:
        while (key := next(keys, None)) is not None:
            told.append(await start(running, key, draw))

    async def killer() -> None:
        while sum(one.kills for one in running) < kills:
            done = len(told)
            async with asyncio.timeout(READY_S):
                while len(told) < min(done + starts // (2 * kills + 2), starts - 1):  # so that it serves before it is killed
                    await asyncio.sleep(0.002)
            await asyncio.sleep(draw.uniform(0, 0.05))
            one = draw.choice(running)
            one.kill()
            one.begin()

    with ExitStack() as stack:
        for one in running:
            stack.callback(one.kill)
            one.begin()
        clients = [asyncio.create_task(client()) for _ in range(8)]
        await killer()
        _ = await asyncio.gather(*clients)
        statuses = await _ended(running[0], starts)
    effects = Counter(marks.read_text().split())
    assert len({one.id for one in told}) == starts and all(one.workflow == "marked" and one.id.endswith(one.key) for one in told)
    assert max(effects.values(), default=0) <= 1, effects.most_common(3)
    assert sum(statuses.values()) == starts, statuses
    assert statuses["completed"] <= len(effects), (statuses, len(effects))
    return Outcome(kills, sum(one.asked for one in told), effects, statuses)


async def _ended(server: DevProcess, count: int) -> Counter[str]:
    """Waits until all executions have ended, and returns how many have each status."""
    until_s = time.monotonic() + READY_S
    while True:
        statuses: Counter[str] = Counter()
        with suppress(httpx2.TransportError):
            place = server.server
            assert place is not None
            async with httpx2.AsyncClient(base_url=place.url, headers={"authorization": f"Bearer {place.token}"}) as client:
                after = ""
                while True:
                    page: Any = (await client.get("/api/executions", params={"limit": 500, "after": after})).json()
                    statuses.update(one["status"] for one in page["items"])
                    if not (after := page["next"]):
                        break
            if sum(statuses.values()) >= count and statuses.keys() <= {"completed", "failed"}:
                return statuses
        assert time.monotonic() < until_s, f"not all have ended: {statuses}"
        await asyncio.sleep(0.1)


def is_intact(file: Path) -> bool:
    """Is true if SQLite finds nothing wrong with a database."""
    with sqlite3.connect(file) as database:
        return bool(database.execute("PRAGMA integrity_check").fetchone() == ("ok",))
