"""The ledger of `claim_tools.py`, and what of it is promised."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from examples.claim_tools import KNOWS_AFTER, LEDGER


def ledger_of(directory: Path) -> list[dict[str, Any]]:
    """The lines of the ledger."""
    file = directory / LEDGER
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def claims_of(done: list[dict[str, Any]], large: Any, small: Any) -> Mapping[str, bool]:
    """What is promised of two claims, one large and one small, and whether it is true of the ledger and the results."""
    keys = {line["key"]: line["what"] for line in done}
    counts = Counter(keys.values())
    tries = len(done) - len(keys)
    return {
        f"the bank was asked {2 * KNOWS_AFTER} questions, each known by one key": counts["ask"] == 2 * KNOWS_AFTER,
        "each claim was reserved once and paid once": counts["reserve"] == counts["pay"] == 2,
        "nothing was given back": counts["release"] == 0,
        f"only what a kill interrupted was done again ({tries} of it)": tries <= 2,
        "the results are right": (large, small) == ({"paid": "paid 250000", "asked": KNOWS_AFTER}, {"paid": "paid 1200", "asked": KNOWS_AFTER}),
    }


def told(claims: Mapping[str, bool]) -> list[str]:
    """Prints each claim and whether it is true; returns those that are not."""
    for what, is_true in claims.items():
        print(f"   {'true' if is_true else 'NOT TRUE'}: {what}")
    return [what for what, is_true in claims.items() if not is_true]
