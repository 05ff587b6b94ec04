"""Steps that ask a model: how many a second one after the other, and with a hundred at once, beside a bare HTTP client that sends the same requests.

    python -m bench.models [--requests N]

The provider is `perdure fake-llm` in a process of its own on this machine, so what is measured is the asking and the remembering, and no model. The
last column is this process's own time for one, which says more than the others where the machine has other work. `ask` is
`perdure.definitions.kinds.models.model_client.send_model_request`; `executions` are of a definition with one step that asks, in SQLite with synchronous=FULL.
"""

import argparse
import asyncio
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx2

from perdure import Definition
from perdure.core import values
from perdure.core.paths import Key
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.model_client import send_model_request
from perdure.definitions.kinds.models.model_messages import ChatMessage, ChatRequest
from perdure.fake_llm import models
from perdure.runtime.local_engine import local_engine, run_to_end

AT_ONCE = 100
REQUEST = ChatRequest(model="small", messages=(ChatMessage("user", "Hello"),))
ASKS = {"perdure": 1, "name": "ask", "steps": [{"id": "ask", "llm": {"model": "small", "prompt": "Hello"}}]}


@contextmanager
def provider() -> Iterator[str]:
    """The address of a fake provider in a process of its own."""
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / "script.json"
        script.write_text(json.dumps([{"answer": "Hello, too", "repeat": True}]))
        process = subprocess.Popen([sys.executable, "-m", "perdure.cli", "fake-llm", str(script)], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield process.stdout.readline().removeprefix("listening on ").strip()
        finally:
            process.terminate()
            process.wait()


async def per_s(count: int, at_once: int, one: Callable[[], Awaitable[object]]) -> float:
    """How many of `count` are done a second, so many at a time."""
    left = iter(range(count))

    async def some() -> None:
        for _ in left:
            await one()

    begun = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(at_once)))
    return count / (time.perf_counter() - begun)


async def measured(url: str, count: int) -> None:
    """Measure, and print."""
    known = Deployment(models=models(url))
    body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}], "stream": False}
    print(f"{'':24}{'one by one':>14}{f'{AT_ONCE} at once':>16}{'own time':>12}")
    async with httpx2.AsyncClient(limits=httpx2.Limits(max_connections=1_000, max_keepalive_connections=100)) as client:

        async def bare() -> object:
            answer = await client.post(f"{url}/v1/chat/completions", json=body, headers={"authorization": "Bearer x"})
            return answer.json()

        await row("bare HTTP client", count, bare)
    for name in ("small", "medium", "large"):
        request = ChatRequest(model=name, messages=REQUEST.messages, max_tokens=100)
        await row(f"ask, {models(url)[name]['provider']}", count, partial(send_model_request, request, known))
    graph, raw, numbers = Definition.of(ASKS, deployment=known).graph, values.encode(((), {}), "the input"), itertools.count()
    with tempfile.TemporaryDirectory() as directory:
        async with local_engine([graph], f"sqlite:///{directory}/bench.db") as engine:
            await row("executions, durable", count, lambda: run_to_end(engine, Key("default", graph.name, str(next(numbers))), raw))


async def row(name: str, count: int, one: Callable[[], Awaitable[object]]) -> None:
    """One line: what it is, and how many a second."""
    await one()
    alone, begun = await per_s(count // 4, 1, one), time.process_time()
    together = await per_s(count, AT_ONCE, one)
    own_ms = (time.process_time() - begun) / count * 1e3
    print(f"{name:24}{alone:>12,.0f}/s{together:>14,.0f}/s{own_ms:>9.1f} ms", flush=True)


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=2_000)
    given = parser.parse_args()
    with provider() as url:
        asyncio.run(measured(url, given.requests))


if __name__ == "__main__":
    main()
