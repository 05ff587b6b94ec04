"""Running a definition on a real engine, in a world of virtual time, and telling what came of it as plain facts."""

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

from perdure.core import events as e
from perdure.core import log, values
from perdure.core.execution import Execution
from perdure.core.folding import fold
from perdure.core.ops import APPROVAL, Spawn
from perdure.programs.code.approval import Request
from perdure.programs.code.info import StepInfo
from perdure.programs.code.results import Vote
from perdure.testing.definitions.facts import Decision, Facts, Json, Script
from perdure.testing.definitions.keeping import Kept
from perdure.testing.definitions.told import Told
from perdure.testing.definitions.twice import Twice
from perdure.testing.definitions.work import Work
from perdure.testing.moments import Crash
from perdure.testing.runs import Run
from perdure.testing.world import World

ENDED = ("completed", "failed", "cancelled")
Action = tuple[float, int, Callable[[], None]]


class DoesNotEnd(Exception):
    """An execution waits for what never comes."""


class WorldRunner:
    """Runs definitions, each in a world of its own. With `always_suspend`, an execution leaves memory at each of its waits; with a `seed`, what is ready at one
    moment runs in an order drawn from it. The process is killed at `crash`; with `twice`, every message is delivered twice.

    Of the last run, `writes` are the numbers of the durable writes, `reached` says whether the process was killed, and `again` how much came twice.
    """

    def __init__(self, *, always_suspend: bool = False, seed: int | None = None, crash: Crash | None = None, twice: bool = False) -> None:
        self.always_suspend, self.seed, self.crash, self.twice = always_suspend, seed, crash, twice
        self.writes: Sequence[int] = ()
        self.reached = False
        self.again = 0

    def run(self, definition: dict[str, Json], script: Script) -> Facts:
        """Run `definition` to its end in the world of `script`; then its log is replayed, and gives the same.

        Raises:
            DoesNotEnd: it has no end.
        """
        with World(always_suspend=self.always_suspend, seed=self.seed, crash=self.crash) as world:
            kept = Kept(world.machine.store)
            postman = Twice(world.machine.store) if self.twice else None
            run = played(world, definition, script)
            self.writes = [write.number for write in world.machine.writes]
            self.reached, self.again = world.machine.crashed_at is not None, 0 if postman is None else postman.again
            return Told(run.key, definition, kept.events[run.key], world.machine.payload).facts()


def played(world: World, definition: dict[str, Json], script: Script) -> Run[Any]:
    """Run `definition` in `world` to its end, with all that happens in `script`.

    Raises:
        DoesNotEnd: it has no end.
    """
    from perdure.definition import Definition

    work = Work(lambda info: _failures(world, info))
    run = world.start(Definition.of(definition, tools=work.tools()), **script.input)
    _Stage(world, run, script).play()
    return run


def _failures(world: World, info: StepInfo) -> int:
    found = world.machine.read(info.execution)
    promise = None if found is None else fold(info.execution, log.decode_all(found.rows)).open.get(info.path)
    return info.attempt - 1 if promise is None else promise.failures


class _Stage:
    """Lets time pass, and has happen what the script says, when it says so."""

    def __init__(self, world: World, run: Run[Any], script: Script) -> None:
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
        for promise in folded(self._world, self._run).open.values():
            op = promise.op
            if isinstance(op, Spawn) and op.workflow == APPROVAL and op.id not in self._asked:
                self._asked.add(op.id)
                (request,), _ = values.decode(self._world.machine.payload(op.input), tuple[tuple[Request], dict[str, Any]], "what is asked")
                if decision := self._script.decisions.get(request.title):
                    child = self._world.run_of(self._run.key._replace(workflow=op.workflow, id=op.id))
                    self._soon(promise.opened_at_s + decision.after_s, partial(_decide, child, decision))


def _decide(approval: Run[Any], decision: Decision) -> None:
    if approval.status not in ENDED:
        approval.send("vote", Vote(decision.by, decision.approved, decision.comment, decision.form))


def folded(world: World, run: Run[Any]) -> Execution:
    """An execution, as its log says."""
    return fold(run.key, events(world, run))


def events(world: World, run: Run[Any]) -> Sequence[e.Event]:
    """The log of an execution."""
    found = world.machine.read(run.key)
    return () if found is None else log.decode_all(found.rows)
