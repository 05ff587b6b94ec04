"""The payment over HTTP: charged once whatever is killed when, by the way that its amount has it, and given back if nobody ships."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.bank_server import TOKEN, Bank

EXAMPLE = Path(__file__).parents[2] / "examples/payment_http.yaml"
RUN_S_MAX = 60.0


class KillingBank(Bank):
    """The bank, which kills whoever asks for `kills` when that is done and before it is told."""

    kills = ""
    asking: "subprocess.Popen[str] | None" = None
    asked: list[str]

    def do(self, what: str, key: str, said: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, found = super().do(what, key, said)
        self.asked.append(f"{what} {status}")
        if what == self.kills and status == 201 and self.asking is not None:
            self.asking.send_signal(signal.SIGKILL)
            self.asking.wait()
        return status, found


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[KillingBank]:
    with KillingBank(tmp_path / "ledger.jsonl") as it:
        it.asked = []
        serving = threading.Thread(target=it.serve_forever, args=(0.01,), daemon=True)
        serving.start()
        yield it
        it.shutdown()
        serving.join()


def pays(bank: KillingBank, order: str, cents: int) -> tuple[int, str, str]:
    """How a payment by the command line ended, and what it said."""
    at = f"127.0.0.1:{bank.server_address[1]}"
    command = [sys.executable, "-m", "perdure.cli", "--db", f"sqlite:///{bank.ledger.parent}/perdure.db", "run", str(EXAMPLE), "--allow", f"http:{at}"]
    command += ["-i", f"bank=http://{at}", "-i", f"order={order}", "-i", f"cents={cents}", "--id", order]
    environment = os.environ | {"PERDURE_SECRET_BANK_TOKEN": TOKEN}
    with subprocess.Popen(command, cwd=bank.ledger.parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        bank.asking = process
        said, complained = process.communicate(timeout=RUN_S_MAX)
    return process.returncode, said, complained


def ledger(bank: Bank) -> list[tuple[str, str]]:
    """What was done, each with its key."""
    lines = [json.loads(line) for line in bank.ledger.read_text().splitlines()]
    return [(line["what"], line["key"].partition("/")[2].partition("/")[2]) for line in lines]


@pytest.mark.slow
def test_a_large_payment_is_charged_when_the_bank_is_no_longer_busy_and_shipped_by_its_way(bank: KillingBank, tmp_path: Path) -> None:
    code, said, _ = pays(bank, "1002", 420_000)
    assert code == 0
    assert json.loads(said) == {
        "order": "1002",
        "charge": "charges-1",
        "parcel": "parcels-2",
        "kind": "insured",
        "thanks": "Thank you for your large order 1002",
    }
    assert bank.asked == ["charges 503", "charges 201", "parcels 201"]
    assert not any(TOKEN.encode() in file.read_bytes() for file in tmp_path.glob("perdure.db*") if file.is_file())


@pytest.mark.slow
@pytest.mark.parametrize("kills", ["charges", pytest.param("parcels", marks=pytest.mark.prove)])
def test_killed_when_the_bank_has_done_it_and_not_yet_said_so_it_is_done_once_all_the_same(bank: KillingBank, kills: str) -> None:
    bank.kills = kills
    assert pays(bank, "1001", 4_200)[0] == -signal.SIGKILL
    code, said, _ = pays(bank, "1001", 4_200)
    assert (code, json.loads(said)["kind"]) == (0, "plain")
    assert ledger(bank) == [("charges", "1001:charge"), ("parcels", "1001:ship")]
    assert bank.asked.count(f"{kills} 200") == 1, "it has asked again, by the same key"


@pytest.mark.prove
@pytest.mark.parametrize("kills", ["refunds", pytest.param("", marks=pytest.mark.prove)])
def test_what_nobody_ships_is_given_back_once_also_if_it_is_killed_at_that(bank: KillingBank, kills: str) -> None:
    bank.kills = kills
    if kills:
        assert pays(bank, "x1", 4_200)[0] == -signal.SIGKILL
    code, _, complained = pays(bank, "x1", 4_200)
    assert code == 40 and "nobody goes where x1 should go" in complained
    assert ledger(bank) == [("charges", "x1:charge"), ("refunds", "x1:~undo/charge")]
