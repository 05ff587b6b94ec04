"""The story of a trace, in a quarter of a minute: a scientific workflow is killed in the middle, started again, and goes on.

The trace is that of a real one if the traces are at hand (58 tasks of an astronomer's image mosaic), else a small one that is
shipped. Every line that this prints is read from the processes, the log or the effect file; if a claim does not hold, it says so and exits with 1.
"""

import asyncio
import json
import re
import shlex
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from perdure import Key
from perdure.core import events, log_format
from perdure.stores.configured_store import open_store

EXAMPLES = Path(__file__).resolve().parent
TRACES = EXAMPLES.parent.parent / "shared/data/wfinstances"
ID = "demo"

QUIET_S = 0.15
"""After how long without a line it is worth saying how things stand."""

RUN_S_MAX = 15.0
"""How long a run may take; they take six seconds and a bit."""


@dataclass(frozen=True)
class Effect:
    """A line of the effect file: a try of a task began or ended."""

    event: str
    task: str
    at_s: float


@dataclass(frozen=True)
class Remembered:
    """What the log knows: the tasks that have settled, and those that were begun and have not."""

    events: int
    settled: Counter[str]
    in_flight: set[str]


@dataclass(frozen=True)
class Run:
    """What a process printed last, its exit code, and how long it lived."""

    last: str
    code: int
    took_s: float


