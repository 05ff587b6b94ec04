"""All events that were ever written to a store, also those that a compacted log has forgotten.

Every message twice: once it was dealt with, it comes again.

Running a definition on a real engine, in a world of virtual time, and telling what came of it as plain facts.

Every write: a definition runs undisturbed, and then again and again in worlds of its own, the process killed at another of its durable writes each time.

What is due at a crash goes on at the same moment in another process, so the same is predicted of each.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from random import Random
from typing import Any, NamedTuple

from perdure.code.approval_requests import ApprovalRequest
from perdure.code.results import Vote
from perdure.code.step_environment import StepInfo
from perdure.core import events as e
from perdure.core import log_format, values
from perdure.core.envelopes import Ack, OutgoingMessage
from perdure.core.execution import Execution
from perdure.core.operations import APPROVAL_WORKFLOW, SpawnOperation
from perdure.core.paths import Address, Key
from perdure.core.replay import fold_events
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import ChangeAnswer, Commit, Committed, Post
from perdure.testing.crash_points import CrashPoint, around_writes
from perdure.testing.runs import Run
from perdure.testing.verdicts import Verdict
from perdure.testing.world import World
from tests.proof.definitions.comparison import differs
from tests.proof.definitions.facts import Decision, Facts, Json, OutsideEvents
from tests.proof.definitions.generator import GeneratedCase, random_case
from tests.proof.definitions.log_facts import LogFacts
from tests.proof.definitions.plans import steady, unbounded
from tests.proof.definitions.tools import Work


class EventRecorder:
    """Stands between a store and all who use it, and keeps what is written: the `events` of each execution."""

    def __init__(self, store: MemoryStore) -> None:
        self.events: dict[Key, list[e.Event]] = {}
        self._commit = store.commit
        store.commit = self.commit  # type: ignore[method-assign]  # it stands between

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`."""
        answers = await self._commit(changes)
        for change, answer in zip(changes, answers, strict=True):
            if isinstance(change, Commit) and isinstance(answer, Committed) and change.row:
                self.events.setdefault(change.key, []).extend(log_format.decode_row(change.row))
        return answers


Letter = tuple[Address, str]


