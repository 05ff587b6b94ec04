"""What `examples/demo.py` tells: an order that runs in worker processes, as it happens, and whether it kept what is promised.

Every line that is told is read from the log, from the processes, or from the world's file, to which the steps of an order add a line
for whatever they ask for outside (`examples/order.py`).
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from perdure import Client, Handle, HasEnded
from perdure.sync_client import PublicEvent

TICK_S = 0.02
STORY_S_MAX = 30.0
"""How long an order may take when nobody sits before it."""

GOES_ON_S_MAX = 1.0
"""How soon after a kill it must go on, given a worker."""

ASKS = {
    "reserve": "asks the warehouse",
    "charge": "asks the bank",
    "remind": "writes to the customer",
    "ship": "asks the carrier",
    "refund": "asks the bank",
    "release": "asks the warehouse",
}


def say(text: str = "") -> None:
    """Print a line now, also into a pipe."""
    print(text, flush=True)


def painted(text: str, code: str) -> str:
    """The text in a colour, if that is to be seen."""
    seen = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return f"\x1b[{code}m{text}\x1b[0m" if seen else text


BOLD, DIM, RED, GREEN, YELLOW = "1", "2", "1;31", "32", "33"


class Player(Protocol):
    """Whoever presses the keys; `live`, if that is somebody before a terminal."""

    live: bool

    def key(self, story: "Story") -> str:
        """The key that is pressed now, or nothing."""
        ...


# The processes.


class Stuck(Exception):
    """The story does not go on, and why."""


@dataclass
class Worker:
    """A process that runs orders."""

    number: int
    process: "subprocess.Popen[bytes]"
    out: Path

    def ready_s(self) -> float | None:
        """When it had joined the database, which it says in a line; None before."""
        found = self.out.stat()
        return found.st_mtime if found.st_size else None


class Shop:
    """A database, a world, and workers, in a directory of its own."""

    def __init__(self, directory: Path, takes_s: float) -> None:
        self.directory = directory
        self.url = f"sqlite:///{directory}/perdure.db"
        self.workers: list[Worker] = []
        self._environment = os.environ | {
            "PERDURE_DB": self.url,
            "ORDER_WORLD": str(directory / "world.jsonl"),
            "ORDER_WORLD_TAKES_S": str(takes_s),
        }
        directory.mkdir(exist_ok=True)
        self.client = Client(self.url)

    def hire(self) -> Worker:
        """Start a worker, out of reach of the terminal's Ctrl-C."""
        file = str(Path(__file__).with_name("order.py"))
        has_command = find_spec("click") and find_spec("rich")
        command = [sys.executable, "-m", "perdure.cli", "worker", file] if has_command else [sys.executable, file]
        number = len(self.workers) + 1
        out = self.directory / f"worker-{number}.out"
        with out.open("wb") as output, out.with_suffix(".errors").open("wb") as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=self._environment, start_new_session=True
            )  # it is waited for in close
        self.workers.append(Worker(number, process, out))
        return self.workers[-1]

    def ready(self) -> list[Worker]:
        """The workers that live and have joined the database.

        Raises:
            Stuck: one has ended by itself.
        """
        for worker in self.workers:
            if worker.process.poll() not in (None, -signal.SIGKILL):
                raise Stuck(f"worker {worker.number} has ended\n{self.errors()}")
        return [worker for worker in self.workers if worker.process.returncode is None and worker.ready_s() is not None]

    def until_ready(self, count: int) -> None:
        """Wait for so many workers."""
        ends_s = time.monotonic() + STORY_S_MAX
        while len(self.ready()) < count:
            if time.monotonic() > ends_s:
                raise Stuck(f"no worker was ready within {STORY_S_MAX:g} s\n{self.errors()}")
            time.sleep(TICK_S)

    def lines(self) -> list[dict[str, Any]]:
        """The world's file; a kill can cut its last line short."""
        file = self.directory / "world.jsonl"
        return [json.loads(line) for line in file.read_bytes().splitlines() if line.endswith(b"}")] if file.exists() else []

    def errors(self) -> str:
        """What the workers have complained of."""
        return "\n".join(text for worker in self.workers if (text := worker.out.with_suffix(".errors").read_text().rstrip()))

    def close(self) -> None:
        """Kill all workers, and let the database go."""
        for worker in self.workers:
            worker.process.kill()
        for worker in self.workers:
            _ = worker.process.wait()
        self.client.close()


# The story.


