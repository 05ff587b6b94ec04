"""Claims about the encoding of the log, a public contract: its bytes are what they were, and nothing is guessed at."""

from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core import attributes, log, wire
from perdure.core import events as e
from perdure.core.copies import Copy, Fork
from perdure.core.errors import ErrorInfo, LogDamaged, LogVersionUnsupported, Unstorable
from perdure.core.mailbox import Letter
from perdure.core.messages import Parent
from perdure.core.ops import Call, Err, Keep, Ok, Receive, Retry, Send, Sleep, Spawn
from perdure.core.paths import UNDO, Key
from perdure.core.values import Blob, encode

GOLDEN = Path(__file__).parent / "golden"
KEY, OTHER = Key("acme", "order", "1"), Key("acme", "audit", "ü")
PAY, TURN, NOW_S = (("pay", 2),), (("audit", 1), 3), 1_000_000_000.25
BLOB, ERROR = Blob("ab" * 32, 70_000), ErrorInfo("ValueError", "no", "trace", b"\x91\x01")

ATTRIBUTES: attributes.Attributes = (("cents", 500), ("customer", "ü"), ("due", attributes.Time(1_790_000_000_000_001)), ("score", 0.5), ("vip", True))

EVENTS: list[e.Event] = [
    e.Started(2, NOW_S, b"\x92\x90\x80", 7, Parent(OTHER, PAY), NOW_S + 60),
    e.Started(1, NOW_S),
    e.Watched(Parent(OTHER, PAY), NOW_S),
    e.Arrived(5, "approved", NOW_S, BLOB, "once"),
    e.Arrived(6, "approved", NOW_S, b"\x01", "", OTHER, 3),
    e.Refused(7, "approved", NOW_S, "twice", OTHER, 4),
    e.Received(PAY, (5, 6), NOW_S),
    e.Settled(PAY, Ok(), NOW_S),
    e.Settled(PAY, Ok(b"\x2a", "next"), NOW_S),
    e.Settled(PAY, Ok(BLOB), NOW_S),
    e.Settled(PAY, Err("exhausted", 3, ERROR), NOW_S),
    e.Recalled(PAY, NOW_S),
    e.Retrying(PAY, 1, "failed", ErrorInfo("ValueError", "no"), NOW_S + 1, NOW_S),
    e.Interrupted(PAY, 2, NOW_S, NOW_S),
    e.Tried(PAY, 3, NOW_S, "me"),
    e.Tried(PAY, 3, NOW_S),
    e.Cancelling(NOW_S, "enough"),
    e.Parked("diverged", NOW_S, ("one", "two")),
    e.Parked("interrupted", NOW_S, ("one",), PAY),
    e.Resumed(NOW_S, "fixed"),
    e.Reopened(NOW_S, "fixed"),
    e.Turned(TURN[:-1], 3, b"\x07", NOW_S),
    e.Opened(PAY, Call("pay"), "me"),
    e.Opened(PAY, Call("pay", b"\x92\x90\x80", "gpu", Retry(5, 2.0, 3.0, 4.0, 0.5), 9.0, False, b"\x01")),
    e.Opened(TURN, Keep(b"\x07", "turn")),
    e.Opened(PAY, Keep(BLOB, "state", "progress", b"\x01")),
    e.Opened(PAY, Sleep(3.0)),
    e.Opened(PAY, Sleep(None, NOW_S, b"\x01")),
    e.Opened(PAY, Receive(("a", "b"), 3, True, 9.0, True, b"\x01")),
    e.Opened(PAY, Receive(("a",))),
    e.Opened(PAY, Spawn("ship", "1", 2, b"\x90", False, 9.0, b"\x01"), number=1),
    e.Opened(PAY, Spawn("ship", "1")),
    e.Opened(PAY, Send(OTHER, "hello", b"\x01", b"\x01"), number=2),
    e.Dropped(PAY),
    e.Trimmed(TURN[:-1], 3),
    e.Ended("completed", Ok(b"\x01"), NOW_S),
    e.Ended("failed", Err("failed", 1, ERROR), NOW_S),
    e.Ended("cancelled", Err("cancelled", 1, ErrorInfo("Cancelled", "enough")), NOW_S),
    e.Snapshot(90, NOW_S, 9, (("progress", b"\x07"),), ((OTHER, 4, (6, 8)),), (("once", NOW_S),), ((OTHER, 2),), 3, "ab" * 32),
    e.Snapshot(1, NOW_S, 0),
    e.Cancelling(NOW_S, "late", deadline=True, undo=False),
    e.Undoing(NOW_S, "wrong", Parent(OTHER, PAY)),
    e.Undoing(NOW_S),
    e.Parked("undo", NOW_S, ("one",), (UNDO, *PAY)),
    e.Opened((UNDO, *PAY), Call("undo:pay")),
    e.Opened(PAY, Call("pay", undo="done")),
    e.Opened(PAY, Call("pay", undo="in_doubt")),
    e.Opened(PAY, Spawn("ship", "1", undo=True)),
    e.Opened((UNDO,), Keep(b"\x01", "undo", "failed")),
    e.Started(2, NOW_S, origin=OTHER, depth=3),
    e.Forked(Fork(OTHER, 9, (Copy(PAY, Call("pay"), Ok(b"\x2a")), Copy(TURN, Receive(("a",)), None, (Letter(5, "a", b"\x01", NOW_S),))), ((PAY, 3),)), NOW_S),
    e.Preset(PAY, Ok(b"\x2a"), NOW_S),
    e.Reopened(NOW_S, "fixed", PAY),
    e.Opened(PAY, Spawn("ship", "1", on_cancel="detach")),
    e.Opened(PAY, Keep(b"\x02", "version")),
    e.Opened(PAY, Call("pay", queue="gpu", lane="acme", priority=3, limited=True)),
    e.Opened(PAY, Spawn("ship", "1", queue="mails", lane="acme", priority=-1)),
    e.Reopened(NOW_S, before=(UNDO, *PAY)),
    e.Progressed(PAY, 2, b"\x07", NOW_S),
    e.Opened(PAY, Call("pay", heartbeat_s=9.0)),
    e.Settled(PAY, Err("failed", 1, ERROR, 30.0), NOW_S),
    e.Removed(NOW_S, 7, NOW_S, NOW_S, 2, "failed", b"ab" * 8, b"", Err("failed", 1, ErrorInfo("ValueError", "it fails"))),
    e.Watched(Parent(OTHER, PAY, 2), NOW_S),
    e.Cancelling(NOW_S, "late", unwanted=True),
    e.Evicted(NOW_S, "it hangs"),
    e.Started(2, NOW_S, attributes=ATTRIBUTES),
    e.Opened(PAY, Spawn("ship", "1", attributes=ATTRIBUTES)),
    e.Opened(PAY, Keep(attributes.encoded((*ATTRIBUTES, ("vip", None))), "attributes")),
    e.Attributed(ATTRIBUTES, NOW_S),
    e.Snapshot(1, NOW_S, 0, attributes=ATTRIBUTES),
    e.Opened(PAY, Call("pay", transaction=True)),
    e.Started(1, NOW_S, definition=Blob("ab" * 32, 9)),
    e.Opened(PAY, Spawn("ship", "1", definition=Blob("ab" * 32, 9))),
    e.Opened(PAY, Keep(b"\xc3", port="true")),
    e.Patched(Blob("ab" * 32, 9), NOW_S, "mend it", ("pay has begun",)),
    e.Retained((*TURN, *PAY), Call("pay", b"\x92\x90\x80", undo="done"), Ok(b"\x2a"), NOW_S),
    e.Trimmed(TURN[:-1], 3, 2),
    e.Opened(PAY, Keep(b"\x01", "undo_with")),
    e.Opened(PAY, Keep(role="commit")),
    e.Started(1, NOW_S, archive=True),
    e.Started(2, NOW_S, grace_s=5.0),
    e.Unwatched(Parent(OTHER, PAY), NOW_S, "terminate"),
    e.Dropped(PAY, NOW_S + 5),
    e.Dropped(PAY, begun=False),
    e.Opened(PAY, Call("pay", grace_s=5.0)),
    e.Opened((UNDO, *PAY), Call("undo:pay", may_fail=True)),
    e.Opened(PAY, Spawn("ship", "1", grace_s=5.0)),
    e.Stopped(NOW_S),
]


