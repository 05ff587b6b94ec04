"""Claims about values and names: what goes in comes out by its hint, live and replayed alike; what can't be kept says so; no two names collide."""

import asyncio
import enum
import math
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Context, Key, Retry, Signal, StepFailed, Workflow, step, workflow
from perdure.code.context import Turn
from perdure.code.operation_paths import NameScope
from perdure.core import limits, messages, values
from perdure.core import paths as p
from perdure.core.errors import BadName, DuplicateName
from tests.code.engines import blob_paths, cut, every_cut, resident, settle, virtually, world

NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
SEGMENTS = st.one_of(st.integers(0, 10**6), st.tuples(NAMES, st.integers(1, 1000)))
PATHS = st.lists(SEGMENTS, max_size=6).map(tuple)
ODD_NAMES = ["a/b", "~0", "a#2", "#2", ":count", "%", "%2F", " ", "ü", "🦆", "\n", "\0", "a" * 1024, "..", "reply:1"]


# paths


@given(PATHS)
def test_the_text_of_a_path_is_read_back_as_the_path(path: p.Path) -> None:
    assert p.parse_path(p.path_text(path)) == path


@given(PATHS, PATHS)
def test_two_paths_never_have_one_text_nor_one_idempotency_key(one: p.Path, other: p.Path) -> None:
    key = Key("t", "w", "i")
    assert (p.path_text(one) == p.path_text(other)) == (one == other)
    assert (p.idempotency_key(key, one) == p.idempotency_key(key, other)) == (one == other)


@given(st.tuples(NAMES, NAMES, NAMES), PATHS, st.tuples(NAMES, NAMES, NAMES), PATHS)
def test_operations_of_different_executions_never_have_one_idempotency_key(one: Any, at: p.Path, other: Any, there: p.Path) -> None:
    same = p.idempotency_key(Key(*one), at) == p.idempotency_key(Key(*other), there)
    assert same == ((one, at) == (other, there))


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_names_like_any_other(name: str) -> None:
    scope = NameScope(())
    first, second = scope.take(name), scope.take(name)
    assert first != second and p.parse_path(p.path_text(second)) == second


@pytest.mark.slow
@resident
async def test_odd_names_do_not_collide_in_one_workflow_and_come_back_from_every_cut() -> None:
    @step
    async def same(name: str) -> str:
        return name

    @workflow
    async def naming(ctx: Context) -> list[str]:
        found = [await ctx.step(name, same, name) for name in ODD_NAMES]
        branches: dict[str, Any] = {name: lambda c, n=name: c.step("x", same, n) for name in ODD_NAMES}
        record = await ctx.join(**branches)
        heard = await ctx.listen(*ODD_NAMES)
        for name in ODD_NAMES:
            await ctx.keep(f"keep {name}"[:1000], lambda: name)  # noqa: B023  # called at once
            ctx.set(name, name)
        return [*found, *record.values(), heard]

    async def say(w: Any, key: Any) -> None:
        await w.send(key, ":count", "heard", once="k")

    assert await every_cut(naming, say=say) == [*ODD_NAMES, *ODD_NAMES, "heard"]


BAD_NAMES: dict[str, Any] = {"empty": "", "too long": "a" * 1025, "too long in bytes": "ü" * 513, "a lone surrogate": "\ud800", "no text": 7}
PLACES: dict[str, Callable[[Context, Any], Any]] = {
    "step": lambda c, name: c.step(name, len, "x") if isinstance(name, str) else c.step(step(name=name)(len), "x"),
    "listen": lambda c, name: c.listen(name),
    "send": lambda c, name: c.send(c.execution.key, name),
    "keep": lambda c, name: c.keep(name, lambda: 1),
    "set": lambda c, name: c.set(name, 1),
    "sleep": lambda c, name: c.sleep(1, name=name),
    "loop": lambda c, name: c.loop(name, state=1),
    "signal": lambda c, name: Signal(name),
    "with_": lambda c, name: step(len).with_(name=name),
}


@pytest.mark.parametrize("what", BAD_NAMES)
@resident
async def test_names_that_are_empty_too_long_or_no_text_are_refused_everywhere(what: str) -> None:
    @workflow
    async def naming(ctx: Context) -> list[str]:
        allowed = []
        for place, use in PLACES.items():
            try:
                _ = use(ctx, BAD_NAMES[what])
                allowed.append(place)
            except BadName:
                continue
        if isinstance(BAD_NAMES[what], str):
            branches: dict[str, Any] = {BAD_NAMES[what]: lambda c: c.sleep(1)}
            with pytest.raises(BadName):
                _ = ctx.join(**branches)
        return allowed

    async with world(naming) as w:
        assert await w.run(naming) == []


