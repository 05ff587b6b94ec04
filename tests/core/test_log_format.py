"""Claims about the encoding of the log, a public contract: its bytes are what they were, and nothing is guessed at."""

from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core import attributes, log_format, payload_header
from perdure.core import events as e
from perdure.core.errors import ErrorInfo, LogDamaged, LogVersionUnsupported, Unstorable
from perdure.core.mailbox import ReceivedMessage
from perdure.core.messages import Parent
from perdure.core.operations import (
    CallOperation,
    Failure,
    KeepOperation,
    ReceiveOperation,
    RetriedErrors,
    RetryPolicy,
    SendOperation,
    SleepOperation,
    SpawnOperation,
    Success,
)
from perdure.core.paths import UNDO, Key
from perdure.core.pinned_calls import Hosting, PinnedCall
from perdure.core.recalled import ForkData, RecalledResult
from perdure.core.values import Blob, encode

GOLDEN = Path(__file__).parent / "golden"
KEY, OTHER = Key("acme", "order", "1"), Key("acme", "audit", "ü")
PAY, TURN, NOW_S = (("pay", 2),), (("audit", 1), 3), 1_000_000_000.25
BLOB, ERROR = Blob("ab" * 32, 70_000), ErrorInfo("ValueError", "no", "trace", b"\x91\x01")

ATTRIBUTES: attributes.Attributes = (("cents", 500), ("customer", "ü"), ("due", attributes.AttributeTime(1_790_000_000_000_001)), ("score", 0.5), ("vip", True))

