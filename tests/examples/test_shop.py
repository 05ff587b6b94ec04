"""The shop, killed at random while it works and run again, alone and beside another: each effect happens under one key, and everything ends."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from examples.shop import ORDERS
from perdure import Client
from tests.sampling import some

ROOT = Path(__file__).parents[2]
WAIT_S = 60.0
TOLD = "".join(f"receipt for {order}\n" for order in ORDERS) + "restocked\n"


class Shops:
    """Processes of the example in one directory, on one database."""

    def __init__(self, directory: Path) -> None:
        self.url = f"sqlite:///{directory}/shop.db"
        self._ledger = directory / "ledger.txt"
        self._environment = os.environ | {"PERDURE_DB": self.url, "SHOP_LEDGER": str(self._ledger), "PYTHONPATH": str(ROOT)}

    def begin(self) -> "subprocess.Popen[str]":
        return subprocess.Popen([sys.executable, str(ROOT / "examples/shop.py")], env=self._environment, stdout=subprocess.PIPE, text=True)

    def effects(self) -> list[tuple[str, str]]:
        """The lines of the ledger: the key and what was done."""
        lines = self._ledger.read_text().splitlines() if self._ledger.exists() else []
        return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]

    def expect_all_done(self) -> None:
        """Each key stands for one effect, and each effect for one key; nothing is missing."""
        effects = self.effects()
        keys, whats = {key for key, _ in effects}, {what for _, what in effects}
        assert len(set(effects)) == len(keys) == len(whats) == 3 * len(ORDERS), effects
        with Client(self.url) as client:
            assert Counter(one.status for one in client.list()) == {"completed": 3 * len(ORDERS)}


def test_it_takes_its_orders_once(tmp_path: Path) -> None:
    shops = Shops(tmp_path)
    for _ in range(2):
        shop = shops.begin()
        assert (shop.communicate(timeout=WAIT_S)[0], shop.returncode) == (TOLD, 0)
        assert len(shops.effects()) == 3 * len(ORDERS), "run again, it does nothing again"
    shops.expect_all_done()


@pytest.mark.prove
@pytest.mark.parametrize("seed", some(range(6), 1))
def test_killed_at_random_and_run_again_it_ends_as_if_nothing_had_happened(tmp_path: Path, seed: int) -> None:
    shops, rng = Shops(tmp_path), random.Random(seed)
    for _ in range(3):
        _kill_after(shops.begin(), 0.2 + rng.random() * 0.8)
    last = shops.begin()
    assert (last.communicate(timeout=WAIT_S)[0], last.returncode) == (TOLD, 0)
    shops.expect_all_done()


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(range(6), 1))
def test_another_goes_on_with_what_a_killed_one_held(tmp_path: Path, seed: int) -> None:
    shops, rng = Shops(tmp_path), random.Random(100 + seed)
    killed, other = shops.begin(), shops.begin()
    _kill_after(killed, 0.3 + rng.random() * 0.6)
    assert (other.communicate(timeout=WAIT_S)[0], other.returncode) == (TOLD, 0)
    shops.expect_all_done()


def _kill_after(process: "subprocess.Popen[str]", wait_s: float) -> None:
    time.sleep(wait_s)
    process.kill()
    process.communicate()
    assert process.returncode in (-signal.SIGKILL, 0)
