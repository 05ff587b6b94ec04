"""Claims about sync workflows and their async twins: the same program remembers the same, and each replays what the other remembered."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any

import msgspec
import pytest

from perdure import Context, Err, JoinFailed, Key, RaceFailed, Retry, Signal, StepFailed, SyncContext, SyncTurn, Timeout, Turn, step, workflow
from perdure.core import events as e
from perdure.core import log_format, messages, values
from perdure.core.errors import DuplicateName
from perdure.core.operations import CallOperation, KeepOperation, Outcome, SpawnOperation
from tests.code.decision_driver import Hand
from tests.sampling import some

approved = Signal("approved", bool)


@step
async def mark(word: str) -> str:
    return word


@step
def plain(word: str) -> str:
    return word


@step(retry=Retry(max=2, wait=1, jitter=0))
async def failing(word: str) -> None:
    raise ValueError(word)


@step
async def never() -> None:
    await asyncio.get_running_loop().create_future()


@workflow
async def child(ctx: Context, number: int) -> int:
    return number


def twins(sync: Callable[..., Any], awaiting: Callable[..., Any], drive: Callable[[Hand], object] = Hand.run) -> Hand:
    """Drive a program and its async twin alike. They must remember the same, and each must replay what the other has remembered."""
    codes = [workflow(name="twin")(fn).code for fn in (sync, awaiting)]
    hands = [Hand(code).start() for code in codes]
    for hand in hands:
        drive(hand)
    assert remembered(hands[0]) == remembered(hands[1])
    for hand, code in zip(hands, reversed(codes), strict=True):
        _, instance, diverged = hand.rebuilt(code.fn)
        instance.close()
        assert diverged is None, diverged
    hands[1].close()
    return hands[0]


def remembered(hand: Hand) -> list[bytes]:
    """A log in bytes, event by event; but not the lines of code that a traceback names."""
    events = list(hand.log)
    for index, event in enumerate(events):
        if isinstance(event, e.EndedEvent) and isinstance(event.outcome, Err):
            events[index] = msgspec.structs.replace(event, outcome=_without_traceback(event.outcome))
        elif isinstance(event, e.OpenedEvent) and isinstance(event.op, KeepOperation) and event.op.role == "undo" and isinstance(event.op.value, bytes):
            outcome = values.decode(event.op.value, Outcome, "an outcome")
            plan = values.encode(_without_traceback(outcome) if isinstance(outcome, Err) else outcome, "an outcome")
            events[index] = msgspec.structs.replace(event, op=msgspec.structs.replace(event.op, value=plan))
    return [log_format.encode_row([event]) for event in events]


def _without_traceback(outcome: Err) -> Err:
    return msgspec.structs.replace(outcome, error=msgspec.structs.replace(outcome.error, traceback=""))


def test_steps_times_values_and_lines_are_remembered_as_by_the_async_twin() -> None:
    def sync(ctx: SyncContext) -> list[Any]:
        found: list[Any] = [ctx.step(mark, "a"), ctx.step(plain, word="a"), ctx.step(mark, "a"), ctx.step("mine", plain, "b")]
        found += [ctx.step(mark.with_(name="yours"), "c"), ctx.step(lambda: 3)]
        found.append(ctx.attempt(failing, "d") == ctx.attempt("again", failing, "d"))
        ctx.sleep("1h")
        ctx.sleep(5, name="nap")
        ctx.sleep_until(datetime(1970, 1, 2, tzinfo=UTC))
        found += [ctx.now().isoformat(), ctx.random.random(), str(ctx.uuid()), ctx.keep("k", lambda: [1, 2])]
        ctx.set("phase", "one")
        ctx.set_attributes({"phase": 1, "old": None})
        ctx.emit({"n": 1})
        ctx.log.info("here", n=1)
        return [*found, ctx.execution.id, ctx.execution.workflow]

    async def awaiting(ctx: Context) -> list[Any]:
        found: list[Any] = [await ctx.step(mark, "a"), await ctx.step(plain, word="a"), await ctx.step(mark, "a"), await ctx.step("mine", plain, "b")]
        found += [await ctx.step(mark.with_(name="yours"), "c"), await ctx.step(lambda: 3)]
        found.append(await ctx.attempt(failing, "d") == await ctx.attempt("again", failing, "d"))
        await ctx.sleep("1h")
        await ctx.sleep(5, name="nap")
        await ctx.sleep_until(datetime(1970, 1, 2, tzinfo=UTC))
        found += [ctx.now().isoformat(), ctx.random.random(), str(ctx.uuid()), await ctx.keep("k", lambda: [1, 2])]
        ctx.set("phase", "one")
        ctx.set_attributes({"phase": 1, "old": None})
        ctx.emit({"n": 1})
        ctx.log.info("here", n=1)
        return [*found, ctx.execution.id, ctx.execution.workflow]

    found = twins(sync, awaiting).result
    assert found[:8] == ["a", "a", "a", "b", "c", 3, True, "1970-01-02T00:00:00+00:00"] and found[-3:] == [[1, 2], "1", "twin"]


def test_messages_and_children_are_remembered_as_by_the_async_twin() -> None:
    def sync(ctx: SyncContext) -> list[Any]:
        question = ctx.listen(Signal("question", str), completable=True)
        question.complete(question.body.upper())
        found: list[Any] = [ctx.listen(approved), ctx.listen("x", "y"), ctx.listen("z", timeout=5, default="nothing"), ctx.listen_many("x", limit=2)]
        found += [[one.complete(1) for one in ctx.listen_many("q", completable=True)], ctx.listen_many("w", timeout=1)]
        ctx.send(Key("", "other", "1"), approved, body=True)
        try:
            ctx.listen("z", timeout="1s", name="last")
        except Timeout:
            found.append("late")
        return [*found, ctx.start(child, 1).id, ctx.call(child, 2)]

    async def awaiting(ctx: Context) -> list[Any]:
        question = await ctx.listen(Signal("question", str), completable=True)
        question.complete(question.body.upper())
        found: list[Any] = [await ctx.listen(approved), await ctx.listen("x", "y"), await ctx.listen("z", timeout=5, default="nothing")]
        found += [await ctx.listen_many("x", limit=2)]
        found += [[one.complete(1) for one in await ctx.listen_many("q", completable=True)], await ctx.listen_many("w", timeout=1)]
        await ctx.send(Key("", "other", "1"), approved, body=True)
        try:
            await ctx.listen("z", timeout="1s", name="last")
        except Timeout:
            found.append("late")
        return [*found, (await ctx.start(child, 1)).id, await ctx.call(child, 2)]

    def drive(hand: Hand) -> None:
        for name, body in (("question", "why"), ("approved", True), ("y", 1), ("x", 2), ("x", 3), ("q", 4)):
            hand.signal(name, body)
        hand.run()
        hand.settle("call:child", 2)

    found = twins(sync, awaiting, drive).result
    assert found[:7] == [True, 1, "nothing", [2, 3], [None], [], "late"] and found[-1] == 2


def test_joins_maps_races_and_loops_are_remembered_as_by_the_async_twin() -> None:
    def sync(ctx: SyncContext) -> list[Any]:
        def slow(c: SyncContext) -> str:
            c.sleep(5)
            return c.step(mark, "slow")

        def audit(c: SyncContext, item: int) -> int:
            for turn in c.loop("audit", state=item, keep=1, commit_every=2):
                turn.step(mark, f"turn {turn.number}")
                turn.state += 1
                if turn.number == 3:
                    break
            return turn.state + len(c.step(mark, "after"))

        found: list[Any] = [ctx.join(slow, slow, lambda c: c.step(plain, "x")), dict(ctx.join(one=slow, two=lambda c: c.sleep(1)))]
        found.append(ctx.map(audit, [10, 20, 30], limit=2))
        won = ctx.race(slow=slow, fast=lambda c: c.sleep(1), name="first")
        found.append([won.name, won.value])
        for verb in (ctx.join, ctx.race):
            try:
                verb(bad=lambda c: c.step(failing, "bad"), worse=lambda c: 1 // 0)
            except (JoinFailed, RaceFailed) as failed:
                found.append(sorted(failed.errors))
        return found

    async def awaiting(ctx: Context) -> list[Any]:
        async def slow(c: Context) -> str:
            await c.sleep(5)
            return await c.step(mark, "slow")

        async def audit(c: Context, item: int) -> int:
            async for turn in c.loop("audit", state=item, keep=1, commit_every=2):
                await turn.step(mark, f"turn {turn.number}")
                turn.state += 1
                if turn.number == 3:
                    break
            return turn.state + len(await c.step(mark, "after"))

        async def zero(_: Context) -> int:
            return 1 // 0

        found: list[Any] = [await ctx.join(slow, slow, lambda c: c.step(plain, "x")), dict(await ctx.join(one=slow, two=lambda c: c.sleep(1)))]
        found.append(await ctx.map(audit, [10, 20, 30], limit=2))
        won = await ctx.race(slow=slow, fast=lambda c: c.sleep(1), name="first")
        found.append([won.name, won.value])
        for verb in (ctx.join, ctx.race):
            try:
                await verb(bad=lambda c: c.step(failing, "bad"), worse=zero)
            except (JoinFailed, RaceFailed) as failed:
                found.append(sorted(failed.errors))
        return found

    found = twins(sync, awaiting).result
    assert found == [["slow", "slow", "x"], {"one": "slow", "two": None}, [19, 29, 39], ["fast", None], *[["bad", "worse"]] * 2]


def test_branches_are_named_as_those_of_the_async_twin_whatever_they_are() -> None:
    class Sync:
        def __call__(self, c: SyncContext, item: str = "object") -> str:
            return c.step(mark, item)

    class Awaiting:
        async def __call__(self, c: Context, item: str = "object") -> str:
            return await c.step(mark, item)

    def sync(ctx: SyncContext) -> list[Any]:
        def named(c: SyncContext) -> str:
            return c.step(mark, "named")

        found: list[Any] = [ctx.join(named, named, Sync(), lambda c: c.now().year), ctx.join(Awaiting(), partial(Sync(), item="a part"))]
        return [*found, ctx.map(Sync(), "ab"), ctx.map(Awaiting(), "ab"), ctx.map(lambda c, item: item, "ab")]

    async def awaiting(ctx: Context) -> list[Any]:
        async def named(c: Context) -> str:
            return await c.step(mark, "named")

        async def year(c: Context) -> int:
            return c.now().year

        async def itself(_: Context, item: str) -> str:
            return item

        found: list[Any] = [await ctx.join(named, named, Awaiting(), lambda c: year(c)), await ctx.join(Awaiting(), partial(Awaiting(), item="a part"))]
        return [*found, await ctx.map(Awaiting(), "ab"), await ctx.map(Awaiting(), "ab"), await ctx.map(lambda c, item: itself(c, item), "ab")]

    assert twins(sync, awaiting).result == [["named", "named", "object", 1970], ["object", "a part"], *[["a", "b"]] * 3]


def test_failures_are_remembered_as_by_the_async_twin() -> None:
    def sync(ctx: SyncContext) -> None:
        try:
            ctx.step(failing, "x")
        except StepFailed as failed:
            ctx.step("note", mark, failed.kind)
        try:
            ctx.step("note", mark, "twice")
        except DuplicateName:
            ctx.keep("bad", lambda: threading.Lock())

    async def awaiting(ctx: Context) -> None:
        try:
            await ctx.step(failing, "x")
        except StepFailed as failed:
            await ctx.step("note", mark, failed.kind)
        try:
            await ctx.step("note", mark, "twice")
        except DuplicateName:
            await ctx.keep("bad", lambda: threading.Lock())

    hand = twins(sync, awaiting)
    ended = hand.execution.ended
    assert ended is not None and isinstance(ended.outcome, Err) and ended.outcome.error.type == "unencodable"


@pytest.mark.parametrize("cancels_before", [0, 1, 2, 3])
def test_cancelling_is_remembered_as_by_the_async_twin(cancels_before: int) -> None:
    def sync(ctx: SyncContext) -> None:
        def branch(c: SyncContext, item: int) -> None:
            try:
                c.sleep(item)
                c.listen("m", completable=True)
                c.step(never)
            finally:
                c.step(mark, "branch")
                c.sleep(1)

        try:
            ctx.map(branch, [1, 2])
        except asyncio.CancelledError:
            ctx.step(mark, "cancelled")
            raise
        finally:
            ctx.step(mark, "finally")

    async def awaiting(ctx: Context) -> None:
        async def branch(c: Context, item: int) -> None:
            try:
                await c.sleep(item)
                await c.listen("m", completable=True)
                await c.step(never)
            finally:
                await c.step(mark, "branch")
                await c.sleep(1)

        try:
            await ctx.map(branch, [1, 2])
        except asyncio.CancelledError:
            await ctx.step(mark, "cancelled")
            raise
        finally:
            await ctx.step(mark, "finally")

    def drive(hand: Hand) -> None:
        moves: list[Callable[[], object]] = [hand.tick, lambda: hand.signal("m"), hand.tick]
        moves.insert(cancels_before, lambda: hand.tell(messages.CancelMessage("enough")))
        for move in moves:
            move()
        hand.run()

    assert twins(sync, awaiting, drive).execution.status == "cancelled"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_raised_in_a_workflow_or_its_branch_is_a_failure_as_for_the_async_twin(error: type[BaseException]) -> None:
    def sync(ctx: SyncContext) -> list[str]:
        def branch(c: SyncContext) -> None:
            c.sleep(1)
            raise error

        try:
            ctx.join(branch)
        except JoinFailed as failed:
            ctx.emit(str(failed.errors["branch"]))
        raise error

    async def awaiting(ctx: Context) -> list[str]:
        async def branch(c: Context) -> None:
            await c.sleep(1)
            raise error

        try:
            await ctx.join(branch)
        except JoinFailed as failed:
            ctx.emit(str(failed.errors["branch"]))
        raise error

    ended = twins(sync, awaiting).execution.ended
    assert ended is not None and isinstance(ended.outcome, Err)
    assert ended.outcome.error.message == f"{error.__name__} in a workflow"


def test_what_is_no_branch_is_refused_as_for_the_async_twin() -> None:
    def sync(ctx: SyncContext) -> None:
        ctx.join(ctx.now(), name="first")  # type: ignore[call-overload]  # the mistake under test

    async def awaiting(ctx: Context) -> None:
        await ctx.join(ctx.now(), name="first")  # type: ignore[call-overload]  # the mistake under test

    ended = twins(sync, awaiting).execution.ended
    assert ended is not None and isinstance(ended.outcome, Err) and ended.outcome.error.type == "wrong_verb"


FOR_WHAT_IS_AWAITED = {"wait", "as_completed"}
"""A sync verb returns when it has settled, so nothing is left to be waited for."""


@pytest.mark.parametrize(("sync", "awaiting"), [(SyncContext, Context), (SyncTurn, Turn)])
def test_every_verb_of_the_async_context_is_there_with_the_same_parameters(sync: type[Any], awaiting: type[Any]) -> None:
    names = {name for kind in awaiting.__mro__ for name in vars(kind) if not name.startswith("_")} - FOR_WHAT_IS_AWAITED
    assert names <= {name for kind in sync.__mro__ for name in vars(kind) if not name.startswith("_")}
    for name in names:
        if inspect.isfunction(verb := getattr(awaiting, name)):
            assert parameters(getattr(sync, name)) == parameters(verb), name


def parameters(fn: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    """What a function takes."""
    return [(one.name, one.kind, one.default) for one in inspect.signature(fn).parameters.values()]


# Programs drawn by chance.

Part = tuple[str, int, "list[Part]"]
"""A verb, a number that it makes something of, and what is done inside of it."""

SIMPLE = ("step", "plain", "attempt", "sleep", "listen", "complete", "many", "keep", "set", "emit", "send", "call")
NESTED = ("join", "names", "map", "race", "loop", "guard")


def drawn(random: Random, depth: int) -> list[Part]:
    """A sequence of verbs."""
    parts: list[Part] = []
    for _ in range(random.randint(1, 4)):
        nested = depth > 0 and random.random() < 0.5
        parts.append((random.choice(NESTED if nested else SIMPLE), random.randint(0, 2), drawn(random, depth - 1) if nested else []))
    return parts


def asked(c: Any, parts: list[Part], branch: Callable[[list[Part]], Any], turn_of: Callable[[Any], Any]) -> Generator[Callable[[], Any], Any, None]:
    """The verbs to call, one by one; the generator is sent what each came to, or thrown what it raised."""
    for verb, number, inner in parts:
        options: dict[str, Any] = {"timeout": number, "default": None} if number else {}
        match verb:
            case "step" | "plain":
                yield partial(c.step, mark if verb == "step" else plain, str(number))
            case "attempt":
                yield partial(c.attempt, failing, str(number))
            case "sleep":
                yield partial(c.sleep, number)
            case "listen":
                yield partial(c.listen, "m", **options)
            case "complete":
                message = yield partial(c.listen, "m", completable=True, **options)
                if message is not None:
                    message.complete(number)
            case "many":
                yield partial(c.listen_many, "m", timeout=number)
            case "keep":
                yield partial(c.keep, f"k{number}", lambda: 1)
            case "set" | "emit":
                yield partial(c.set, "k", number) if verb == "set" else partial(c.emit, [c.now(), c.uuid()])
            case "send":
                yield partial(c.send, Key("", "other", "1"), "m", c.random.random())
            case "call":
                yield partial(c.call, child, number)
            case "join":
                yield partial(c.join, *[branch(inner)] * (number + 1))
            case "names" | "race":
                yield partial(c.join if verb == "names" else c.race, **{f"b{index}": branch(inner) for index in range(number + 1)})
            case "map":
                yield partial(c.map, lambda c, parts: branch(parts)(c), [inner] * (number + 1), limit=2)
            case "loop":
                turns = c.loop(f"l{number}", state=0, keep=1)
                while (turn := (yield partial(turn_of, turns))).number < number:
                    yield from asked(turn, inner, branch, turn_of)
                    turn.state += 1
                del turns
            case "guard":
                try:
                    yield from asked(c, inner, branch, turn_of)
                except asyncio.CancelledError:
                    yield partial(c.step, mark, "cancelled")
                    raise
                except Exception as error:
                    c.emit(type(error).__name__)
                finally:
                    yield partial(c.step, mark, "finally")


def without_await(parts: list[Part]) -> Callable[[SyncContext], None]:
    """The program as a plain function."""

    def drawn_program(c: SyncContext) -> None:
        verbs = asked(c, parts, without_await, next)
        with suppress(StopIteration):
            verb = next(verbs)
            while True:
                try:
                    value = verb()
                except BaseException as error:
                    verb = verbs.throw(error)
                else:
                    verb = verbs.send(value)

    return drawn_program


def with_await(parts: list[Part]) -> Callable[[Context], Coroutine[Any, Any, None]]:
    """The program as an async function."""

    async def drawn_program(c: Context) -> None:
        verbs = asked(c, parts, with_await, anext)
        with suppress(StopIteration):
            verb = next(verbs)
            while True:
                try:
                    value = verb()
                    value = await value if inspect.isawaitable(value) else value
                except BaseException as error:
                    verb = verbs.throw(error)
                else:
                    verb = verbs.send(value)

    return drawn_program


def fate(seed: int) -> Callable[[Hand], None]:
    """Whatever may happen to an execution, in an order drawn by chance."""

    def drive(hand: Hand) -> None:
        random = Random(seed)
        for _ in range(100):
            if hand.execution.ended is not None:
                return
            happening = random.choice(["perform"] * 6 + ["tick"] * 3 + ["signal"] * 2 + ["child"] * 2 + ["restart"] + ["cancel"] * (random.random() < 0.2))
            calls = list(hand.execution.opened.performing())
            children = [path for path, pending in hand.execution.open.items() if isinstance(pending.op, SpawnOperation)]
            if happening == "perform" and calls:
                call = random.choice(calls)
                hand.settle(call.path, ValueError("by chance") if isinstance(call.op, CallOperation) and call.op.target == "failing" else "done")
            elif happening == "child" and children:
                hand.settle(random.choice(children), random.choice([1, ValueError("the child's")]))
            elif happening == "signal":
                hand.signal("m", random.randint(0, 9))
            elif happening == "cancel":
                hand.tell(messages.CancelMessage("by chance"))
            elif happening == "restart":
                hand.restart()
            else:
                hand.tick()

    return drive


@pytest.mark.slow
@pytest.mark.parametrize("seeds", some([range(first, first + 50) for first in range(0, 200, 50)], 1), ids=str)
def test_any_program_is_remembered_as_its_async_twin_whatever_happens_to_it(seeds: range) -> None:
    for seed in seeds:
        parts = drawn(Random(seed), depth=3)
        try:
            twins(without_await(parts), with_await(parts), fate(seed)).close()
        except BaseException as error:
            error.add_note(f"seed {seed}: {parts}")
            raise
