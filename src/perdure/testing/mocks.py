"""Mocks, which replace a step or a whole workflow in a test.

Everything around them is real: arguments and answers pass through the same encoding, the step's retry policy applies to errors, and undo works. An answer is
consumed when the log has its outcome. An answer that was lost with its process is given again, as an external system would: for it, the repeated call is the
same request under the same idempotency key.
"""

import asyncio
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, NoReturn, Self

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, Step, UndoHandler, checked_name
from perdure.code.durations import Duration, duration_seconds
from perdure.code.function_codec import codec_of_function
from perdure.code.step_environment import StepInfo, current_step
from perdure.core import values
from perdure.core.errors import BadValue, ErrorInfo, Undecodable
from perdure.core.operations import Failure, Outcome
from perdure.core.paths import Key, Path, path_text
from perdure.core.values import Value
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.runtime.step_runner import is_transactional, run_step
from perdure.runtime.workflow_programs import Workflow as AnyWorkflow
from perdure.testing.verdicts import Unanswered
from perdure.workflow_function import Workflow

UNSET: Any = object()
"""Marks an option that was not given."""

FailCallback = Callable[[Exception], None]
"""Receives the error by which the test must fail."""

AttemptKey = tuple[Key, Path, int, int]
"""The execution, path and number of an attempt, and the version of the log when it began; for a mocked workflow the path is empty, the number 1."""


MOCK_ERRORS = (AssertionError, BadValue)
"""Errors that fail the test and not the step: a mock has no answer, an invalid one, or asserts something about its arguments."""