@virtually
async def test_a_function_that_fails_in_keep_is_remembered_as_failed_and_can_be_caught() -> None:
    @workflow
    async def keeping(ctx: Context) -> str:
        try:
            await ctx.keep("k", lambda: 1 // 0)
        except StepFailed as error:
            await ctx.sleep(1)
            return f"{error.name}: {error.error.type}"
        return "kept"

    assert await every_cut(keeping) == "k: ZeroDivisionError"


@virtually
async def test_one_explicit_name_twice_in_one_scope_is_an_error_and_in_two_scopes_none() -> None:
    @workflow
    async def naming(ctx: Context) -> str:
        await ctx.sleep(1, name="x")
        await ctx.join(lambda c: c.sleep(1, name="x"), lambda c: c.sleep(1, name="x"))
        try:
            await ctx.step("x", len, "abc")
        except DuplicateName as error:
            return str(error)
        return "allowed"

    async with world(naming) as w:
        assert "'x' is used twice in the workflow" in await w.run(naming)


# what can't be kept


def cycle() -> list[Any]:
    it: list[Any] = []
    it.append(it)
    return it


class Opaque:
    """Something without an encoding."""


UNKEEPABLE: dict[str, Callable[[], Any]] = {
    "a cycle": cycle,
    "a big integer": lambda: 2**70,
    "a function": lambda: lambda: 0,
    "an object": Opaque,
    "too much": lambda: b"x" * (limits.VALUE_BYTES_MAX + 1),
    "deep within": lambda: {"a": [{"b": Opaque()}]},
}

POSITIONS = ["step args", "step result", "workflow result", "keep", "send", "set", "emit", "loop state", "loop turn", "reply", "child input"]
NAMED = {
    "step args": "size",
    "step result": "make",
    "keep": "kept",
    "send": "send:m",
    "set": "set:shown",
    "emit": "emit",
    "loop state": "l",
    "loop turn": "l",
    "reply": "listen:m",
    "child input": "taker",
}


@workflow
async def taker(ctx: Context, value: Any) -> None: ...


async def put(ctx: Context, position: str, value: Any) -> Any:
    """Put a value where it would have to be kept."""

    def size(value: Any) -> int:
        return 1

    def make() -> Any:
        return value

    match position:
        case "step args":
            return await ctx.step(size, value)
        case "step result":
            return await ctx.step(make)
        case "keep":
            return await ctx.keep("kept", make)
        case "send":
            return await ctx.send(ctx.execution.key, "m", value)
        case "set":
            return ctx.set("shown", value)
        case "emit":
            return ctx.emit(value)
        case "loop state":
            async for _ in ctx.loop("l", state=value):
                break
        case "loop turn":
            async for turn in ctx.loop("l", state=None):
                turn.state = value
        case "reply":
            (await ctx.listen("m", completable=True)).complete(value)
        case "child input":
            return await ctx.call(taker, value)
    return value


@pytest.mark.parametrize("what", UNKEEPABLE)
@pytest.mark.parametrize("position", POSITIONS)
@virtually
async def test_what_cannot_be_kept_is_an_error_that_names_the_operation_and_the_execution_goes_on(position: str, what: str) -> None:
    @workflow(name="putting")
    async def putting(ctx: Context) -> Any:
        if position == "workflow result":
            await ctx.sleep(1)
            return UNKEEPABLE[what]()
        try:
            await put(ctx, position, UNKEEPABLE[what]())
        except Exception as error:
            await ctx.sleep(1)
            return f"{type(error).__name__}: {error}"
        return "allowed"

    async with world(putting, taker) as w:
        key = await w.start(putting)
        if position == "reply":
            await w.send(key, "m")
        if position == "workflow result":
            error = await w.error(key)
            assert error.type in ("unencodable", "too_large") and "putting" in error.message
        else:
            found = await w.result(key)
            expected = "StepFailed" if position == "step result" else ("Unencodable: ", "TooLarge: ")
            assert found.startswith(expected) and NAMED[position] in found, found
            assert any(name in found for name in ("Unencodable", "unencodable", "TooLarge", "too_large"))
        await w.replayed(key)


@virtually
async def test_a_socket_is_refused_with_the_step_and_its_type_and_the_step_is_not_run_again() -> None:
    ran: list[int] = []

    @step(retry=Retry(max=5))
    async def connects() -> Any:
        ran.append(1)
        with socket.socket() as one:
            return one

    @workflow
    async def connecting(ctx: Context) -> None:
        await ctx.step(connects)

    async with world(connecting) as w:
        error = await w.failure(connecting)
        assert error.type == "step_failed"
        assert "fatal, 1 attempt" in error.message and "connects" in error.message and "socket" in error.message
    assert len(ran) == 1


# large values


LARGE = "x" * limits.BLOB_BYTES_MIN


@resident
async def test_a_value_from_64_kib_is_a_blob_in_every_position_and_replay_loads_it() -> None:
    @step
    async def echo(value: str) -> str:
        return value

    @workflow
    async def echoing(ctx: Context, value: str) -> str:
        return await ctx.step(echo, value)

    @workflow
    async def large(ctx: Context, value: str) -> list[str]:
        found = [await ctx.step(echo, value)]
        found.append(await ctx.keep("kept", lambda: LARGE))
        ctx.set("shown", LARGE)
        ctx.emit(LARGE)
        found.append(await ctx.listen("m"))
        found.append(await ctx.call(echoing, LARGE))
        async for turn in ctx.loop("l", state=LARGE, keep=1):
            found.append(turn.state)
            await turn.sleep(1)
            if turn.number == 3:
                break
        (await ctx.listen("c", completable=True)).complete(LARGE)
        await ctx.send(Key("default", "large", "nobody"), "m", LARGE)
        await ctx.sleep(1)
        return found

    for mode_rows in (False, True):
        async with world(large, echoing) as w:
            key = await w.start(large, LARGE)
            await w.send(key, "m", LARGE)
            await w.send(key, "c")
            if mode_rows:
                await settle(2.5)
                await w.crash()
            assert await w.result(key) == [LARGE] * 8
            assert sum(map(len, await w.rows(key))) < 10_000
            execution = await w.fold(key)
            assert {"echo", "kept", "set:shown", "emit", "call:echoing", "l/~3", "listen:c/reply:2"} <= blob_paths(execution)
            await w.replayed(key)


@resident
async def test_large_values_come_back_after_a_reopening() -> None:
    failing = True

    @step
    async def big() -> str:
        return LARGE

    @step(retry=Retry(max=1))
    async def unsure() -> None:
        if failing:
            raise ValueError

    @workflow
    async def reopened(ctx: Context, value: str) -> int:
        total = len(value) + len(await ctx.step(big)) + len(await ctx.keep("k", lambda: LARGE)) + len(await ctx.listen("m"))
        await ctx.step(unsure)
        return total

    async with world(reopened) as w:
        key = await w.start(reopened, LARGE)
        await w.send(key, "m", LARGE)
        assert (await w.error(key)).type == "step_failed"
        failing = False
        await w.tell(key, messages.RetryMessage())
        await settle(1)
        assert await w.result(key) == 4 * len(LARGE)


# kinds of values


class Colour(enum.Enum):
    """A colour."""

    RED = "red"


class Level(enum.IntEnum):
    """A level."""

    HIGH = 3


@dataclass
class Data:
    """A dataclass."""

    n: int
    tags: set[str]


class Record(msgspec.Struct):
    """A Struct."""

    at: datetime
    inner: Data


class Model(pydantic.BaseModel):
    """A pydantic model."""

    name: str
    price: Decimal


@attrs.define
class Classy:
    """An attrs class."""

    n: int
    at: date


NOON = datetime(2026, 1, 2, 12, 30, 0, 123456, tzinfo=UTC)
KINDS: list[tuple[Any, Any]] = [
    (Data, Data(1, {"a", "b"})),
    (Record, Record(NOON, Data(2, set()))),
    (Model, Model(name="x", price=Decimal("1.10"))),
    (Classy, Classy(3, date(2026, 1, 2))),
    (datetime, NOON),
    (datetime, datetime(2026, 1, 2)),  # noqa: DTZ001  # without a time zone, and it comes back so
    (date, date(2026, 1, 2)),
    (time, time(1, 2, 3)),
    (timedelta, timedelta(days=3, microseconds=1)),
    (Decimal, Decimal("0.1000")),
    (UUID, UUID(int=7)),
    (bytes, b"\0\xff"),
    (Colour, Colour.RED),
    (Level, Level.HIGH),
    (set[int], {1, 2}),
    (frozenset[str], frozenset({"a"})),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2, 3)),
    (list[Data], [Data(1, {"x"})]),
    (dict[int, tuple[int, Colour]], {1: (2, Colour.RED)}),
    (Data | None, None),
    (int | str, "text"),
    (float, 1.5),
    (float, math.inf),
    (int, 2**63),
    (int, -(2**63)),
    (Any, {"plain": [1, "a", None, True, 1.5, b"x"]}),
]


