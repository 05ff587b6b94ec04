"""Calls a second of source text in a sandbox, in TypeScript and in Python, one after another and a hundred at once, beside the same function in the bare
interpreter, by turns in the same run.

The bare one is what the sandbox stands on: of TypeScript a fresh QuickJS context in this process, given JavaScript whose types were stripped before; of Python
a session of monty's own pool. Neither has a limit of time on the wall, and what breaks out of the first is in this process. Last, what a sandbox costs that
has to be begun first, and one that is killed.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pydantic_monty
import quickjs  # type: ignore[import-untyped]  # it has no types

from perdure.core.errors import OutOfTime
from perdure.definitions.kinds.sandbox import monty_pool, python_kind, sandbox_pool, ts_kind

ROUNDS, CALLS, AT_ONCE = 7, 300, 100
GIVEN = {"email": "ada@example.com", "items": [{"id": number, "price": number * 1.5} for number in range(20)]}
TYPESCRIPT = """
type Item = {id: number, price: number}

export default function (input: {email: string, items: Item[]}) {
  const total = input.items.reduce((sum, item) => sum + item.price, 0)
  return {ok: !!input.email, total, ids: input.items.filter(item => item.price > 5).map(item => item.id)}
}
"""
JAVASCRIPT = """(function (text) {
  const input = JSON.parse(text)
  const total = input.items.reduce((sum, item) => sum + item.price, 0)
  return JSON.stringify({ok: !!input.email, total, ids: input.items.filter(item => item.price > 5).map(item => item.id)})
})"""
PYTHON = """
def main(input):
    total = sum(item["price"] for item in input["items"])
    return {"ok": bool(input["email"]), "total": total, "ids": [item["id"] for item in input["items"] if item["price"] > 5]}
"""

Call = Callable[[], Awaitable[Any]]


async def bare_javascript() -> Any:
    """QuickJS in this process."""
    context = quickjs.Context()
    context.set_memory_limit(64_000_000)
    return json.loads(context.eval(JAVASCRIPT)(json.dumps(GIVEN)))


def bare_python(interpreters: pydantic_monty.Monty) -> Call:
    """A session of monty, in a thread as everything is that blocks."""

    def call() -> Any:
        with interpreters.checkout() as session:
            return session.feed_run(f"{PYTHON}\nmain(input)", inputs={"input": GIVEN})

    return lambda: asyncio.to_thread(call)


async def one_by_one(call: Call) -> float:
    """Microseconds of a call, one after another."""
    began_s = time.perf_counter()
    for _ in range(CALLS):
        await call()
    return (time.perf_counter() - began_s) / CALLS * 1e6


async def at_once(call: Call) -> float:
    """Microseconds of a call, so many at once."""
    began_s = time.perf_counter()
    for _ in range(CALLS // AT_ONCE):
        await asyncio.gather(*(call() for _ in range(AT_ONCE)))
    return (time.perf_counter() - began_s) / (CALLS // AT_ONCE * AT_ONCE) * 1e6


async def compared(name: str, ours: Call, bare: Call) -> None:
    """Measure both sides by turns, and print medians and their ratio."""
    assert await ours() == await bare()
    for how, measure in (("one by one", one_by_one), (f"{AT_ONCE} at once", at_once)):
        _ = await measure(ours), await measure(bare)
        rounds = [(await measure(ours), await measure(bare)) for _ in range(ROUNDS)]
        ours_us, bare_us = (statistics.median(side) for side in zip(*rounds, strict=True))
        print(f"{name:12} {how:12} {1e6 / ours_us:8,.0f} calls/s {ours_us:8,.0f} us a call   bare {bare_us:7,.0f} us   {ours_us / bare_us:5.2f} x")


async def begun_and_killed() -> None:
    """What the first call takes in a new sandbox, and one that overruns beyond its time."""
    first, beyond = [], []
    for _ in range(ROUNDS):
        sandbox_pool.close_pool()
        began_s = time.perf_counter()
        await ts_kind.run_typescript(TYPESCRIPT, GIVEN)
        first.append(time.perf_counter() - began_s)
        began_s = time.perf_counter()
        try:
            await sandbox_pool.run_job("js", {"source": "export default () => { while (true) {} }", "input": None}, sandbox_pool.SandboxLimits(0.1))
        except OutOfTime:
            beyond.append(time.perf_counter() - began_s - 0.1)
    first_ms, after_ms = statistics.median(first) * 1e3, statistics.median(beyond) * 1e3
    print(f"{'TypeScript':12} {'first call':12} {first_ms:.0f} ms in a new sandbox; ended {after_ms:.0f} ms after its time")


async def measured() -> None:
    """Measure all."""
    await compared("TypeScript", lambda: ts_kind.run_typescript(TYPESCRIPT, GIVEN), bare_javascript)
    with pydantic_monty.Monty() as interpreters:
        await compared("Python", lambda: python_kind.run_python(PYTHON, GIVEN), bare_python(interpreters))
    await begun_and_killed()


def main() -> None:
    """Measure and print."""
    try:
        asyncio.run(measured())
    finally:
        sandbox_pool.close_pool()
        monty_pool.close_monty_pool()


if __name__ == "__main__":
    main()
