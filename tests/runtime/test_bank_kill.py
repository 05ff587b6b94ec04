"""Claims about queues and transactions under kill -9: never above a limit, nobody starves, every cent is there once."""

import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.service.queries import ExecutionStatus
from perdure.sync_client import Client
from tests.runtime.bank import ACCOUNTS, CONCURRENCY, PER_ACCOUNT, calls, order
from tests.runtime.processes import record, seeded, until

ENGINES = 3
END_S = 90.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bank.db"
    Client(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE payments (account TEXT, number INTEGER, PRIMARY KEY (account, number))")
        connection.execute("CREATE TABLE accounts (account TEXT PRIMARY KEY, cents INTEGER)")
        connection.executemany("INSERT INTO accounts VALUES (?, 0)", [(account,) for account in ACCOUNTS])
        connection.commit()
    return path


@contextmanager
def engines(file: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Engines on the file; whatever runs at the end is killed."""
    running = [begin(file) for _ in range(ENGINES)]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()


def begin(file: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-m", "tests.runtime.bank", str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)


@pytest.mark.parametrize("kind", [pytest.param(order, id="executions", marks=pytest.mark.prove), pytest.param(calls, id="calls")])
@pytest.mark.parametrize(("executions", "kills"), [(40, 6), pytest.param(400, 80, marks=pytest.mark.prove)])
def test_killed_again_and_again_no_limit_is_passed_and_every_cent_is_there_once(file: Path, kind: Any, executions: int, kills: int) -> None:
    killed: dict[int, float] = {}
    with seeded(11) as draw, engines(file) as running, Client(f"sqlite:///{file}") as client:
        handles = [client.start(kind, ACCOUNTS[number % 4], number) for number in range(executions)]
        until(lambda: (file.parent / "marks").exists(), "somebody works")
        for _ in range(kills):
            time.sleep(draw.uniform(0.1, 0.4))
            which = draw.randrange(ENGINES)
            killed[running[which].pid] = time.monotonic()
            running[which].send_signal(signal.SIGKILL)
            running[which].wait()
            running[which] = begin(file)
        results = Counter(handle.result(END_S) for handle in handles)
        statuses: list[ExecutionStatus] = [handle.status() for handle in handles]
    assert {status.status for status in statuses} == {"completed"}
    with closing(sqlite3.connect(file)) as connection:
        payments = connection.execute("SELECT account, number FROM payments").fetchall()
        cents = dict(connection.execute("SELECT account, cents FROM accounts").fetchall())
    assert sorted(payments) == sorted((ACCOUNTS[number % 4], number) for number in range(executions))
    assert cents == dict.fromkeys(ACCOUNTS, executions // 4) and results == {cent + 1: 4 for cent in range(executions // 4)}
    most, most_of_one = crowds(file, killed)
    assert most <= CONCURRENCY and most_of_one <= PER_ACCOUNT
    record(f"{kills} kills of {ENGINES} engines, {executions} {kind.code.name} in a queue: at most {most} at a time, {most_of_one} of an account")


def crowds(file: Path, killed: dict[int, float]) -> tuple[int, int]:
    """How many were at work at one time at most, over all and of one account, as the marks say; those of the killed until they were."""
    began: dict[tuple[str, int], float] = {}
    spans: list[tuple[float, float, str]] = []
    for line in (file.parent / "marks").read_text().splitlines():
        what, name, pid, at_s = line.split()
        if what == "begin":
            began[name, int(pid)] = float(at_s)
        else:
            spans.append((began.pop((name, int(pid))), float(at_s), name[0]))
    spans += [(at_s, killed[pid], name[0]) for (name, pid), at_s in began.items() if pid in killed]

    def most(chosen: list[tuple[float, float, str]]) -> int:
        return max((sum(start <= at_s < end for start, end, _ in chosen) for at_s, _, _ in chosen), default=0)

    return most(spans), max(most([span for span in spans if span[2] == account]) for account in ACCOUNTS)