EVENTS: list[e.Event] = [
    e.StartedEvent(2, NOW_S, b"\x92\x90\x80", 7, Parent(OTHER, PAY), NOW_S + 60),
    e.StartedEvent(1, NOW_S),
    e.WatchedEvent(Parent(OTHER, PAY), NOW_S),
    e.MessageArrivedEvent(5, "approved", NOW_S, BLOB, "once"),
    e.MessageArrivedEvent(6, "approved", NOW_S, b"\x01", "", OTHER, 3),
    e.MessageRefusedEvent(7, "approved", NOW_S, "twice", OTHER, 4),
    e.ReceivedEvent(PAY, (5, 6), NOW_S),
    e.SettledEvent(PAY, Success(), NOW_S),
    e.SettledEvent(PAY, Success(b"\x2a", "next"), NOW_S),
    e.SettledEvent(PAY, Success(BLOB), NOW_S),
    e.SettledEvent(PAY, Failure("exhausted", 3, ERROR), NOW_S),
    e.RecalledEvent(PAY, NOW_S),
    e.RetryingEvent(PAY, 1, "failed", ErrorInfo("ValueError", "no"), NOW_S + 1, NOW_S),
    e.InterruptedEvent(PAY, 2, NOW_S, NOW_S),
    e.AttemptStartedEvent(PAY, 3, NOW_S, "me"),
    e.AttemptStartedEvent(PAY, 3, NOW_S),
    e.CancellingEvent(NOW_S, "enough"),
    e.ParkedEvent("diverged", NOW_S, ("one", "two")),
    e.ParkedEvent("interrupted", NOW_S, ("one",), PAY),
    e.ResumedEvent(NOW_S, "fixed"),
    e.ReopenedEvent(NOW_S, "fixed"),
    e.IterationResumedEvent(TURN[:-1], 3, b"\x07", NOW_S),
    e.OpenedEvent(PAY, CallOperation("pay"), "me"),
    e.OpenedEvent(PAY, CallOperation("pay", b"\x92\x90\x80", "gpu", RetryPolicy(5, 2.0, 3.0, 4.0, 0.5), 9.0, False, b"\x01")),
    e.OpenedEvent(TURN, KeepOperation(b"\x07", "turn")),
    e.OpenedEvent(PAY, KeepOperation(BLOB, "state", "progress", b"\x01")),
    e.OpenedEvent(PAY, SleepOperation(3.0)),
    e.OpenedEvent(PAY, SleepOperation(None, NOW_S, b"\x01")),
    e.OpenedEvent(PAY, ReceiveOperation(("a", "b"), 3, True, 9.0, True, b"\x01")),
    e.OpenedEvent(PAY, ReceiveOperation(("a",))),
    e.OpenedEvent(PAY, SpawnOperation("ship", "1", 2, b"\x90", False, 9.0, b"\x01"), number=1),
    e.OpenedEvent(PAY, SpawnOperation("ship", "1")),
    e.OpenedEvent(PAY, SendOperation(OTHER, "hello", b"\x01", b"\x01"), number=2),
    e.DroppedEvent(PAY),
    e.TrimmedEvent(TURN[:-1], 3),
    e.EndedEvent("completed", Success(b"\x01"), NOW_S),
    e.EndedEvent("failed", Failure("failed", 1, ERROR), NOW_S),
    e.EndedEvent("cancelled", Failure("cancelled", 1, ErrorInfo("cancelled", "enough")), NOW_S),
    e.SnapshotEvent(90, NOW_S, 9, (("progress", b"\x07"),), ((OTHER, 4, (6, 8)),), (("once", NOW_S),), ((OTHER, 2),), 3, "ab" * 32),
    e.SnapshotEvent(1, NOW_S, 0),
    e.CancellingEvent(NOW_S, "late", deadline=True, undo=False),
    e.UndoingEvent(NOW_S, "wrong", Parent(OTHER, PAY)),
    e.UndoingEvent(NOW_S),
    e.ParkedEvent("undo", NOW_S, ("one",), (UNDO, *PAY)),
    e.OpenedEvent((UNDO, *PAY), CallOperation("undo:pay")),
    e.OpenedEvent(PAY, CallOperation("pay", undo="done")),
    e.OpenedEvent(PAY, CallOperation("pay", undo="in_doubt")),
    e.OpenedEvent(PAY, SpawnOperation("ship", "1", undo=True)),
    e.OpenedEvent((UNDO,), KeepOperation(b"\x01", "undo", "failed")),
    e.StartedEvent(2, NOW_S, origin=OTHER, depth=3),
    e.ForkedEvent(
        ForkData(
            OTHER,
            9,
            (
                RecalledResult(PAY, CallOperation("pay"), Success(b"\x2a")),
                RecalledResult(TURN, ReceiveOperation(("a",)), None, (ReceivedMessage(5, "a", b"\x01", NOW_S),)),
            ),
            ((PAY, 3),),
        ),
        NOW_S,
    ),
    e.PresetEvent(PAY, Success(b"\x2a"), NOW_S),
    e.ReopenedEvent(NOW_S, "fixed", PAY),
    e.OpenedEvent(PAY, SpawnOperation("ship", "1", on_cancel="detach")),
    e.OpenedEvent(PAY, KeepOperation(b"\x02", "version")),
    e.OpenedEvent(PAY, CallOperation("pay", queue="gpu", lane="acme", priority=3, limited=True)),
    e.OpenedEvent(PAY, SpawnOperation("ship", "1", queue="mails", lane="acme", priority=-1)),
    e.ReopenedEvent(NOW_S, before=(UNDO, *PAY)),
    e.ProgressedEvent(PAY, 2, b"\x07", NOW_S),
    e.OpenedEvent(PAY, CallOperation("pay", heartbeat_s=9.0)),
    e.SettledEvent(PAY, Failure("failed", 1, ERROR, 30.0), NOW_S),
    e.RemovedEvent(NOW_S, 7, NOW_S, NOW_S, 2, "failed", b"ab" * 8, b"", Failure("failed", 1, ErrorInfo("ValueError", "it fails"))),
    e.WatchedEvent(Parent(OTHER, PAY, 2), NOW_S),
    e.CancellingEvent(NOW_S, "late", unwanted=True),
    e.EvictedEvent(NOW_S, "it hangs"),
    e.StartedEvent(2, NOW_S, attributes=ATTRIBUTES),
    e.OpenedEvent(PAY, SpawnOperation("ship", "1", attributes=ATTRIBUTES)),
    e.OpenedEvent(PAY, KeepOperation(attributes.encode_attribute_changes((*ATTRIBUTES, ("vip", None))), "attributes")),
    e.AttributesSetEvent(ATTRIBUTES, NOW_S),
    e.SnapshotEvent(1, NOW_S, 0, attributes=ATTRIBUTES),
    e.OpenedEvent(PAY, CallOperation("pay", transaction=True)),
    e.StartedEvent(1, NOW_S, definition=Blob("ab" * 32, 9)),
    e.OpenedEvent(PAY, SpawnOperation("ship", "1", definition=Blob("ab" * 32, 9))),
    e.OpenedEvent(PAY, KeepOperation(b"\xc3", port="true")),
    e.PatchedEvent(Blob("ab" * 32, 9), NOW_S, "mend it", ("pay has begun",)),
    e.RetainedEvent((*TURN, *PAY), CallOperation("pay", b"\x92\x90\x80", undo="done"), Success(b"\x2a"), NOW_S),
    e.TrimmedEvent(TURN[:-1], 3, 2),
    e.OpenedEvent(PAY, KeepOperation(b"\x01", "undo_input")),
    e.OpenedEvent(PAY, KeepOperation(role="commit")),
    e.StartedEvent(1, NOW_S, archive=True),
    e.StartedEvent(2, NOW_S, grace_s=5.0),
    e.UnwatchedEvent(Parent(OTHER, PAY), NOW_S, "terminate"),
    e.DroppedEvent(PAY, NOW_S + 5),
    e.DroppedEvent(PAY, begun=False),
    e.OpenedEvent(PAY, CallOperation("pay", grace_s=5.0)),
    e.OpenedEvent((UNDO, *PAY), CallOperation("undo:pay", may_fail=True)),
    e.OpenedEvent(PAY, SpawnOperation("ship", "1", grace_s=5.0)),
    e.StoppedEvent(NOW_S),
    e.OpenedEvent(PAY, CallOperation("pay", queue="gpu", retry=RetryPolicy(errors=RetriedErrors(("a.Busy",), ("builtins.KeyError",))))),
    e.OpenedEvent(PAY, CallOperation("pay", queue="gpu", retry=RetryPolicy(errors=RetriedErrors(fatal=("Busy",), adds=True)))),
    e.OpenedEvent(PAY, KeepOperation(b"\xc0", "reply", "3", port="rejected")),
    e.HostedEvent(Hosting("perdure.definition", (PinnedCall("pay@^2", "pay", Blob("ab" * 32, 9), "2.1.0", 60.0, 5.0),)), NOW_S),
    e.PatchedEvent(Blob("ab" * 32, 9), NOW_S, calls=(PinnedCall("pay", "pay", Blob("ab" * 32, 9)),)),
    e.OpenedEvent(PAY, SpawnOperation("pay", "1", program="perdure.definition")),
]


