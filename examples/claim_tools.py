"""The tools of `claim.yaml`: each writes a line into a ledger when it has done something in the world, under the key that is the same in every try."""

import json
import os
import time
from pathlib import Path
from typing import Any

from perdure import step, step_info

LEDGER = "ledger.jsonl"
KNOWS_AFTER = 5


def _happens(what: str) -> None:
    """Something is done in the world, under the key of the step."""
    with Path(os.environ["CLAIM_DIRECTORY"], LEDGER).open("a") as ledger:
        ledger.write(json.dumps({"what": what, "key": step_info().key, "worker": os.getpid()}) + "\n")


@step(idempotent=True)
def reserve(number: str, cents: int) -> str:
    """Reserves the money of a claim."""
    _happens("reserve")
    return f"{cents} for {number}"


@step(idempotent=True)
def release(number: str) -> None:
    """Gives it back."""
    _happens("release")


@step(idempotent=True)
def ask_bank(number: str, asked: int) -> dict[str, Any]:
    """Asks the bank, which knows after some questions."""
    _happens("ask")
    time.sleep(0.05)
    return {"asked": asked + 1, "known": asked + 1 >= KNOWS_AFTER}


@step(idempotent=True)
def pay(number: str, cents: int) -> str:
    """Pays a claim."""
    _happens("pay")
    return f"paid {cents}"