class Demo:
    """The trace, where its history is kept, and the claims that turned out false."""

    def __init__(self, file: Path, directory: Path) -> None:
        specified = json.loads(file.read_bytes())["workflow"]["specification"]["tasks"]
        self.parents: dict[str, list[str]] = {task["id"]: task["parents"] for task in specified}
        self.url = f"sqlite:///{directory}/perdure.db"
        self.effect_file = directory / f"trace-{ID}.effects"
        self.command = [sys.executable, str(EXAMPLES / "run_trace.py"), str(file), "--id", ID, "--db", self.url]
        self.ended = 0
        self.failed: list[str] = []

    async def play(self) -> None:
        """The four acts."""
        total = len(self.parents)
        say(f"1. Run it: {total} tasks, each a step, in a process of its own.")
        say(f"   $ {shlex.join(['python', *map(shown, self.command[1:])])}")
        first = await self.run(kill_at=total // 3)
        self.claim("it was killed in the middle", first.code == -signal.SIGKILL)
        if self.failed:
            return

        before, seen = await self.remembered(), len(self.effects())
        settled, in_flight = len(before.settled), len(before.in_flight)
        say(f"\n2. That was kill -9, after {first.took_s:.1f} s: no goodbye, no clean-up. What the log on the disk knows, in {before.events} events:")
        say(f"   {settled} tasks have settled, {in_flight} were in flight, {total - settled - in_flight} had not begun.")

        say("\n3. Start it again: the same command, the same id.")
        self.ended = settled
        second = await self.run()
        self.check(before, await self.remembered(), second, self.effects()[seen:])

        say("\n4. And once more, now that it has ended.")
        seen = len(self.effects())
        third = await self.run()
        self.claim("the stored result came back, and no task ran", third.code == 0 and len(self.effects()) == seen)

    def check(self, before: Remembered, after: Remembered, second: Run, later: list[Effect]) -> None:
        """What must be true after the second run, given what that did."""
        everything, total, settled = self.effects(), len(self.parents), len(before.settled)
        ended = {effect.task for effect in everything if effect.event == "ended"}
        began_later = Counter(effect.task for effect in later if effect.event == "began")
        figures = re.search(r"makespan (\S+) s.* critical path, ([\d.]+) s;(?:.*;)? (\d+) remembered from before, (\d+) ran now", second.last)
        say("\n   What the log says now, and the effect file, to which every try of every task adds a line when it begins and when it ends:")
        self.claim(f"all {total} tasks have ended", second.code == 0 and ended == self.parents.keys())
        self.claim(f"each settled once, {settled} before the kill and {total - settled} after it", after.settled == Counter(self.parents.keys()))
        self.claim(f"none of the {settled} that had settled ran again", not before.settled.keys() & began_later.keys())
        self.claim(
            f"the {len(before.in_flight)} in flight ran again, and what had not begun ran, each once",
            began_later == Counter(self.parents.keys() - before.settled.keys()),
        )
        self.claim("no task began before its parents had ended", self.in_order(everything))
        self.claim("its own figures say the same", figures is not None and (int(figures[3]), int(figures[4])) == (settled, total - settled))
        self.claim("it took no less than the critical path", figures is not None and float(figures[1]) >= float(figures[2]))

    def in_order(self, effects: list[Effect]) -> bool:
        """Whether each task began when all of its parents had ended."""
        ended: set[str] = set()
        for effect in effects:
            if effect.event == "ended":
                ended.add(effect.task)
            elif not ended.issuperset(self.parents[effect.task]):
                return False
        return True

    async def run(self, kill_at: int | None = None) -> Run:
        """Run the trace in a process; kill it once `kill_at` tasks have ended while others are running."""
        began_s, last, stuck = time.monotonic(), "", False
        running: set[str] = set()
        process = await asyncio.create_subprocess_exec(*self.command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
        try:
            async with asyncio.timeout(RUN_S_MAX):
                async for line in lines_of(process.stdout):
                    if line is None:
                        say(f"   {time.monotonic() - began_s:4.1f} s  {self.ended:2} of {len(self.parents)} ended, {len(running)} running; last: {last}")
                        continue
                    last = line
                    self.note(line, running)
                    if kill_at is not None and self.ended >= kill_at and running:
                        process.kill()
                        break
        except TimeoutError:
            process.kill()
            last, stuck = f"stopped, for it had not ended after {RUN_S_MAX:g} s; its last line: {last}", True
        code, took_s = await process.wait(), time.monotonic() - began_s
        say(f"   {took_s:4.1f} s  {last}")
        return Run(last, 1 if stuck else code, took_s)

    def note(self, line: str, running: set[str]) -> None:
        """Keep count of what the trace says: a task started, or one ended."""
        if found := re.fullmatch(r"started (.*?)(, try \d+)?", line):
            running.add(found[1])
        elif found := re.fullmatch(r"ended (.*) \((\d+) of \d+\)", line):
            running.discard(found[1])
            self.ended = int(found[2])

    def effects(self) -> list[Effect]:
        """The whole lines of the effect file but the first, which says what it is about."""
        lines = self.effect_file.read_text().splitlines()[1:]
        found = [json.loads(line) for line in lines if line.endswith("}")]
        return [Effect(line["event"], line["task"], line["at_s"]) for line in found]

    async def remembered(self) -> Remembered:
        """Read the log of the execution."""
        store = open_store(self.url)
        try:
            found = await store.read(Key("default", "trace", ID))
        finally:
            await store.close()
        opened, settled, count = set[str](), Counter[str](), 0
        for event in log_format.decode_rows(found.payloads if found else ()):
            count += 1
            match event:
                case events.OpenedEvent(path=((str(task), _),)):
                    opened.add(task)
                case events.SettledEvent(path=((str(task), _),)):
                    settled[task] += 1
        return Remembered(count, settled, opened - settled.keys())

    def claim(self, claim: str, holds: bool) -> None:
        """Say that it holds, or that it does not."""
        say(f"   {'ok' if holds else 'NOT TRUE'}: {claim}")
        if not holds:
            self.failed.append(claim)


async def lines_of(stream: asyncio.StreamReader | None) -> AsyncIterator[str | None]:
    """The lines that the trace prints, without their times; None whenever it has fallen silent."""
    silent = True
    while stream is not None:
        try:
            raw = await asyncio.wait_for(stream.readline(), None if silent else QUIET_S)
        except TimeoutError:
            silent = True
            yield None
            continue
        if not raw:
            return
        silent = False
        yield re.sub(r"^ *\d+ ms  ", "", raw.decode(errors="replace").rstrip())


def say(line: str) -> None:
    """Print it now, also into a pipe."""
    print(line, flush=True)


def shown(part: str) -> str:
    """A part of the command, with files as seen from the project's root."""
    return part.replace(f"{EXAMPLES.parent}/", "").replace(f"{TRACES.parent.parent.parent}/", "../")


def main() -> int:
    """0 if every claim was true."""
    found = [*sorted(TRACES.glob("montage*.json")), *sorted(TRACES.glob("epigenomics*.json")), EXAMPLES / "data/photo-mosaic.json"]
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="perdure-demo-") as directory:
        demo = Demo(found[0], Path(directory))
        asyncio.run(demo.play())
    if demo.failed:
        say(f"\nNot true: {'; '.join(demo.failed)}")
        return 1
    say(f"\nAll of it was true, in {time.monotonic() - began_s:.0f} seconds.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