@dataclass
class Kill:
    """A kill: when, of which worker, in the middle of what (if anything was in flight), and how soon that went on elsewhere."""

    at_s: float
    worker: Worker
    key: str
    what: str
    went_on_s: float | None = None


@dataclass
class Story:
    """One order, from its start to its end."""

    shop: Shop
    handle: Handle[str]
    player: Player
    began_s: float = field(default_factory=time.time)
    happened: set[str] = field(default_factory=set)
    kills: list[Kill] = field(default_factory=list)
    waits: bool = False
    decision: bool | None = None
    decided_s: float = 0.0
    taken_up_s: float | None = None
    _due_s: dict[str, float] = field(default_factory=dict)
    _lines: int = 0
    _event: int = 0

    def play(self) -> bool:
        """Tell it to its end; whether it was not quit before."""
        ends_s = time.monotonic() + STORY_S_MAX
        while True:
            status = self.handle.status()
            self._tell()
            if status.ended_at_s is not None:
                self._say(f"{painted('the end', BOLD)}   {self.handle.result()}")
                return True
            if status.status == "needs_attention":
                self._say("put aside for somebody to look at, as always after ten kills in one step; looked at, and resumed")
                self.handle.resume(wait=True)
            if not self.player.live and time.monotonic() > ends_s:
                raise Stuck(f"order {self.handle.id} has not ended within {STORY_S_MAX:g} s: {status.why}\n{self.shop.errors()}")
            match self.player.key(self):
                case "k":
                    self._kill()
                case "a" | "r" as key if self.decision is None:
                    self.decision, self.decided_s = key == "a", time.time()
                    with suppress(HasEnded):  # which says that the order has waited long enough
                        self.handle.send("decision", {"approved": self.decision})
                    self._say(f"the customer {'approves' if self.decision else 'rejects'}", YELLOW)
                case "q":
                    return False

    def _say(self, text: str, color: str = "", at_s: float | None = None, what: str = "") -> None:
        passed_s = max(0.0, (at_s or time.time()) - self.began_s)
        say(f"{painted(f'{passed_s:6.1f} s', DIM)}  {painted(f'{what:8}', BOLD)}  {painted(text, color) if color else text}")

    def _kill(self) -> None:
        """Kill the worker that was last at work, and start another in its place."""
        alive = {worker.process.pid: worker for worker in self.shop.ready()}
        at_work = [alive[line["process"]] for line in self.shop.lines() if line["process"] in alive]
        if not alive:
            self._say("no worker is there to be killed; one is coming", DIM)
            return
        worker = at_work[-1] if at_work else next(iter(alive.values()))
        at_s = time.time()
        worker.process.kill()
        _ = worker.process.wait()
        self._tell()
        open_now = [step for step in self.handle.steps() if step.state == "performing"]
        what = open_now[0].target if open_now else ""
        self.kills.append(Kill(at_s, worker, f"{self.handle.key}:{open_now[0].path}" if open_now else "", what))
        where = f"in the middle of {what}" if what else "while the order waits"
        self._say(f"kill -9 worker {worker.number}, {where}; worker {self.shop.hire().number} is started", RED, at_s)

    def _tell(self) -> None:
        """Tell what has happened since the last time."""
        lines = [line for line in self.shop.lines() if line["key"].startswith(f"{self.handle.key}:")]
        events = list(self.handle.events(after=self._event))
        news: list[tuple[float, Callable[[], None]]] = [(line["at_s"], partial(self._tell_line, line)) for line in lines[self._lines :]]
        news += [(event.time_s, partial(self._tell_event, event)) for event in events]
        self._lines, self._event = len(lines), events[-1].id if events else self._event
        for _, tell in sorted(news, key=lambda one: one[0]):
            tell()

    def _tell_line(self, line: dict[str, Any]) -> None:
        what, at_s, answer = line["what"], line["at_s"], line["answer"]
        self.happened.add(f"{line['event']} {what}")
        match line["event"]:
            case "asked":
                self._tell_asked(line)
            case "failed":
                self._say("no answer: it will be tried again", YELLOW, at_s, what)
            case "done":
                self._say(f"done: {answer}", GREEN, at_s, what)
            case "known":
                self._say(f"done before under this key: {answer}", GREEN, at_s, what)

    def _tell_asked(self, line: dict[str, Any]) -> None:
        worker = next(worker for worker in self.shop.workers if worker.process.pid == line["process"])
        at_s, text = line["at_s"], f"worker {worker.number} {ASKS[line['what']]}{' again' if line['attempt'] > 1 else ''}"
        if open_kills := [kill for kill in self.kills if kill.key == line["key"] and kill.went_on_s is None]:
            since = {"the kill": open_kills[-1].at_s, "it came": worker.ready_s() or 0.0, "it was due": self._due_s.get(line["key"], 0.0)}
            last = max(since, key=lambda name: since[name])
            for kill in open_kills:
                kill.went_on_s = max(0.0, at_s - since[last])
            text += f", {open_kills[-1].went_on_s:.2f} s after {last}"
        elif self.waits and self.decision is not None:
            self.taken_up_s = max(0.0, at_s - self.decided_s)
            text += f", {self.taken_up_s:.2f} s after the decision"
        self.waits = False
        self._say(text, "", at_s, line["what"])

    def _tell_event(self, event: PublicEvent) -> None:
        if event.type == "execution.waiting" and "decision" in str(event.data.get("why")):
            self.waits = True
            if "waiting" not in self.happened:
                self.happened.add("waiting")
                self._say(f"waits for the customer's decision{': press a or r' if self.player.live else ''}", YELLOW, event.time_s)
        if event.data.get("error") == "interrupted":
            wait_s = float(event.data["due_at_s"]) - event.time_s
            if wait_s > 0.1:
                self._due_s[f"{self.handle.key}:{event.subject}"] = event.time_s + wait_s
                self._say(f"interrupted again and again: begins again in {wait_s:.1f} s", YELLOW, event.time_s)


