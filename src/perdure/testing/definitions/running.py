"""Running a definition on a real engine, in a world of virtual time, and telling what came of it as plain facts."""

import asyncio
import heapq
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

import msgspec

from perdure.core import events as e
from perdure.core import log, values
from perdure.core.errors import Fatal
from perdure.core.execution import Execution
from perdure.core.folding import fold
from perdure.core.ops import APPROVAL, Call, Err, Keep, Ok, Receive, Send, Sleep, Spawn
from perdure.core.paths import UNDO, Path
from perdure.core.promise import Settlement
from perdure.programs.code.approval import Request, Verdict
from perdure.programs.code.info import step_info
from perdure.programs.code.results import Vote
from perdure.testing.definitions.facts import Decision, Facts, Json, Place, Ran, Script, Undone
from perdure.testing.definitions.shape import Step, inside, shaped
from perdure.testing.definitions.tools import NAMES, Failure, behave
from perdure.testing.runs import Run
from perdure.testing.world import World

ENDED = ("completed", "failed", "cancelled")
STANDS_IN = ("on_error", 0)
"""What stands in a path before the steps that stand in for one that has failed."""

ERRORS: dict[str, type[Exception]] = {"ValueError": ValueError, "OSError": OSError}

Action = tuple[float, int, Callable[[], None]]


class DoesNotEnd(Exception):
    """An execution waits for what never comes."""


class WorldRunner:
    """Runs definitions, each in a world of its own. With `always_suspend`, an execution leaves memory at each of its waits; with a `seed`, what is ready at one
    moment runs in an order drawn from it.
    """

    def __init__(self, *, always_suspend: bool = False, seed: int | None = None) -> None:
        self.always_suspend, self.seed = always_suspend, seed

    def run(self, definition: dict[str, Json], script: Script) -> Facts:
        """Run `definition` to its end in the world of `script`; then its log is replayed, and gives the same.

        Raises:
            DoesNotEnd: it has no end.
        """
        from perdure.definition import Definition

        with World(always_suspend=self.always_suspend, seed=self.seed) as world:
            run = world.start(Definition.of(definition, tools={name: _tool(name) for name in NAMES}), **script.input)
            _Stage(world, run, script).play()
            return _Told(world, run, definition).facts()


def _tool(name: str) -> Callable[..., Any]:
    async def tool(_: Any = None, /, **arguments: Any) -> Any:
        answer = behave(name, arguments, step_info().attempt)
        if answer.takes_s:
            await asyncio.sleep(answer.takes_s)
        if isinstance(answer, Failure):
            raise Fatal(answer.error) if answer.fatal else ERRORS[answer.error](f"{name} was to fail")
        return answer.value

    return tool


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


class _Told:
    """What the log of an execution says, as facts."""

    def __init__(self, world: World, run: Run[Any], definition: dict[str, Json]) -> None:
        self._world, self._run = world, run
        self._settled: dict[Path, Settlement] = {}
        self._execution = Execution(run.key)
        for event in events(world, run):
            self._execution.apply(event)
            path = event.path if isinstance(event, e.Opened | e.Settled | e.Received) else None
            if path is not None and (known := self._execution.settled.get(path)) is not None:
                self._settled[path] = known  # which loops forget
        self._steps: dict[str, Step] = {one["id"]: one for step in definition["steps"] for one in (step, *inside(step))}
        self._heads = {cycle.head for cycle in shaped(definition["steps"], definition.get("order", "refs")).cycles}

    def facts(self) -> Facts:
        """All of it."""
        ended = self._execution.ended
        assert ended is not None
        result = self._plain(ended.outcome.value) if isinstance(ended.outcome, Ok) else None
        return Facts(ended.status, result, "", list(self._ran()), list(self._undone()), [item.value for item in self._run.stream()])

    def _ran(self) -> Iterator[Ran]:
        for path, known in self._settled.items():
            if path[0] == UNDO or any(isinstance(segment, tuple) and segment[1] == 0 and segment != STANDS_IN for segment in path):
                continue
            step_name, place = self._place(path)
            match known.op:
                case Call():
                    yield self._called(step_name, place, known)
                case Spawn():
                    yield self._decided(step_name, place, known)
                case Receive():
                    late = isinstance(known.outcome, Err)
                    bodies = [self._plain(letter.body) for letter in known.letters]
                    yield Ran(step_name, place, None, "timeout") if late else Ran(step_name, place, bodies[0] if known.op.limit == 1 else bodies)
                case Sleep() | Send():
                    yield Ran(step_name, place)
                case Keep() if "emit" in self._steps[step_name] and known.op.port != "skipped":
                    yield Ran(step_name, place)

    def _called(self, step_name: str, place: Place, known: Settlement) -> Ran:
        if isinstance(known.outcome, Err):
            return Ran(step_name, place, None, known.outcome.kind, known.attempt)
        return Ran(step_name, place, self._plain(known.outcome.value) if isinstance(known.outcome, Ok) else None, "", known.attempt)

    def _decided(self, step_name: str, place: Place, known: Settlement) -> Ran:
        """An approval: whether it was approved, or time was over."""
        assert isinstance(known.outcome, Ok)
        verdict: Verdict = values.decode(self._world.machine.payload(known.outcome.value), Verdict, "a verdict")
        if verdict.expired and self._steps[step_name]["approve"].get("on_timeout", "fail") == "fail":
            return Ran(step_name, place, None, "timeout")
        return Ran(step_name, place, {"approved": verdict.approved, "expired": verdict.expired})

    def _undone(self) -> Iterator[Undone]:
        for event in events(self._world, self._run):
            if isinstance(event, e.Opened) and event.path[0] == UNDO and isinstance(event.op, Call):
                path = event.path[1:]
                outcome = self._settled[path].outcome
                step_name, place = self._place(path)
                yield Undone(step_name, place, self._plain(outcome.value) if isinstance(outcome, Ok) else None)

    def _plain(self, value: Any) -> Json:
        return msgspec.msgpack.decode(self._world.machine.payload(value)) if value else None

    def _place(self, path: Path) -> tuple[str, Place]:
        """The step that an operation is of, and the frames around it: a number behind a head is a turn of its cycle, else an item, else a turn of the step."""
        place: list[str] = []
        stays: set[str] = set()
        step_name, numbers = "", 0
        for segment in path:
            if segment == STANDS_IN:
                continue
            if isinstance(segment, tuple):
                step_name, numbers = segment[0], 0
                turning = step_name in self._heads and step_name not in stays
                continue
            step = self._steps[step_name]
            if turning:
                stays.add(step_name)
                place.append(f"{step_name}~{segment}")
                turning = False
            else:
                place.append(f"{step_name}[{segment}]" if "each" in step and not numbers else f"{step_name}~{segment}")
                numbers += 1
        return step_name, tuple(place)