class MockCall(NamedTuple):
    """A call that a mock has answered: its arguments, the number of the attempt, and the idempotency key, which is the same in every attempt."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    attempt: int
    key: str


class RaisedAnswer(NamedTuple):
    """An answer that is raised."""

    error: BaseException


class Mock:
    """Replaces `target`. `calls` has each call, in order. As a context manager, it is active only within the block."""

    def __init__(self, target: Any, answer: "MockAnswer", takes: Duration, mocks: "Mocks") -> None:
        self.target = target
        self.name = _named(target)
        self.calls: list[MockCall] = []
        self._answer = answer
        self._takes_s = duration_seconds(takes, "mock(takes)")
        self._mocks = mocks
        self._outcomes: dict[Key, Any] = {}
        answer.check(self.name, _codec_result(target))

    def __repr__(self) -> str:
        return f"<mock of {self.name}, called {len(self.calls)} times>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def undo(self) -> None:
        """Removes the mock; an earlier mock of the same target, or the real target, is active again. Removing twice has no effect."""
        self._mocks.remove(self)

    def lost(self, is_open: Callable[[Key, Path, int, int], bool]) -> None:
        """Returns answers whose outcome was lost with a process, so that they are given again."""
        self._answer.give_back(is_open)

    # Mocks of steps

    def answers_for(self, fn: Any, path: Path) -> bool:
        """Whether it replaces this function, called at this path."""
        inner = fn.step if isinstance(fn, UndoHandler) else fn
        if not isinstance(self.target, str):
            wanted = self.target.fn if isinstance(self.target, Step) else self.target
            return bool((inner.fn if isinstance(inner, Step) else inner) == wanted)
        names = {path_text(path)} | ({inner.name} if isinstance(inner, Step) else set())
        if not isinstance(fn, UndoHandler) and not isinstance(path[-1], int):
            names |= {path[-1][0], path_text(path[-1:])}
        return self.target in names

    def instead_of(self, fn: Any) -> Any:
        """The step with the mock as its function, and all its options."""
        match fn:
            case UndoHandler(step=step):
                return dataclasses.replace(fn, step=dataclasses.replace(step, fn=self._function(step.fn, step.codec.result)))
            case Step():
                return dataclasses.replace(fn, fn=self._function(fn.fn, fn.codec.result))
        return self._function(fn, codec_of_function(fn).result)

    def _function(self, real: Any, kind: Any) -> Callable[..., Any]:
        @wraps(real)
        async def answer(*args: Any, **kwargs: Any) -> Any:
            info = current_step.get()
            self.calls.append(MockCall(args, kwargs, info.attempt, info.key))
            try:
                given = self._answer.next(self._who(info.key), (info.execution, info.path, info.attempt, self._mocks.version_of(info.execution)))
                await asyncio.sleep(self._takes_s)
                made = given(*args, **kwargs)
                return checked(self.name, await made if inspect.isawaitable(made) else made, kind)
            except MOCK_ERRORS as wrong:
                await self._mocks.give_up(wrong)

        return answer

    # Mocks of workflows

    def stands_for(self, code: AnyWorkflow) -> bool:
        """Whether it replaces this workflow."""
        return code.name == (self.target.code.name if isinstance(self.target, Workflow) else self.target)

    async def play(self, ctx: Context, code: CodeWorkflow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Answers in place of a workflow. Every replay of the execution gets the same outcome."""
        key = ctx.execution.key
        if key not in self._outcomes:
            self.calls.append(MockCall(args, kwargs, 1, str(key)))
            self._outcomes[key] = self._outcome(key, code, args, kwargs)
        if self._takes_s:
            await ctx.sleep(self._takes_s)
        return _unraised(self._outcomes[key])

    def _outcome(self, key: Key, code: CodeWorkflow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        try:
            given = self._answer.next(self._who(str(key)), (key, (), 1, 0))
            return checked(self.name, given(*args, **kwargs), code.codec.result)
        except Exception as error:  # a mock's function is the test's code, which may raise anything
            if isinstance(error, MOCK_ERRORS):
                self._mocks.fail(error)
            return RaisedAnswer(error)

    def _who(self, key: str) -> str:
        return f"the mock of {self.name}, in call {len(self.calls)} ({key}),"


class MockAnswer:
    """The answers of a mock: one of `answers` for each attempt, always the same, or the result of a function of the arguments."""

    def __init__(self, answers: Any, returns: Any, raises: Any, calls: Any) -> None:
        given = [name for name, one in (("answers", answers), ("returns", returns), ("raises", raises), ("calls", calls)) if one is not UNSET]
        if len(given) > 1:
            raise BadValue("mock", " and ".join(given), "one of answers=[...], returns=value, raises=error, calls=function")
        if calls is not UNSET and not callable(calls):
            raise BadValue("mock(calls)", calls, "a function, which is given the arguments")
        self._listed = None if answers is UNSET else [_answer(one) for one in _iterated(answers)]
        self._same = RaisedAnswer(_error(raises)) if raises is not UNSET else (None if returns is UNSET else returns)
        self._function: Callable[..., Any] | None = None if calls is UNSET else calls
        self._left = list(range(len(self._listed or ())))
        self._given: dict[AttemptKey, int] = {}
        heapify(self._left)

    def check(self, name: str, kind: Any) -> None:
        """Rejects answers that the step can't return, as far as they are known before the call."""
        for one in self._listed if self._listed is not None else [] if self._function is not None else [self._same]:
            if not isinstance(one, RaisedAnswer):
                checked(name, one, kind)

    def next(self, who: str, attempt: AttemptKey) -> Callable[..., Any]:
        """The function that gives the answer for an attempt.

        Raises:
            Unanswered: there is none left.
        """
        if self._function is not None:
            return self._function
        if self._listed is None:
            return self._say(self._same)
        if not self._left:
            many = f"{len(self._listed)} {'was' if len(self._listed) == 1 else 'were'} given"
            raise Unanswered(who, f"{many}, and all have been used", "add one to answers=[...], or use returns= for the same each time")
        self._given[attempt] = number = heappop(self._left)
        return self._say(self._listed[number])

    def _say(self, given: Any) -> Callable[..., Any]:
        return lambda *_, **__: _unraised(given)

    def give_back(self, is_open: Callable[[Key, Path, int, int], bool]) -> None:
        """Makes the answers of attempts without an outcome available again."""
        for attempt, number in list(self._given.items()):
            if is_open(*attempt):
                del self._given[attempt]
                heappush(self._left, number)


class Mocks:
    """The mocks of a world. The latest one takes precedence.

    `fail` receives the error by which the test must fail. `version_of` returns the version of an execution's log.
    """

    def __init__(self, fail: FailCallback, version_of: Callable[[Key], int]) -> None:
        self.fail = fail
        self.version_of = version_of
        self.allowed: Sequence[Mock] | None = None
        self._all: list[Mock] = []
        self._casts: dict[Key, Mock | None] = {}

    def add(self, target: Any, answer: MockAnswer, takes: Duration) -> Mock:
        """Adds a mock of a step, a function, a workflow, or of the step or workflow of a name."""
        if isinstance(target, str):
            checked_name(target, "mock")
        elif not isinstance(target, (Step, Workflow)) and not callable(target):
            raise BadValue("mock", target, "a step, a function, a workflow, or the name of one")
        mock = Mock(target, answer, takes, self)
        self._all.append(mock)
        return mock

    def remove(self, mock: Mock) -> None:
        """Removes a mock."""
        if mock in self._all:
            self._all.remove(mock)

    def only(self, allowed: Iterable[Any]) -> None:
        """From now on, steps without a mock, except these, fail the test."""
        self.allowed = [Mock(target, MockAnswer(UNSET, UNSET, UNSET, _unused), 0, self) for target in allowed]

    def lost(self, is_open: Callable[[Key, Path, int, int], bool]) -> None:
        """Handles the death of a process: see `Mock.lost`."""
        for mock in self._all:
            mock.lost(is_open)

    async def perform(self, fn: Any, args: Value, info: StepInfo, *others: Any) -> Outcome:
        """Performs an attempt of a step, with its mock if it has one."""
        mock = next((mock for mock in reversed(self._all) if mock.answers_for(fn, info.path)), None)
        if mock is None and self.allowed is not None and not any(one.answers_for(fn, info.path) for one in self.allowed):
            name = _named(fn.step if isinstance(fn, UndoHandler) else fn)
            why = Unanswered(f"step {name} ({info.key})", "it is not mocked, and the world is strict", f"mock it, or allow it: world.strict({name})")
            await self.give_up(why)
        if mock is None and (is_transactional(fn) or (isinstance(fn, Step) and fn.form is not None)):
            name = _named(fn.step if isinstance(fn, UndoHandler) else fn)
            instead = f"mock it: world.mock({name}, ...); or test it in a file, with an App or `.with_(db=...).run()`"
            await self.give_up(Unanswered(f"step {name} ({info.key})", "it needs a transaction, and a world has no database", instead))
        outcome = await run_step(fn if mock is None else mock.instead_of(fn), args, info, *others)
        if isinstance(outcome, Failure) and _is_real(outcome.error):
            name = _named(fn.step if isinstance(fn, UndoHandler) else fn)
            why = Unanswered(f"step {name} ({info.key})", "in virtual time there is no real input or output", f"mock it: world.mock({name}, ...)")
            await self.give_up(why)
        return outcome

    def wrap(self, code: AnyWorkflow) -> AnyWorkflow:
        """Wraps the function of a workflow so that an execution uses the mock, if there is one when it begins. A definition needs no connections."""
        if isinstance(code, GraphWorkflow):
            return dataclasses.replace(code, connections=None)
        if not isinstance(code, CodeWorkflow):
            return code

        @wraps(code.fn)
        async def play(ctx: Context, *args: Any, **kwargs: Any) -> Any:
            key = ctx.execution.key
            if key not in self._casts:
                self._casts[key] = next((mock for mock in reversed(self._all) if mock.stands_for(code)), None)
            mock = self._casts[key]
            return await (code.fn(ctx, *args, **kwargs) if mock is None else mock.play(ctx, code, args, kwargs))

        return dataclasses.replace(code, fn=play)

    async def give_up(self, why: Exception) -> NoReturn:
        """Fails the test. The step is left waiting, so that its state can be examined."""
        self.fail(why)
        await asyncio.get_running_loop().create_future()
        raise why


def checked(name: str, value: Any, kind: Any) -> Any:
    """Passes an answer of the mock through its encoding and returns it.

    Raises:
        BadValue: it does not have the declared return type of the step or workflow.
        Unencodable, TooLarge: it can't be stored.
    """
    what = f"the answer of the mock of {name}"
    raw = values.encode(value, what)
    try:
        return values.decode(raw, kind, what)
    except Undecodable as error:
        shown = getattr(kind, "__name__", str(kind))
        raise BadValue(what, value, f"of type {shown}, as what {name} returns: {error.why}") from error


def _codec_result(target: Any) -> Any:
    match target:
        case str():
            return Any
        case Workflow():
            return target.code.codec.result
        case Step():
            return target.codec.result
    return codec_of_function(target).result


def _named(target: Any) -> str:
    match target:
        case str():
            return target
        case Workflow():
            return target.code.name
        case Step():
            return target.name
    return getattr(target, "__name__", type(target).__name__)


def _iterated(answers: Any) -> list[Any]:
    if isinstance(answers, (str, bytes, Mapping)) or not isinstance(answers, Iterable):
        raise BadValue("mock(answers)", answers, "a list of answers, one for each attempt; returns= is for the same each time")
    return list(answers)


def _answer(one: Any) -> Any:
    return RaisedAnswer(_error(one)) if isinstance(one, BaseException) or (isinstance(one, type) and issubclass(one, BaseException)) else one


def _error(one: Any) -> BaseException:
    made = one() if isinstance(one, type) else one
    if not isinstance(made, Exception):
        raise BadValue("mock(raises)", one, "an exception, or a class of them")
    return made


def _is_real(error: ErrorInfo) -> bool:
    """Whether a step failed because it used a feature that a virtual loop lacks: sockets, processes, signals."""
    lines = error.traceback.splitlines()
    return error.type == "NotImplementedError" and any("asyncio" in line and "events.py" in line for line in lines[-4:])


def _unraised(made: Any) -> Any:
    if isinstance(made, RaisedAnswer):
        raise made.error.with_traceback(None)  # the same error may be raised many times
    return made


def _unused(*_: Any, **__: Any) -> None:
    """The function of mocks that serve only to match a name."""
