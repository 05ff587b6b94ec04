"""A storm: engines and a client on one file that are killed all the time, and what must hold of whatever they have done.

A witness looks meanwhile at what is remembered: what had settled before it looked must not begin to run afterwards.
"""

import json
import random
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from perdure.core import events as e
from perdure.core.errors import StoreUnavailable
from perdure.core.operations import CallOperation
from perdure.core.paths import Key
from perdure.core.replay import fold_events
from perdure.stores.sqlite.database_setup import check_database
from tests.runtime.cluster_member import RESULTS
from tests.runtime.flows import PRESS
from tests.runtime.processes import History, ProcessDirectory, RealProcess, RecordedEffect, until

ENGINES = 3
AGAIN, AGAIN_WITHIN_S = 0.33, 0.3
"""How often an engine is killed once more while it starts, and how soon."""

AIMED, AIM_S = 0.3, 0.2
"""How often a kill waits for the engine to be in the middle of a step, and how long at most."""

CLIENT = 0.15
"""How often it is the client that is killed."""

MESSAGES_TAKE_S = 20.0
"""How long the client would take to send a message to each execution, at a pace of 1; one in seven gets one."""

LOOK_EVERY_S = 1.5
END_S = 120.0
"""How long everything may take to end on a slow machine, once nobody is killed any more: so long, or for more than a thousand executions longer."""


class Outcome(NamedTuple):
    """What came of it all: the results, how each execution ended, and the keys of the steps that were done."""

    results: list[Any]
    statuses: dict[Key, str]
    done: set[str]


class Kills(NamedTuple):
    """How often what was killed: engines, those of them that were starting, and clients; and how often a step ran again."""

    engines: int
    starting: int
    clients: int
    interrupted: int

    def __str__(self) -> str:
        return f"{self.engines} engines killed, {self.starting} of them while they started, and {self.clients} clients; {self.interrupted} tries interrupted"


class Storm:
    """A cluster that runs so many executions on a stage."""

    kill_every_s = 0.2, 0.6

    def __init__(self, stage: ProcessDirectory, executions: int, pace: float = 1.0) -> None:
        self.stage = stage
        self._executions = executions
        self._pace = pace
        self._client = self._new_client()
        self._engines = [self._new_engine(place) for place in range(ENGINES)]
        self._witness = HistoryMonitor(stage)
        self._killed = Counter[str]()

    def rage(self, draw: random.Random, for_s: float) -> None:
        """Kill at drawn moments, until all is done or the time is over."""
        ends_s = time.monotonic() + for_s
        look_s = 0.0
        while time.monotonic() < ends_s and not self._is_done():
            time.sleep(draw.uniform(*self.kill_every_s))
            if draw.random() < CLIENT:
                self._kill_client()
            else:
                self._kill_engine(draw)
            if time.monotonic() > look_s:
                _ = self._witness.look()
                look_s = time.monotonic() + LOOK_EVERY_S

    def subside(self) -> tuple[Outcome, Kills]:
        """Let everything end; hold it to what must be, and return what came of it."""
        if not self._client.lives and not self._is_done():
            assert self._client.process.returncode < 0, self._client.complained
            self._client = self._new_client()
        until(self._is_done, f"everything has ended; the client says {self._client.complained}", END_S * max(1.0, self._executions / 1000))
        until(lambda: all(history.head.ended_at_s is not None for history in self._witness.look().values()), "detached children have ended")
        for engine in self._engines:
            engine.until_said("ready")  # before that, a signal would kill it
            engine.end()
        histories = self._witness.testify()
        self._nothing_is_left()
        interrupted = sum(isinstance(event, e.InterruptedEvent) for history in histories.values() for event in history.events)
        done = {effect.key for effect in self.stage.effects() if effect.event == "ended"}
        statuses = {key: history.head.status for key, history in histories.items()}
        kills = Kills(self._killed["engine"], self._killed["starting"], self._killed["client"], interrupted)
        return Outcome(json.loads((self.stage.directory / RESULTS).read_text()), statuses, done), kills

    def _nothing_is_left(self) -> None:
        """Nobody holds anything any more, nothing waits, and what is kept is whole."""
        nothing_is_left(self.stage)

    def _is_done(self) -> bool:
        return (self.stage.directory / RESULTS).exists()

    def _new_engine(self, place: int) -> RealProcess:
        return self.stage.member("engine", queues=[PRESS] if place == 0 else [], pace=self._pace)

    def _new_client(self) -> RealProcess:
        return self.stage.member("client", executions=self._executions, every_s=self._pace * MESSAGES_TAKE_S / self._executions)

    def _kill_client(self) -> None:
        self._killed["client"] += self._client.lives
        self._client.send(signal.SIGKILL)
        if not self._is_done():
            self._client = self._new_client()

    def _kill_engine(self, draw: random.Random) -> None:
        place = draw.randrange(ENGINES)
        while True:
            engine = self._engines[place]
            assert engine.lives, f"an engine ended by itself, with {engine.process.returncode}: {engine.complained}"
            if draw.random() < AIMED:
                self._wait_for_a_step(engine)
            engine.send(signal.SIGKILL)
            self._killed["engine"] += 1
            self._engines[place] = self._new_engine(place)
            if draw.random() > AGAIN:
                return
            time.sleep(draw.uniform(0, AGAIN_WITHIN_S))
            self._killed["starting"] += 1

    def _wait_for_a_step(self, engine: RealProcess) -> None:
        """Wait a little for the engine to be in the middle of a step."""
        ends_s = time.monotonic() + AIM_S
        while time.monotonic() < ends_s:
            done = Counter(effect.event for effect in self.stage.effects() if effect.process == engine.pid)
            if done["began"] > done["ended"]:
                return
            time.sleep(0.002)


