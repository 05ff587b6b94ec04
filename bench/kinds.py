"""Steps of every kind a second, each the one step of a durable execution, beside the same work without an engine: one at a time, and a hundred at once.

    python -m bench.kinds [--quick]

Ours is a definition with one step, in an engine on a file with synchronous=FULL: what is measured is the work, its sandbox, and that it is remembered. The
peer does the work and remembers nothing: a plain process, a request of httpx2, QuickJS and monty themselves, a function. Medians of three rounds by turns.
"""

import argparse
import asyncio
import itertools
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pydantic_monty

from bench.bash import COMMAND, ENVIRONMENT
from bench.http_steps import Answering
from bench.models import AT_ONCE, per_s, provider
from bench.pipelines import SMALL, many
from bench.sandboxes import GIVEN, PYTHON, TYPESCRIPT, bare_javascript, bare_python
from perdure import Definition
from perdure.core import values
from perdure.core.paths import Key
from perdure.definitions.kinds.deployment import Allowed, Deployment
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatRequest
from perdure.definitions.kinds.sandbox import monty_pool, sandbox_pool
from perdure.fake_llm import models
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import local_engine, run_to_end
from perdure.workflow_function import _family

ROUNDS = 3
Call = Callable[[], Awaitable[object]]


class Compared(NamedTuple):
    """A kind: its step and input, how many are done in a round, and the same without an engine, called so."""

    kind: str
    step: dict[str, Any]
    steps_count: int
    bare: Call
    peer: str
    input: Any = None


async def says(request: ChatRequest) -> ChatAnswer:
    """A model in this process."""
    return ChatAnswer(text="Hello, too", model=request.model)


def double(value: int) -> int:
    """A tool."""
    return 2 * value


async def command() -> object:
    """A command without an engine, in a thread as everything is that blocks."""

    def run() -> object:
        return subprocess.run(["bash", "-lc", COMMAND], env=ENVIRONMENT, capture_output=True, stdin=subprocess.DEVNULL, check=True).stdout

    return await asyncio.to_thread(run)


async def piped() -> object:
    """The small pipeline, as somebody writes it by hand."""
    return sorted((row for row in many(10) if row["price"] > 3), key=lambda row: -row["price"])[:3]


async def doubled() -> object:
    """The tool without an engine."""
    return double(21)


async def answered() -> object:
    """The model without an engine."""
    return await says(ChatRequest(model="x", messages=()))


def kinds(web: str, llm: str, client: httpx2.AsyncClient, interpreters: pydantic_monty.Monty) -> list[Compared]:
    """What is compared."""
    asked = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}], "stream": False}

    async def got() -> object:
        return (await client.get(web)).json()

    async def posted() -> object:
        return (await client.post(f"{llm}/v1/chat/completions", json=asked, headers={"authorization": "Bearer x"})).json()

    return [
        Compared("tool", {"tool": "double", "with": {"value": 21}}, 600, doubled, "a function"),
        Compared("bash", {"bash": COMMAND}, 100, command, "subprocess.run"),
        Compared("http", {"http": {"url": web}}, 300, got, "httpx2"),
        Compared("llm", {"llm": {"model": "small", "prompt": "Hello"}}, 200, posted, "httpx2"),
        Compared("agent", {"agent": {"model": "says", "prompt": "Hello"}}, 200, answered, "a function"),
        Compared("ts", {"ts": TYPESCRIPT, "with": "@input.given"}, 300, bare_javascript, "QuickJS", GIVEN),
        Compared("python", {"python": PYTHON, "with": "@input.given"}, 300, bare_python(interpreters), "monty", GIVEN),
        Compared("pipeline", {"pipeline": SMALL, "with": {"rows": "@input.given"}}, 300, piped, "plain Python", many(10)),
    ]


async def rates(one: Compared, engine: Engine, name: str, part: int) -> list[tuple[float, float]]:
    """Steps a second of both sides, one at a time and many at once."""
    raw, numbers, found = values.encode(((), {"given": one.input}), "the input"), itertools.count(), list[tuple[float, float]]()

    async def ours() -> object:
        return await run_to_end(engine, Key("default", name, str(next(numbers))), raw)

    await ours()
    await one.bare()
    for at_once in (1, AT_ONCE):
        count = max(one.steps_count // part, at_once)
        sides: list[list[float]] = [[], []]
        for _ in range(ROUNDS):
            for side, call in zip(sides, (ours, one.bare), strict=True):
                side.append(await per_s(count if at_once > 1 else count // 2, at_once, call))
        found.append((statistics.median(sides[0]), statistics.median(sides[1])))
    return found


async def measured(llm: str, part: int) -> None:
    """Measure all, and print a row for each."""
    async with AsyncExitStack() as stack:
        server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
        stack.callback(server.close)
        web = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        client = await stack.enter_async_context(httpx2.AsyncClient(trust_env=False, limits=httpx2.Limits(max_connections=256)))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        deployment = Deployment(Allowed(bash=True, http=("127.0.0.1",)), work=directory / "work", models={**models(llm), "says": says}, counts_pipelines=False)
        compared = kinds(web, llm, client, stack.enter_context(pydantic_monty.Monty()))
        documents = [{"perdure": 1, "name": one.kind, "input": {"given": {}}, "steps": [{"id": "a", **one.step}]} for one in compared]
        known = [Definition.of(document, tools=[double], deployment=deployment) for document in documents]
        engine = await stack.enter_async_context(local_engine([code for one in known for code in _family(one)], f"sqlite:///{directory}/bench.db"))
        print(f"{'':10}{'one at a time':>16}{'bare':>12}{'ratio':>8}{f'{AT_ONCE} at once':>18}{'bare':>12}{'ratio':>8}   beside")
        for one in compared:
            (ours, bare), (ours_many, bare_many) = await rates(one, engine, one.kind, part)
            print(
                f"{one.kind:10}{ours:>14,.0f}/s{bare:>10,.0f}/s{ours / bare:>8.2g}{ours_many:>16,.0f}/s{bare_many:>10,.0f}/s{ours_many / bare_many:>8.2g}"
                f"   {one.peer}",
                flush=True,
            )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a fifth of the steps")
    part, began_s = 5 if parser.parse_args().quick else 1, time.perf_counter()
    try:
        with provider() as llm:
            asyncio.run(measured(llm, part))
    finally:
        sandbox_pool.close_pool()
        monty_pool.close_monty_pool()
    print(f"medians of {ROUNDS} rounds by turns, in {time.perf_counter() - began_s:.0f} s")


if __name__ == "__main__":
    main()
