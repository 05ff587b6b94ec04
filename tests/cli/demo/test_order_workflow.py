"""An order, killed wherever it can hurt: each thing is done once, and what comes of it is what comes of one that nobody disturbs."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perdure import AsyncClient, Client
from perdure.cli.demo import order_workflow as shop
from perdure.runtime.local_engine import local_engine

pytestmark = pytest.mark.slow

WAIT_S = 30.0
TAKES_S = 0.1


class OrderProcess:
    """An order in a directory, and a worker process of its own, one after the other."""

    def __init__(self, directory: Path, approved: bool) -> None:
        directory.mkdir()
        self.world = shop.OrderWorld(directory / "world.jsonl", TAKES_S)
        self._approved = approved
        self._url = f"sqlite:///{directory}/perdure.db"
        self._environment = os.environ | {"PERDURE_DB": self._url, "ORDER_WORLD": str(self.world.file), "ORDER_WORLD_TAKES_S": str(TAKES_S)}

    def run(self, kill_at: tuple[int, ...] = ()) -> str:
        """Run an order to its end; the worker is killed each time that so many lines are in the world's file, and another one started."""
        with Client(self._url) as client:
            order = client.start(shop.order.with_(id="1001"), "1001", 4200)
            order.send(shop.decision, shop.CustomerDecision(self._approved))
            for lines in kill_at:
                worker = self._worker()
                self._until(lines)
                worker.kill()
                assert worker.wait() == -signal.SIGKILL
            worker = self._worker()
            try:
                return order.result(timeout=WAIT_S)
            finally:
                worker.terminate()
                assert worker.wait(timeout=WAIT_S) == 0

    def done(self) -> list[tuple[str, str, str]]:
        """What was done in the world, in order: what, under which key, and what came of it."""
        return [(line.what, line.key, line.answer) for line in self.world.lines() if line.event == "done"]

    def _worker(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-m", "perdure.cli", "worker", "perdure.cli.demo.order_workflow"],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _until(self, lines: int) -> None:
        ends_s = time.monotonic() + WAIT_S
        while len(self.world.lines()) < lines:
            assert time.monotonic() < ends_s, f"there never were {lines} lines"
            time.sleep(0.002)


@pytest.mark.prove
@pytest.mark.parametrize("kill_at", [(5,), pytest.param((1, 5, 9), marks=pytest.mark.prove)], ids=["once", "again and again"])
def test_killed_it_does_each_thing_once_and_ends_as_if_undisturbed(tmp_path: Path, kill_at: tuple[int, ...]) -> None:
    undisturbed, killed = OrderProcess(tmp_path / "undisturbed", approved=False), OrderProcess(tmp_path / "killed", approved=False)
    result = undisturbed.run()
    assert killed.run(kill_at) == result
    assert killed.done() == undisturbed.done()
    assert [what for what, _, _ in killed.done()] == ["reserve", "charge", "refund", "release"]
    assert len({key for _, key, _ in killed.done()}) == 4
    asked, asked_undisturbed = ([line.key for line in one.world.lines() if line.event == "asked"] for one in (killed, undisturbed))
    assert len(asked) > len(asked_undisturbed), "no kill hit a step"


async def result_of(cents: int, directory: Path) -> str:
    """What becomes of an order about which the customer says nothing."""
    async with local_engine([shop.order.code], f"sqlite:///{directory}/perdure.db") as engine:
        client = AsyncClient(engine.store)
        return await (await client.start(shop.order.with_(id="1001"), "1001", cents)).result(timeout=WAIT_S)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> shop.OrderWorld:
    """A world that takes no time, and customers who are reminded at once."""
    monkeypatch.setattr(shop, "world", shop.OrderWorld(tmp_path / "world.jsonl", 0.0))
    monkeypatch.setattr(shop, "REMIND_AFTER_S", 0.002)
    return shop.world


async def test_a_declined_card_is_no_order_and_the_goods_go_back(world: shop.OrderWorld, tmp_path: Path) -> None:
    assert await result_of(shop.CARD_LIMIT_CENTS + 1, tmp_path) == "order 1001 was given back: the card was declined"
    assert [line.what for line in world.lines() if line.event == "done"] == ["reserve", "release"]


async def test_a_customer_who_never_answers_is_reminded_so_often_and_then_taken_to_say_no(world: shop.OrderWorld, tmp_path: Path) -> None:
    assert await result_of(4200, tmp_path) == "order 1001 was given back: the customer said no"
    done = [line.what for line in world.lines() if line.event == "done"]
    assert done == ["reserve", "charge", *["remind"] * shop.REMINDERS_MAX, "refund", "release"]


def test_a_line_that_a_kill_cut_short_spoils_no_other(tmp_path: Path) -> None:
    killed = OrderProcess(tmp_path / "killed", approved=True)
    killed.world.file.write_text('{"event":"asked","what":"rese')
    assert "was shipped" in killed.run()
    assert [what for what, _, _ in killed.done()] == ["reserve", "charge", "ship"]
