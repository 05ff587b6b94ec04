"""The world of a test: a store, an engine and a clock that moves only when the test lets it. What users test their workflows with.

    def test_order(world):
        world.mock(charge, answers=[TimeoutError(), Charge("ch_1")])
        run = world.start(order, "o1", 500)
        world.skip("1s")
        run.send(approved, Approval(True, "ada"))
        assert run.result() == "r_1" and run.step("charge").attempts == 2

Everything in it is real but time and what is mocked: the engine, the rules, the encodings, the log. Each call lets happen all that
happens without time passing, and returns once nothing moves.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from types import TracebackType
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar

import msgspec

from perdure.code.branch_task import import_greenlet
from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.declarations import checked_name
from perdure.code.durations import Duration, duration_seconds
from perdure.code.step_environment import StepInfo
from perdure.core import log_format
from perdure.core.errors import BadValue, NotFound, WrongVerb
from perdure.core.operations import Outcome
from perdure.core.paths import Key, Path, path_text
from perdure.core.replay import fold_events
from perdure.core.values import Value
from perdure.runtime.registrations import declare_queues
from perdure.runtime.workflow_programs import Workflow as AnyWorkflow
from perdure.service import execution_operations
from perdure.service.store_access import StoreAccess
from perdure.testing.crash_points import CrashPoint
from perdure.testing.faults import Killed
from perdure.testing.immediate_calls import run_immediately
from perdure.testing.machine import ENDED, DurableWrite, Machine
from perdure.testing.mocks import UNSET, Mock, MockAnswer, Mocks
from perdure.testing.replay_check import replay_differences
from perdure.testing.runs import Run
from perdure.testing.verdicts import Endless, NotIdempotent, NotReplayed, Stuck
from perdure.testing.virtual_time import TooLong, VirtualLoop
from perdure.testing.world_effects import Doing, Effects
from perdure.workflow_function import Workflow, _family

P = ParamSpec("P")
R = TypeVar("R")

SEED_BITS = 62
LIMIT_S = 1e11
"""How much virtual time may pass in a world: some thousand years."""

CALLBACKS_MAX = 1_000_000
"""How many callbacks may run in one call, before it is taken for one that never ends."""


class Undisturbed(NamedTuple):
    """What is known of a world that others, in which a process is killed, are compared with: its durable writes, the tries of its steps, their effects."""

    writes: tuple[DurableWrite, ...]
    tries: Counter[tuple[str, str]]
    done: Counter[Doing]


class World:
    """Virtual time, an engine and a store for one test. A test in pytest is given one as `world`; elsewhere it is a context manager.

    With `seed`, what is ready at one moment runs in an order drawn from it. With `always_suspend`, every execution leaves memory at
    each of its waits, and comes back from its log. The process is killed at `crash`; `undisturbed` is then what the world is compared with.
    """

    def __init__(
        self, *, seed: int | str | None = None, always_suspend: bool = False, crash: CrashPoint | None = None, undisturbed: Undisturbed | None = None
    ) -> None:
        self.seed = seed
        self.callbacks_max = CALLBACKS_MAX
        self.effects = Effects()
        self.performed: dict[tuple[Key, Path], Any] = {}
        self._loop = VirtualLoop(None if seed is None else Random(seed), limit_s=LIMIT_S)
        self._mocks = Mocks(self._fail)
        self.machine = Machine(self._loop, self._perform, always_suspend=always_suspend, crash=crash)
        self.machine.between = lambda: self._mocks.lost(self._is_open)
        self.access = StoreAccess(self.machine.store)
        self.start_s = self._loop.now_s
        self._undisturbed = undisturbed
        self._fns: dict[str, Any] = {}
        self._kinds: dict[str, Any] = {}
        self._tries: Counter[tuple[str, str]] = Counter()
        self._failure: Exception | None = None
        self._letters = 0
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.check()
        finally:
            self.close()

    # executions

    def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Run[R]:
        """Start an execution, and let happen what happens at once. Options are given by `with_`; without an `id`, executions are counted from 1.

        An `id` that exists is returned as it is.

        Raises:
            BadValue: the arguments are not those of the workflow.
            WrongVerb: an option has no effect here, or stands among the arguments.
        """
        __tracebackhide__ = True
        return self._start("world.start", workflow, args, kwargs)

    def run(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Start an execution, as `start` does, and return its result, as `Run.result` does."""
        __tracebackhide__ = True
        return self._start("world.run", workflow, args, kwargs).result()

    def _start(self, verb: str, workflow: Workflow[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Run[R]:
        __tracebackhide__ = True
        self.enter("start")
        self.use(workflow)
        code = workflow.code
        wanted, queue = execution_operations.start_request(code, args, kwargs, verb, lambda: self.next_id(code.name))
        wanted = msgspec.structs.replace(wanted, seed=self.seed_of(wanted.key))
        if queue is not None:
            run_immediately(declare_queues(self.machine.store, [queue]))
        key, created = run_immediately(execution_operations.start_execution(self.access, wanted))
        self.settle()
        return Run(self, key, code.codec.result, created)

    def get(self, id: str, workflow: Workflow[..., R]) -> Run[R]:
        """The execution of this id.

        Raises:
            NotFound: there is none.
        """
        key = workflow.key(id)
        if self.machine.read(key) is None:
            raise NotFound(key)
        return Run(self, key, workflow.code.codec.result)

    @property
    def runs(self) -> list[Run[Any]]:
        """All executions, those of children included, in the order in which they came."""
        return [self.run_of(head.key) for head in self.machine.heads()]

    def run_of(self, key: Key) -> Run[Any]:
        """The execution of this key, whether or not there is one yet."""
        return Run(self, key, self._kinds.get(key.workflow, Any))

    def use(self, *workflows: Workflow[..., Any]) -> None:
        """Know these workflows, and all that they can name: those that are started are known already.

        Raises:
            BadValue: another workflow of that name is known.
        """
        for workflow in workflows:
            if not isinstance(workflow, Workflow):
                raise BadValue("workflow", workflow, "one, made by @workflow")
            if self._fns.get(workflow.code.name, what := workflow.code.what) != what:
                raise BadValue("workflow", workflow, "the one of this name that the world knows; name it otherwise: @workflow(name=...)")
            fresh = [code for code in _family(workflow) if code.name not in self._fns]
            self.machine.install([self._known(code) for code in fresh])

    def _known(self, code: AnyWorkflow) -> AnyWorkflow:
        if code.sync:
            import_greenlet()  # a missing library is to be known before anything is started
        self._fns[code.name], self._kinds[code.name] = code.what, code.codec.result
        return self._mocks.cast(code)

    # mocks

    def mock(self, step: Any, *, answers: Any = UNSET, returns: Any = UNSET, raises: Any = UNSET, calls: Any = UNSET, takes: Duration = 0) -> Mock:
        """Have something else answer for a step, a plain function, a workflow, or whatever is called so: give one of the four.

        `answers` are given one for each try, and exceptions among them are raised; `returns` the same each time; `raises` an error each time;
        `calls` is a function that is given the arguments. It `takes` so long, in virtual time. Without any it returns None.

        Raises:
            BadValue: the step can't return that.
        """
        __tracebackhide__ = True
        self.enter("mock")
        if isinstance(step, Workflow):
            self.use(step)
        return self._mocks.add(step, MockAnswer(answers, returns, raises, calls), takes)

    def strict(self, *allowed: Any) -> None:
        """Let no step run for real that is not mocked, but for those that are `allowed`: it fails the test."""
        self._mocks.only(allowed)

    def effect(self, what: str, key: str | None = None, *, once: bool = True) -> bool:
        """Tell, in a test double, that the world outside is changed now; False says that it was before, under this key, so it is not again.

        With `once`, a step that does it in one try, and again in another without the same key, fails the test.
        """
        return self.effects.add(what, key, once)

    # time

    @property
    def now(self) -> datetime:
        """The virtual time, in UTC."""
        return datetime.fromtimestamp(self._loop.now_s, UTC)

    def skip(self, duration: Duration) -> None:
        """Let so much time pass, and all happen that is due on the way."""
        __tracebackhide__ = True
        self.enter("skip")
        self._let(f"skip({duration!r})", self._loop.now_s + duration_seconds(duration, "skip"))

    def skip_until(self, when: datetime) -> None:
        """Let time pass until then, and all happen that is due on the way.

        Raises:
            BadValue: it is past, or has no time zone.
        """
        __tracebackhide__ = True
        self.enter("skip_until")
        if when.tzinfo is None or when.timestamp() < self._loop.now_s:
            raise BadValue("skip_until", when, f"a time with its zone that is not before {self.now}, which is now")
        self._let(f"skip_until({when})", when.timestamp())

    def settle(self) -> None:
        """Let happen all that happens without time passing."""
        __tracebackhide__ = True
        self.enter("settle")
        self._let("settle()", 0.0)

    def pass_until(self, verb: str, what: str, found: Callable[[], bool], timeout_s: float, stuck: Callable[[str], Stuck]) -> bool:
        """Let time pass as far as it must until `found` says so; False, if it did not in that time. For those who wait for something."""
        __tracebackhide__ = True
        self.enter(verb)
        end_s, handles = self._loop.now_s + timeout_s, self._loop.handles
        self._let(what, 0.0)
        while not found():
            due_s = self.machine.next_s()
            if due_s is None:
                raise stuck(what)
            if due_s > end_s:
                self._let(what, end_s)
                return False
            self._let(what, due_s, self.callbacks_max - (self._loop.handles - handles))
        return True

    def _let(self, what: str, until_s: float, callbacks_max: int | None = None) -> None:
        __tracebackhide__ = True
        most = self.callbacks_max if callbacks_max is None else callbacks_max
        try:
            self.machine.settle(until_s, max(most, 1))
        except TooLong as error:
            standing = [f"{run.key}: {run.why}" for run in self.runs if run.status not in ENDED][:10]
            raise Endless(what, f"{self.callbacks_max:,} callbacks", standing) from error
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    # the process

    def crash(self) -> None:
        """Kill the process, as `kill -9` does: what is in flight is lost, and another takes over at once, which has only the store. May be called in a step."""
        if self._loop.is_running() and asyncio._get_running_loop() in (None, self._loop):
            self.machine.kill()
            raise Killed
        self.enter("crash")
        self.machine.kill()
        self.settle()

    def restart(self, *workflows: Workflow[..., Any]) -> None:
        """Stop the process in good order, and begin another. Workflows that are given replace those of the same name, as a deploy does."""
        self.enter("restart")
        process = self.machine.process
        self._loop.run_until_complete(self.machine.stop())
        for code in (code for workflow in workflows for code in _family(workflow)):
            if code.name not in self._fns or any(code is workflow.code for workflow in workflows):
                self.machine.codes[code.name] = self._known(code)
        if self.machine.process is process and not process.gate.dead:
            self.machine.note("the process was stopped in good order, and another begins")
            self.machine.begin_anew()
        self.settle()

    # what came of it

    def trace(self) -> str:
        """Everything that has happened, execution by execution, with the time since the world began."""
        own = [line.since(self.start_s) for line in self.machine.notes]
        seed = [] if self.seed is None else [f"seed {self.seed}"]
        return "\n\n".join(["\n".join([*seed, *own])] * bool(seed or own) + [run.trace() for run in self.runs])

    def check(self, *, replay: bool = True) -> None:
        """Check what must be true at the end of every test: pytest does so for those that pass.

        Raises:
            NotReplayed: an execution's own log, fed to its code anew, does not bring about the same.
            NotIdempotent: a step that ran again has changed the world again.
            AssertionError, BadValue: a mock had no answer, or a wrong one.
        """
        __tracebackhide__ = True
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        for head in self.machine.heads() if replay else ():
            found, code = self.machine.read(head.key), self.machine.codes.get(head.key.workflow)
            if found is not None and code is not None:
                engine = next(iter(self.machine.process.engines))
                variables = getattr(engine, "variables", None)
                diff = replay_differences(code, head.key, head.root, log_format.decode_rows(found.payloads), self.machine.payload, variables)
                if diff:
                    raise NotReplayed(head.key, diff)
        again = self.effects.done_again(None if self._undisturbed is None else self._undisturbed.done)
        if again:
            raise NotIdempotent(again)

    @property
    def undisturbed(self) -> Undisturbed:
        """What other worlds of the same test can be compared with."""
        return Undisturbed(tuple(self.machine.writes), Counter(self._tries), self.effects.done)

    @property
    def ran_again(self) -> dict[str, tuple[int, int]]:
        """The steps whose tries were more than in the undisturbed world: how many, in place of how many."""
        if self._undisturbed is None:
            return {}
        pairs = ((step, times, self._undisturbed.tries[step]) for step, times in self._tries.items())
        return {f"{path} of {workflow}": (times, before) for (workflow, path), times, before in pairs if 0 < before < times}

    def close(self) -> None:
        """End the world. Errors of tasks that steps have left behind, which nobody received, are raised in one group. Closing twice does nothing."""
        if not self._closed:
            self._closed = True
            if errors := self.machine.close():
                raise BaseExceptionGroup("errors that nobody received", errors)

    # for those who work with it

    def enter(self, verb: str) -> None:
        """Refuse a call where the world can't move.

        Raises:
            WrongVerb: a loop is running here: the world's own, or another.
        """
        if self._closed:
            raise WrongVerb(f"{verb}() on a world that is closed", "use a world only in the test that was given it")
        if self._loop.is_running():
            raise WrongVerb(f"{verb}() in a step or a workflow", "let the test do it; of a world, a step may use crash, effect and now")
        if asyncio._get_running_loop() is not None:
            raise WrongVerb(f"{verb}() inside a running event loop", "write the test as a plain `def`: a world has a loop of its own, in virtual time")

    def next_id(self, workflow: str) -> str:
        """The id of the next execution of a workflow that is given none."""
        return str(1 + sum(head.key.workflow == workflow for head in self.machine.heads()))

    def seed_of(self, key: Key) -> int:
        """The seed of an execution: the same in every run of a test."""
        return Random(f"{self.seed}: {key}").getrandbits(SEED_BITS)

    def letter(self, key: str | None) -> str:
        """The key of a message: the same in every run of a test."""
        self._letters += 1
        return f"test:{self._letters}" if key is None else checked_name(key, "key")

    async def _perform(self, fn: Any, args: Value, info: StepInfo, *others: Any) -> Outcome:
        self.performed[info.execution, info.path] = fn
        self._tries[info.execution.workflow, path_text(info.path)] += 1
        return await self._mocks.perform(fn, args, info, *others)

    def _fail(self, why: Exception) -> None:
        if self._failure is None:
            self._failure = why

    def _is_open(self, key: Key, path: Path, attempt: int) -> bool:
        """Whether the log does not remember what came of a try."""
        found = self.machine.read(key)
        pending = None if found is None else fold_events(key, log_format.decode_rows(found.payloads)).open.get(path)
        return pending is not None and pending.attempt == attempt and pending.state in ("performing", "interrupted")


__all__ = ["DEFAULT_TENANT", "Undisturbed", "World"]
