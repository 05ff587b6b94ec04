# pyright: strict
"""Programs that mypy --strict and pyright must refuse, on exactly the lines that say what is wrong with them.

Never run; `tests/test_typing.py` has it checked.
"""

from dataclasses import dataclass
from typing import assert_type

from perdure import App, AsyncClient, Client, Context, Err, Is, Ok, Retry, Signal, SyncContext, Won, step, workflow


@dataclass(frozen=True)
class User:
    name: str


@dataclass(frozen=True)
class Stock:
    count: int


@dataclass(frozen=True)
class Charge:
    id: str


@dataclass(frozen=True)
class Approval:
    granted: bool


@dataclass(frozen=True)
class Cursor:
    next: str | None


approved = Signal("approved", Approval)


# steps


@step
def greeting(name: str) -> str:
    return f"Hello {name}"


@step
async def fetch(page: str | None, *, size: int = 10) -> list[str]:
    return [page or ""] * size


@step(retry=Retry(max=5))
def charge(order: str, cents: int) -> Charge:
    return Charge(f"{order}:{cents}")


async def a_step_is_still_the_function() -> None:
    greeting(1)  # wrong: an argument's type
    greeting()  # wrong: an argument missing
    assert_type(greeting("Ada"), int)  # wrong: what it returns
    await fetch(None, size="3")  # wrong: a keyword argument's type
    fetch(None)  # wrong: not awaited


def what_a_step_accepts() -> None:
    Retry(max="5")  # wrong: a count as text
    Retry(only=("TimeoutError",))  # wrong: an error's name for its class
    step(1)  # wrong: not a function
    step(timeout=[30])  # wrong: not a duration


# branches


async def load_user(ctx: Context) -> User:
    return User(await ctx.step(greeting, "Ada"))


async def load_stock(ctx: Context) -> Stock:
    return Stock(len(await ctx.step(fetch, None)))


async def render(ctx: Context, contact: str) -> bytes:
    return (await ctx.step(greeting, contact)).encode()


async def wants_more(ctx: Context, more: str) -> str:
    return await ctx.step(greeting, more)


# workflows


@workflow
async def greet(ctx: Context, name: str) -> str:
    return await ctx.step(greeting, name)


@workflow
async def steps(ctx: Context) -> None:
    await ctx.step(greeting, 1)  # wrong: an argument's type
    await ctx.step(greeting)  # wrong: an argument missing
    await ctx.step(greeting, "Ada", "Bob")  # wrong: an argument too many
    await ctx.step(greeting, nom="Ada")  # wrong: a keyword that it doesn't have
    await ctx.step("again", greeting, 1)  # wrong: an argument's type, with a name
    await ctx.step(fetch, None, size="3")  # wrong: a keyword argument's type
    await ctx.step(1, "Ada")  # wrong: not a step
    await ctx.step(charge.with_(name="now"), "o1", "500")  # wrong: an argument's type, with options
    await ctx.step(charge.with_(retry=5), "o1", 500)  # wrong: a number is no retry
    ctx.step(greeting, "Ada")  # wrong: not awaited
    assert_type(await ctx.step(greeting, "Ada"), bytes)  # wrong: what it returns
    await ctx.attempt(charge, "o1")  # wrong: an argument missing
    match await ctx.attempt(charge, "o1", 500):
        case Ok(value):
            value.cents  # wrong: a charge has none
        case Err():
            pass


@workflow
async def composition(ctx: Context) -> None:
    _one, _two, _three = await ctx.join(load_user, load_stock)  # wrong: two branches, three results
    user, stock = await ctx.join(load_user, load_stock)
    user.count  # wrong: the stock has it
    stock.name  # wrong: the user has it
    await ctx.join(load_user, wants_more)  # wrong: a branch takes its ctx alone
    await ctx.join(load_user, greeting)  # wrong: a step that takes an argument
    await ctx.map(render, [1, 2])  # wrong: what it maps over
    assert_type(await ctx.map(render, ["a"]), list[str])  # wrong: what it returns
    await ctx.map(render, ["a"], limit="10")  # wrong: a count as text
    await ctx.race(one=load_user, other=wants_more)  # wrong: a branch takes its ctx alone
    assert_type(await ctx.race(one=load_user, other=load_user), Won[Stock])  # wrong: what it returns
    await ctx.call(greet, 1)  # wrong: an argument's type
    await ctx.call(greet)  # wrong: an argument missing
    await ctx.call(greeting, "Ada")  # wrong: a step is no workflow
    assert_type(await ctx.call(greet, "Ada"), int)  # wrong: what it returns