def golden(name: str) -> list[bytes]:
    """Lines of hexadecimal that are checked in: what every version of Perdure writes and reads."""
    return [bytes.fromhex(line) for line in (GOLDEN / name).read_text(encoding="ascii").split()]


def test_every_kind_of_event_and_operation_is_among_the_golden_ones() -> None:
    assert {type(event) for event in EVENTS} == set(e.Event.__args__)
    assert {type(event.op) for event in EVENTS if isinstance(event, e.OpenedEvent)} == {
        CallOperation,
        KeepOperation,
        SleepOperation,
        ReceiveOperation,
        SpawnOperation,
        SendOperation,
    }


@pytest.mark.parametrize("number", range(len(EVENTS)), ids=lambda number: f"{number}-{type(EVENTS[number]).__name__}")
def test_the_encoding_of_an_event_is_a_public_contract(number: int) -> None:
    row = golden("log_v2.hex")[number]
    assert log_format.encode_row([EVENTS[number]]).hex() == row.hex()
    assert log_format.decode_row(row) == [EVENTS[number]]


def test_a_row_with_all_events_reads_back_and_begins_with_its_version() -> None:
    row = log_format.encode_row(EVENTS)
    assert row[0] == log_format.LOG_VERSION == 2 and len(golden("log_v2.hex")) == len(EVENTS)
    assert log_format.decode_row(row) == EVENTS
    assert log_format.decode_rows([row, log_format.encode_row(EVENTS[:2])]) == [*EVENTS, *EVENTS[:2]]
    assert log_format.encode_row(log_format.decode_row(row)) == row


OLDER = (
    "of a development version of Perdure, and this Perdure reads format 2. Start with a new database, or export what you need with the version that wrote it"
)
NEWER = ", and this Perdure reads format 2. Use a Perdure as new as the one that wrote it"


@pytest.mark.parametrize(("version", "behind"), [(0, f" {OLDER}"), (1, f" {OLDER}"), (3, NEWER), (255, NEWER)])
def test_what_no_known_version_wrote_is_refused(version: int, behind: str) -> None:
    row = bytes((version,)) + log_format.encode_row(EVENTS)[1:]
    with pytest.raises(LogVersionUnsupported, match=f"^the data is stored in format {version}{behind}$") as caught:
        log_format.decode_row(row)
    assert (caught.value.found, caught.value.oldest, caught.value.newest) == (version, 2, 2)


DAMAGED = [
    b"",
    b"\x02",
    b"\x02\0\0\0\0",
    *(payload_header.with_header(2, payload) for payload in (b"", b"\xc1", b"\x80", b"\x91\x80", b"\x91\x81\xa1t\xa1?", b"\x91\x82\xa1t\xa1d\xa1p\x01")),
    log_format.encode_row(EVENTS)[:-1],
    log_format.encode_row(EVENTS) + b"\0",
]


