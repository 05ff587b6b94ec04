"""How many orders a second the FastAPI shop of `examples/web` takes, beside the same server that only inserts a row; then the same while workers are killed.

Both run under uvicorn with two processes, on this machine, with the same clients on connections that stay open. An order is acknowledged when its start is
durable (fsync); the row of the peer is as durable, by `sqlite3` with a commit of its own. Meanwhile the engines in the same processes charge the orders.

In the second part a worker is killed with SIGKILL every other second, and uvicorn begins another one. At last every order that was acknowledged must have
exactly one line in the ledger; otherwise the program fails.
"""

import argparse
import asyncio
import os
import signal
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tests.examples.web.servers import SERVERS, Shop

CONNECTIONS = 32
KILL_EVERY_S = 2.0
SETTLE_S = 120.0
PEER = "uvicorn", "bench._web_peer:web", "--port", "{port}", "--workers", "2"


class Clients:
    """Clients that place orders one after another, each on its own connection, which they open again when it breaks."""

    def __init__(self, port: int, prefix: str) -> None:
        self._port, self._prefix = port, prefix
        self.acknowledged: list[str] = []
        self.unanswered = 0
        self.waits_s: list[float] = []
        self._stop = False

    async def run(self, seconds: float) -> float:
        """Places orders for some time. Returns how many were acknowledged in a second."""
        self._stop = False
        before, began_s = len(self.acknowledged), time.perf_counter()
        clients = [asyncio.create_task(self._client(number)) for number in range(CONNECTIONS)]
        await asyncio.sleep(seconds)
        self._stop, took_s = True, time.perf_counter() - began_s
        rate = (len(self.acknowledged) - before) / took_s
        await asyncio.gather(*clients)
        return rate

    async def _client(self, number: int) -> None:
        count = 0
        while not self._stop:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                try:
                    while not self._stop:
                        id = f"{self._prefix}-{number}-{len(self.acknowledged)}-{count}"
                        count += 1
                        await self._order(reader, writer, id)
                except (OSError, asyncio.IncompleteReadError):
                    self.unanswered += 1
                finally:
                    writer.close()
            await asyncio.sleep(0.01)

    async def _order(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, id: str) -> None:
        began_s = time.perf_counter()
        writer.write(f"POST /orders/{id}?cents=100 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        await reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 202"):
            raise SystemExit(f"the server refused an order: {head.decode()}")
        self.waits_s.append(time.perf_counter() - began_s)
        self.acknowledged.append(id)


@contextmanager
def serving(command: tuple[str, ...]) -> Iterator[Shop]:
    """A server in a directory of its own."""
    with tempfile.TemporaryDirectory() as name:
        shop = Shop(Path(name), command)
        try:
            shop.begin()
            yield shop
        finally:
            shop.end()


def warmed(port: int, prefix: str) -> Clients:
    """Clients whose server has grown its write-ahead log."""
    asyncio.run(Clients(port, f"{prefix}-warm").run(1.0))
    return Clients(port, prefix)


def wait_until_paid(shop: Shop, orders: list[str]) -> tuple[int, int]:
    """Waits until each order has a line in the ledger. Returns how many have none, and how many have several."""
    until_s = time.monotonic() + SETTLE_S
    while True:
        with closing(sqlite3.connect(shop.directory / "shop" / "shop.db", timeout=60)) as connection:
            paid = Counter(id for (id,) in connection.execute("SELECT order_id FROM ledger"))
        missing = sum(id not in paid for id in orders)
        if not missing or time.monotonic() > until_s:
            return missing, sum(count > 1 for count in paid.values())
        time.sleep(0.1)


async def killing(shop: Shop, seconds: float) -> int:
    """Kills a worker now and then. Returns how many."""
    killed, until_s = 0, time.monotonic() + seconds
    while time.monotonic() < until_s - KILL_EVERY_S / 2:
        await asyncio.sleep(KILL_EVERY_S)
        if workers := shop.workers():
            with suppress(ProcessLookupError):
                os.kill(workers[killed % len(workers)], signal.SIGKILL)
                killed += 1
    return killed


async def measured_with_kills(shop: Shop, clients: Clients, seconds: float) -> tuple[float, int]:
    """The rate while workers are killed, and how many were."""
    rate, killed = await asyncio.gather(clients.run(seconds), killing(shop, seconds))
    return rate, killed


def measure(seconds: float, rounds: int) -> int:
    """Prints the rates, and what became of the orders; 1 if one is lost or paid twice."""
    with serving(PEER) as peer, serving(SERVERS["fastapi"]) as shop:
        rows, orders = warmed(peer.port, "row"), warmed(shop.port, "order")
        rates: dict[str, list[float]] = {"rows": [], "orders": []}
        for _ in range(rounds):
            rates["rows"].append(asyncio.run(rows.run(seconds)))
            rates["orders"].append(asyncio.run(orders.run(seconds)))
            _ = wait_until_paid(shop, orders.acknowledged)  # so that the peer's turn has the processors for itself
        row, order = statistics.median(rates["rows"]), statistics.median(rates["orders"])
        print(f"{CONNECTIONS} connections, 2 processes, fsync on, medians of {rounds} rounds of {seconds:g} s")
        print(f"a row, committed        {row:8,.0f} a second   p99 {_p99_ms(rows):6.1f} ms")
        print(f"an order, acknowledged  {order:8,.0f} a second   p99 {_p99_ms(orders):6.1f} ms   {order / row:.2f}x", flush=True)
        hard = Clients(shop.port, "hard")
        rate, killed = asyncio.run(measured_with_kills(shop, hard, max(seconds * 2, KILL_EVERY_S * 3)))
        print(f"with workers killed     {rate:8,.0f} a second   p99 {_p99_ms(hard):6.1f} ms   {killed} killed, {hard.unanswered} requests without an answer")
        acknowledged = orders.acknowledged + hard.acknowledged
        lost, doubled = wait_until_paid(shop, acknowledged)
        print(f"{len(acknowledged):,} orders acknowledged: {lost} without a payment, {doubled} paid twice")
        return int(lost > 0 or doubled > 0 or not killed)


def _p99_ms(clients: Clients) -> float:
    return statistics.quantiles(clients.waits_s, n=100)[-1] * 1000


def main() -> int:
    """Measure; with ``--quick``, less."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    return measure(1.0 if quick else 5.0, 1 if quick else 5)


if __name__ == "__main__":
    sys.exit(main())
