"""Claims about effects: what is sent because of what was decided, and that it can all be sent again."""

import pytest

from perdure.core import envelopes
from perdure.core import messages as m
from perdure.core.effects import effects_of
from perdure.core.envelopes import Ack, NewExecution
from perdure.core.errors import ErrorInfo
from perdure.core.events import OpenedEvent
from perdure.core.execution import Execution
from perdure.core.messages import Parent
from perdure.core.operations import CallOperation, Failure, Operation, ReceiveOperation, RetryPolicy, SendOperation, SleepOperation, SpawnOperation, Success
from perdure.core.paths import Key, QueueAddress
from perdure.core.program import DropCommand, FinishCommand
from perdure.core.values import Blob
from tests.core.scripted_execution import DONE, KEY, OTHER, Script, ScriptedExecution, opens, path

PAY, A = path("pay"), path("a")
GPU = QueueAddress("acme", "gpu")
CHILD = Key("acme", "ship", "1")
QUEUED = CallOperation("pay", b"\x01", "gpu", RetryPolicy(jitter=0.0), 9.0)
NO = Failure("failed", 1, ErrorInfo("ValueError", "no"))


def test_work_goes_to_its_queue_with_one_key_for_each_try_and_one_for_the_world() -> None:
    story = ScriptedExecution({"start": [opens("pay", QUEUED)]})
    story.begin()
    story.settle("pay", NO)
    story.tick(1.0)
    assert [(send.to, send.key) for send in story.messages] == [(GPU, "acme/order/1:pay:1"), (GPU, "acme/order/1:pay:2")]
    assert story.sent == [m.TaskMessage(KEY, PAY, attempt, "pay", "acme/order/1:pay", b"\x01", 9.0, grace_s=30.0) for attempt in (1, 2)]


def test_what_the_engine_performs_itself_sends_no_message() -> None:
    story = ScriptedExecution({"start": [opens("pay"), opens("a", SleepOperation(1.0)), opens("b", ReceiveOperation(("x",)))], "a": [DONE]})
    story.begin()
    story.say(m.LostMessage(PAY, 1))
    story.settle("pay", NO, 2)
    story.tick(60.0)
    assert story.messages == [] and story.acks == []


def test_a_child_is_started_under_the_parent_s_operation_and_its_root() -> None:
    story = ScriptedExecution(
        {"start": [opens("a", SpawnOperation("ship", "1", 2, b"\x01", deadline_s=9.0)), opens("b", SpawnOperation("ship", "1", awaited=False))]}
    )
    story.begin()
    assert [(send.to, send.key, send.opens) for send in story.messages] == [
        (CHILD, "start:acme/order/1:a", NewExecution("ship@2", KEY)),
        (CHILD, "start:acme/order/1:b", NewExecution("ship@", KEY)),
    ]
    awaited, detached = story.sent
    assert isinstance(awaited, m.StartMessage) and isinstance(detached, m.StartMessage)
    assert (awaited.version, awaited.input, awaited.parent, awaited.deadline_s) == (2, b"\x01", Parent(KEY, A), 9.0)
    assert detached.parent is None and story.status == "waiting" and path("b") in story.execution.settled


def test_every_child_has_a_seed_of_its_own_the_same_each_time() -> None:
    def seeds(id: str) -> list[int]:
        execution = Execution(Key("acme", "order", id))
        sends = [send for shown in ("a/call:ship", "b/call:ship") for send in effects_of(execution, OpenedEvent(path(shown), SpawnOperation("ship", "1")))]
        return [
            start.seed
            for send in sends
            if isinstance(send, envelopes.OutgoingMessage) and isinstance(start := m.decode_message_or_task(send.body), m.StartMessage)
        ]

    found = seeds("1") + seeds("2") + seeds("3")
    assert len(set(found)) == 6 and seeds("1") == found[:2] and all(0 <= seed < 2**63 for seed in found)


