"""Claims about messages as they travel: other languages write them, so their bytes are a contract too."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core import messages as m
from perdure.core import payload_header
from perdure.core.errors import ErrorInfo, LogDamaged, LogVersionUnsupported
from perdure.core.operations import CallOperation, Failure, RetriedErrors, Success
from perdure.core.paths import Key
from perdure.core.pinned_calls import Hosting, PinnedCall
from perdure.core.recalled import ForkData, RecalledResult
from perdure.core.values import Blob
from tests.core.test_log_format import ATTRIBUTES, golden

KEY, PAY = Key("acme", "order", "1"), (("pay", 2), 3)
BLOB = Blob("ab" * 32, 70_000)
MESSAGES: list[m.ExecutionMessage | m.TaskMessage] = [
    m.StartMessage(),
    m.StartMessage(2, b"\x92\x90\x80", 7, m.Parent(KEY, PAY), 9.0),
    m.StartMessage(input=BLOB),
    m.SettleMessage(PAY, 1, Success()),
    m.SettleMessage(PAY, 2, Success(b"\x2a", "next")),
    m.SettleMessage(PAY, 3, Success(BLOB)),
    m.SettleMessage(PAY, 1, Failure("failed", 3, ErrorInfo("ValueError", "no", "trace", b"\x91\x01"))),
    m.SignalMessage("approved"),
    m.SignalMessage("approved", b"\x01", "once"),
    m.SignalMessage("approved", BLOB, "", KEY, 4),
    m.CancelMessage(),
    m.CancelMessage("enough"),
    m.TerminateMessage("enough"),
    m.RetryMessage("fixed"),
    m.LostMessage(PAY, 2),
    m.TickMessage(),
    m.DivergeMessage(("one", "two")),
    m.TaskMessage(KEY, PAY, 2, "pay", "acme/order/1:pay#2/~3", b"\x92\x90\x80", 9.0),
    m.TaskMessage(KEY, PAY, 1, "pay", "acme/order/1:pay#2/~3"),
    m.PauseMessage("lunch"),
    m.ResumeMessage("back"),
    m.CancelMessage("enough", undo=False),
    m.UndoMessage(),
    m.UndoMessage("wrong", m.Parent(KEY, PAY)),
    m.StartMessage(origin=KEY, depth=3, fork=ForkData(KEY, 9, (RecalledResult(PAY, CallOperation("pay"), Success(b"\x2a")),), ((PAY, 3),))),
    m.RetryMessage("fixed", PAY),
    m.PresetMessage(PAY, Success(b"\x2a")),
    m.StartMessage(expires_at_s=9.0),
    m.DiscardMessage("not worth it"),
    m.ProgressMessage(PAY, 2, b"\x07"),
    m.SettleMessage(PAY, 1, Failure("failed", 1, ErrorInfo("retry_after", "later"), 30.0)),
    m.TaskMessage(KEY, PAY, 2, "pay", "key", progress=b"\x07", heartbeat_s=9.0),
    m.StartMessage(parent=m.Parent(KEY, PAY, 2)),
    m.UnwatchMessage(m.Parent(KEY, PAY)),
    m.UnwatchMessage(m.Parent(KEY, PAY), "terminate"),
    m.EvictMessage("it hangs"),
    m.StartMessage(attributes=ATTRIBUTES),
    m.StartMessage(definition=Blob("ab" * 32, 9)),
    m.PatchMessage(b"{}", "ab" * 32, "mend it"),
    m.StartMessage(grace_s=5.0),
    m.LostMessage(PAY, 2, 0, begun=False),
    m.TaskMessage(KEY, PAY, 2, "pay", "key", grace_s=5.0),
    m.TaskMessage(KEY, PAY, 2, "pay", "key", errors=RetriedErrors(("a.Busy",), ("KeyError",), True)),
    m.StartMessage(hosting=Hosting("perdure.definition", (PinnedCall("pay@^2", "pay", Blob("ab" * 32, 9), "2.1.0", 60.0),))),
    m.PatchMessage(b"{}", calls=(PinnedCall("pay", "pay", Blob("ab" * 32, 9)),)),
]

TEXT = st.text(st.characters(codec="utf-8"), max_size=9)
PATHS = st.lists(st.tuples(TEXT, st.integers(1, 99)) | st.integers(0, 99), max_size=4).map(tuple)
KEYS = st.builds(Key, TEXT, TEXT, TEXT)
VALUES = st.binary() | st.builds(Blob, TEXT, st.integers(0, 2**40))
ERRORS = st.builds(ErrorInfo, TEXT, TEXT, TEXT, st.none() | st.binary())
OUTCOMES = st.builds(Success, VALUES, TEXT) | st.builds(Failure, TEXT, st.integers(0, 99), ERRORS)
COPIES = st.lists(st.builds(RecalledResult, PATHS, st.builds(CallOperation, TEXT, VALUES), OUTCOMES), max_size=3).map(tuple)
FORKS = st.builds(ForkData, KEYS, st.integers(0, 99), COPIES, st.lists(st.tuples(PATHS, st.integers(0, 99)), max_size=2).map(tuple))
SECONDS = st.none() | st.floats(0, 1e12)
ANY = st.one_of(
    st.builds(m.StartMessage, st.integers(0, 99), VALUES, st.integers(0, 2**63 - 1), st.none() | st.builds(m.Parent, KEYS, PATHS), SECONDS),
    st.builds(m.StartMessage, origin=KEYS, depth=st.integers(0, 99), fork=FORKS),
    st.builds(m.SettleMessage, PATHS, st.integers(1, 99), OUTCOMES),
    st.builds(m.SignalMessage, TEXT, VALUES, TEXT, st.none() | KEYS, st.integers(0, 99)),
    st.builds(m.CancelMessage, TEXT, st.booleans()),
    st.builds(m.UndoMessage, TEXT, st.none() | st.builds(m.Parent, KEYS, PATHS)),
    st.builds(m.TerminateMessage, TEXT),
    st.builds(m.RetryMessage, TEXT, PATHS),
    st.builds(m.PresetMessage, PATHS, OUTCOMES),
    st.builds(m.PauseMessage, TEXT),
    st.builds(m.ResumeMessage, TEXT),
    st.builds(m.DiscardMessage, TEXT),
    st.builds(m.PatchMessage, st.binary(), TEXT, TEXT),
    st.builds(m.LostMessage, PATHS, st.integers(1, 99)),
    st.builds(m.TickMessage),
    st.builds(m.ProgressMessage, PATHS, st.integers(1, 99), VALUES),
    st.builds(m.DivergeMessage, st.lists(TEXT).map(tuple)),
    st.builds(m.TaskMessage, KEYS, PATHS, st.integers(1, 99), TEXT, TEXT, VALUES, SECONDS),
)


def test_every_kind_of_message_is_among_the_golden_ones() -> None:
    assert {type(message) for message in MESSAGES} == {*m.ExecutionMessage.__args__, m.TaskMessage}


@pytest.mark.parametrize("number", range(len(MESSAGES)), ids=lambda number: f"{number}-{type(MESSAGES[number]).__name__}")
def test_the_encoding_of_a_message_is_a_public_contract(number: int) -> None:
    body = golden("messages_v2.hex")[number]
    assert m.encode_message(MESSAGES[number]).hex() == body.hex()
    assert m.decode_message_or_task(body) == MESSAGES[number]


@given(ANY)
def test_a_message_arrives_as_it_was_sent(message: m.ExecutionMessage | m.TaskMessage) -> None:
    assert m.decode_message_or_task(m.encode_message(message)) == message


@pytest.mark.parametrize("version", [0, 1, 3, 255])
def test_a_message_of_an_unknown_version_is_refused(version: int) -> None:
    with pytest.raises(LogVersionUnsupported):
        m.decode_message_or_task(bytes((version,)) + m.encode_message(m.TickMessage())[1:])


@given(st.binary(max_size=40))
def test_garbage_is_damaged(raw: bytes) -> None:
    for body in (b"", b"\x02" + raw, payload_header.with_header(2, raw)):
        try:
            assert m.decode_message_or_task(body) is not None
        except LogDamaged:
            continue


def test_what_nests_without_end_is_damaged() -> None:
    with pytest.raises(LogDamaged):
        m.decode_message_or_task(payload_header.with_header(2, b"\x82\xa1t\xa6cancel\xa1z" + b"\x91" * 200_000 + b"\x01"))


def test_what_a_message_has_beside_what_is_known_is_ignored() -> None:
    assert m.decode_message_or_task(payload_header.with_header(2, b"\x82\xa1t\xa6cancel\xa5later\x01")) == m.CancelMessage()
