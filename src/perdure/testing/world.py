"""The world of a test: a store, an engine, and a clock that moves only when the test moves it.

    def test_order(world):
        world.mock(charge, answers=[TimeoutError(), Charge("ch_1")])
        run = world.start(order, "o1", 500)
        world.skip("1s")
        run.send(approved, Approval(True, "ada"))
        assert run.result() == "r_1" and run.step("charge").attempts == 2

Everything is real except time and what is mocked: the engine, the rules, the encodings, the log. Each call runs everything that can happen without time
passing, and returns when nothing is left to do.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from random import Random
from types import TracebackType
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar

import msgspec

from perdure.app import App, SyncApp
from perdure.code.branch_task import import_greenlet
from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.declarations import checked_name
from perdure.code.durations import Duration, duration_seconds
from perdure.code.step_environment import StepInfo
from perdure.core import log_format
from perdure.core.errors import BadValue, NotFound, Timeout, WrongVerb
from perdure.core.events import SettledEvent
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
from perdure.testing.runs import PATIENCE, Run
from perdure.testing.verdicts import Endless, NotIdempotent, NotReplayed, Stuck
from perdure.testing.virtual_time import TooLong, VirtualLoop
from perdure.testing.world_app import closed_in, opened_in
from perdure.testing.world_effects import Doing, Effects
from perdure.workflow_function import Workflow, _family

P = ParamSpec("P")
R = TypeVar("R")

SEED_BITS = 62
LIMIT_S = 1e11
"""The virtual time that may pass in a world: some thousand years."""

CALLBACKS_MAX = 1_000_000
"""How many callbacks may run in one call before it counts as endless."""


class Undisturbed(NamedTuple):
    """The facts of an undisturbed world that worlds with a crash are compared with: durable writes, attempts of steps, and their effects."""

    writes: tuple[DurableWrite, ...]
    attempts: Counter[tuple[str, str]]
    done: Counter[Doing]


class World:
    """Virtual time, an engine and a store for one test. Tests in pytest get it as the fixture `world`; elsewhere it is a context manager.

    With `seed`, callbacks that are ready at one moment run in an order drawn from it. With `always_suspend`, every execution is evicted at each wait and
    restored from its log. The process is killed at `crash`, and the world is then compared with `undisturbed`.
    """

    def __init__(
        self, *, seed: int | str | None = None, always_suspend: bool = False, crash: CrashPoint | None = None, undisturbed: Undisturbed | None = None
    ) -> None:
        self.seed = seed
        self.callbacks_max = CALLBACKS_MAX
        self.effects = Effects()
        self.performed: dict[tuple[Key, Path], Any] = {}
        self._loop = VirtualLoop(None if seed is None else Random(seed), limit_s=LIMIT_S)
        self._mocks = Mocks(self._fail, self._version_of)
        self.machine = Machine(self._loop, self._perform, always_suspend=always_suspend, crash=crash)
        self.machine.between = lambda: self._mocks.lost(self._is_open)
        self.access = StoreAccess(self.machine.store)
        self.start_s = self._loop.now_s
        self._undisturbed = undisturbed
        self._fns: dict[str, Any] = {}
        self._kinds: dict[str, Any] = {}
        self._attempts: Counter[tuple[str, str]] = Counter()
        self._failure: Exception | None = None
        self._messages = 0
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.check()
        finally:
            self.close()

    # Executions

    def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Run[R]:
        """Starts an execution and runs everything that happens at once. Options are given by `with_`; without an `id`, executions are numbered from 1.

        If an execution of the `id` exists, it is returned.

        Raises:
            BadValue: the arguments do not fit the workflow.
            WrongVerb: an option has no effect here, or is passed among the arguments.
        """
        __tracebackhide__ = True
        return self._start("world.start", workflow, args, kwargs)

    def run(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Starts an execution, as `start` does, and returns its result, as `Run.result` does."""
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
        """All executions, including children, in the order of creation."""
        return [self.run_of(head.key) for head in self.machine.heads()]

    def run_of(self, key: Key) -> Run[Any]:
        """The run of this key, even if its execution does not exist yet."""
        return Run(self, key, self._kinds.get(key.workflow, Any))

    def use(self, *workflows: Workflow[..., Any]) -> None:
        """Registers workflows and all workflows that they can name. Workflows that are started are registered automatically.

        Raises:
            BadValue: another workflow of that name is registered.
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
            import_greenlet()  # reports a missing library before anything is started
        self._fns[code.name], self._kinds[code.name] = code.what, code.codec.result
        return self._mocks.wrap(code)

    # Applications

    @contextmanager
    def open(self, app: App) -> Iterator[SyncApp]:
        """Opens an `App` in the world, for a test of the application around it: its verbs act on the store and the engine of the world, in virtual time.

        Within, `app.background()` and ``with world.open(app) as shop`` give the sync face, whose waits let time pass. Async code of the application is run by
        `call`, where the verbs of the App are awaited. The App's own database, engine, queues and resources are not used.

        Raises:
            WrongVerb: the App is open already.
            BadDefinition, BadValue: its definitions can't be loaded, or another workflow of a name is registered.
        """
        self.enter("open")
        self.use(*app.code.workflows)
        face = opened_in(app, self, self._loop)
        try:
            yield face
        finally:
            closed_in(app)

    def call(self, work: Coroutine[Any, Any, R], timeout: Duration = PATIENCE) -> R:
        """Runs a coroutine on the loop of the world, such as a request to an ASGI application, and lets time pass until it ends.

        Raises:
            Stuck: it waits for something that can't happen by itself.
            Timeout: it did not end within `timeout` of virtual time.
        """
        __tracebackhide__ = True
        try:
            self.enter("call")
            timeout_s = duration_seconds(timeout, "timeout")
        except BaseException:
            work.close()
            raise
        task = self._loop.create_task(work)
        what = f"{getattr(work, '__name__', 'the coroutine')}()"
        try:
            if not self.pass_until("call", what, task.done, timeout_s, self._nothing_happens):
                raise Timeout(what, timeout_s)
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                self._let(what, 0.0)

    def _nothing_happens(self, what: str) -> Stuck:
        standing = "; ".join(f"{run.key}: {run.why}" for run in self.runs if run.status not in ENDED)
        return Stuck(what, standing or "every execution has ended", "send the message or make the decision before it is awaited")

    # Mocks

    def mock(self, step: Any, *, answers: Any = UNSET, returns: Any = UNSET, raises: Any = UNSET, calls: Any = UNSET, takes: Duration = 0) -> Mock:
        """Replaces a step, a plain function, a workflow, or the step of a name by a mock. Give one of the four options.

        `answers` has one answer for each attempt, and exceptions among them are raised; `returns` is returned each time; `raises` is raised each time;
        `calls` is a function of the arguments. The call takes `takes` of virtual time. Without an option, the mock returns None.

        Raises:
            BadValue: the step can't return that value.
        """
        __tracebackhide__ = True
        self.enter("mock")
        if isinstance(step, Workflow):
            self.use(step)
        return self._mocks.add(step, MockAnswer(answers, returns, raises, calls), takes)

    def strict(self, *allowed: Any) -> None:
        """Makes every step without a mock, except those that are `allowed`, fail the test."""
        self._mocks.only(allowed)

    def effect(self, what: str, key: str | None = None, *, once: bool = True) -> bool:
        """Reports from a test double that the outside world changes now. Returns False if it has changed before under this key, so that nothing happens.

        With `once`, the test fails if a step has this effect in two attempts without the same key.
        """
        return self.effects.add(what, key, once)

    # Time

    @property
    def now(self) -> datetime:
        """The virtual time, in UTC."""
        return datetime.fromtimestamp(self._loop.now_s, UTC)

    def skip(self, duration: Duration) -> None:
        """Lets virtual time pass, and runs everything that becomes due."""
        __tracebackhide__ = True
        self.enter("skip")
        self._let(f"skip({duration!r})", self._loop.now_s + duration_seconds(duration, "skip"))

    def skip_until(self, when: datetime) -> None:
        """Lets virtual time pass until `when`, and runs everything that becomes due.

        Raises:
            BadValue: it is past, or has no time zone.
        """
        __tracebackhide__ = True
        self.enter("skip_until")
        if when.tzinfo is None or when.timestamp() < self._loop.now_s:
            raise BadValue("skip_until", when, f"a time with its zone that is not before {self.now}, which is now")
        self._let(f"skip_until({when})", when.timestamp())

    def settle(self) -> None:
        """Runs everything that can happen without time passing."""
        __tracebackhide__ = True
        self.enter("settle")
        self._let("settle()", 0.0)

    def pass_until(self, verb: str, what: str, found: Callable[[], bool], timeout_s: float, stuck: Callable[[str], Stuck]) -> bool:
        """Lets time pass, from one due time to the next, until `found` returns True; returns False if it did not within `timeout_s`."""
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

    # The process

    def crash(self) -> None:
        """Kills the process as `kill -9` does: attempts in flight are lost, and another process, which has only the store, takes over at once. A step may
        call it.
        """
        if self._loop.is_running() and asyncio._get_running_loop() in (None, self._loop):
            self.machine.kill()
            raise Killed
        self.enter("crash")
        self.machine.kill()
        self.settle()

    def restart(self, *workflows: Workflow[..., Any]) -> None:
        """Stops the process in an orderly way and starts another. Workflows that are given replace those of the same name, as a deployment does."""
        self.enter("restart")
        process = self.machine.process
        self._loop.run_until_complete(self.machine.stop())
        for code in (code for workflow in workflows for code in _family(workflow)):
            if code.name not in self._fns or any(code is workflow.code for workflow in workflows):
                self.machine.codes[code.name] = self._known(code)
        if self.machine.process is process and not process.gate.dead:
            self.machine.note("the process was stopped, and another begins")
            self.machine.begin_next_process()
        self.settle()

    # Results

    def trace(self) -> str:
        """The events of all executions in words, with the time since the world began."""
        own = [line.since(self.start_s) for line in self.machine.notes]
        seed = [] if self.seed is None else [f"seed {self.seed}"]
        return "\n\n".join(["\n".join([*seed, *own])] * bool(seed or own) + [run.trace() for run in self.runs])

    def check(self, *, replay: bool = True) -> None:
        """Checks the invariants of every test; pytest calls it for tests that pass.

        Raises:
            NotReplayed: an execution, replayed over its own log, diverges.
            NotIdempotent: a step that ran again repeated its effect.
            AssertionError, BadValue: a mock had no answer, or an invalid one.
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
        """The facts that other worlds of the same test are compared with."""
        return Undisturbed(tuple(self.machine.writes), Counter(self._attempts), self.effects.done)

    @property
    def ran_again(self) -> dict[str, tuple[int, int]]:
        """The steps with more attempts than in the undisturbed world: how many here, and how many there."""
        if self._undisturbed is None:
            return {}
        pairs = ((step, times, self._undisturbed.attempts[step]) for step, times in self._attempts.items())
        return {f"{path} of {workflow}": (times, before) for (workflow, path), times, before in pairs if 0 < before < times}

    def close(self) -> None:
        """Ends the world. Errors of tasks that steps left behind are raised in one group. Closing twice has no effect."""
        if not self._closed:
            self._closed = True
            if errors := self.machine.close():
                raise BaseExceptionGroup("errors of tasks that were never awaited", errors)

    # Used by runs and the plugin

    def enter(self, verb: str) -> None:
        """Refuses a call while an event loop is running.

        Raises:
            WrongVerb: a loop is running here: the world's own, or another.
        """
        if self._closed:
            raise WrongVerb(f"{verb}() was called on a closed world", "use a world only in the test that it was created for")
        if self._loop.is_running():
            raise WrongVerb(f"{verb}() was called in a step or a workflow", "call it in the test; a step may use only crash, effect and now of a world")
        if asyncio._get_running_loop() is not None:
            raise WrongVerb(
                f"{verb}() was called inside a running event loop", "write the test as a plain `def`: a world has a loop of its own, in virtual time"
            )

    def next_id(self, workflow: str) -> str:
        """The id of the next execution of a workflow that is started without one."""
        return str(1 + sum(head.key.workflow == workflow for head in self.machine.heads()))

    def seed_of(self, key: Key) -> int:
        """The seed of an execution: the same in every run of a test."""
        return Random(f"{self.seed}: {key}").getrandbits(SEED_BITS)

    def message_key(self, key: str | None) -> str:
        """The key of a message: the same in every run of a test."""
        self._messages += 1
        return f"test:{self._messages}" if key is None else checked_name(key, "key")

    async def _perform(self, fn: Any, args: Value, info: StepInfo, *others: Any) -> Outcome:
        self.performed[info.execution, info.path] = fn
        self._attempts[info.execution.workflow, path_text(info.path)] += 1
        return await self._mocks.perform(fn, args, info, *others)

    def _fail(self, why: Exception) -> None:
        if self._failure is None:
            self._failure = why

    def _version_of(self, key: Key) -> int:
        found = self.machine.read(key)
        return 0 if found is None else found.head.version

    def _is_open(self, key: Key, path: Path, attempt: int, version: int) -> bool:
        """Whether the log has no outcome of an attempt that was in progress at a version. A failed step that is retried begins with attempt 1 again."""
        found = self.machine.read(key)
        if found is None:
            return False
        later = log_format.decode_rows([row.payload for row in found.rows if row.version > version])
        if any(isinstance(event, SettledEvent) and event.path == path for event in later):
            return False
        pending = fold_events(key, log_format.decode_rows(found.payloads)).open.get(path)
        return pending is not None and pending.attempt == attempt and pending.state in ("performing", "interrupted")


__all__ = ["DEFAULT_TENANT", "Undisturbed", "World"]
