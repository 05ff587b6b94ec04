"""Whichever of its commits an engine is killed at by kill -9: every kind of steps comes to what it should, and did in the world what it may, once."""

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.definitions.kinds.http.misbehaving_server import MisbehavingServer, json_reply
from tests.definitions.kinds.killed_engine import DOING
from tests.definitions.kinds.kind_table import KINDS, KindEnvironment

pytest.importorskip("httpx2", reason="requests take the package httpx2: pip install 'perdure[http]'")
pytest.importorskip("pydantic_ai", reason="models take the package pydantic-ai-slim: pip install 'perdure[agents]'")
pytest.importorskip("quickjs", reason="sandboxes take their packages: pip install 'perdure[sandbox]'")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="who inherits processes is Linux's to say")

NEVER = 1_000_000
STEP = 7
"""How many commits are passed over where not all are tried: no divisor of what repeats."""

ONCE = {name for name in DOING if "may not" in name or "without" in name}
WRITES = ("/post", "/keyless", "/charge", "/put", "/openapi-charge")


class KilledEngines:
    """Engines that die, on a directory of their own each, and a server that counts what they ask."""

    def __init__(self, process: asyncio.subprocess.Process, server: MisbehavingServer, directory: Path) -> None:
        self._process, self.server, self._directory = process, server, directory
        self.interrupted = Counter[str]()

    async def run(self, directory: Path, last: int, after: bool = False) -> int:
        """Run one until it has done everything, or has died; its exit code. It leaves no process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        wanted = {"url": self.server.url(), "directory": str(directory), "last": last, "after": after}
        self._process.stdin.write(json.dumps(wanted).encode() + b"\n")
        answer = json.loads(await self._process.stdout.readline())
        assert answer["left"] == 0, (last, after)
        code: int = answer["code"]
        return code

    async def die(self, last: int, after: bool) -> bool:
        """Have one die at a commit, and another go on; hold what they did to what they may do. False, if there was no such commit."""
        directory = self._directory / f"{last} {after}"
        directory.mkdir()
        KindEnvironment(self.server.url(), directory).served_by(self.server)
        for path in (*WRITES, "/get"):
            self.server.on(path, json_reply('{"is": "fine"}'))
        self.server.seen.clear()
        code = await self.run(directory, last, after)
        assert code in (0, -signal.SIGKILL)
        if code:
            assert await self.run(directory, NEVER) == 0
        self._check(directory, (last, after), killed=code != 0)
        return code != 0

    def _check(self, directory: Path, where: tuple[int, bool], killed: bool) -> None:
        ends: dict[str, Any] = json.loads((directory / "ends.json").read_text())
        assert ends.keys() == {*KINDS, *DOING}
        may_fail = {*ONCE, *(kind for kind, row in KINDS.items() if not row.repeats)} if killed else set[str]()
        for name, end in ends.items():
            if isinstance(end, str):
                assert name in may_fail and "interrupted" in end.lower(), (where, name, end)
                self.interrupted[name] += 1
            elif name in KINDS:
                assert KINDS[name].value_of(end["value"]) == "text", (where, name, end)
        for name in ("bash that may not be repeated", "bash that may be"):
            file = directory / f"{name}.ledger"
            times = len(file.read_text().splitlines()) if file.exists() else 0
            done = not isinstance(ends[name], str)
            assert times == 1 if done and name in ONCE else times <= 1 if name in ONCE else 1 <= times <= 2, (where, name, times)
        self._check_requests(ends, where)

    def _check_requests(self, ends: dict[str, Any], where: tuple[int, bool]) -> None:
        asked: dict[str, list[str]] = {}
        for seen in self.server.seen:
            asked.setdefault(seen.path, []).append(seen.headers.get("idempotency-key", ""))
        for path in ("/post", "/keyless", "/openapi-charge"):
            assert len(asked.get(path, [])) <= 1, (where, path)
        for path in ("/charge", "/put"):
            assert len(set(asked[path])) == 1 and asked[path][0], (where, path, asked[path])
        assert set(asked.get("/keyless", [""])) == {""} and 1 <= len(asked["/get"]) <= 2
        for name, path in (
            ("POST that may not be repeated", "/post"),
            ("POST without a key", "/keyless"),
            ("operation that may not be repeated", "/openapi-charge"),
        ):
            assert isinstance(ends[name], str) or len(asked[path]) == 1, (where, name)


@asynccontextmanager
async def mortals(directory: Path) -> AsyncIterator[KilledEngines]:
    """What forks engines that die."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.definitions.kinds.killed_engine", stdin=pipe, stdout=pipe)
    try:
        async with MisbehavingServer() as server:
            yield KilledEngines(process, server, directory)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


@pytest.mark.prove
async def test_an_engine_that_dies_in_the_middle_of_all_kinds_does_nothing_twice_that_may_be_done_once(tmp_path: Path) -> None:
    async with mortals(tmp_path) as mortal:
        assert await mortal.die(20, after=True)


@pytest.mark.prove
@pytest.mark.parametrize("first", range(STEP))
async def test_at_whichever_commit_an_engine_dies_every_kind_comes_to_what_it_should(tmp_path: Path, first: int) -> None:
    async with mortals(tmp_path) as mortal:
        last = 1 + first
        while await mortal.die(last, after=False) and await mortal.die(last, after=True):
            last += STEP
        assert last > 2 * STEP
        print(f"{last} commits; interrupted: {dict(mortal.interrupted)}")  # noqa: T201  # a proof shows what it found
