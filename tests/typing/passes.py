# pyright: strict
"""Programs that must satisfy mypy --strict and pyright: what users write, and the types that come out of it.

Never run; `tests/test_typing.py` has it checked.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import assert_type

from perdure import App, AsyncClient, AsyncHandle, Client, Context, Err, Handle, Is, Ok, Retry, Signal, SyncContext, SyncTurn, Won, step, workflow


@dataclass(frozen=True)
class User:
    name: str
    contacts: tuple[str, ...]


@dataclass(frozen=True)
class Stock:
    count: int


@dataclass(frozen=True)
class Charge:
    id: str


@dataclass(frozen=True)
class Approval:
    granted: bool
    by: str


@dataclass(frozen=True)
class Cursor:
    next: str | None
    done: int


approved = Signal("approved", Approval)


# steps


@step
def greeting(name: str) -> str:
    return f"Hello {name}"


@step
async def fetch(page: str | None, *, size: int = 10) -> list[str]:
    return [page or ""] * size


@step(retry=Retry(max=5, wait="1s", factor=2, max_wait="30s", only=(TimeoutError,)), timeout="30s")
def charge(order: str, cents: int) -> Charge:
    return Charge(f"{order}:{cents}")


@step(timeout=timedelta(seconds=30), queue="gpu")
async def render_video(name: str) -> bytes:
    return name.encode()


async def a_step_is_still_the_function() -> None:
    assert_type(greeting("Ada"), str)
    assert_type(greeting(name="Ada"), str)
    assert_type(await fetch(None, size=3), list[str])
    assert_type(charge("o1", 500), Charge)
    assert_type(await render_video("v"), bytes)


@step
def no_arguments() -> int:
    return 1


# branches: async functions of a ctx of their own


async def load_user(ctx: Context) -> User:
    return User(await ctx.step(greeting, "Ada"), ())


async def load_stock(ctx: Context) -> Stock:
    return Stock(len(await ctx.step(fetch, None)))


async def render(ctx: Context, contact: str) -> bytes:
    return await ctx.step(render_video, contact)


async def wait_paid(ctx: Context) -> None:
    await ctx.listen(approved)


# workflows


@workflow
async def greet(ctx: Context, name: str) -> str:
    return await ctx.step(greeting, name)


@workflow(version=2, replays=[1], deadline="7d")
async def order(ctx: Context, order_id: str, cents: int = 100) -> Charge:
    return await ctx.step(charge, order_id, cents)


@workflow
async def steps(ctx: Context) -> None:
    assert_type(await ctx.step(greeting, "Ada"), str)
    assert_type(await ctx.step(greeting, name="Ada"), str)
    assert_type(await ctx.step("again", greeting, "Ada"), str)
    assert_type(await ctx.step(fetch, None), list[str])
    assert_type(await ctx.step(fetch, "p2", size=3), list[str])
    assert_type(await ctx.step(charge.with_(name="charge-now", retry=Retry(max=1)), "o1", cents=500), Charge)
    match await ctx.attempt(charge, "o1", 500):
        case Ok(value):
            assert_type(value, Charge)
        case Err(kind):
            assert_type(str(kind), str)


@workflow
async def composition(ctx: Context) -> None:
    assert_type(await ctx.join(load_user, load_stock), tuple[User, Stock])
    user, stock = await ctx.join(load_user, load_stock)
    assert_type(user, User)
    assert_type(stock, Stock)
    first, second, third = await ctx.join(load_user, load_stock, lambda c: c.step(greeting, "Ada"))
    assert_type(first, User)
    assert_type(second, Stock)
    assert_type(third, str)
    assert_type(await ctx.map(render, user.contacts, limit=10), list[bytes])
    assert_type(await ctx.race(one=load_user, other=load_user), Won[User])
    assert_type(await ctx.map(greeting, ["Ada"]), list[str])
    assert_type(await ctx.map(greet, ["Ada"], limit=2), list[str])
    assert_type(await ctx.join(no_arguments, no_arguments), tuple[int, int])
    assert_type(await ctx.race(one=no_arguments, other=no_arguments), Won[int])
    _ = await ctx.join(user=load_user, count=no_arguments)
    match await ctx.race(paid=wait_paid, late=lambda c: c.sleep("3d")):
        case Won("late"):
            raise TimeoutError
        case Won(name):
            assert_type(name, str)
    assert_type(await ctx.call(greet, "Ada"), str)
    assert_type(await ctx.call(order, "o1", cents=500), Charge)


@workflow
async def messages(ctx: Context) -> None:
    assert_type(await ctx.listen(approved), Approval)
    assert_type(await ctx.listen(Signal("counted", int)), int)
    assert_type(await ctx.listen(approved, timeout="2d"), Approval)
    assert_type(await ctx.listen(approved, timeout="2d", default=None), Approval | None)
    await ctx.send(greet.key("order-1"), approved, Approval(granted=True, by="ada"))


@workflow
async def loops(ctx: Context) -> int:
    async for turn in ctx.loop("audit", state=Cursor(None, 0), commit_every=1, keep=10):
        assert_type(turn.state, Cursor)
        page = await turn.step(fetch, turn.state.next)
        assert_type(page, list[str])
        if not page:
            break
        turn.state = Cursor(page[-1], turn.state.done + len(page))
    return 0


@workflow
async def time_and_values(ctx: Context) -> None:
    await ctx.sleep("3d")
    await ctx.sleep(0.5)
    await ctx.sleep(timedelta(days=3))
    assert_type(await ctx.keep("length", lambda: len("Ada")), int)


# from outside


def running() -> None:
    assert_type(greet.run("Ada"), str)
    assert_type(greet.run(name="Ada"), str)
    assert_type(greet.with_(id="k").run("Ada"), str)
    assert_type(order.run("o1"), Charge)
    assert_type(order.run("o1", cents=500), Charge)


async def running_in_a_loop() -> None:
    assert_type(await greet.arun("Ada"), str)
    assert_type(await greet.with_(id="k").arun("Ada"), str)


# without await: plain functions of a SyncContext


def sync_user(ctx: SyncContext) -> User:
    return User(ctx.step(greeting, "Ada"), ())


def sync_stock(ctx: SyncContext) -> Stock:
    return Stock(len(ctx.step(fetch, None)))


def sync_render(ctx: SyncContext, contact: str) -> bytes:
    return ctx.step(render_video, contact)


def sync_paid(ctx: SyncContext) -> None:
    ctx.listen(approved)


def sync_page(turn: SyncTurn[Cursor]) -> list[str]:
    return turn.step(fetch, turn.state.next)


@workflow
def sync_greet(ctx: SyncContext, name: str) -> str:
    return ctx.step(greeting, name)


@workflow(version=2, replays=[1], deadline="7d")
def sync_order(ctx: SyncContext, order_id: str, cents: int = 100) -> Charge:
    return ctx.step(charge, order_id, cents)


@workflow
def sync_steps(ctx: SyncContext) -> None:
    assert_type(ctx.step(greeting, "Ada"), str)
    assert_type(ctx.step("again", greeting, "Ada"), str)
    assert_type(ctx.step(fetch, "p2", size=3), list[str])
    assert_type(ctx.step(charge.with_(name="charge-now", retry=Retry(max=1)), "o1", cents=500), Charge)
    match ctx.attempt(charge, "o1", 500):
        case Ok(value):
            assert_type(value, Charge)
        case Err(kind):
            assert_type(str(kind), str)


@workflow
def sync_composition(ctx: SyncContext) -> None:
    assert_type(ctx.join(sync_user, sync_stock), tuple[User, Stock])
    _first, _second, third = ctx.join(sync_user, sync_stock, lambda c: c.step(greeting, "Ada"))
    assert_type(third, str)
    assert_type(ctx.join(sync_user, load_stock), tuple[User, Stock])
    assert_type(ctx.join(load_user, lambda c: c.step(greeting, "Ada")), tuple[User, str])
    assert_type(ctx.join(sync_user, lambda c: c.step(greeting, "Ada")), tuple[User, str])
    ctx.join(user=sync_user, stock=load_stock, mail=lambda c: c.sleep("3d"))
    assert_type(ctx.map(sync_render, ["a", "b"], limit=10), list[bytes])
    assert_type(ctx.map(render, ["a", "b"]), list[bytes])
    assert_type(ctx.race(one=sync_user, other=sync_user), Won[User])
    match ctx.race(paid=sync_paid, late=lambda c: c.sleep("3d")):
        case Won("late"):
            raise TimeoutError
        case Won(name):
            assert_type(name, str)
    assert_type(ctx.call(greet, "Ada"), str)
    assert_type(ctx.call(sync_order, "o1", cents=500), Charge)


@workflow
def sync_messages(ctx: SyncContext) -> None:
    assert_type(ctx.listen(approved), Approval)
    assert_type(ctx.listen(approved, timeout="2d", default=None), Approval | None)
    question = ctx.listen(approved, completable=True)
    assert_type(question.body, Approval)
    question.complete("thanks")
    assert_type(ctx.listen_many(approved, limit=3), list[Approval])
    ctx.send(sync_greet.key("order-1"), approved, Approval(granted=True, by="ada"))


@workflow
def sync_loops(ctx: SyncContext) -> int:
    for turn in ctx.loop("audit", state=Cursor(None, 0), commit_every=1, keep=10):
        assert_type(turn.state, Cursor)
        page = sync_page(turn)
        if not page:
            break
        turn.state = Cursor(page[-1], turn.state.done + turn.number)
    return 0


@workflow
def sync_time_and_values(ctx: SyncContext) -> None:
    ctx.sleep("3d")
    ctx.sleep(timedelta(days=3))
    assert_type(ctx.keep("length", lambda: len("Ada")), int)
    assert_type(ctx.start(greet, "Ada").id, str)


async def running_sync_ones() -> None:
    assert_type(sync_greet.run("Ada"), str)
    assert_type(sync_greet.with_(id="k").run(name="Ada"), str)
    assert_type(await sync_greet.arun("Ada"), str)
    assert_type(sync_order.run("o1", cents=500), Charge)


# an engine in a program

app = App([greet, order], definitions="flows/", db="sqlite:///app.db")


async def on_this_loop() -> None:
    async with app as same:
        assert_type(same, App)
        assert_type(await app.run(greet, "Ada"), str)
        assert_type(await app.run(order.with_(id="k"), "o1", cents=500), Charge)
        assert_type(await app.start(order, "o1"), AsyncHandle[Charge])
        assert_type(await (await app.handle("k", order)).result(), Charge)
        assert_type(app.client, AsyncClient)
        await app.run("by name", 1, other=2)


def on_a_thread_of_its_own() -> None:
    with app as shop:
        assert_type(shop.run(greet, "Ada"), str)
        assert_type(shop.start(order.with_(id="k"), "o1"), Handle[Charge])
        assert_type(shop.handle("k", order).result(), Charge)
        assert_type(shop.client, Client)


# clients


def from_any_process(client: Client) -> None:
    assert_type(client.start(greet, "Ada"), Handle[str])
    assert_type(client.start(order, "o1", cents=500).result(), Charge)
    assert_type(client.start(order.with_(id="k", delay="1h", strict=True), "o1").result(timeout="1m"), Charge)
    assert_type(client.start(greet, "Ada"), Handle[str])
    assert_type(client.start(greet.with_(delay=timedelta(hours=1)), "Ada"), Handle[str])
    assert_type(client.start(greet.with_(deadline=30), "Ada"), Handle[str])
    assert_type(client.start(greet.with_(tenant="acme"), "Ada"), Handle[str])
    assert_type(client.start(greet.with_(attributes={"customer": "c1", "cents": 5, "vip": True}), "Ada"), Handle[str])
    client.list(where={"customer": "c1", "cents": [Is(">=", 5), Is("<", 9.5)], "due": Is("exists")})
    assert_type(greet.with_(attributes={"customer": "c1"}).run("Ada"), str)
    client.start(client.workflow("greet").with_(id="k"), "Ada").result()
    assert_type(client.run(greet, "Ada"), str)
    assert_type(client.run(order.with_(id="k"), "o1"), Charge)
    assert_type(client.get("k", order).result(), Charge)
    assert_type(client.get("k", workflow=order, tenant="acme").created, bool)
    handle = client.get("k")
    handle.send(approved, Approval(granted=True, by="ada"), key="once")
    handle.send("anything", {"at": "all"}, may_come=True)
    handle.ask(approved, Approval(granted=True, by="ada"), timeout="5s")
    assert_type([one.number for one in handle.stream(after=3)], list[int])
    assert_type([one.type for one in handle.events(follow=True)], list[str])
    assert_type(handle.status().why, str)
    assert_type(client.find("@failed").id, str)
    assert_type([one.key.id for one in client.list(status=["failed"], since="1h")], list[str])
    assert_type([one.programs for one in client.engines()], list[list[str]])


async def from_any_loop(client: AsyncClient) -> None:
    handle = await client.start(greet, "Ada")
    assert_type(handle, AsyncHandle[str])
    assert_type(await handle.result(), str)
    assert_type(await client.run(order, "o1", cents=5), Charge)
    assert_type(await client.run(order.with_(id="k", deadline="1h"), "o1"), Charge)
    assert_type(await client.get("k", greet), AsyncHandle[str])
    assert_type([one.number async for one in handle.stream()], list[int])
    await handle.send(approved, Approval(granted=True, by="ada"))
    await handle.pause("for now", wait=True, timeout="5s")
    async with AsyncClient("sqlite:///p.db") as other:
        assert_type(other, AsyncClient)
    with Client() as sync:
        assert_type(sync, Client)
