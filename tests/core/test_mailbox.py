"""Claims about the mailbox, against a plain model: first in first out by number and by name, and back to the old place."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from perdure.core.mailbox import Mailbox, ReceivedMessage
from perdure.core.operations import ReceiveOperation

NAMES = "abc"
RECEIVES = st.builds(ReceiveOperation, st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(tuple), st.integers(1, 4))
ACTIONS = st.lists(
    st.tuples(st.just("put"), st.integers(1, 12), st.sampled_from(NAMES))
    | st.tuples(st.just("take"), RECEIVES, st.booleans())
    | st.tuples(st.just("return"), st.integers(0, 5), st.just("")),
    max_size=60,
)


def received(number: int, name: str) -> ReceivedMessage:
    return ReceivedMessage(number, name, b"body", 0.0)


@given(ACTIONS)
def test_a_mailbox_is_the_messages_in_order_of_their_numbers(actions: list[tuple[str, object, object]]) -> None:
    mailbox, model, taken = Mailbox(), dict[int, ReceivedMessage](), list[ReceivedMessage]()
    for action in actions:
        match action:
            case "put", int(number), str(name):
                if not any(one.number == number for one in taken):
                    mailbox.put(received(number, name))
                    model.setdefault(number, received(number, name))
            case "take", ReceiveOperation() as receive, bool(really):
                wanted = sorted(number for number, one in model.items() if one.name in receive.names)[: receive.limit]
                assert mailbox.matching(receive) == tuple(wanted)
                if really:
                    expected = tuple(model.pop(number) for number in wanted)
                    assert mailbox.remove(wanted) == expected
                    taken += expected
            case "return", int(position), _ if taken:
                back = taken.pop(position % len(taken))
                mailbox.put(back)
                model[back.number] = back
        assert mailbox.messages == model and len(mailbox) == len(model)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4), RECEIVES), max_size=40))
def test_receivers_of_a_name_are_those_open_the_earliest_first(changes: list[tuple[bool, int, ReceiveOperation]]) -> None:
    mailbox, model = Mailbox(), dict[int, ReceiveOperation]()
    for opens, number, receive in changes:
        if opens and number not in model:
            mailbox.wait((number,), receive)
            model[number] = receive
        elif not opens and number in model:
            mailbox.leave((number,), model.pop(number))
        for name in NAMES:
            assert mailbox.receivers(name) == tuple((one,) for one, known in model.items() if name in known.names)


def test_a_message_that_comes_twice_is_one_and_stays_what_it_was() -> None:
    mailbox = Mailbox()
    mailbox.put(received(1, "a"))
    mailbox.put(received(1, "b"))
    assert mailbox.matching(ReceiveOperation(("a", "b"), 9)) == (1,) and mailbox.messages[1].name == "a"


def test_what_is_empty_takes_no_memory() -> None:
    mailbox = Mailbox()
    for number in range(100):
        mailbox.wait((number,), ReceiveOperation((f"name {number}",)))
        mailbox.put(received(number, f"name {number}"))
        mailbox.leave((number,), ReceiveOperation((f"name {number}",)))
        mailbox.remove((number,))
    state: Callable[[str], object] = lambda name: getattr(mailbox, name)  # noqa: E731  # three words for three uses
    assert not state("messages") and not state("_by_name") and not state("_receivers")
