"""Temporal's money transfer on Perdure: the claims of the original's tests, and that no kill, lost answer or failed deposit makes or loses money."""

from collections.abc import Callable
from pathlib import Path

import pytest

from examples.ports import money_transfer as port
from examples.ports.bank import Bank
from perdure import ExecutionFailed
from perdure.testing import World
from tests.examples.ports.processes import Program
from tests.sampling import some

SOURCE, TARGET = "85-150", "43-812"
BEFORE = {SOURCE: 2000, TARGET: 0}
AFTER = {SOURCE: 1750, TARGET: 250}


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bank:
    """A bank of this test alone."""
    bank = Bank(tmp_path / "bank.db")
    bank.open_accounts(BEFORE)
    monkeypatch.setattr(port, "bank", bank)
    return bank


def payment(amount: int = 250, source: str = SOURCE, target: str = TARGET) -> port.PaymentDetails:
    return port.PaymentDetails(source, target, amount, "12345")


def lost_answers(book: Callable[[str, int, str], str]) -> Callable[[str, int, str], str]:
    """What the bank is asked for happens, and the answer never arrives."""

    def booked_in_silence(account: str, cents: int, reference: str) -> str:
        book(account, cents, reference)
        raise TimeoutError("no answer from the bank")

    return booked_in_silence


@pytest.mark.perdure(crash_at="every")
def test_a_transfer_moves_the_amount_once_wherever_it_is_killed(world: World, bank: Bank) -> None:
    assert world.run(port.money_transfer, payment()) == "Transfer complete (transaction IDs: W1, D2)"
    assert bank.balances() == AFTER
    assert bank.bookings() == [("12345-withdrawal", -250, False), ("12345-deposit", 250, False)]


@pytest.mark.perdure(crash_at="every")
def test_a_deposit_to_an_invalid_account_gives_the_money_back_wherever_it_is_killed(world: World, bank: Bank) -> None:
    run = world.start(port.money_transfer, payment(target="43-813"))
    with pytest.raises(ExecutionFailed, match="The account number 43-813 is invalid"):
        run.result()
    assert bank.balances() == BEFORE
    assert ("12345-withdrawal", -250, True) in bank.bookings()
    assert run.step("deposit").attempts == 1, "the error is final"


@pytest.mark.parametrize(
    ("details", "error"),
    [(payment(25_000), "InsufficientFundsError"), (payment(source="85-151"), "InvalidAccountError")],
    ids=["insufficient funds", "invalid account"],
)
def test_a_withdrawal_that_cannot_succeed_is_attempted_once_and_moves_nothing(world: World, bank: Bank, details: port.PaymentDetails, error: str) -> None:
    run = world.start(port.money_transfer, details)
    with pytest.raises(ExecutionFailed) as failed:
        run.result()
    assert failed.value.error.type == error
    assert run.step("withdraw").attempts == 1
    assert bank.balances() == BEFORE


def test_a_bank_that_is_away_for_two_attempts_is_asked_a_third_time(world: World, bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [ConnectionError("reset"), ConnectionError("reset")]
    deposit = bank.deposit

    def unsteady(account: str, cents: int, reference: str) -> str:
        if answers:
            raise answers.pop()
        return deposit(account, cents, reference)

    monkeypatch.setattr(bank, "deposit", unsteady)
    run = world.start(port.money_transfer, payment())
    assert run.result().startswith("Transfer complete")
    assert run.step("deposit").attempts == 3
    assert bank.balances() == AFTER


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every")
@pytest.mark.parametrize("lost", ["withdraw", "deposit"])
def test_a_booking_whose_answer_is_lost_is_reversed(world: World, bank: Bank, monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    monkeypatch.setattr(bank, lost, lost_answers(getattr(bank, lost)))
    run = world.start(port.money_transfer, payment())
    with pytest.raises(ExecutionFailed, match="no answer from the bank"):
        run.result()
    assert bank.balances() == BEFORE
    assert all(cancelled for _, _, cancelled in bank.bookings())


@pytest.mark.slow
@pytest.mark.parametrize("bookings", some([1, 2], 1), ids=["during the withdrawal", "during the deposit"])
def test_killed_between_a_booking_and_its_answer_the_program_continues_and_books_nothing_twice(tmp_path: Path, bookings: int) -> None:
    bank = Bank(tmp_path / "bank.db")
    program = Program("money_transfer.py", [SOURCE, TARGET, "250", "12345"], tmp_path, {"BANK_FILE": str(bank.file), "BANK_DELAY_S": "0.3"})
    program.kill_when(lambda: len(bank.bookings()) == bookings, f"{bookings} bookings")
    ended = program.finish()
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "Transfer complete (transaction IDs: W1, D2)\n", "")
    assert bank.balances() == AFTER


@pytest.mark.prove
def test_killed_during_the_refund_the_program_gives_the_money_back_once(tmp_path: Path) -> None:
    bank = Bank(tmp_path / "bank.db")
    program = Program("money_transfer.py", [SOURCE, "43-813", "250", "12345"], tmp_path, {"BANK_FILE": str(bank.file), "BANK_DELAY_S": "0.3"})
    program.kill_when(lambda: ("12345-withdrawal", -250, True) in bank.bookings(), "the refund")
    ended = program.finish()
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "InvalidAccountError: The account number 43-813 is invalid.\n")
    assert bank.balances() == BEFORE
