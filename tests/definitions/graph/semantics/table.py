"""The table: what a row of these claims says, and how it is run.

A row is a definition, what befalls its execution, and what must have come of it: how it ended, what ran in which order, what was skipped and undone. Rows are
written for people: who wants to know what a definition does here, reads the rows of that noun.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from textwrap import dedent
from typing import Any

from perdure import Vote, step
from perdure.core import events as e
from perdure.core import log_format
from perdure.core.execution import Execution
from perdure.core.operations import CallOperation, Failure, KeepOperation, Operation, SpawnOperation, Success
from perdure.core.paths import UNDO, Key, Path, path_text
from perdure.core.replay import fold_events
from perdure.definition_workflow import Definition
from perdure.testing import Run, World


class Broken(Exception):
    """What FAIL and rows raise."""


class Refused(Exception):
    """Another one."""


def again(fn: Callable[..., Any]) -> Any:
    """A tool that may run again after an interruption."""
    return step(idempotent=True)(fn)


def say(value: Any = None) -> Any:
    """What it is given."""
    return value


def echo(**given: Any) -> dict[str, Any]:
    """All that it is given."""
    return given


def add(a: Any, b: Any) -> Any:
    """The sum."""
    return a + b


@step(name="RESERVE", idempotent=True)
def reserve(room: str = "12") -> str:
    """A reservation."""
    return f"room {room}"


@reserve.undo
def release(reserved: str, room: str = "12") -> str:
    """Take it back."""
    return f"released {reserved}"


def fail(message: str = "no") -> None:
    """Nothing."""
    raise Broken(message)


TOOLS: dict[str, Any] = {"SAY": again(say), "ECHO": again(echo), "ADD": again(add), "FAIL": again(fail), "RESERVE": reserve}
KINDS = {"llm": lambda config, input: input, "agent": lambda config, input: input}


# what befalls an execution


@dataclasses.dataclass(frozen=True)
class Skip:
    """So much time passes."""

    duration: str


@dataclasses.dataclass(frozen=True)
class Voted:
    """A person decides about the approval at a path."""

    path: str
    approve: bool = True
    form: Any = None
    by: str = "ada"
    comment: str = ""


@dataclasses.dataclass(frozen=True)
class Sent:
    """A message comes."""

    name: str
    body: Any = None


@dataclasses.dataclass(frozen=True)
class Cancelled:
    """Somebody cancels it."""

    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Undone:
    """Somebody has it undone, though it has completed."""


@dataclasses.dataclass(frozen=True)
class Retried:
    """Somebody retries it, though it has failed."""


@dataclasses.dataclass(frozen=True)
class Open:
    """Just these operations are open at this moment."""

    paths: str


Event = Skip | Voted | Sent | Cancelled | Undone | Retried | Open

OVER = ("completed", "failed", "cancelled", "needs_attention")
LONGEST_S = 1e9
CALLBACKS_MAX = 20_000
"""How much may happen in a row: more is a loop without an end."""


class Anything:
    """Equal to all."""

    def __eq__(self, _: object) -> bool:
        return True

    __hash__ = object.__hash__


ANYTHING: Any = Anything()
"""A result that the row says nothing of."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One claim about what a definition does.

    `answers` are what steps say, by id or path, one for each try; `takes` how long they do; `calls` the definitions that it may call.

    It completes with `result`, unless it is said to have `failed` or to be `cancelled`, with words of why, or still to be `waiting`. `ran` are the paths of
    all that was done, in the order in which it began; `skipped` and `undone` theirs. `took` is the time that it took, `at_once` how many operations were
    open at most, `tries` the number of tries of some, `targets` what they were for. `told` is what was told to whom a failure is told, `stream` what it
    gave out, `children` are the executions that it started: workflow, status and result. `slow` rows are for `prove`, `crashes` marks those whose process
    is killed at every write in the ordinary suite too. `if_killed` says why a row does something else if its process is killed, as it should.
    """

    claim: str
    definition: str
    input: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    script: tuple[Event, ...] = ()
    answers: Mapping[str, list[Any]] = dataclasses.field(default_factory=dict)
    takes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    calls: tuple[str, ...] = ()
    result: Any = ANYTHING
    failed: str | None = None
    cancelled: str | None = None
    waiting: bool = False
    ran: str | None = None
    skipped: str = ""
    undone: str = ""
    took: float | None = None
    at_once: int | None = None
    tries: Mapping[str, int] = dataclasses.field(default_factory=dict)
    children: tuple[tuple[str, str, Any], ...] | None = None
    stream: tuple[Any, ...] | None = None
    told: Any = None
    targets: Mapping[str, str] = dataclasses.field(default_factory=dict)
    crashes: bool = False
    if_killed: str = ""
    slow: bool = False

    @property
    def status(self) -> str:
        """How it stands at the end."""
        return "failed" if self.failed is not None else "cancelled" if self.cancelled is not None else "waiting" if self.waiting else "completed"


def document(definition: str, name: str = "it") -> str:
    """The text of a definition, whose first lines go without saying."""
    body = dedent(definition).strip()
    return f"perdure: 1\n{body}\n" if "\nname: " in f"\n{body}" else f"perdure: 1\nname: {name}\n{body}\n"


def defined(row: Row) -> Definition:
    """The definition of a row, with those that it may call."""
    calls = [Definition.of(document(text), tools=TOOLS, kinds=KINDS) for text in row.calls]
    return Definition.of(document(row.definition), tools=TOOLS, kinds=KINDS, calls=calls)


def play(world: World, row: Row, *, undisturbed: bool = True) -> Run[Any]:
    """Run a row up to the end of its script, and to its own end if it has one. What is disturbed may take longer, so it is not looked at on the way."""
    world.callbacks_max = CALLBACKS_MAX if not row.slow else world.callbacks_max
    for where in dict.fromkeys((*row.answers, *row.takes)):
        answer = {"answers": row.answers[where]} if where in row.answers else {"calls": say}
        world.mock(where, takes=row.takes.get(where, 0), **answer)
    run = world.start(defined(row), **row.input)
    for event in row.script:
        if undisturbed or not isinstance(event, Open):
            befall(world, run, event)
    if not row.waiting:
        world.pass_until("wait", f"the end of {row.claim}", lambda: run.status in OVER, LONGEST_S, run._stuck)
    return run


def befall(world: World, run: Run[Any], event: Event) -> None:
    """Let one thing happen."""
    match event:
        case Skip(duration):
            world.skip(duration)
        case Voted(path, approve, form, by, comment):
            child(world, run, path).send("vote", Vote(by, approve, comment, form))
        case Sent(name, body):
            run.send(name, body)
        case Cancelled(reason):
            run.cancel(reason)
        case Undone():
            run.undo()
        case Retried():
            run.retry()
        case Open(paths):
            found = [path_text(path) for path in folded(world, run).open if is_work(path)]
            assert sorted(found) == sorted(paths.split()), "what is open"


def child(world: World, run: Run[Any], path: str) -> Run[Any]:
    """The execution that was started at a path."""
    execution = folded(world, run)
    known = {path_text(at): one.op for at, one in execution.open.items()} | {path_text(at): one.op for at, one in execution.settled.items()}
    if isinstance(op := known.get(path), SpawnOperation):
        return world.run_of(Key(run.key.tenant, op.workflow, op.id))
    raise LookupError(f"nothing was started at {path}; there are {', '.join(map(path_text, execution.open))}")


def events(world: World, run: Run[Any]) -> list[e.Event]:
    """The log of an execution."""
    found = world.machine.read(run.key)
    assert found is not None, f"{run} is unknown"
    return log_format.decode_rows(found.payloads)


def folded(world: World, run: Run[Any]) -> Execution:
    """An execution, as its log says."""
    return fold_events(run.key, events(world, run))


def is_work(path: Path) -> bool:
    """Whether what is at a path is of a step, and not a note that the walk makes."""
    return not (isinstance(path[-1], tuple) and path[-1][1] == 0) and path[0] != UNDO


def is_skip(op: Operation) -> bool:
    """Whether it notes that a step was skipped."""
    return isinstance(op, KeepOperation) and op.port == "skipped"


def is_turn(op: Operation) -> bool:
    """Whether it only notes with what a turn of a loop without end begins."""
    return isinstance(op, KeepOperation) and op.role == "turn"


# what has come of it


def check(world: World, row: Row, run: Run[Any], *, undisturbed: bool = True) -> None:
    """Hold what has come of a row against what it says; how long it took, only if nothing has disturbed it."""
    execution, found = folded(world, run), events(world, run)
    assert (run.status.removesuffix("_approval"), why(execution)) == (row.status, why(execution)), "how it stands"
    opened = [(event.path, event.op) for event in found if isinstance(event, e.OpenedEvent)]
    check_end(world, row, run, execution)
    check_order(row, opened, in_order=undisturbed or not row.takes)
    for at, times in row.tries.items():
        assert execution_tries(found, at) == times, f"the tries of {at}"
    for at, whom in row.targets.items():
        assert run.step(at).target == whom, f"what {at} was for"
    if row.told is not None:
        assert row.told.items() <= run.step("~on_failure").kwargs.items(), "what was told"
    if row.children is not None:
        started = [Key(run.key.tenant, op.workflow, op.id) for _, op in opened if isinstance(op, SpawnOperation)]
        assert tuple(shown(world, world.run_of(key)) for key in started) == row.children, "the children"
    if row.stream is not None:
        assert tuple(item.value for item in run.stream()) == row.stream, "the stream"
    if undisturbed:
        check_time(row, execution, found)


def why(execution: Execution) -> str:
    """The error with which it ended: what ended it, if that was neither a failure nor a cancel, else the type of the error; and its message."""
    outcome = None if execution.ended is None else execution.ended.outcome
    if not isinstance(outcome, Failure):
        return ""
    return f"{outcome.error.type if outcome.kind in ('failed', 'cancelled') else outcome.kind}: {outcome.error.message}"


def check_end(world: World, row: Row, run: Run[Any], execution: Execution) -> None:
    """Result or error."""
    words = row.failed if row.failed is not None else row.cancelled
    if words is not None:
        assert words in why(execution), "why it ended"
    elif row.result is not ANYTHING:
        assert run.result() == row.result, "the result"


def check_order(row: Row, opened: list[tuple[Path, Operation]], *, in_order: bool = True) -> None:
    """What was done, skipped and undone; in the order of the row, unless steps that take time may have begun again."""
    done = [path_text(path) for path, op in opened if is_work(path) and not is_skip(op) and not (isinstance(op, KeepOperation) and op.role == "turn")]
    if row.ran is not None:
        ran = row.ran.split()
        assert " ".join(done if in_order else sorted(done)) == " ".join(ran if in_order else sorted(ran)), "what ran"
    assert " ".join(path_text(path) for path, op in opened if is_skip(op)) == " ".join(row.skipped.split()), "what was skipped"
    undone = [path_text(path[1:]) for path, op in opened if path[0] == UNDO and isinstance(op, CallOperation | SpawnOperation)]
    assert " ".join(undone) == " ".join(row.undone.split()), "what was undone"


def execution_tries(found: list[e.Event], at: str) -> int:
    """How often something was tried, the last time included."""
    return 1 + sum(isinstance(event, e.RetryingEvent) and path_text(event.path) == at for event in found)


def check_time(row: Row, execution: Execution, found: list[e.Event]) -> None:
    """How long it took, and how much of it was done at once."""
    if row.took is not None:
        assert execution.started is not None and execution.ended is not None
        assert round(execution.ended.at_s - execution.started.at_s, 3) == row.took, "how long it took"
    if row.at_once is not None:
        assert max(opened_at_once(found)) == row.at_once, "how much was done at once"


def opened_at_once(found: list[e.Event]) -> Iterator[int]:
    """How many operations were open, after each event."""
    open_now: set[Path] = set()
    for event in found:
        match event:
            case e.OpenedEvent(path, op) if is_work(path) and not isinstance(op, KeepOperation):
                open_now.add(path)
            case e.SettledEvent(path) | e.ReceivedEvent(path) | e.DroppedEvent(path):
                open_now.discard(path)
        yield len(open_now)


def shown(world: World, run: Run[Any]) -> tuple[str, str, Any]:
    """An execution in a row's words."""
    execution = folded(world, run)
    ended = None if execution.ended is None else execution.ended.outcome
    return run.key.workflow, run.status, run.result() if isinstance(ended, Success) else why(execution) if run.status == "failed" else None