def golden(name: str) -> list[bytes]:
    """Lines of hexadecimal that are checked in: what every version of Perdure writes and reads."""
    return [bytes.fromhex(line) for line in (GOLDEN / name).read_text(encoding="ascii").split()]


def test_every_kind_of_event_and_operation_is_among_the_golden_ones() -> None:
    assert {type(event) for event in EVENTS} == set(e.Event.__args__)
    assert {type(event.op) for event in EVENTS if isinstance(event, e.Opened)} == {Call, Keep, Sleep, Receive, Spawn, Send}


@pytest.mark.parametrize("number", range(len(EVENTS)), ids=lambda number: f"{number}-{type(EVENTS[number]).__name__}")
def test_the_encoding_of_an_event_is_a_public_contract(number: int) -> None:
    row = golden("log_v2.hex")[number]
    assert log.encode([EVENTS[number]]).hex() == row.hex()
    assert log.decode(row) == [EVENTS[number]]


def test_a_row_with_all_events_reads_back_and_begins_with_its_version() -> None:
    row = log.encode(EVENTS)
    assert row[0] == log.VERSION == 2 and len(golden("log_v2.hex")) == len(EVENTS)
    assert log.decode(row) == EVENTS
    assert log.decode_all([row, log.encode(EVENTS[:2])]) == [*EVENTS, *EVENTS[:2]]
    assert log.encode(log.decode(row)) == row


NEWER = "use a Perdure at least as new as the one that wrote it"
OLDER = "a development version of Perdure wrote it; begin with a new database, or export from that version what you need"