@workflow
async def messages(ctx: Context) -> None:
    (await ctx.listen(approved)).by  # wrong: an approval has none
    (await ctx.listen(approved, timeout="2d", default=None)).granted  # wrong: it may be None
    await ctx.listen(approved, timeout=["2d"])  # wrong: not a duration
    await ctx.listen(1)  # wrong: neither a signal nor a name
    await ctx.send(greet.key("order-1"), approved, "yes")  # wrong: the body's type
    ctx.listen(approved)  # wrong: not awaited


@workflow
async def loops(ctx: Context) -> None:
    async for turn in ctx.loop("audit", state=Cursor(None)):
        turn.state.done  # wrong: a cursor has none
        turn.state = None  # wrong: the state's type
        await turn.step(fetch, 1)  # wrong: an argument's type
    for _ in ctx.loop("again", state=0):  # wrong: a loop is asynchronous
        pass


@workflow
async def time_and_values(ctx: Context) -> None:
    await ctx.sleep(None)  # wrong: not a duration
    ctx.sleep("3d")  # wrong: not awaited
    assert_type(await ctx.keep("length", lambda: 1), str)  # wrong: what it returns
    await ctx.keep("length", 1)  # wrong: a value for a function


@workflow  # wrong: no ctx
async def without_ctx() -> None: ...


# from outside


async def running() -> None:
    greet.run(1)  # wrong: an argument's type
    greet.run()  # wrong: an argument missing
    greet.run("Ada", nom="Ada")  # wrong: a keyword that it doesn't have
    greet.with_(id=1).run("Ada")  # wrong: the id's type
    assert_type(greet.run("Ada"), int)  # wrong: what it returns
    greet.arun("Ada")  # wrong: not awaited


# without await: plain functions of a SyncContext


def sync_user(ctx: SyncContext) -> User:
    return User(ctx.step(greeting, "Ada"))


def sync_stock(ctx: SyncContext) -> Stock:
    return Stock(len(ctx.step(fetch, None)))


def sync_render(ctx: SyncContext, contact: str) -> bytes:
    return ctx.step(greeting, contact).encode()


def sync_wants_more(ctx: SyncContext, more: str) -> str:
    return ctx.step(greeting, more)


@workflow
def sync_greet(ctx: SyncContext, name: str) -> str:
    return ctx.step(greeting, name)


@workflow(version=2)
def sync_order(ctx: SyncContext, order_id: str) -> Charge:
    return ctx.step(charge, order_id, 500)


@workflow
def sync_steps(ctx: SyncContext) -> None:
    ctx.step(greeting, 1)  # wrong: an argument's type
    ctx.step(greeting)  # wrong: an argument missing
    ctx.step(greeting, nom="Ada")  # wrong: a keyword that it doesn't have
    ctx.step("again", greeting, 1)  # wrong: an argument's type, with a name
    ctx.step(1, "Ada")  # wrong: not a step
    assert_type(ctx.step(greeting, "Ada"), bytes)  # wrong: what it returns
    assert_type(ctx.step(fetch, None), list[int])  # wrong: what an async step returns
    ctx.attempt(charge, "o1")  # wrong: an argument missing


@workflow
def sync_composition(ctx: SyncContext) -> None:
    _one, _two, _three = ctx.join(sync_user, sync_stock)  # wrong: two branches, three results
    user, _stock = ctx.join(sync_user, sync_stock)
    user.count  # wrong: the stock has it
    ctx.join(sync_user, sync_wants_more)  # wrong: a branch takes its ctx alone
    ctx.join(sync_user, greeting)  # wrong: a step that takes an argument
    ctx.map(sync_render, [1, 2])  # wrong: what it maps over
    assert_type(ctx.map(sync_render, ["a"]), list[str])  # wrong: what it returns
    ctx.race(one=sync_user, other=sync_wants_more)  # wrong: a branch takes its ctx alone
    assert_type(ctx.race(one=sync_user, other=sync_user), Won[Stock])  # wrong: what it returns
    ctx.call(sync_greet, 1)  # wrong: an argument's type
    ctx.call(sync_order)  # wrong: an argument missing


