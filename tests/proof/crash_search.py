"""Crashes: a world is played again and again, its process killed at another write each time, and must come to the end it comes to undisturbed.

    report = crash_at_every_write(Play([order], script), MemoryDisk)
    assert not report.problems, report

Each world is audited as it goes: a step settles once and never runs again after that; what was in flight at a crash runs again, with
the same key, and nothing else does. At the end of each the results are those of the undisturbed world, each message has come once,
the logs replay to the same state, and no mail is left.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from perdure.code.context import new_code_program
from perdure.core import events as e
from perdure.core import log_format
from perdure.core.execution import Execution
from perdure.core.operations import Failure, Success
from perdure.core.paths import Key, idempotency_key
from perdure.core.replay import fold_events, replay_program
from perdure.core.values import Blob, Value
from perdure.testing.crash_points import CrashPoint, around_writes, evenly_spread
from perdure.testing.replay_check import run_generator
from tests.proof.auditor import CallKey
from tests.proof.disks import Disk
from tests.proof.killed_processes import Play, PlayWorld, ProcessWrite, ScriptStage, played

__all__ = ["CrashPoint", "CrashSearchReport", "Play", "ScriptStage", "crash_at_every_write", "crashed"]

Plan = tuple[CrashPoint, ...]
"""At which of its writes each process dies, the first one first; the one behind the last is spared."""

PROBLEMS_MAX = 10
SLACK_S = 3600.0
"""How much longer than undisturbed a world may take for each crash."""


class Ending(NamedTuple):
    """How an execution stands at the end: its status, and its result as it is shown, or its error."""

    status: str
    outcome: Any


class Ended(NamedTuple):
    """What came of a world, as far as it must be the same in each: how executions ended, and which messages came and were left."""

    endings: dict[Key, Ending]
    arrived: dict[Key, set[tuple[Key | None, int, str]]]
    unread: dict[Key, Counter[tuple[str, str]]]


class CrashSearchReport(msgspec.Struct, frozen=True):
    """What came of all worlds: how many there were, with how many crashes, and the `problems`, each with the plan of its world.

    `moments` counts those at which the undisturbed process might have died; `repeated` are the keys of the steps that were in flight at
    some crash, and ran again: those that must bear it.
    """

    moments: int
    worlds: int
    crashes: int
    problems: tuple[str, ...]
    repeated: frozenset[str]


def crash_at_every_write(
    play: Play,
    disk: Callable[[], Disk],
    *,
    once_max: int | None = None,
    again_writes: int | None = None,
    again_max: int | None = None,
) -> CrashSearchReport:
    """Play it undisturbed; then kill the process at each write; then at each write, and the next at each of the first `again_writes` of its own.

    Of the worlds with one crash at most `once_max` are played, of those with two `again_max`, evenly spread; None is all. Each has a
    disk of its own. Undisturbed, all executions must come to an end, the script must, and nothing may be wrong, or nobody is killed.
    """
    undisturbed = _Checked(play, (), disk())
    report = _Reporting(undisturbed)
    if undisturbed.problems:
        return report.made
    moments = evenly_spread(_moments(undisturbed.world.lives[0]), once_max)
    pairs: list[Plan] = []
    for crash in moments:
        once = report.add(_Checked(play, (crash,), disk(), undisturbed))
        if len(once.world.lives) > 1 and again_max != 0:
            pairs += [(crash, again) for again in _moments(once.world.lives[1][:again_writes])]
    for plan in evenly_spread(pairs, again_max):
        report.add(_Checked(play, plan, disk(), undisturbed))
    return report.made


def crashed(play: Play, disk: Callable[[], Disk], *plan: CrashPoint) -> list[str]:
    """The problems of one world, whose processes die as planned: to see again what was reported."""
    undisturbed = _Checked(play, (), disk())
    return _Checked(play, plan, disk(), undisturbed).problems


def _moments(writes: Sequence[ProcessWrite]) -> list[CrashPoint]:
    """Before and after each write; of renewals in a row, which do the same, only at the first."""
    behind = [None, *(write.call for write in writes)]
    single = [write for write, before in zip(writes, behind, strict=False) if (write.call, before) != ("renew", "renew")]
    return around_writes([write.number for write in single])


class _Reporting:
    """A report in the making."""

    def __init__(self, undisturbed: "_Checked") -> None:
        self._undisturbed = undisturbed
        self._worlds = self._crashes = 0
        self._problems = list(undisturbed.problems)
        self._repeated: set[str] = set()

    def add(self, checked: "_Checked") -> "_Checked":
        """Take note of one more world."""
        self._worlds += 1
        self._crashes += len(checked.plan)
        times = self._undisturbed.world.performed
        self._repeated |= {idempotency_key(*call) for call, found in checked.world.performed.items() if found > times[call]}
        if len(self._problems) < PROBLEMS_MAX:
            self._problems += [f"killed {', then '.join(map(str, checked.plan))}: {problem}" for problem in checked.problems]
        return checked

    @property
    def made(self) -> CrashSearchReport:
        moments = len(_moments(self._undisturbed.world.lives[0]))
        return CrashSearchReport(moments, self._worlds, self._crashes, tuple(self._problems), frozenset(self._repeated))


class _Checked:
    """A world that was played, checked, and compared with the undisturbed one."""

    def __init__(self, play: Play, plan: Plan, disk: Disk, undisturbed: "_Checked | None" = None) -> None:
        self.play = play
        self.plan = plan
        limits = () if undisturbed is None else (2 * undisturbed.duration_s + SLACK_S * (1 + len(plan)),)
        self.world: PlayWorld = played(play, plan, disk, *limits)
        self.duration_s: float = self.world.loop.now_s - self.world.began_s
        self._auditor = self.world.auditor
        try:
            self.ended = Ended({}, {}, {}) if self.problems else self._look()
            if undisturbed is not None and not self.problems:
                self._compare(undisturbed)
        finally:
            disk.close()

    @property
    def problems(self) -> list[str]:
        """What should not be."""
        return self._auditor.problems

    # at the end of any world

    def _look(self) -> Ended:
        store = self.world.store
        self._auditor.expect(not store.left, lambda: f"this mail is left: {store.left}")
        for key in store.keys:
            self._replay(key, log_format.decode_rows(store.rows(key)))
        known = self._auditor.known
        return Ended(
            {key: self._ending(known[key].shadow) for key in store.keys},
            {key: known[key].arrived for key in store.keys},
            {key: Counter((letter.name, letter.key) for letter in known[key].shadow.mailbox.messages.values()) for key in store.keys},
        )

    def _ending(self, execution: Execution) -> Ending:
        match None if execution.ended is None else execution.ended.outcome:
            case Success(value):
                return Ending(execution.status, self.play.shown(msgspec.msgpack.decode(self._payload(value))))
            case Failure(kind, _, error):
                return Ending(execution.status, (kind, error.type, error.message))
        return Ending(execution.status, None)

    def _replay(self, key: Key, events: Sequence[e.Event]) -> None:
        """The log says what was written, and its program replays up to what made it end."""
        shadow = self._auditor.known[key].shadow
        self._auditor.same("the log", fold_events(key, events, shadow.root), shadow)
        last = max(index for index, event in enumerate(events) if type(event) not in {*e.COMMAND_EVENTS, e.SnapshotEvent})
        execution, instance = Execution(key, shadow.root), new_code_program(next(one.code for one in self.play.workflows if one.code.name == key.workflow), key)
        diverged = run_generator(replay_program(execution, events[:last], instance), self._payload)
        instance.close()
        self._auditor.expect(diverged is None, lambda: f"{key}: replayed, it differs: {diverged}")
        self._auditor.same("the replay", execution, fold_events(key, events[:last], shadow.root))

    def _payload(self, value: Value) -> bytes:
        return (self.world.store.payload(value.sha256) or b"") if isinstance(value, Blob) else value

    # against the undisturbed

    def _compare(self, undisturbed: "_Checked") -> None:
        expect, world, auditor = self._auditor.expect, self.world, self._auditor
        for found, expected in zip(self.ended, undisturbed.ended, strict=True):
            expect(found == expected, lambda: f"{found}, undisturbed {expected}")  # noqa: B023  # called at once
        for call, times in undisturbed.world.performed.items():
            most = times + world.in_flight[call]
            expect(world.performed[call] <= most, lambda: f"{_named(call)} ran {world.performed[call]} times, at most {most} were due")  # noqa: B023  # called at once
        for call, times in auditor.interruptions.items():
            expect(times <= world.in_flight[call], lambda: f"{_named(call)} was interrupted, and was not in flight at a crash")  # noqa: B023  # called at once
        for key, path in world.owed:
            settled = auditor.known[key].settled
            expect(all(path != other for _, other in settled), lambda: f"{_named((key, path))} was in flight at a crash, and has settled without running again")  # noqa: B023  # called at once


def _named(call: CallKey) -> str:
    return idempotency_key(*call)