class Twice:
    """Stands between a store and all who use it: what was sent is sent again, once, when it was read. `again` counts what came so."""

    def __init__(self, store: MemoryStore) -> None:
        self._commit = store.commit
        self._sent: dict[Letter, OutgoingMessage] = {}
        self._sent_again: set[Letter] = set()
        store.commit = self.commit  # type: ignore[method-assign]  # it stands between

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`."""
        answers = await self._commit(changes)
        kept = [change for change, answer in zip(changes, answers, strict=True) if isinstance(answer, Committed)]
        for sent in (sent for change in kept for sent in change.messages):
            self._sent.setdefault((sent.to, sent.key), sent)
        again = [send for change in kept for ack in change.acks if (send := self._to_repeat(ack)) is not None]
        if again:
            await self._commit([Post(messages=tuple(again))])
        return answers

    @property
    def again(self) -> int:
        """How many have come twice."""
        return len(self._sent_again)

    def _to_repeat(self, ack: Ack) -> OutgoingMessage | None:
        """What was read, if it has not come twice by now."""
        letter = (ack.to, ack.key)
        if letter in self._sent_again or letter not in self._sent:
            return None
        self._sent_again.add(letter)
        return self._sent[letter]


ENDED = ("completed", "failed", "cancelled")
Action = tuple[float, int, Callable[[], None]]


class DoesNotEnd(Exception):
    """An execution waits for what never comes."""


class WorldRunner:
    """Runs definitions, each in a world of its own. With `always_suspend`, an execution leaves memory at each of its waits; with a `seed`, what is ready at one
    moment runs in an order drawn from it. The process is killed at `crash`; with `twice`, every message is delivered twice.

    Of the last run, `writes` are the numbers of the durable writes, `reached` says whether the process was killed, and `again` how much came twice.
    """

    def __init__(self, *, always_suspend: bool = False, seed: int | None = None, crash: CrashPoint | None = None, twice: bool = False) -> None:
        self.always_suspend, self.seed, self.crash, self.twice = always_suspend, seed, crash, twice
        self.writes: Sequence[int] = ()
        self.reached = False
        self.again = 0

    def run(self, definition: dict[str, Json], script: OutsideEvents) -> Facts:
        """Run `definition` to its end in the world of `script`; then its log is replayed, and gives the same.

        Raises:
            DoesNotEnd: it has no end.
        """
        with World(always_suspend=self.always_suspend, seed=self.seed, crash=self.crash) as world:
            kept = EventRecorder(world.machine.store)
            postman = Twice(world.machine.store) if self.twice else None
            run = played(world, definition, script)
            self.writes = [write.number for write in world.machine.writes]
            self.reached, self.again = world.machine.crashed_at is not None, 0 if postman is None else postman.again
            return LogFacts(run.key, definition, kept.events[run.key], world.machine.payload).facts()


def played(world: World, definition: dict[str, Json], script: OutsideEvents) -> Run[Any]:
    """Run `definition` in `world` to its end, with all that happens in `script`.

    Raises:
        DoesNotEnd: it has no end.
    """
    from perdure.definition_workflow import Definition

    work = Work(lambda info: _failures(world, info))
    run = world.start(Definition.of(definition, tools=work.tools()), **script.input)
    _Stage(world, run, script).play()
    return run


def _failures(world: World, info: StepInfo) -> int:
    found = world.machine.read(info.execution)
    pending = None if found is None else fold_events(info.execution, log_format.decode_rows(found.payloads)).open.get(info.path)
    return info.attempt - 1 if pending is None else pending.failures


class _Stage:
    """Lets time pass, and has happen what the script says, when it says so."""

    def __init__(self, world: World, run: Run[Any], script: OutsideEvents) -> None:
        self._world, self._run, self._script = world, run, script
        self._numbers = count()
        self._coming: list[Action] = []
        self._asked: set[str] = set()
        for message in script.messages:
            self._soon(world.start_s + message.at_s, partial(run.send, message.name, message.body))

    def play(self) -> None:
        """Up to the end."""
        self._world.settle()
        while self._run.status not in ENDED:
            self._look()
            due = [at_s for at_s in (self._world.machine.next_s(), self._coming[0][0] if self._coming else None) if at_s is not None]
            if not due:
                raise DoesNotEnd(f"{self._run.key}: {self._run.why}")
            self._world._let(f"what comes of {self._run.key}", min(due))
            while self._coming and self._coming[0][0] <= min(due):
                heapq.heappop(self._coming)[2]()
                self._world.settle()

    def _soon(self, at_s: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._coming, (at_s, next(self._numbers), do))

    def _look(self) -> None:
        """Have somebody decide, in time, about each approval that is new."""
        for pending in folded(self._world, self._run).open.values():
            op = pending.op
            if isinstance(op, SpawnOperation) and op.workflow == APPROVAL_WORKFLOW and op.id not in self._asked:
                self._asked.add(op.id)
                (request,), _ = values.decode(self._world.machine.payload(op.input), tuple[tuple[ApprovalRequest], dict[str, Any]], "what is asked")
                if decision := self._script.decisions.get(request.title):
                    child = self._world.run_of(self._run.key._replace(workflow=op.workflow, id=op.id))
                    self._soon(pending.opened_at_s + decision.after_s, partial(_decide, child, decision))


def _decide(approval: Run[Any], decision: Decision) -> None:
    if approval.status not in ENDED:
        approval.send("vote", Vote(decision.by, decision.approved, decision.comment, decision.form))


def folded(world: World, run: Run[Any]) -> Execution:
    """An execution, as its log says."""
    return fold_events(run.key, events(world, run))


def events(world: World, run: Run[Any]) -> Sequence[e.Event]:
    """The log of an execution."""
    found = world.machine.read(run.key)
    return () if found is None else log_format.decode_rows(found.payloads)


LATE_S = 0.02
"""How much it may change the time of anything that somebody took over."""


class Crashed(NamedTuple):
    """How many writes there were undisturbed, in how many worlds a process was killed at one, and the `problems`."""

    writes: int
    worlds: int
    problems: tuple[str, ...]


def steady_case(seed: int, size: int, late_s: float = LATE_S, order: str = "") -> GeneratedCase:
    """The first case of this seed of which the same is predicted if all takes up to `late_s` longer."""
    random = Random(f"{seed}: steady")
    while True:
        case = random_case(random, size, order)
        if random.random() < 0.5:
            case = unbounded(case) or case
        if steady(case.definition, case.script, case.prediction, random, late_s):
            return case


def crashed_everywhere(case: GeneratedCase, *, always_suspend: bool = False, twice: bool = False) -> Crashed:
    """Run it undisturbed, then once for each of its writes, killed before it, and once killed after it."""
    undisturbed = WorldRunner(always_suspend=always_suspend, twice=twice)
    problems = list(_problems(case, undisturbed, "undisturbed"))
    if problems:
        return Crashed(0, 0, tuple(problems))
    worlds = 0
    for crash in around_writes(undisturbed.writes):
        runner = WorldRunner(always_suspend=always_suspend, twice=twice, crash=crash)
        problems += _problems(case, runner, f"killed {crash}")
        worlds += 1
        if not runner.reached:
            problems.append(f"killed {crash}: that was not reached, of {len(undisturbed.writes)} writes")
    return Crashed(len(undisturbed.writes), worlds, tuple(problems))


def _problems(case: GeneratedCase, runner: WorldRunner, how: str) -> Iterator[str]:
    try:
        facts = runner.run(case.definition, case.script)
    except (DoesNotEnd, Verdict) as error:
        yield f"{how}: {error}"
        return
    yield from (f"{how}: {difference}" for difference in differs(case.prediction, facts))
