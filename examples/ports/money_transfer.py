"""Temporal's money transfer: withdraw, deposit, and refund if the deposit fails.

    python examples/ports/money_transfer.py 85-150 43-812 250 12345      # from, to, cents, reference; killed, it continues when started again

The original is https://github.com/temporalio/money-transfer-project-template-python at 9bcb4d9, Copyright (c) 2023 temporal.io, MIT. Its bank only returns
random transaction ids; the one beside this file keeps accounts, so that it can be seen that no money is lost and none appears.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a script has only its own directory there

from examples.ports.bank import Bank, BookingCancelledError, InsufficientFundsError, InvalidAccountError
from perdure import Context, ExecutionFailed, Retry, step, workflow

OPENING_BALANCES = {"85-150": 2000, "43-812": 0}

bank = Bank(Path(os.environ.get("BANK_FILE", "bank.db")), delay_s=float(os.environ.get("BANK_DELAY_S", "0")))

FINAL = (InvalidAccountError, InsufficientFundsError, BookingCancelledError)
POLICY = Retry(max=3, max_wait="2s", fatal=FINAL)


@dataclass
class PaymentDetails:
    source_account: str
    target_account: str
    amount: int
    reference_id: str


@step(retry=POLICY, timeout="5s", raises=FINAL)
def withdraw(details: PaymentDetails) -> str:
    return bank.withdraw(details.source_account, details.amount, f"{details.reference_id}-withdrawal")


@withdraw.undo(in_doubt=True)
def refund(transaction_id: str | None, details: PaymentDetails) -> None:
    bank.cancel(f"{details.reference_id}-withdrawal")


@step(retry=POLICY, timeout="5s", raises=FINAL)
def deposit(details: PaymentDetails) -> str:
    return bank.deposit(details.target_account, details.amount, f"{details.reference_id}-deposit")


@deposit.undo(in_doubt=True)
def revoke(transaction_id: str | None, details: PaymentDetails) -> None:
    bank.cancel(f"{details.reference_id}-deposit")


@workflow
async def money_transfer(ctx: Context, details: PaymentDetails) -> str:
    withdrawn = await ctx.step(withdraw, details)
    deposited = await ctx.step(deposit, details)
    return f"Transfer complete (transaction IDs: {withdrawn}, {deposited})"


def main(arguments: Sequence[str]) -> int:
    """Transfers money to the end of it and returns an exit code. The reference is the id, so a transfer happens once."""
    if len(arguments) != 4 or not arguments[2].isdecimal():
        print("money_transfer.py takes FROM TO CENTS REFERENCE, such as 85-150 43-812 250 12345", file=sys.stderr)
        return 2
    source, target, cents, reference = arguments
    bank.open_accounts(OPENING_BALANCES)
    try:
        print(money_transfer.with_(id=reference).run(PaymentDetails(source, target, int(cents), reference)))
    except ExecutionFailed as failed:
        print(f"{failed.error.type}: {failed.error.message}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
