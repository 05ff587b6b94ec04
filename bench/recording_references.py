"""How many references are found again in recorded sessions with literal arguments, and how many of those found are right; and what the search costs.

The sessions are generated: the development set, the held-out set, on which nothing was tuned, and sessions of both that were recorded with references and
then made literal. By kind, as `tests/recording/session_truth.py` describes them: how many were found, and how many of the required ones there are.
"""

import gc
import json
import random
import statistics
import time
from collections.abc import Iterable
from typing import Any

from perdure.recording.found_references import found_references
from perdure.recording.literal_calls import LiteralCall
from tests.recording.generated_sessions import (
    DEVELOPMENT_SEEDS,
    HELD_OUT_SEEDS,
    GeneratedSession,
    Score,
    generated,
    literal_copies,
    score,
    total,
    with_references,
)
from tests.recording.recorded_examples import found_of

ROUNDS = 5


def scored(sessions: Iterable[GeneratedSession], *, plain: bool = False) -> Score:
    """The score of all sessions together; with `plain`, without references that need a conversion, which sessions that were made literal do not have."""
    return total(score(session, found_of(session, plain=plain)) for session in sessions)


def show(name: str, found: Score) -> None:
    """Prints a score, by kind."""
    print(f"{name}: precision {found.precision:.1%}, recall {found.recall:.1%} ({found.tp} right, {found.fp} wrong, {found.fn} missed)")
    for kind in sorted({*found.right, *found.missed}):
        right, missed = found.right.get(kind, 0), found.missed.get(kind, 0)
        print(f"  {kind:<20} {right:>5} of {right + missed:>5}  {right / (right + missed):.1%}")
    wrong = ", ".join(f"{kind} {count}" for kind, count in sorted(found.wrong.items(), key=lambda one: -one[1]))
    print(f"  wrong, by what is true there: {wrong or 'none'}")


def large_session(calls: int) -> list[LiteralCall]:
    """Calls with a result of 100 KB each, and arguments from the result before."""
    chance = random.Random(1)

    def row() -> dict[str, Any]:
        number = chance.randrange(10**7)
        return {
            "id": number,
            "name": f"Name {number % 99991}",
            "email": f"u{number}@example.com",
            "status": chance.choice(["open", "closed"]),
            "created_at": f"2026-0{chance.randrange(1, 9)}-1{chance.randrange(9)}T10:00:00Z",
            "total": chance.randrange(10**6) / 100,
            "active": True,
        }

    made: list[LiteralCall] = []
    before = row()
    for number in range(calls):
        text = f"Hello {before['name']}, your order {before['id']} is on its way, see https://shop.example/orders/{before['id']}"
        arguments = {"user_id": before["id"], "page": number % 7, "limit": 50, "to": before["email"], "text": text, "from": before["created_at"][:10]}
        result = {"items": [row() for _ in range(615)]}
        made.append(LiteralCall(f"list_orders_{number + 1}", "list_orders", arguments, result))
        before = chance.choice(result["items"])
    return made


def walked(root: Any) -> int:
    """Looks at the type of each value, and counts them."""
    count, waiting = 0, [root]
    while waiting:
        one = waiting.pop()
        for value in one.values() if type(one) is dict else one:
            count += 1
            if type(value) is dict or type(value) is list:
                waiting.append(value)
    return count


def main() -> None:
    """Prints all figures."""
    development, held_out = generated(DEVELOPMENT_SEEDS), generated(HELD_OUT_SEEDS)
    show("development set", scored(development))
    show("held-out set", scored(held_out))
    show("literal copies, development", scored(literal_copies(map(with_references, development)), plain=True))
    show("literal copies, held-out", scored(literal_copies(map(with_references, held_out)), plain=True))
    calls = large_session(500)
    size = statistics.mean(len(json.dumps(one.result)) for one in calls[:10])
    gc.collect()
    gc.freeze()
    taken = []
    for _ in range(ROUNDS):
        before = time.process_time()
        found_references(calls)
        taken.append(time.process_time() - before)
    before = time.process_time()
    values = sum(walked(one.result) for one in calls)
    bare = time.process_time() - before
    print(f"a session of {len(calls)} calls with results of {size / 1000:.0f} KB: {min(taken):.2f} s of processor time (the best of {ROUNDS})")
    print(f"beside it, a loop that only looks at the type of each of its {values:,} values: {bare:.2f} s")


if __name__ == "__main__":
    main()