# The claims.


class Claims:
    """What is promised, and which of it turned out false."""

    def __init__(self) -> None:
        self.false: list[str] = []

    def claim(self, text: str, holds: bool) -> None:
        """Say that it holds, or that it does not."""
        say(f"   {painted('ok', GREEN) if holds else painted('NOT TRUE', RED)}  {text}")
        if not holds:
            self.false.append(text)

    def check(self, story: Story, calm: Shop) -> None:
        """Hold an order that has ended to what is promised, beside one of the same id in a shop where nobody kills."""
        lines = [line for line in story.shop.lines() if line["key"].startswith(f"{story.handle.key}:")]
        done = Counter(line["key"] for line in lines if line["event"] == "done")
        tries = Counter(line["key"] for line in lines if line["event"] == "asked")
        again = f"{sum(count > 1 for count in tries.values())} of them asked for more than once"
        self.claim(f"nothing was done twice: {done.total()} things were done, each under its own key, {again}", max(done.values()) == 1)
        remembered_s = {f"{story.handle.key}:{step.path}": step.settled_at_s for step in story.handle.steps() if step.settled_at_s}
        late = [line for line in lines if line["event"] == "asked" and line["at_s"] > remembered_s.get(line["key"], line["at_s"])]
        self.claim("nothing was asked for again once its answer was remembered", not late)
        if waits := {kill.what: kill.went_on_s for kill in story.kills if kill.key}:
            said = ", ".join(f"{what} {'never' if wait_s is None else f'after {wait_s:.2f} s'}" for what, wait_s in waits.items())
            self.claim(f"killed in the middle of a step, it went on: {said}", all(soon(kill.went_on_s) for kill in story.kills if kill.key))
        if any(not kill.key for kill in story.kills) and story.taken_up_s is not None:
            self.claim(f"killed while it waited, it took up the decision after {story.taken_up_s:.2f} s", soon(story.taken_up_s))
        self.claim("what was done, and what came of it, is what it is without a kill", same(story, lines, calm))


def soon(wait_s: float | None) -> bool:
    """Whether it was short enough."""
    return wait_s is not None and wait_s < GOES_ON_S_MAX


def same(story: Story, lines: Sequence[dict[str, Any]], calm: Shop) -> bool:
    """Whether the same order with the same decision comes to the same elsewhere; reminders depend on how long the decision took."""
    handle = ordered(calm, story.handle.id)
    handle.send("decision", {"approved": story.decision})
    result = handle.result(timeout=STORY_S_MAX)
    return result == story.handle.result() and done_of(calm.lines(), handle) == done_of(lines, handle)


def done_of(lines: Sequence[dict[str, Any]], handle: Handle[str]) -> list[tuple[str, str]]:
    """What an order has had done, in order, with what came of it; reminders left out."""
    done = [line for line in lines if line["event"] == "done" and line["what"] != "remind"]
    return [(line["key"], line["answer"]) for line in done if line["key"].startswith(f"{handle.key}:")]


def ordered(shop: Shop, id: str) -> Handle[str]:
    """Start an order of 42.00."""
    return shop.client.start(shop.client.workflow("order").with_(id=id), id, 4200)
