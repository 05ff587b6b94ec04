"""The story of an order as it happens: each line is read from the log, from the processes, or from the file to which the steps write their requests."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any, Protocol

import click

from perdure.cli.demo.shop_processes import STORY_S_MAX, DemoShop, DemoStuck, ShopWorker
from perdure.cli.terminal import screen
from perdure.core.errors import HasEnded
from perdure.sync_client import Handle, PublicEvent

ASKS = {
    "reserve": "asks the warehouse",
    "charge": "asks the bank",
    "remind": "writes to the customer",
    "ship": "asks the carrier",
    "refund": "asks the bank",
    "release": "asks the warehouse",
}


def say(text: str = "") -> None:
    """Prints a line."""
    click.echo(text)


def painted(text: str, code: str) -> str:
    """The text in a colour, if the terminal shows colours."""
    return f"\x1b[{code}m{text}\x1b[0m" if screen().color else text


BOLD, DIM, RED, GREEN, YELLOW = "1", "2", "1;31", "32", "33"


class DemoPlayer(Protocol):
    """The source of the keys; `live` says that it is a person at a terminal."""

    live: bool

    def key(self, story: "OrderStory") -> str:
        """The key that is pressed now, or an empty text."""
        ...


@dataclass
class WorkerKill:
    """A kill of a worker: its time, the step in flight and its idempotency key, if there was one, and how soon that step continued elsewhere."""

    at_s: float
    worker: ShopWorker
    key: str
    what: str
    went_on_s: float | None = None


@dataclass
class OrderStory:
    """An order, from its start to its end."""

    shop: DemoShop
    handle: Handle[str]
    player: DemoPlayer
    began_s: float = field(default_factory=time.time)
    happened: set[str] = field(default_factory=set)
    kills: list[WorkerKill] = field(default_factory=list)
    waits: bool = False
    decision: bool | None = None
    decided_s: float = 0.0
    taken_up_s: float | None = None
    _due_s: dict[str, float] = field(default_factory=dict)
    _lines: int = 0
    _event: int = 0

    def play(self) -> bool:
        """Tells the story to its end; returns False if the player has quit before.

        Raises:
            DemoStuck: the order has not ended in time.
        """
        ends_s = time.monotonic() + STORY_S_MAX
        while True:
            status = self.handle.status()
            self._tell()
            if status.ended_at_s is not None:
                self._say(f"{painted('the end', BOLD)}   {self.handle.result()}")
                return True
            if status.status == "needs_attention":
                self._say("parked, as always after ten kills in one step; resumed")
                self.handle.resume(wait=True)
            if not self.player.live and time.monotonic() > ends_s:
                raise DemoStuck(f"order {self.handle.id} has not ended within {STORY_S_MAX:g} s: {status.why}\n{self.shop.errors()}")
            match self.player.key(self):
                case "k":
                    self._kill()
                case "a" | "r" as key if self.decision is None:
                    self.decision, self.decided_s = key == "a", time.time()
                    with suppress(HasEnded):  # the order has waited long enough
                        self.handle.send("decision", {"approved": self.decision})
                    self._say(f"the customer {'approves' if self.decision else 'rejects'}", YELLOW)
                case "q":
                    return False

    def _say(self, text: str, color: str = "", at_s: float | None = None, what: str = "") -> None:
        passed_s = max(0.0, (at_s or time.time()) - self.began_s)
        say(f"{painted(f'{passed_s:6.1f} s', DIM)}  {painted(f'{what:8}', BOLD)}  {painted(text, color) if color else text}")

    def _kill(self) -> None:
        """Kills the worker that made the last request, and starts another one."""
        alive = {worker.process.pid: worker for worker in self.shop.ready()}
        at_work = [alive[line["process"]] for line in self.shop.lines() if line["process"] in alive]
        if not alive:
            self._say("no worker is ready to be killed; one is starting", DIM)
            return
        worker = at_work[-1] if at_work else next(iter(alive.values()))
        at_s = time.time()
        worker.process.kill()
        _ = worker.process.wait()
        self._tell(until_s=at_s)  # what another worker has done since is told after the kill
        open_now = [step for step in self.handle.steps() if step.state == "performing"]
        what = open_now[0].target if open_now else ""
        self.kills.append(WorkerKill(at_s, worker, f"{self.handle.key}:{open_now[0].path}" if open_now else "", what))
        where = f"in the middle of {what}" if what else "while the order waits"
        self._say(f"kill -9 worker {worker.number}, {where}; worker {self.shop.hire().number} is started", RED, at_s)

    def _tell(self, until_s: float = math.inf) -> None:
        """Tells what has happened since the last call, of the shop only up to a time."""
        ours = (line for line in self.shop.lines() if line["key"].startswith(f"{self.handle.key}:"))
        lines = list(takewhile(lambda numbered: numbered[0] < self._lines or numbered[1]["at_s"] <= until_s, enumerate(ours)))
        events = list(self.handle.events(after=self._event))
        news: list[tuple[float, Callable[[], None]]] = [(line["at_s"], partial(self._tell_line, line)) for _, line in lines[self._lines :]]
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
                self._say("no answer: it will be attempted again", YELLOW, at_s, what)
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
                self._say(f"interrupted again: the next attempt begins in {wait_s:.1f} s", YELLOW, event.time_s)
