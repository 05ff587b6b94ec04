"""What must hold of every scenario, whatever was killed: the ledger of the steps against the logs of the executions."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Any

from perdure.core import events as e
from perdure.core.operations import CallOperation, Success
from perdure.core.paths import UNDO, Key, idempotency_key
from perdure.core.paths import Path as Place
from perdure.core.replay import fold_events
from tests.runtime.kill.scenario import Scenario
from tests.runtime.kill_storm import nothing_is_left
from tests.runtime.processes import History, ProcessDirectory, RecordedEffect


def open_heads(file: Path) -> int:
    """How many executions have not ended."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30.0)) as database:
        (count,) = database.execute("SELECT count(*) FROM heads WHERE ended_at_s IS NULL").fetchone()
    return int(count)


class SuccessMonitor:
    """Looks now and then at what is remembered: what had succeeded by then, and is not undone, must not begin afterwards."""

    def __init__(self, stage: ProcessDirectory, scenario: Scenario) -> None:
        self._stage = stage
        self._scenario = scenario
        self._histories = dict[Key, History]()
        self._done_before = dict[str, float]()

    def look(self) -> dict[Key, History]:
        """See what has succeeded by now."""
        found = self._stage.histories(self._histories)
        for key, history in self._histories.items():
            assert key in found and found[key].head.version >= history.head.version, f"forgotten: {key} was at {history.head}, and is at {found.get(key)}"
        self._histories = found
        lines = (self._stage.directory / "effects").read_bytes().count(b"\n") if (self._stage.directory / "effects").exists() else 0
        for history in found.values():
            for key_of_step in succeeded(history) - undone(history):
                self._done_before.setdefault(key_of_step, lines)
        return found

    def testify(self, effects: Sequence[RecordedEffect]) -> dict[Key, History]:
        """Hold all that was done to all that is remembered; return what is remembered."""
        histories = self.look()
        assert effects, "nothing was done"
        undone_at_last = set[str]().union(*(undone(history) for history in histories.values()))
        for number, effect in enumerate(effects):
            if effect.event == "began" and effect.key not in undone_at_last:
                assert number < self._done_before.get(effect.key, inf), f"it had succeeded before, and ran again: {effect}"
        for history in histories.values():
            is_sound(history)
        is_done(effects, histories, self._scenario.given)
        is_announced(effects, histories)
        nothing_is_left(self._stage)
        return histories


def calls(history: History) -> dict[Place, str]:
    """The keys of the steps of an execution."""
    return {
        event.path: idempotency_key(history.head.key, event.path)
        for event in history.events
        if isinstance(event, e.OpenedEvent) and isinstance(event.op, CallOperation)
    }


def succeeded(history: History) -> set[str]:
    """The keys of the steps that have succeeded."""
    known = calls(history)
    return {known[event.path] for event in history.events if isinstance(event, e.SettledEvent) and event.path in known and isinstance(event.outcome, Success)}


def undone(history: History) -> set[str]:
    """The keys of the steps that were undone, and of what undid them: a further life of the execution does both again. So it does all, if it was
    retried from a step on."""
    known = calls(history)
    if any(isinstance(event, e.ReopenedEvent) and event.before for event in history.events):
        return set(known.values())
    undoing = [path for path in known if path[0] == UNDO]
    return {known[path] for path in undoing} | {known[path[1:]] for path in undoing if path[1:] in known}


def is_sound(history: History) -> None:
    """In each of its lives nothing settled twice, and nothing was tried that had settled; time never went back; it stands as its head says."""
    head, events = history
    over, ended = set[Any](), 0
    for event in events:
        match event:
            case e.ReopenedEvent() | e.UndoingEvent():
                over = {path for path in over if isinstance(event, e.UndoingEvent)}
                ended = 0
            case e.SettledEvent(path) | e.ReceivedEvent(path) | e.RecalledEvent(path):
                assert path not in over, f"{head.key}: {path} settled twice"
                over.add(path)
            case e.DroppedEvent(path):
                over.discard(path)
            case e.AttemptStartedEvent(path) | e.RetryingEvent(path) | e.InterruptedEvent(path):
                assert path not in over, f"{head.key}: {event} after it had settled"
            case e.EndedEvent(status):
                ended += 1
                assert ended == 1 or (ended == 2 and status == "cancelled"), f"{head.key} ended twice"
    assert not events or ended, f"{head.key} has not ended: {head.status}"
    times_s = [at_s for event in events if (at_s := getattr(event, "at_s", None)) is not None and not isinstance(event, e.IterationResumedEvent)]
    assert times_s == sorted(times_s), f"{head.key} went back in time"
    folded = fold_events(head.key, events, head.root)
    assert (folded.status, folded.version) == (head.status, head.version)


def is_done(effects: Sequence[RecordedEffect], histories: Mapping[Key, History], is_given: Callable[[str], bool]) -> None:
    """What is remembered as done was done at least once; what was done is known."""
    done = {effect.key for effect in effects if effect.event == "ended"}
    remembered = set[str]().union(*(succeeded(history) for history in histories.values()))
    invented = {key for key in remembered - done if not is_given(key)}
    assert not invented, f"settled, and never done: {sorted(invented)[:10]}"
    compacted = tuple(f"{key}:" for key, history in histories.items() if any(isinstance(event, e.SnapshotEvent) for event in history.events))
    known = set[str]().union(*(calls(history).values() for history in histories.values()))
    strange = {effect.key for effect in effects if effect.event == "began"} - known
    strange = {key for key in strange if not key.startswith(compacted)} if compacted else strange
    assert not strange, f"done, and in no log: {sorted(strange)[:10]}"


def is_announced(effects: Sequence[RecordedEffect], histories: Mapping[Key, History]) -> None:
    """What began was to begin, as the log says, and began at most as often; only what waits on a queue may be handed out twice."""
    announced, loose = Counter[tuple[str, int]](), set[str]()
    for history in histories.values():
        known = calls(history)
        if any(isinstance(event, e.SnapshotEvent) for event in history.events):
            loose |= set(known.values())
        for event in history.events:
            match event:
                case e.OpenedEvent(path, CallOperation(queue=queue)):
                    announced[known[path], 1] += 1
                    loose |= {known[path]} if queue else set()
                case e.AttemptStartedEvent(path, attempt):
                    announced[known[path], attempt] += 1
    known_keys = {key for key, _ in announced}
    for (key, attempt), times in Counter((effect.key, effect.attempt) for effect in effects if effect.event == "began").items():
        assert key in loose or key not in known_keys or times <= announced[key, attempt], f"try {attempt} of {key} began {times} times"
