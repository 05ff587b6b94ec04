"""Claims about messages as they travel: other languages write them, so their bytes are a contract too."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core import messages as m
from perdure.core import wire
from perdure.core.copies import Copy, Fork
from perdure.core.errors import ErrorInfo, LogDamaged, LogVersionUnsupported
from perdure.core.ops import Call, Err, Ok
from perdure.core.paths import Key
from perdure.core.values import Blob
from tests.core.test_wire_and_log import ATTRIBUTES, golden

KEY, PAY = Key("acme", "order", "1"), (("pay", 2), 3)
BLOB = Blob("ab" * 32, 70_000)
MESSAGES: list[m.Message | m.Work] = [
    m.Start(),
    m.Start(2, b"\x92\x90\x80", 7, m.Parent(KEY, PAY), 9.0),
    m.Start(input=BLOB),
    m.Settle(PAY, 1, Ok()),
    m.Settle(PAY, 2, Ok(b"\x2a", "next")),
    m.Settle(PAY, 3, Ok(BLOB)),
    m.Settle(PAY, 1, Err("failed", 3, ErrorInfo("ValueError", "no", "trace", b"\x91\x01"))),
    m.Signal("approved"),
    m.Signal("approved", b"\x01", "once"),
    m.Signal("approved", BLOB, "", KEY, 4),
    m.Cancel(),
    m.Cancel("enough"),
    m.Terminate("enough"),
    m.Retry("fixed"),
    m.Lost(PAY, 2),
    m.Tick(),
    m.Diverge(("one", "two")),
    m.Work(KEY, PAY, 2, "pay", "acme/order/1:pay#2/~3", b"\x92\x90\x80", 9.0),
    m.Work(KEY, PAY, 1, "pay", "acme/order/1:pay#2/~3"),
    m.Pause("lunch"),
    m.Resume("back"),
    m.Cancel("enough", undo=False),
    m.Undo(),
    m.Undo("wrong", m.Parent(KEY, PAY)),
    m.Start(origin=KEY, depth=3, fork=Fork(KEY, 9, (Copy(PAY, Call("pay"), Ok(b"\x2a")),), ((PAY, 3),))),
    m.Retry("fixed", PAY),
    m.Preset(PAY, Ok(b"\x2a")),
    m.Start(expires_at_s=9.0),
    m.Discard("not worth it"),
    m.Progress(PAY, 2, b"\x07"),
    m.Settle(PAY, 1, Err("failed", 1, ErrorInfo("RetryAfter", "later"), 30.0)),
    m.Work(KEY, PAY, 2, "pay", "key", progress=b"\x07", heartbeat_s=9.0),
    m.Start(parent=m.Parent(KEY, PAY, 2)),
    m.Leave(m.Parent(KEY, PAY)),
    m.Leave(m.Parent(KEY, PAY), "terminate"),
    m.Evict("it hangs"),
    m.Start(attributes=ATTRIBUTES),
    m.Start(definition=Blob("ab" * 32, 9)),
    m.Patch(b"{}", "ab" * 32, "mend it"),
    m.Start(grace_s=5.0),
    m.Lost(PAY, 2, 0, begun=False),
    m.Work(KEY, PAY, 2, "pay", "key", grace_s=5.0),
]

TEXT = st.text(st.characters(codec="utf-8"), max_size=9)
PATHS = st.lists(st.tuples(TEXT, st.integers(1, 99)) | st.integers(0, 99), max_size=4).map(tuple)
KEYS = st.builds(Key, TEXT, TEXT, TEXT)
VALUES = st.binary() | st.builds(Blob, TEXT, st.integers(0, 2**40))
ERRORS = st.builds(ErrorInfo, TEXT, TEXT, TEXT, st.none() | st.binary())
OUTCOMES = st.builds(Ok, VALUES, TEXT) | st.builds(Err, TEXT, st.integers(0, 99), ERRORS)
COPIES = st.lists(st.builds(Copy, PATHS, st.builds(Call, TEXT, VALUES), OUTCOMES), max_size=3).map(tuple)
FORKS = st.builds(Fork, KEYS, st.integers(0, 99), COPIES, st.lists(st.tuples(PATHS, st.integers(0, 99)), max_size=2).map(tuple))
SECONDS = st.none() | st.floats(0, 1e12)
ANY = st.one_of(
    st.builds(m.Start, st.integers(0, 99), VALUES, st.integers(0, 2**63 - 1), st.none() | st.builds(m.Parent, KEYS, PATHS), SECONDS),
    st.builds(m.Start, origin=KEYS, depth=st.integers(0, 99), fork=FORKS),
    st.builds(m.Settle, PATHS, st.integers(1, 99), OUTCOMES),
    st.builds(m.Signal, TEXT, VALUES, TEXT, st.none() | KEYS, st.integers(0, 99)),
    st.builds(m.Cancel, TEXT, st.booleans()),
    st.builds(m.Undo, TEXT, st.none() | st.builds(m.Parent, KEYS, PATHS)),
    st.builds(m.Terminate, TEXT),
    st.builds(m.Retry, TEXT, PATHS),
    st.builds(m.Preset, PATHS, OUTCOMES),
    st.builds(m.Pause, TEXT),
    st.builds(m.Resume, TEXT),
    st.builds(m.Discard, TEXT),
    st.builds(m.Patch, st.binary(), TEXT, TEXT),
    st.builds(m.Lost, PATHS, st.integers(1, 99)),
    st.builds(m.Tick),
    st.builds(m.Progress, PATHS, st.integers(1, 99), VALUES),
    st.builds(m.Diverge, st.lists(TEXT).map(tuple)),
    st.builds(m.Work, KEYS, PATHS, st.integers(1, 99), TEXT, TEXT, VALUES, SECONDS),
)


def test_every_kind_of_message_is_among_the_golden_ones() -> None:
    assert {type(message) for message in MESSAGES} == {*m.Message.__args__, m.Work}


@pytest.mark.parametrize("number", range(len(MESSAGES)), ids=lambda number: f"{number}-{type(MESSAGES[number]).__name__}")
def test_the_encoding_of_a_message_is_a_public_contract(number: int) -> None:
    body = golden("messages_v2.hex")[number]
    assert m.encode(MESSAGES[number]).hex() == body.hex()
    assert m.decode(body) == MESSAGES[number]


@given(ANY)
def test_a_message_arrives_as_it_was_sent(message: m.Message | m.Work) -> None:
    assert m.decode(m.encode(message)) == message


@pytest.mark.parametrize("version", [0, 1, 3, 255])
def test_a_message_of_an_unknown_version_is_refused(version: int) -> None:
    with pytest.raises(LogVersionUnsupported):
        m.decode(bytes((version,)) + m.encode(m.Tick())[1:])


@given(st.binary(max_size=40))
def test_garbage_is_damaged(raw: bytes) -> None:
    for body in (b"", b"\x02" + raw, wire.stamp(2, raw)):
        try:
            assert m.decode(body) is not None
        except LogDamaged:
            continue


def test_what_nests_without_end_is_damaged() -> None:
    with pytest.raises(LogDamaged):
        m.decode(wire.stamp(2, b"\x82\xa1t\xa6cancel\xa1z" + b"\x91" * 200_000 + b"\x01"))


def test_what_a_message_has_beside_what_is_known_is_ignored() -> None:
    assert m.decode(wire.stamp(2, b"\x82\xa1t\xa6cancel\xa5later\x01")) == m.Cancel()
