"""A claim about all of it at once: orders through three deploys, with a queue, approvals, a child per item, and kills; every cent is where it belongs."""

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from perdure import ExecutionFailed, NeedsAttention, PerdureError
from perdure.sync_client import Client
from perdure.sync_handle import Handle
from tests.runtime.processes import record, seeded
from tests.runtime.shop import is_asked, is_granted, items, order

ENGINES = 2
END_S = 120.0


def begin(file: Path, deploy: int) -> "subprocess.Popen[bytes]":
    """An engine of this deploy."""
    return subprocess.Popen([sys.executable, "-m", "tests.runtime.shop", str(file), str(deploy)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Boss(threading.Thread):
    """Decides whatever is asked, until told to stop. Decisions that don't get through are made again."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.over, self.decided = url, threading.Event(), 0

    def run(self) -> None:
        with Client(self.url) as client:
            while not self.over.wait(0.05):
                for one in client.approvals("boss"):
                    number = int(one.title.removeprefix("Order ").removesuffix("?"))
                    with suppress(PerdureError):
                        decide = client.approve if is_granted(number) else client.reject
                        decide(one, by="boss", timeout="2s")
                        self.decided += 1


@pytest.mark.parametrize(("orders", "kills"), [pytest.param(60, 6, marks=pytest.mark.prove), pytest.param(1000, 60, marks=pytest.mark.prove)])
def test_through_three_deploys_and_many_kills_every_cent_is_where_it_belongs(tmp_path: Path, orders: int, kills: int) -> None:
    file, url = tmp_path / "shop.db", f"sqlite:///{tmp_path / 'shop.db'}"
    Client(url).close()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE entries (key TEXT PRIMARY KEY, number INTEGER NOT NULL, account TEXT NOT NULL, cents INTEGER NOT NULL)")
        connection.commit()
    boss, engines = Boss(url), [begin(file, 1) for _ in range(ENGINES)]
    results: dict[int, Any] = {}
    diverged = 0
    try:
        with seeded(5) as draw, Client(url) as client:
            boss.start()
            handles = []
            for deploy in (1, 2, 3):
                first = orders * (deploy - 1) // 3
                handles += [client.start(order.with_(id=str(number)), number) for number in range(first, orders * deploy // 3)]
                if deploy == 1:
                    results[1] = handles[1].result(END_S)  # one that knows of no gifts
                for which in range(kills // 3):
                    time.sleep(draw.uniform(0.1, 0.5))
                    engines[which % ENGINES].send_signal(signal.SIGKILL)
                    engines[which % ENGINES].wait()
                    engines[which % ENGINES] = begin(file, deploy if which else max(1, deploy - 1))  # for a while, both deploys run
                for number, engine in enumerate(engines):
                    engine.kill()
                    engine.wait()
                    engines[number] = begin(file, min(3, deploy + 1))
            for number, handle in enumerate(handles):
                results[number], mended = outcome(handle)
                diverged += mended
    finally:
        boss.over.set()
        for engine in engines:
            engine.kill()
            engine.wait()
    check(file, results)
    gifts = Counter(result["gift"] for result in results.values() if result is not None)
    record(f"{orders} orders, {kills} kills, {boss.decided} decisions, {diverged} resumed with newer code, {gifts[True]} with a gift, {gifts[False]} without")
    assert gifts[True] and gifts[False] and any(result is None for result in results.values())


def outcome(handle: Handle[Any]) -> tuple[Any, bool]:
    """How an order ended, None if it was denied; and whether old code had met what newer code had begun, so that it was to be resumed."""
    try:
        return handle.result(END_S), False
    except NeedsAttention as parked:
        if "diverged" not in str(parked):
            raise
        handle.resume()
        return outcome(handle)[0], True
    except ExecutionFailed as failed:
        return None if "rollback" in str(failed) else failed, False


def check(file: Path, results: dict[int, Any]) -> None:
    """The ledger, against what should be in it, reckoned from the orders alone."""
    with closing(sqlite3.connect(file)) as connection:
        accounts: Counter[tuple[int, str]] = Counter()
        movements: Counter[int] = Counter()
        for number, account, cents in connection.execute("SELECT number, account, cents FROM entries"):
            accounts[number, account] += cents
            movements[number] += 1
    for number, result in results.items():
        cents, denied = sum(items(number)), is_asked(number) and not is_granted(number)
        assert (result is None) == denied, f"order {number}: {result}"
        gift = 0 if result is None or not result["gift"] else 1
        assert result is None or result["paid"] == cents
        paid = 0 if denied else cents
        found = {account: accounts[number, account] for account in ("customers", "shop", "charity")}
        assert found == {"customers": -paid, "shop": paid - gift, "charity": gift}, f"order {number}: {found}"
        assert movements[number] == 2 * (len(items(number)) * (2 if denied else 1) + gift), f"order {number}: {movements[number]} entries"
    assert sum(accounts.values()) == 0 and len(movements) == len(results)