class HistoryMonitor:
    """Looks now and then at what is remembered, and says in the end whether everything was as it must be."""

    def __init__(self, stage: ProcessDirectory) -> None:
        self._stage = stage
        self._histories = dict[Key, History]()
        self._settled_before = dict[str, int]()

    def look(self) -> dict[Key, History]:
        """See what has settled by now: no effect that comes after this may be one of its."""
        if not self._stage.is_begun:
            return {}
        try:
            found = self._stage.histories(self._histories)
        except StoreUnavailable:
            return self._histories
        for key, history in self._histories.items():
            assert key in found and found[key].head.version >= history.head.version, f"forgotten: {key} was at {history.head}, and is at {found.get(key)}"
        self._histories = found
        now_bytes = self._stage.effects_bytes()
        for history in found.values():
            for call in settled(history).elements():
                self._settled_before.setdefault(call, now_bytes)
        return found

    def ran_again(self) -> list[RecordedEffect]:
        """The tries that began after their step had settled."""
        found, seen_bytes = [], 0
        for effect, size_bytes in zip(self._stage.effects(), self._stage.effect_sizes(), strict=True):
            if effect.event == "began" and seen_bytes >= self._settled_before.get(effect.key, inf):
                found.append(effect)
            seen_bytes += size_bytes
        return found

    def testify(self) -> dict[Key, History]:
        """Hold all that was done to all that is remembered; return what is remembered."""
        _ = self.look()
        effects = self._stage.effects()
        assert effects, "nothing was done"
        assert self.ran_again() == [], "settled before, and ran again"
        for history in self._histories.values():
            is_sound(history)
        every_try_was_announced(effects, self._histories)
        return self._histories


def settled(history: History) -> Counter[str]:
    """The keys of the steps that have settled, and how often."""
    calls = history.calls()
    return Counter(calls[event.path] for event in history.events if isinstance(event, e.SettledEvent) and event.path in calls)


def is_sound(history: History) -> None:
    """It ended well, nothing in it happened twice, nothing was tried that had settled, time never went back, and it stands as its head says."""
    head, events = history
    assert head.status == "completed", f"{head.key} is {head.status}: {events[-4:]}"
    assert set(settled(history).values()) <= {1}, f"{head.key} settled more than once: {settled(history)}"
    over = set[Any]()
    for event in events:
        match event:
            case e.SettledEvent(path):
                over.add(path)
            case e.AttemptStartedEvent(path) | e.RetryingEvent(path) | e.InterruptedEvent(path):
                assert path not in over, f"{head.key}: {event} after it had settled"
    times_s = [at_s for event in events if (at_s := getattr(event, "at_s", None)) is not None and not isinstance(event, e.IterationResumedEvent)]
    assert times_s == sorted(times_s), f"{head.key} went back in time"
    folded = fold_events(head.key, events, head.root)
    assert (folded.status, folded.version) == (head.status, head.version)


def every_try_was_announced(effects: list[RecordedEffect], histories: dict[Key, History]) -> None:
    """What began was to begin, as the log says, and began once for each time that it says so; only what waits on a queue may be handed out twice."""
    announced, queued, whole = set[tuple[str, int]](), set[str](), set[str]()
    for history in histories.values():
        calls = history.calls()
        compacted = any(isinstance(event, e.SnapshotEvent) for event in history.events)
        whole |= set() if compacted else set(calls.values())
        for event in history.events:
            match event:
                case e.OpenedEvent(path, CallOperation(queue=queue)):
                    announced.add((calls[path], 1))
                    if queue:
                        queued.add(calls[path])
                case e.AttemptStartedEvent(path, attempt):
                    announced.add((calls[path], attempt))
    for (key, attempt), times in Counter((effect.key, effect.attempt) for effect in effects if effect.event == "began").items():
        assert times == 1 or key in queued, f"try {attempt} of {key} began {times} times"
        assert (key, attempt) in announced or key not in whole, f"try {attempt} of {key} began, and its log does not say so"


def nothing_is_left(stage: ProcessDirectory) -> None:
    """Nobody holds anything any more, nothing waits, and the file is whole."""
    health = check_database(stage.file)
    assert (health.damage, health.processes) == ((), ())
    with closing(sqlite3.connect(f"file:{stage.file}?mode=ro", uri=True)) as database:
        for left in ("mail", "holders", "processes", "heads WHERE holder IS NOT NULL", "heads WHERE ready_at_s IS NOT NULL"):
            assert database.execute(f"SELECT * FROM {left}").fetchall() == [], left
    assert {path.name for path in Path(f"{stage.file}.processes").iterdir()} <= {"waiting"}
