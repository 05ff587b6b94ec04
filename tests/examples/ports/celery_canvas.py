"""The canvas with Celery itself: a worker in this process, over a broker and a result backend in memory. Prints the result of each primitive as JSON.

python -m tests.examples.ports.celery_canvas
"""

import json
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from celery import Celery, chain, chord, group
from celery.contrib.testing.worker import start_worker
from celery.exceptions import ChordError, TaskRevokedError

app = Celery("canvas", broker="memory://", backend="cache+memory://")
WAIT_S = 20.0

attempts: list[int] = []
callbacks: list[int] = []
errors: list[str] = []
quotients: list[int] = []
answered = threading.Event()


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def mul(x: int, y: int) -> int:
    return x * y


@app.task
def mul_and_tell(x: int, y: int) -> None:
    callbacks.append(x * y)
    answered.set()


@app.task
def xsum(numbers: list[int]) -> int:
    return sum(numbers)


@app.task
def divide(x: int, y: int) -> int:
    quotients.append(x // y)
    return x // y


@app.task
def describe_error(request: Any, error: Exception, traceback: Any) -> None:
    errors.append(f"{type(error).__name__}: {error}")


@app.task(bind=True, autoretry_for=(ConnectionError,), max_retries=3, default_retry_delay=0)
def unsteady(self: Any, failures: int) -> int:
    attempts.append(self.request.retries + 1)
    if self.request.retries < failures:
        raise ConnectionError("reset")
    return int(self.request.retries) + 1


def value(signature: Any, **options: Any) -> Any:
    """The result of a signature."""
    return signature.apply_async(**options).get(timeout=WAIT_S)


def error_of(signature: Any, kind: type[BaseException] | tuple[type[BaseException], ...]) -> str:
    """The error of a signature, which is expected to fail."""
    try:
        return f"returned {value(signature)}"
    except kind as error:
        return type(error).__name__


def retries(failures: int) -> list[Any]:
    """The result, or the error, of a task that fails so often, and the numbers of its attempts."""
    attempts.clear()
    try:
        return [value(unsteady.s(failures)), list(attempts)]
    except ConnectionError as error:
        return [type(error).__name__, list(attempts)]


def links() -> tuple[int, int]:
    """The result of a task with a callback, and that of its callback."""
    result = value(add.s(2, 2), link=mul_and_tell.s(16))
    answered.wait(WAIT_S)
    return result, callbacks[0]


def chord_errback() -> list[Any]:
    """What the errback of a chord is told, and the quotients of the tasks beside the one that failed."""
    quotients.clear()
    errors.clear()
    header = [divide.s(60, 1), divide.s(60, 0), divide.s(60, 2)]
    failed = error_of(chord(header, xsum.s().on_error(describe_error.s())), (ChordError, ZeroDivisionError))  # whichever `get` sees first
    until_s = time.monotonic() + WAIT_S
    while (len(quotients) < 2 or not errors) and time.monotonic() < until_s:
        time.sleep(0.01)
    return [not failed.startswith("returned"), errors[0], sorted(quotients)]


def results() -> dict[str, Any]:
    """The result of each primitive."""
    independent = (add.si(2, 2) | add.si(4, 4) | add.si(8, 8)).apply_async()
    last = independent.get(timeout=WAIT_S)
    begin = datetime.now(UTC)
    value(add.s(2, 2), eta=begin + timedelta(seconds=0.5))
    waited = datetime.now(UTC) - begin >= timedelta(seconds=0.5)
    error = error_of(divide.s(1, 0).on_error(describe_error.s()), ZeroDivisionError)
    return {
        "chain": value(chain(add.s(2, 2), add.s(4), add.s(8))),
        "immutable_chain": [independent.parent.parent.get(), independent.parent.get(), last],
        "group": value(group(add.s(i, i) for i in range(10))),
        "chord": value(chord((add.s(i, i) for i in range(10)), xsum.s())),
        "chain_into_group": value(add.s(4, 4) | group(add.s(10), mul.s(10))),
        "mapped": value(xsum.map([list(range(10)), list(range(100))])),
        "starmap": value(add.starmap([(i, i) for i in range(10)])),
        "chunks": add.chunks([(i, i) for i in range(20)], 10)().get(timeout=WAIT_S),
        "linked": links(),
        "errback": [error, errors[0]],
        "chord_errback": chord_errback(),
        "retried": retries(3),
        "exhausted": retries(9),
        "eta_is_waited_for": waited,
        "expired": error_of(add.signature((2, 2), expires=datetime.now(UTC) - timedelta(seconds=1)), TaskRevokedError),
    }


if __name__ == "__main__":
    with start_worker(app, pool="solo", perform_ping_check=False):
        found = results()
    sys.stdout.write(f"{json.dumps(found)}\n")
