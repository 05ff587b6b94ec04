"""Which messages have come: each does something once, for as long as that is remembered."""

from perdure.core import limits
from perdure.core.deduplication import MessageDeduplication
from perdure.core.paths import Key

SENDER = Key("t", "order", "1")


def test_a_key_from_outside_is_known_for_a_day_even_if_nothing_else_comes() -> None:
    seen = MessageDeduplication()
    seen.add(None, 0, "k", 100.0)
    assert seen.knows(None, 0, "k", 100.0 + limits.CLIENT_KEY_RETENTION_S)
    assert not seen.knows(None, 0, "k", 100.1 + limits.CLIENT_KEY_RETENTION_S)


def test_the_messages_of_an_execution_are_known_for_ever_in_whatever_order_they_came() -> None:
    seen = MessageDeduplication()
    for number in (3, 1, 2, 5):
        seen.add(SENDER, number, "", 0.0)
    known = [number for number in range(1, 7) if seen.knows(SENDER, number, "", 1e12)]
    assert known == [1, 2, 3, 5]
    assert (seen.watermarks[SENDER].all_to, seen.watermarks[SENDER].beyond) == (3, {5})


def test_a_message_without_a_key_is_never_taken_for_a_repeat() -> None:
    seen = MessageDeduplication()
    seen.add(None, 0, "", 0.0)
    assert not seen.knows(None, 0, "", 0.0)