@pytest.mark.parametrize("row", DAMAGED, ids=lambda row: row[:8].hex())
def test_what_is_no_row_is_damaged(row: bytes) -> None:
    with pytest.raises(LogDamaged, match=r"^stored data can't be read: .+. Restore the database from a backup$"):
        log_format.decode_row(row)


@given(st.binary(max_size=40).map(lambda raw: payload_header.with_header(2, raw)))
def test_garbage_is_either_events_or_damaged(row: bytes) -> None:
    try:
        assert isinstance(log_format.decode_row(row), list)
    except LogDamaged:
        return


@given(st.integers(0, len(log_format.encode_row(EVENTS)) - 1), st.integers(0, 7))
def test_every_flipped_bit_is_noticed(at: int, bit: int) -> None:
    row = bytearray(log_format.encode_row(EVENTS))
    row[at] ^= 1 << bit
    with pytest.raises((LogDamaged, LogVersionUnsupported)):
        log_format.decode_row(bytes(row))


def test_the_checksum_is_the_crc_32_of_the_version_and_the_payload() -> None:
    assert payload_header.with_header(2, b"payload") == b"\x02" + crc32(b"\x02payload").to_bytes(4, "big") + b"payload"


def test_a_row_that_nests_without_end_is_damaged() -> None:
    row = payload_header.with_header(2, b"\x91\x83\xa1t\xa1d\xa1p\x90\xa1z" + b"\x91" * 200_000 + b"\x01")
    with pytest.raises(LogDamaged):
        log_format.decode_row(row)


FIVE: Any = 5
SOON: Any = "soon"


@pytest.mark.parametrize(
    "wrong", [e.SettledEvent(PAY, Success(FIVE), NOW_S), e.SettledEvent(PAY, Success(), SOON), e.OpenedEvent(PAY, SleepOperation(SOON))], ids=str
)
def test_a_row_that_could_never_be_read_is_not_written(wrong: e.Event) -> None:
    with pytest.raises(Unstorable):
        log_format.encode_row([wrong])


def test_what_an_event_has_beside_what_is_known_is_ignored() -> None:
    raw = msgspec.msgpack.encode([{"t": "d", "p": PAY, "later": [1, {"a": None}]}])
    assert log_format.decode_row(payload_header.with_header(2, raw)) == [e.DroppedEvent(PAY)]


def test_an_old_row_is_brought_up_version_by_version() -> None:
    def rename(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**event, "t": "d"} if event["t"] == "gone" else event for event in events]

    def move(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{name: value for name, value in event.items() if name != "where"} | {"p": event["where"]} if "where" in event else event for event in events]

    oldest = payload_header.with_header(2, msgspec.msgpack.encode([{"t": "gone", "where": PAY}, *msgspec.to_builtins(EVENTS[7:9], builtin_types=(bytes,))]))
    newest = log_format.encode_row([e.DroppedEvent(PAY), *EVENTS[7:9]])[5:]
    upcasts: dict[int, log_format.Upcast] = {2: rename, 3: move}
    assert log_format.decode_rows_as([oldest], 4, upcasts) == [e.DroppedEvent(PAY), *EVENTS[7:9]]
    assert log_format.decode_rows_as([payload_header.with_header(4, newest)], 4, upcasts) == [e.DroppedEvent(PAY), *EVENTS[7:9]]
    with pytest.raises(LogVersionUnsupported, match="reads formats 2 to 4"):
        log_format.decode_rows_as([payload_header.with_header(5, newest)], 4, upcasts)
    with pytest.raises(LogDamaged):
        log_format.decode_rows_as([oldest], 3, {2: rename})


def test_every_old_version_has_its_upcast() -> None:
    assert sorted(log_format.UPCASTS) == list(range(log_format.OLDEST_LOG_VERSION, log_format.LOG_VERSION))


def test_a_step_of_a_plain_workflow_takes_few_bytes() -> None:
    steps = [
        log_format.encode_row(
            [
                e.SettledEvent((("charge_card", number),), Success(encode(number, "value")), NOW_S),
                e.OpenedEvent((("charge_card", number + 1),), CallOperation("charge_card", b"\x92\x91\x01\x80"), "engine-" + "0" * 32),
            ]
        )
        for number in range(1, 1001)
    ]
    assert sum(map(len, steps)) / len(steps) <= 160
