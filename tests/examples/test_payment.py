"""The payment: what is charged, told and shipped, by which way; who is asked when the bank says no; and what is given back."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


class PaymentDirectory:
    """A shell in a directory of its own, in which payments are made."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def perdure(self, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "perdure.cli", "--db", f"sqlite:///{self.directory}/perdure.db", *words]
        return subprocess.run(command, cwd=self.directory, capture_output=True, text=True, timeout=30, check=False)

    def pays(self, order: str, cents: int, *more: str) -> "subprocess.CompletedProcess[str]":
        inputs = ("-i", f"order={order}", "-i", f"cents={cents}", "--id", order)
        return self.perdure("run", str(EXAMPLES / "payment.yaml"), "--tools", str(EXAMPLES / "payment_tools.py"), *inputs, *more)


@pytest.fixture
def shop(tmp_path: Path) -> PaymentDirectory:
    return PaymentDirectory(tmp_path)


def told(ended: "subprocess.CompletedProcess[str]") -> list[str]:
    """What the tools did, the first word of each."""
    return [line.split()[0] for line in ended.stderr.splitlines() if not line.startswith("perdure")]


def test_a_payment_is_charged_confirmed_and_shipped(shop: PaymentDirectory) -> None:
    ended = shop.pays("1001", 4200)
    assert json.loads(ended.stdout) == {"order": "1001", "charge": "charge-1001", "parcel": "parcel-1001"}
    assert told(ended) == ["charge", "mail", "ship"]
    again = shop.pays("1001", 4200)
    assert (again.stdout, told(again)) == (ended.stdout, [])


def test_a_busy_bank_is_asked_again_and_a_large_order_goes_two_ways_that_meet(shop: PaymentDirectory) -> None:
    ended = shop.pays("1002", 420_000, "-i", "card=slow")
    assert ended.returncode == 0
    assert sorted(told(ended)) == ["charge", "charge", "charge", "crm:", "mail", "ship"]
    assert told(ended)[-1] == "ship"


@pytest.mark.prove
def test_when_the_bank_says_no_a_person_is_asked_and_decides(shop: PaymentDirectory) -> None:
    for order, decision in (("1003", "approve"), ("1004", "deny")):
        asked = shop.pays(order, 4200, "-i", "card=broken", "--no-wait")
        assert (asked.returncode, told(asked)) == (31, ["charge"])
        assert shop.perdure("resume", order, "--decision", decision, "--as", "ada").returncode == 0
    shipped, given_up = (shop.pays(order, 4200, "-i", "card=broken") for order in ("1003", "1004"))
    assert (shipped.returncode, told(shipped)) == (0, ["mail", "ship"])
    assert (given_up.returncode, told(given_up)) == (40, [])
    assert "NotPaid: order 1004 was not paid" in given_up.stderr


def test_what_was_charged_is_given_back_when_the_carrier_will_not_go(shop: PaymentDirectory) -> None:
    ended = shop.pays("x1", 4200)
    assert ended.returncode == 40
    assert told(ended) == ["charge", "mail", "refund"]
    assert "refund 4998 cents of charge-x1" in ended.stderr
