"""Claims about effects: what is sent because of what was decided, and that it can all be sent again."""

import pytest

from perdure.core import mail
from perdure.core import messages as m
from perdure.core.effects import effects
from perdure.core.errors import ErrorInfo
from perdure.core.events import Opened
from perdure.core.execution import Execution
from perdure.core.mail import Ack, Opening
from perdure.core.messages import Parent
from perdure.core.ops import Call, Err, Ok, Op, Receive, Retry, Send, Sleep, Spawn
from perdure.core.paths import Key, Queue
from perdure.core.program import Drop, Finish
from perdure.core.values import Blob
from tests.core.stories import DONE, KEY, OTHER, Script, Story, opens, path

PAY, A = path("pay"), path("a")
GPU = Queue("acme", "gpu")
CHILD = Key("acme", "ship", "1")
QUEUED = Call("pay", b"\x01", "gpu", Retry(jitter=0.0), 9.0)
NO = Err("failed", 1, ErrorInfo("ValueError", "no"))


def test_work_goes_to_its_queue_with_one_key_for_each_try_and_one_for_the_world() -> None:
    story = Story({"start": [opens("pay", QUEUED)]})
    story.begin()
    story.settle("pay", NO)
    story.tick(1.0)
    assert [(send.to, send.key) for send in story.sends] == [(GPU, "acme/order/1:pay:1"), (GPU, "acme/order/1:pay:2")]
    assert story.sent == [m.Work(KEY, PAY, attempt, "pay", "acme/order/1:pay", b"\x01", 9.0, grace_s=30.0) for attempt in (1, 2)]


def test_what_the_host_performs_itself_needs_no_mail() -> None:
    story = Story({"start": [opens("pay"), opens("a", Sleep(1.0)), opens("b", Receive(("x",)))], "a": [DONE]})
    story.begin()
    story.say(m.Lost(PAY, 1))
    story.settle("pay", NO, 2)
    story.tick(60.0)
    assert story.sends == [] and story.acks == []


def test_a_child_is_started_under_the_parent_s_operation_and_its_root() -> None:
    story = Story({"start": [opens("a", Spawn("ship", "1", 2, b"\x01", deadline_s=9.0)), opens("b", Spawn("ship", "1", awaited=False))]})
    story.begin()
    assert [(send.to, send.key, send.opens) for send in story.sends] == [
        (CHILD, "start:acme/order/1:a", Opening("ship@2", KEY)),
        (CHILD, "start:acme/order/1:b", Opening("ship@", KEY)),
    ]
    awaited, detached = story.sent
    assert isinstance(awaited, m.Start) and isinstance(detached, m.Start)
    assert (awaited.version, awaited.input, awaited.parent, awaited.deadline_s) == (2, b"\x01", Parent(KEY, A), 9.0)
    assert detached.parent is None and story.status == "waiting" and path("b") in story.execution.settled


def test_every_child_has_a_seed_of_its_own_the_same_each_time() -> None:
    def seeds(id: str) -> list[int]:
        execution = Execution(Key("acme", "order", id))
        sends = [send for shown in ("a/call:ship", "b/call:ship") for send in effects(execution, Opened(path(shown), Spawn("ship", "1")))]
        return [start.seed for send in sends if isinstance(send, mail.Send) and isinstance(start := m.decode(send.body), m.Start)]

    found = seeds("1") + seeds("2") + seeds("3")
    assert len(set(found)) == 6 and seeds("1") == found[:2] and all(0 <= seed < 2**63 for seed in found)


def test_signals_are_numbered_for_each_receiver() -> None:
    story = Story({"start": [opens("a", Send(OTHER, "x", b"\x01")), opens("b", Send(CHILD, "x")), opens("c", Send(OTHER, "y"))]})
    story.begin()
    assert [(send.to, send.key) for send in story.sends] == [(OTHER, f"signal:{KEY}:1"), (CHILD, f"signal:{KEY}:1"), (OTHER, f"signal:{KEY}:2")]
    assert story.sent == [m.Signal("x", b"\x01", "", KEY, 1), m.Signal("x", sender=KEY, sent=1), m.Signal("y", sender=KEY, sent=2)]


def test_a_message_names_the_blobs_that_its_body_refers_to() -> None:
    given, described, sent, made = (Blob(letter * 64, 1) for letter in "abcd")
    child = Spawn("ship", "1", input=given, definition=described, awaited=False)
    story = Story(
        {
            "start": [opens("a", child), opens("b", Send(OTHER, "x", sent)), opens("c", Spawn("ship", "2", awaited=False)), opens("pay")],
            "pay": [Finish("completed", Ok(made))],
        }
    )
    story.begin(parent=Parent(OTHER, PAY))
    story.settle("pay")
    named = {send.key: send.refers for send in story.sends}
    assert named == {
        "start:acme/order/1:a": ((given.sha256,), (described.sha256,)),
        f"signal:{KEY}:1": ((sent.sha256,),),
        "start:acme/order/1:c": (),
        "settle:pay": ((made.sha256,),),
    }


def test_whoever_waits_for_the_end_is_told_how_it_ended() -> None:
    story = Story({"start": [opens("pay")], "pay": [DONE]})
    story.begin(parent=Parent(OTHER, PAY))
    story.begin(parent=Parent(CHILD, A))
    assert story.sends == []
    story.settle("pay")
    assert [(send.to, send.key) for send in story.sends] == [(OTHER, "settle:pay"), (CHILD, "settle:a")]
    assert story.sent == [m.Settle(PAY, 1, Ok()), m.Settle(A, 1, Ok())]


TAKEN_BACK: list[tuple[Op, list[object]]] = [
    (QUEUED, [Ack(GPU, "acme/order/1:a:1")]),
    (Spawn("ship", "1"), [CHILD]),
    (Spawn("ship", "1", awaited=False), []),
    (Call("a"), []),
    (Sleep(1.0), []),
    (Receive(("x",)), []),
]


@pytest.mark.parametrize("ends", [True, False], ids=["at the end", "dropped"])
@pytest.mark.parametrize(("op", "expected"), TAKEN_BACK, ids=lambda part: type(part).__name__)
def test_what_nobody_waits_for_any_more_is_taken_back(op: Op, expected: list[object], ends: bool) -> None:
    script: Script = {"start": [opens("a", op), opens("go")], "go": [DONE] if ends or (type(op) is Spawn and not op.awaited) else [Drop(A)]}
    story = Story(script)
    story.begin()
    before = len(story.sends)
    story.settle("go")
    assert [*story.acks, *(send.to for send in story.sends[before:])] == expected
    for send in story.sends[before:]:
        assert send.key == "leave:acme/order/1:a" and m.decode(send.body) == m.Leave(m.Parent(KEY, A))


def test_work_that_waits_for_its_next_try_is_in_no_queue_and_is_not_taken_back() -> None:
    story = Story({"start": [opens("a", QUEUED), opens("go")], "go": [Drop(A)]})
    story.begin()
    story.settle("a", NO)
    answered = list(story.acks)
    story.settle("go")
    assert story.acks == answered
