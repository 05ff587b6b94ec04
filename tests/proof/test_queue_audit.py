"""Claims about what is known of queues beside the store: whatever is handed over wrongly is noticed, and nothing else."""

from collections.abc import Iterable

import pytest

from perdure.core import messages
from perdure.core.envelopes import QueuedMessage
from perdure.core.paths import Key, Path, QueueAddress
from perdure.stores.protocol import Head, QueueLimits
from tests.proof.queue_audit import Handed, Leases

STEP: Path = (("s", 1),)


class WatchedLeases:
    """Leases of holders that live unless they are said to be dead, and what was complained of."""

    def __init__(self, limits: QueueLimits) -> None:
        self.problems: list[str] = []
        self.dead: set[str] = set()
        self.leases = Leases(self.problems.append, lambda holder: holder not in self.dead)
        self.leases.limit("q", limits)

    def handed(self, *handed: Handed, heads: Iterable[Head] = (), box: Iterable[QueuedMessage] = (), now_s: float = 0.0) -> list[str]:
        """What is complained of when this is handed over, and then so much is held."""
        self.leases.check(handed, list(heads), {"q": list(box)}, now_s)
        return self.problems


def head(number: int, holder: str | None, lane: str = "") -> Head:
    return Head(Key("t", "w", str(number)), "w@1", Key("t", "w", str(number)), holder=holder, queue="q", lane=lane)


def work(number: int, lane: str = "", deliveries: int = 1) -> QueuedMessage:
    body = messages.encode_message(messages.TaskMessage(Key("t", "w", str(number)), STEP, 1, "s", "key", b""))
    return QueuedMessage(number, QueueAddress("t", "q"), str(number), body, 0.0, deliveries, lane)


BEGUN = Handed("q", "executions", "", True)


def test_executions_beyond_a_limit_are_noticed_and_those_of_the_dead_do_not_count() -> None:
    watched = WatchedLeases(QueueLimits(concurrency=1))
    assert watched.handed(BEGUN, heads=[head(1, "a"), head(2, None)]) == []
    watched.dead.add("b")
    assert watched.handed(BEGUN, heads=[head(1, "a"), head(2, "b")]) == []
    watched.dead.clear()
    assert "2 executions of queue q are held, 1 may be" in watched.handed(BEGUN, heads=[head(1, "a"), head(2, "b")])[0]


def test_a_claim_that_hands_over_nothing_is_not_to_blame() -> None:
    assert WatchedLeases(QueueLimits(concurrency=1)).handed(heads=[head(1, "a"), head(2, "b")]) == []


def test_executions_of_one_key_beyond_its_limit_are_noticed() -> None:
    watched = WatchedLeases(QueueLimits(per_lane=1))
    assert watched.handed(BEGUN._replace(lane="x"), heads=[head(1, "a", "x"), head(2, "a", "y")]) == []
    assert "2 executions of queue q are held for 'x'" in watched.handed(BEGUN._replace(lane="x"), heads=[head(1, "a", "x"), head(2, "a", "x")])[0]


def test_calls_beyond_a_limit_are_noticed() -> None:
    watched = WatchedLeases(QueueLimits(concurrency=1))
    handed = watched.leases.leased([work(1)], "a")
    assert watched.handed(*handed, box=[work(1), work(2)]) == []
    handed = watched.leases.leased([work(2)], "b")
    assert "2 calls of queue q are held" in watched.handed(*handed, box=[work(1), work(2)])[0]


def test_what_begins_too_early_for_a_rate_is_noticed_and_what_goes_on_is_not_held_to_it() -> None:
    watched = WatchedLeases(QueueLimits(interval_s=10.0, burst=2))
    assert watched.handed(BEGUN, BEGUN) == []
    assert watched.handed(BEGUN._replace(fresh=False)) == []
    assert watched.handed(BEGUN, now_s=10.0) == []
    assert "faster than one per 10 s" in watched.handed(BEGUN, now_s=15.0)[0]


def test_work_that_is_taken_from_the_living_is_noticed_and_from_the_dead_it_may_be() -> None:
    watched = WatchedLeases(QueueLimits())
    watched.leases.leased([work(1)], "a")
    watched.dead.add("a")
    watched.leases.leased([work(1, deliveries=2)], "b")
    assert watched.problems == []
    assert watched.leases.holds((Key("t", "w", "1"), STEP, 1), "b") and not watched.leases.holds((Key("t", "w", "1"), STEP, 1), "a")
    assert watched.leases.again((Key("t", "w", "1"), STEP), 1) == 1
    watched.leases.leased([work(1, deliveries=3)], "c")
    assert "was taken from b, who is alive" in watched.problems[0]


def test_what_a_holder_had_that_was_dead_for_a_while_may_be_free_once() -> None:
    watched = WatchedLeases(QueueLimits())
    watched.leases.leased([work(1)], "a")
    watched.leases.revive("a")
    watched.leases.leased([work(1, deliveries=2)], "a")
    assert watched.problems == []
    watched.leases.leased([work(1, deliveries=3)], "a")
    assert "was taken from a, who is alive" in watched.problems[0]


@pytest.mark.parametrize("who", ["a", None])
def test_what_was_let_go_is_free(who: str | None) -> None:
    watched = WatchedLeases(QueueLimits())
    watched.leases.leased([work(1)], "a")
    watched.leases.end(who)
    watched.leases.leased([work(1, deliveries=2)], "b")
    assert watched.problems == []


def test_work_that_is_over_is_held_by_nobody() -> None:
    watched = WatchedLeases(QueueLimits())
    watched.leases.leased([work(1)], "a")
    watched.leases.over(1)
    assert not watched.leases.holds((Key("t", "w", "1"), STEP, 1), "a")
