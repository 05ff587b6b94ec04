"""The order of `perdure demo`: reserve the goods, charge the card, wait for the customer's decision, ship; or give back what was done.

Steps act outside of Perdure, and may begin more than once, because their worker may die before an outcome is recorded. Every attempt has the same key, so a
bank that is asked again with a key answers as before and does nothing. `OrderWorld` stands for the warehouse, the bank and the carrier.
"""

import fcntl
import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from perdure import Context, Fatal, Retry, Signal, StepFailed, step, step_info, workflow

CARD_LIMIT_CENTS = 100_000

REMIND_AFTER_S = 1.0
"""When the customer is first reminded; each further wait is twice as long. In a real shop this is a day."""

REMINDERS_MAX = 6
"""After so many reminders and one more wait, no answer counts as a rejection."""


class WorldLine(msgspec.Struct):
    """A line of the file: a request of a step. `event` is asked, failed, done, or known (done before under the same key)."""

    event: str
    what: str
    key: str
    attempt: int
    process: int
    at_s: float
    answer: str = ""


class OrderWorld:
    """The services that steps call: a file to which lines are appended. A request takes `takes_s` seconds."""

    def __init__(self, file: Path, takes_s: float) -> None:
        self.file, self.takes_s = file, takes_s

    def do(self, what: str, answer: str, fails_first: bool = False) -> str:
        """Does something once for the key of the running step, and returns its answer; asked again, it returns the same.

        Raises:
            TimeoutError: there is no answer; with `fails_first`, the first request of a key gets none.
        """
        self._add("asked", what)
        time.sleep(self.takes_s / 2)
        said = self._add("done", what, f"{answer}-{hashlib.sha256(step_info().key.encode()).hexdigest()[:4]}", fails_first)
        if said.event == "failed":
            raise TimeoutError("no answer from the bank")
        time.sleep(self.takes_s / 2)
        return said.answer

    def lines(self) -> list[WorldLine]:
        """All requests; a kill can cut the last line short."""
        raw = self.file.read_bytes() if self.file.exists() else b""
        return [msgspec.json.decode(line, type=WorldLine) for line in raw.splitlines() if line.endswith(b"}")]

    def _add(self, event: str, what: str, answer: str = "", fails_first: bool = False) -> WorldLine:
        """Looks the key up and appends a line under a lock, and syncs it to the disk."""
        info = step_info()
        with self.file.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            before = [line for line in self.lines() if line.key == info.key]
            if event == "done" and fails_first and not any(line.event == "failed" for line in before):
                event, answer = "failed", ""
            elif event == "done" and any(line.event == "done" for line in before):
                event = "known"
            line = WorldLine(event, what, info.key, info.attempt, os.getpid(), time.time(), answer)
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            torn = file.read(1) not in (b"", b"\n")
            file.write(b"\n" * torn + msgspec.json.encode(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        return line


world = OrderWorld(Path(os.environ.get("ORDER_WORLD", "order-world.jsonl")), float(os.environ.get("ORDER_WORLD_TAKES_S", "0.4")))


@dataclass(frozen=True)
class CustomerDecision:
    """The answer of the customer."""

    approved: bool


decision = Signal("decision", CustomerDecision)


class Rejected(Exception):
    """The customer rejected the order."""


@step
def reserve(order_id: str) -> str:
    """Reserves the goods."""
    return world.do("reserve", "stock")


@step(retry=Retry(max=5, wait="500ms", only=(TimeoutError,)))
def charge(order_id: str, cents: int) -> str:
    """Charges the card; the first request of a key gets no answer."""
    if cents > CARD_LIMIT_CENTS:
        raise Fatal("the card was declined")
    return world.do("charge", "payment", fails_first=True)


@step
def remind(order_id: str, number: int) -> str:
    """Reminds the customer of the decision."""
    return world.do("remind", f"reminder-{number}")


@step
def ship(order_id: str, stock: str) -> str:
    """Hands the parcel to the carrier."""
    return world.do("ship", "parcel")


@step
def refund(payment: str) -> str:
    """Gives the payment back."""
    return world.do("refund", "refund")


@step
def release(stock: str) -> str:
    """Gives the goods back."""
    return world.do("release", "back")


async def approved(ctx: Context, order_id: str) -> bool:
    """Waits for the decision, and reminds the customer meanwhile. A waiting order needs no memory and no worker."""
    async for turn in ctx.loop("reminders", state=0):
        answer = await turn.listen(decision, timeout=REMIND_AFTER_S * 2**turn.state, default=None)
        if answer is not None or turn.state == REMINDERS_MAX:
            break
        turn.state += 1
        await turn.step(remind, order_id, turn.state)
    return answer is not None and answer.approved


@workflow
async def order(ctx: Context, order_id: str, cents: int) -> str:
    """Sells something. If it fails, what was done before is given back, in reverse order."""
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