@pytest.mark.parametrize(("hint", "value"), KINDS, ids=[f"{number}-{type(value).__name__}" for number, (_, value) in enumerate(KINDS)])
@virtually
async def test_a_value_round_trips_by_its_hint_live_and_on_replay_alike(hint: Any, value: Any) -> None:
    async def echo(given: Any) -> Any:
        assert given == value and type(given) is type(value)
        return given

    def kept() -> Any:
        return value

    echo.__annotations__ = {"given": hint, "return": hint}
    kept.__annotations__ = {"return": hint}
    echoing = step(retry=Retry(max=1))(echo)
    seen: list[Any] = []

    async def flow(ctx: Context, given: Any) -> Any:
        seen.clear()
        seen.extend([given, await ctx.step(echoing, given), await ctx.keep("k", kept), await ctx.listen(Signal("m", hint))])
        await ctx.sleep(1)
        return given

    flow.__annotations__ = {"given": hint, "return": hint}
    declared: Workflow[..., Any] = workflow(flow)
    async with world(declared) as w:
        key = await w.start(declared, value)
        await w.send(key, "m", value)
        result = await w.result(key)
        assert result == value and type(result) is type(value)
        live = list(seen)
        assert live == [value] * 4 and all(type(one) is type(value) for one in live)
        seen.clear()
        rows = await w.rows(key)
        assert rows
    async with world(declared, store=await cut(key, rows[:-1], {})) as w:
        assert await w.result(key) == value
        assert seen == live and [type(one) for one in seen] == [type(one) for one in live]