@pytest.mark.parametrize(("version", "advice"), [(0, OLDER), (1, OLDER), (3, NEWER), (255, NEWER)])
def test_what_no_known_version_wrote_is_refused(version: int, advice: str) -> None:
    row = bytes((version,)) + log.encode(EVENTS)[1:]
    with pytest.raises(LogVersionUnsupported, match=f"^it was stored in format {version}, and this Perdure reads format 2; {advice}$") as caught:
        log.decode(row)
    assert (caught.value.found, caught.value.oldest, caught.value.newest) == (version, 2, 2)


DAMAGED = [
    b"",
    b"\x02",
    b"\x02\0\0\0\0",
    *(wire.stamp(2, payload) for payload in (b"", b"\xc1", b"\x80", b"\x91\x80", b"\x91\x81\xa1t\xa1?", b"\x91\x82\xa1t\xa1d\xa1p\x01")),
    log.encode(EVENTS)[:-1],
    log.encode(EVENTS) + b"\0",
]


@pytest.mark.parametrize("row", DAMAGED, ids=lambda row: row[:8].hex())
def test_what_is_no_row_is_damaged(row: bytes) -> None:
    with pytest.raises(LogDamaged, match=r"^something that was stored can't be read: .+; restore the database from a backup$"):
        log.decode(row)


@given(st.binary(max_size=40).map(lambda raw: wire.stamp(2, raw)))
def test_garbage_is_either_events_or_damaged(row: bytes) -> None:
    try:
        assert isinstance(log.decode(row), list)
    except LogDamaged:
        return


@given(st.integers(0, len(log.encode(EVENTS)) - 1), st.integers(0, 7))
def test_every_flipped_bit_is_noticed(at: int, bit: int) -> None:
    row = bytearray(log.encode(EVENTS))
    row[at] ^= 1 << bit
    with pytest.raises((LogDamaged, LogVersionUnsupported)):
        log.decode(bytes(row))


def test_the_checksum_is_the_crc_32_of_the_version_and_the_payload() -> None:
    assert wire.stamp(2, b"payload") == b"\x02" + crc32(b"\x02payload").to_bytes(4, "big") + b"payload"


def test_a_row_that_nests_without_end_is_damaged() -> None:
    row = wire.stamp(2, b"\x91\x83\xa1t\xa1d\xa1p\x90\xa1z" + b"\x91" * 200_000 + b"\x01")
    with pytest.raises(LogDamaged):
        log.decode(row)


FIVE: Any = 5
SOON: Any = "soon"


@pytest.mark.parametrize("wrong", [e.Settled(PAY, Ok(FIVE), NOW_S), e.Settled(PAY, Ok(), SOON), e.Opened(PAY, Sleep(SOON))], ids=str)
def test_a_row_that_could_never_be_read_is_not_written(wrong: e.Event) -> None:
    with pytest.raises(Unstorable):
        log.encode([wrong])


def test_what_an_event_has_beside_what_is_known_is_ignored() -> None:
    raw = msgspec.msgpack.encode([{"t": "d", "p": PAY, "later": [1, {"a": None}]}])
    assert log.decode(wire.stamp(2, raw)) == [e.Dropped(PAY)]


def test_an_old_row_is_brought_up_version_by_version() -> None:
    def rename(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**event, "t": "d"} if event["t"] == "gone" else event for event in events]

    def move(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{name: value for name, value in event.items() if name != "where"} | {"p": event["where"]} if "where" in event else event for event in events]

    oldest = wire.stamp(2, msgspec.msgpack.encode([{"t": "gone", "where": PAY}, *msgspec.to_builtins(EVENTS[7:9], builtin_types=(bytes,))]))
    newest = log.encode([e.Dropped(PAY), *EVENTS[7:9]])[5:]
    upcasts: dict[int, log.Upcast] = {2: rename, 3: move}
    assert log.read(oldest, 4, upcasts) == [e.Dropped(PAY), *EVENTS[7:9]]
    assert log.read(wire.stamp(4, newest), 4, upcasts) == [e.Dropped(PAY), *EVENTS[7:9]]
    with pytest.raises(LogVersionUnsupported, match="reads formats 2 to 4"):
        log.read(wire.stamp(5, newest), 4, upcasts)
    with pytest.raises(LogDamaged):
        log.read(oldest, 3, {2: rename})


def test_every_old_version_has_its_upcast() -> None:
    assert sorted(log.UPCASTS) == list(range(log.OLDEST, log.VERSION))


def test_a_step_of_a_plain_workflow_takes_few_bytes() -> None:
    steps = [
        log.encode(
            [
                e.Settled((("charge_card", number),), Ok(encode(number, "value")), NOW_S),
                e.Opened((("charge_card", number + 1),), Call("charge_card", b"\x92\x91\x01\x80"), "engine-" + "0" * 32),
            ]
        )
        for number in range(1, 1001)
    ]
    assert sum(map(len, steps)) / len(steps) <= 160
