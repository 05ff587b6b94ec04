"""What a request costs as a step of the kind `http`, beside the bare library against the same server on this machine: alone, and a hundred at once.

Both keep their connections. The step has its answer as data (headers in lower case, JSON decoded) as the library has it with `.json()`. The last line
is a step in a whole definition, engine and memory store included.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx2

from perdure import Definition
from perdure.code.step_environment import StepInfo, current_resources, current_step
from perdure.core.paths import Key
from perdure.definitions.kinds.deployment import Allowed, Deployment
from perdure.definitions.kinds.http.http_kind import http_kind
from perdure.runtime.step_resources import OpenResources

ROUNDS = 7
ANSWER = b'{"id": "ch_1", "amount": 500, "items": [1, 2, 3], "status": "paid"}'
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Sun, 22 Nov 2026 17:00:00 GMT\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)
HERE = Deployment(Allowed(http=("127.0.0.1",)))


class Answering(asyncio.Protocol):
    """The least server there is: an answer to every request without a body."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the way back."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer."""
        assert isinstance(self._transport, asyncio.WriteTransport)
        self._transport.write(WHOLE * data.count(b"\r\n\r\n"))


async def rate(call: Callable[[], Awaitable[Any]], calls: int, at_once: int) -> float:
    """Calls a second."""

    async def several() -> None:
        for _ in range(calls // at_once):
            await call()

    began_s = time.perf_counter()
    await asyncio.gather(*(several() for _ in range(at_once)))
    return calls / (time.perf_counter() - began_s)


async def measured(calls: int, rounds: int) -> None:
    """Print the rates, taken by turns in the same run."""
    async with AsyncExitStack() as stack:
        server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
        stack.push_async_callback(server.wait_closed)
        stack.callback(server.close)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        client = await stack.enter_async_context(httpx2.AsyncClient(trust_env=False, limits=httpx2.Limits(max_connections=256, max_keepalive_connections=256)))
        resources, made = OpenResources(), http_kind(HERE)
        stack.push_async_callback(resources.close)
        current_resources.set(resources)
        current_step.set(StepInfo(Key("bench", "it", "1"), (("a", 1),), 1))

        async def bare() -> Any:
            return (await client.get(url)).json()

        async def step() -> Any:
            return (await made.run(config={"url": url}))["body"]

        assert await bare() == await step()
        for at_once in (1, 100):
            found: dict[str, list[float]] = {"bare": [], "step": []}
            for _ in range(rounds):
                found["bare"].append(await rate(bare, calls, at_once))
                found["step"].append(await rate(step, calls, at_once))
            one, other = statistics.median(found["bare"]), statistics.median(found["step"])
            what = "alone" if at_once == 1 else f"{at_once} at once"
            print(f"{what:12}  httpx2 {one:8,.0f} a second   step {other:8,.0f} a second   {other / one:.2f}x", flush=True)
        each = {"in": list(range(calls // 5)), "concurrency": 100}
        document = {"perdure": 1, "name": "it", "steps": [{"id": "a", "each": each, "http": {"url": url}}]}
        definition = Definition.of(document, kinds={"http": made})
        began_s = time.perf_counter()
        assert await definition.with_(db="memory:").arun() is not None
        print(f"{'in a definition':12}, 100 at once: {calls / 5 / (time.perf_counter() - began_s):,.0f} steps a second")


def main() -> None:
    """Measure; with ``--quick``, less."""
    quick = "--quick" in sys.argv
    asyncio.run(measured(200 if quick else 2_000, 2 if quick else ROUNDS))


if __name__ == "__main__":
    main()