@virtually
async def test_a_value_without_a_hint_is_plain_data_in_the_first_run_already() -> None:
    @workflow
    async def unhinted(ctx: Context) -> Any:
        return [type(await ctx.step(lambda: (1, 2))).__name__, type(await ctx.keep("k", lambda: {3})).__name__]

    async with world(unhinted) as w:
        assert await w.run(unhinted) == ["list", "list"]


@virtually
async def test_loop_state_keeps_its_type_and_a_fraction_may_follow_a_count() -> None:
    @workflow
    async def looping(ctx: Context) -> list[Any]:
        seen: list[Any] = []
        async for turn in ctx.loop("data", state=Data(0, set())):
            assert isinstance(turn, Turn)
            seen.append(type(turn.state).__name__)
            turn.state = Data(turn.state.n + 1, {"x"})
            if turn.number == 2:
                break
        async for plain in ctx.loop("plain", state=0.0):
            seen.append(plain.state)
            plain.state = 0.5
            if plain.number == 1:
                break
        return seen

    async with world(looping) as w:
        assert await w.run(looping) == ["Data"] * 3 + [0.0, 0.5]


def test_nan_is_kept_as_what_it_is() -> None:
    found = values.decode(values.encode(math.nan, "here"), float, "there")
    assert math.isnan(found)


@virtually
async def test_infinity_and_nan_pass_through_a_workflow() -> None:
    @workflow
    async def odd(ctx: Context, value: float) -> list[float]:
        return [value, await ctx.step(lambda: math.nan), -math.inf]

    async with world(odd) as w:
        first, second, third = await w.run(odd, math.inf)
        assert first == math.inf and math.isnan(second) and third == -math.inf


@virtually
async def test_mutating_a_value_after_it_was_passed_changes_nothing() -> None:
    @step
    async def slow(items: list[int]) -> list[int]:
        await asyncio.sleep(1)
        items.append(99)
        return items

    @workflow
    async def mutating(ctx: Context) -> list[list[int]]:
        items = [1]
        running = asyncio.create_task(ctx.step(slow, items))
        items.append(2)
        returned = await running
        return [items, returned]

    async with world(mutating) as w:
        assert await w.run(mutating) == [[1, 2], [1, 99]]


@virtually
async def test_a_function_whose_value_is_kept_may_not_use_verbs_which_replay_would_not_call() -> None:
    @workflow
    async def wrong(ctx: Context) -> list[str]:
        uses: dict[str, Callable[[], object]] = {"emit": lambda: ctx.emit(1), "set": lambda: ctx.set("a", 1), "random": lambda: ctx.random, "now": ctx.now}
        said = []
        for name, use in uses.items():
            try:
                await ctx.keep(name, lambda use=use: str(use()))  # type: ignore[misc]  # mypy can't infer the default
                said.append("kept")
            except StepFailed as failed:
                said.append(failed.error.message.partition(". ")[0])
        ctx.emit("after")
        return said

    async with world(wrong) as w:
        refused = [f"ctx.{verb} was called in the function of ctx.keep" for verb in ("emit", "set", "random")]
        assert await w.run(wrong) == [*refused, "kept"]
        await w.replayed(w.key(wrong))
