"""Facts: what is to be known of an execution beside its state, and all of it as plain comparable data."""

from typing import Any

import msgspec

from perdure.core.execution import Execution
from perdure.core.ops import Receive
from perdure.core.paths import Path

HIDDEN = ("opened", "turns", "mailbox", "logged_events", "dead_events", "resumes")
"""What follows from the rest, or is of no consequence."""


def facts(execution: Execution) -> dict[str, Any]:
    """What it knows: two executions with equal facts behave the same from here on."""
    known = {name: getattr(execution, name) for name in execution.__slots__ if name not in HIDDEN}
    known["backlog"] = execution.backlog if execution.parked else []
    known["mailbox"] = sorted(execution.mailbox.letters.items())
    known["turns"] = execution.turns.inside()
    known["given"], known["memo"] = execution.memo.given, execution.memo.known
    for name in ("open", "settled", "memo"):
        known[name] = {path: msgspec.structs.replace(one, number=0) for path, one in known[name].items()}
    return known


def is_in_hand(execution: Execution) -> bool:
    """Whether somebody has to have it in hand, as it is performing something or about to decide: if nobody has, nothing else would wake it."""
    if execution.started is None or execution.ended is not None or execution.parked is not None:
        return False
    return execution.opened.performed > 0 or not execution.open


def turn_holds_open(execution: Execution, scope: Path) -> bool:
    """Whether a turn of a loop, named by its path, still holds an open operation, or a message that is yet to be completed."""

    def holds(path: Path) -> bool:
        settlement = execution.settled.get(path)
        owed = settlement is not None and isinstance(settlement.op, Receive) and settlement.op.completable
        return path in execution.open or (owed and settlement is not None and len(settlement.completed) < len(settlement.letters))

    return execution.turns.any(scope, holds)
