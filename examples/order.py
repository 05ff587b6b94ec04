"""An order: reserve the goods, charge the card, wait for the customer's decision, ship; or give back what was done.

    python examples/order.py                                                 # a worker, until Ctrl-C
    perdure start order 1001 4200 --id 1001                                  # elsewhere: order 1001, of 42.00
    perdure send 1001 decision '{"approved": true}'

`examples/demo.py` tells its story. The rule for steps that act outside of Perdure: a step may begin more than once, for its worker
may die before the answer is remembered, but every try has the same key; so whoever is asked again with a key answers as before, and
does nothing. Banks work like this; here `World` stands for the warehouse, the bank, the carrier and the customer.
"""

import asyncio
import fcntl
import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from perdure import Context, Fatal, Retry, Signal, StepFailed, step, step_info, workflow
from perdure.runtime.server import serve

CARD_LIMIT_CENTS = 100_000

REMIND_AFTER_S = 2.0
"""When the customer is first reminded; each further wait is twice as long. In a real shop this is a day."""

REMINDERS_MAX = 6
"""After so many reminders, and one more wait, no answer is a no."""


# The world outside, which knows nothing of workflows.


class Line(msgspec.Struct):
    """A line of the world's file. `event`: asked, failed, done, or known (done before, under the same key)."""

    event: str
    what: str
    key: str
    attempt: int
    process: int
    at_s: float
    answer: str = ""


class World:
    """Everybody whom the steps ask for something, in one file to which lines are only added. A request takes them `takes_s`."""

    def __init__(self, file: Path, takes_s: float) -> None:
        self.file, self.takes_s = file, takes_s

    def do(self, what: str, answer: str, fails_first: bool = False) -> str:
        """Do something once for the key of the running step, and return what came of it; asked again, return the same.

        Raises:
            TimeoutError: no answer, as always at first with `fails_first`.
        """
        self._add("asked", what)
        time.sleep(self.takes_s / 2)
        said = self._add("done", what, f"{answer}-{hashlib.sha256(step_info().key.encode()).hexdigest()[:4]}", fails_first)
        if said.event == "failed":
            raise TimeoutError("no answer from the bank")
        time.sleep(self.takes_s / 2)
        return said.answer

    def lines(self) -> list[Line]:
        """All that has happened; a kill can cut the last line short."""
        raw = self.file.read_bytes() if self.file.exists() else b""
        return [msgspec.json.decode(line, type=Line) for line in raw.splitlines() if line.endswith(b"}")]

    def _add(self, event: str, what: str, answer: str = "", fails_first: bool = False) -> Line:
        """Look the key up and add a line, as one act, forced to the disk."""
        info = step_info()
        with self.file.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            before = [line for line in self.lines() if line.key == info.key]
            if event == "done" and fails_first and not any(line.event == "failed" for line in before):
                event, answer = "failed", ""
            elif event == "done" and any(line.event == "done" for line in before):
                event = "known"
            line = Line(event, what, info.key, info.attempt, os.getpid(), time.time(), answer)
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            torn = file.read(1) not in (b"", b"\n")
            file.write(b"\n" * torn + msgspec.json.encode(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        return line


world = World(Path(os.environ.get("ORDER_WORLD", "order-world.jsonl")), float(os.environ.get("ORDER_WORLD_TAKES_S", "0.4")))


# The workflow.


@dataclass(frozen=True)
class Decision:
    """What the customer says."""

    approved: bool


decision = Signal("decision", Decision)


class Rejected(Exception):
    """The customer does not want it."""


@step
def reserve(order_id: str) -> str:
    return world.do("reserve", "stock")


@step(retry=Retry(max=5, wait="500ms", only=(TimeoutError,)))
def charge(order_id: str, cents: int) -> str:
    if cents > CARD_LIMIT_CENTS:
        raise Fatal("the card was declined")
    return world.do("charge", "payment", fails_first=True)


@step
def remind(order_id: str, number: int) -> str:
    return world.do("remind", f"mail-{number}")


@step
def ship(order_id: str, stock: str) -> str:
    return world.do("ship", "parcel")


@step
def refund(payment: str) -> str:
    return world.do("refund", "refund")


@step
def release(stock: str) -> str:
    return world.do("release", "back")


async def approved(ctx: Context, order_id: str) -> bool:
    """Wait for the decision, and remind the customer meanwhile. While it waits it is in nobody's memory, and no worker has to live."""
    async for turn in ctx.loop("reminders", state=0):
        answer = await turn.listen(decision, timeout=REMIND_AFTER_S * 2**turn.state, default=None)
        if answer is not None or turn.state == REMINDERS_MAX:
            break
        turn.state += 1
        await turn.step(remind, order_id, turn.state)
    return answer is not None and answer.approved


@workflow
async def order(ctx: Context, order_id: str, cents: int) -> str:
    """Sell something. Whatever goes wrong, what was done before is given back, in reverse order."""
    stock = await ctx.step(reserve, order_id)
    try:
        payment = await ctx.step(charge, order_id, cents)
        try:
            if not await approved(ctx, order_id):
                raise Rejected("the customer said no")
            parcel = await ctx.step(ship, order_id, stock)
        except (StepFailed, Rejected):
            await ctx.step(refund, payment)
            raise
    except (StepFailed, Rejected) as reason:
        await ctx.step(release, stock)
        return f"order {order_id} was given back: {reason.error.message if isinstance(reason, StepFailed) else reason}"
    return f"order {order_id} was shipped: {parcel}"


def main() -> None:
    """A worker for orders."""
    asyncio.run(serve([order.code], db=os.environ.get("PERDURE_DB"), ready=lambda _: print("ready", flush=True)))


if __name__ == "__main__":
    main()