@workflow
def sync_messages_and_values(ctx: SyncContext) -> None:
    ctx.listen(approved).by  # wrong: an approval has none
    ctx.listen(1)  # wrong: neither a signal nor a name
    ctx.send(sync_greet.key("order-1"), approved, "yes")  # wrong: the body's type
    ctx.sleep(None)  # wrong: not a duration
    assert_type(ctx.keep("length", lambda: 1), str)  # wrong: what it returns
    for turn in ctx.loop("audit", state=Cursor(None)):
        turn.state.done  # wrong: a cursor has none
        turn.state = None  # wrong: the state's type


@workflow
async def verbs_are_not_awaited(ctx: Context) -> None:
    async for _ in ctx.loop("audit", state=0):
        break
    await ctx.join(load_user, sync_user)  # wrong: a branch of an async workflow is async


@workflow
def verbs_wait_by_themselves(ctx: SyncContext) -> None:
    ctx.step(greeting, "Ada").send(None)  # wrong: it is the result already


@workflow  # wrong: a plain function of a Context
def sync_of_another_context(ctx: Context) -> None: ...


@workflow  # wrong: no ctx
def sync_without_ctx() -> None: ...


@workflow(version=2)  # wrong: no ctx, with options
def sync_without_ctx_either() -> None: ...


def running_sync_ones() -> None:
    sync_greet.run(1)  # wrong: an argument's type
    sync_greet.run()  # wrong: an argument missing
    sync_order.run("o1", cents=500)  # wrong: a keyword that it doesn't have
    assert_type(sync_greet.run("Ada"), int)  # wrong: what it returns


# clients


def from_any_process(client: Client) -> None:
    client.start(greet, 1)  # wrong: an argument's type
    client.start(greet)  # wrong: an argument missing
    client.start(greet, nom="Ada")  # wrong: a keyword that it doesn't have
    client.start(greet.with_(id=1), "Ada")  # wrong: the id's type
    client.start(greet.with_(delay=[5]), "Ada")  # wrong: not a duration
    client.start(greet.with_(attributes={"customer": ["c1"]}), "Ada")  # wrong: not a value of an attribute
    client.list(where={"cents": (">=", 5)})  # wrong: not a comparison
    Is("=>", 5)  # wrong: not a comparison
    greet.with_(attributes={5: "c1"})  # wrong: not the name of an attribute
    client.start(greeting, "Ada")  # wrong: a step is no workflow
    client.run(greet)  # wrong: an argument missing
    assert_type(client.run(greet, "Ada"), int)  # wrong: what it returns
    assert_type(client.start(greet.with_(id="k"), "Ada").result(), int)  # wrong: what it returns
    assert_type(client.get("k", greet).result(), int)  # wrong: what it returns
    client.get(5)  # wrong: the id's type
    client.get("k").send(approved, "yes")  # wrong: the body's type
    client.get("k").ask(approved, "yes")  # wrong: the body's type
    client.get("k").result(timeout=[5])  # wrong: not a duration
    client.list(limit="5")  # wrong: a count as text
    Client(5)  # wrong: the URL's type


async def from_any_loop(client: AsyncClient) -> None:
    await client.start(greet, 1)  # wrong: an argument's type
    await client.run(greet)  # wrong: an argument missing
    assert_type(await client.run(greet, "Ada"), int)  # wrong: what it returns
    client.start(greet, "Ada")  # wrong: not awaited
    handle = await client.start(greet, "Ada")
    handle.cancel()  # wrong: not awaited
    await handle.send(approved, "yes")  # wrong: the body's type
    assert_type(await handle.result(), int)  # wrong: what it returns


async def in_a_program(app: App) -> None:
    async with app:
        await app.run(greet, 1)  # wrong: an argument's type
        await app.start(greet)  # wrong: an argument missing
        assert_type(await app.run(greet, "Ada"), int)  # wrong: what it returns
        app.start(greet, "Ada")  # wrong: not awaited
    App([greeting])  # wrong: a step is no workflow
    App(db=5)  # wrong: the URL's type


def in_a_program_without_a_loop(app: App) -> None:
    with app as shop:
        shop.run(greet, 1)  # wrong: an argument's type
        assert_type(shop.run(greet, "Ada"), int)  # wrong: what it returns
        assert_type(shop.handle("k", greet).result(), int)  # wrong: what it returns
        app.run(greet, "Ada")  # wrong: not awaited