def test_signals_are_numbered_for_each_receiver() -> None:
    story = ScriptedExecution(
        {"start": [opens("a", SendOperation(OTHER, "x", b"\x01")), opens("b", SendOperation(CHILD, "x")), opens("c", SendOperation(OTHER, "y"))]}
    )
    story.begin()
    assert [(send.to, send.key) for send in story.messages] == [(OTHER, f"signal:{KEY}:1"), (CHILD, f"signal:{KEY}:1"), (OTHER, f"signal:{KEY}:2")]
    assert story.sent == [m.SignalMessage("x", b"\x01", "", KEY, 1), m.SignalMessage("x", sender=KEY, sent=1), m.SignalMessage("y", sender=KEY, sent=2)]


def test_a_message_names_the_blobs_that_its_body_refers_to() -> None:
    given, described, sent, made = (Blob(letter * 64, 1) for letter in "abcd")
    child = SpawnOperation("ship", "1", input=given, definition=described, awaited=False)
    story = ScriptedExecution(
        {
            "start": [opens("a", child), opens("b", SendOperation(OTHER, "x", sent)), opens("c", SpawnOperation("ship", "2", awaited=False)), opens("pay")],
            "pay": [FinishCommand("completed", Success(made))],
        }
    )
    story.begin(parent=Parent(OTHER, PAY))
    story.settle("pay")
    named = {send.key: send.refers for send in story.messages}
    assert named == {
        "start:acme/order/1:a": ((given.sha256,), (described.sha256,)),
        f"signal:{KEY}:1": ((sent.sha256,),),
        "start:acme/order/1:c": (),
        "settle:pay": ((made.sha256,),),
    }


def test_whoever_waits_for_the_end_is_told_how_it_ended() -> None:
    story = ScriptedExecution({"start": [opens("pay")], "pay": [DONE]})
    story.begin(parent=Parent(OTHER, PAY))
    story.begin(parent=Parent(CHILD, A))
    assert story.messages == []
    story.settle("pay")
    assert [(send.to, send.key) for send in story.messages] == [(OTHER, "settle:pay"), (CHILD, "settle:a")]
    assert story.sent == [m.SettleMessage(PAY, 1, Success()), m.SettleMessage(A, 1, Success())]


TAKEN_BACK: list[tuple[Operation, list[object]]] = [
    (QUEUED, [Ack(GPU, "acme/order/1:a:1")]),
    (SpawnOperation("ship", "1"), [CHILD]),
    (SpawnOperation("ship", "1", awaited=False), []),
    (CallOperation("a"), []),
    (SleepOperation(1.0), []),
    (ReceiveOperation(("x",)), []),
]


@pytest.mark.parametrize("ends", [True, False], ids=["at the end", "dropped"])
@pytest.mark.parametrize(("op", "expected"), TAKEN_BACK, ids=lambda part: type(part).__name__)
def test_what_nobody_waits_for_any_more_is_taken_back(op: Operation, expected: list[object], ends: bool) -> None:
    script: Script = {"start": [opens("a", op), opens("go")], "go": [DONE] if ends or (type(op) is SpawnOperation and not op.awaited) else [DropCommand(A)]}
    story = ScriptedExecution(script)
    story.begin()
    before = len(story.messages)
    story.settle("go")
    assert [*story.acks, *(send.to for send in story.messages[before:])] == expected
    for send in story.messages[before:]:
        assert send.key == "unwatch:acme/order/1:a" and m.decode_message_or_task(send.body) == m.UnwatchMessage(m.Parent(KEY, A))


def test_work_that_waits_for_its_next_try_is_in_no_queue_and_is_not_taken_back() -> None:
    story = ScriptedExecution({"start": [opens("a", QUEUED), opens("go")], "go": [DropCommand(A)]})
    story.begin()
    story.settle("a", NO)
    answered = list(story.acks)
    story.settle("go")
    assert story.acks == answered
