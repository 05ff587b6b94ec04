"""How many deliveries of webhooks a second are accepted, beside starts by the API: the same executions, on the same server, in the same run.

A delivery is signed as GitHub does, verified, and durable together with the start (SQLite, synchronous=FULL). Executions have one step, and are performed in
the process of the API. The clients have a process of their own: with two processors, clients and server have one each.

python -m bench.webhooks [--quick]
"""

import argparse
import asyncio
import hashlib
import hmac
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench._http_server import TOKEN, calc
from bench.http_api import Connection
from perdure import App
from perdure.api.api_server import ApiServer, listening_socket, url_of
from perdure.api.loopback_access import LoopbackAccess
from perdure.api.service_api import DEFAULTS, ServiceApi
from perdure.service.triggers.trigger_records import Verification, WebhookConfig

CONNECTIONS = 64
GOAL = 0.6
SECRET = "a secret of the benchmark"
DEFINITION = """
perdure: 1
name: sum
input: {a: {type: integer}, b: {type: integer}}
steps: [{id: total, set: {total: {expr: "input.a + input.b"}}}]
output: "@total.total"
"""

Encode = Callable[[int], bytes]
"""The bytes of the request of a number."""


def _head(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def start(workflow: str) -> Encode:
    """Starts an execution by the API."""

    def encode(number: int) -> bytes:
        body = f'{{"workflow":"{workflow}","id":"b{number}","input":{{"a":3,"b":4}}}}'.encode()
        return _head("/api/executions", body, f"Authorization: Bearer {TOKEN}")

    return encode


def started_definition(number: int) -> bytes:
    """Starts an execution of the catalog by the API."""
    body = f'{{"workflow":"","id":"b{number}","input":{{"a":3,"b":4}}}}'.encode()
    return _head("/api/workflow-versions/sum/executions", body, f"Authorization: Bearer {TOKEN}")


def delivery(path: str, padding: int = 0) -> Encode:
    """Sends a delivery with so many bytes that the mapping does not read."""
    more = json.dumps("x" * padding) if padding else '""'

    def encode(number: int) -> bytes:
        body = f'{{"a":3,"b":4,"more":{more}}}'.encode()
        signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        return _head(f"/webhooks/{path}", body, f"X-Hub-Signature-256: sha256={signature}", f"X-GitHub-Delivery: g{number}", "X-GitHub-Event: push")

    return encode


async def rate(url: str, encode: Encode, seconds: float, numbers: Iterator[int]) -> float:
    """How many requests a second are answered."""
    until_s, answered = time.perf_counter() + seconds, 0

    async def client() -> None:
        nonlocal answered
        async with Connection(url) as connection:
            while time.perf_counter() < until_s:
                _ = await connection.ask(encode(next(numbers)))
                answered += 1

    began_s = time.perf_counter()
    _ = await asyncio.gather(*(client() for _ in range(CONNECTIONS)))
    return answered / (time.perf_counter() - began_s)


async def serve(directory: Path) -> None:
    """Serves the API and two webhooks, and prints the URL."""
    os.environ["PERDURE_SECRET_HOOK"] = SECRET
    how = Verification(scheme="github", secrets=("HOOK",))
    async with App([calc], tools={"calc": len}, db=f"sqlite:///{directory}/bench.db") as app:
        _ = await app.client.catalog.create(DEFINITION)
        for workflow in ("calc", "sum"):
            config = WebhookConfig(path=workflow, verify=how, queued_max=1_000_000)
            _ = await app.client.triggers.create(workflow, config, workflow, mapping={"a": "$.a", "b": "$.b"})
        listening = listening_socket("127.0.0.1", 0)
        service = ServiceApi(app.client.access, DEFAULTS._replace(rate_per_s=0.0), LoopbackAccess(TOKEN))
        print(url_of(listening), flush=True)
        await ApiServer(service.app, listening).run()


@contextmanager
def server(directory: Path) -> Iterator[str]:
    """A server in a process of its own; its URL."""
    process = subprocess.Popen([sys.executable, "-m", "bench.webhooks", "--serve", str(directory)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


PAIRS: dict[str, tuple[Encode, Encode]] = {
    "code": (start("calc"), delivery("calc")),
    "code, 8 KB": (start("calc"), delivery("calc", 8_000)),
    "a definition": (started_definition, delivery("sum")),
}
"""What is compared: a start by the API, and a delivery that starts the same."""


async def measure(url: str, rounds: int, seconds: float) -> None:
    """Measures each pair in turns, and prints the medians."""
    numbers = itertools.count()
    for encode in itertools.chain.from_iterable(PAIRS.values()):
        _ = await rate(url, encode, seconds / 4, numbers)
    for name, (one, other) in PAIRS.items():
        found = [(await rate(url, one, seconds, numbers), await rate(url, other, seconds, numbers)) for _ in range(rounds)]
        starts, deliveries = (statistics.median(side) for side in zip(*found, strict=True))
        ratio = statistics.median(accepted / begun for begun, accepted in found)
        verdict = "" if name != "code" else f"  (goal: at least {GOAL}: {'met' if ratio >= GOAL else 'NOT MET'})"
        print(f"  {name:<14} {deliveries:8,.0f} deliveries/s beside {starts:8,.0f} starts/s: {ratio:.2f}{verdict}", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--serve", type=Path)
    given = parser.parse_args()
    if given.serve is not None:
        asyncio.run(serve(given.serve))
        return
    print(f"{CONNECTIONS} connections, each start durable; Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as place, server(Path(place)) as url:
        asyncio.run(measure(url, 1 if given.quick else 5, 2.0 if given.quick else 5.0))


if __name__ == "__main__":
    main()
