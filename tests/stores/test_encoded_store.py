"""A coded store is a store like any other; what it keeps can be read by nobody without the key, and neither changed nor moved unnoticed."""

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from perdure import SealedPayload
from perdure.core import messages
from perdure.core.envelopes import Ack, OutgoingMessage, QueuedMessage
from perdure.core.errors import BadValue, PerdureError
from perdure.core.messages import SignalMessage, TerminateMessage
from perdure.stores.blob_marks import blob_removal_of
from perdure.stores.encoded_store import EncodedStore
from perdure.stores.encryption import Encrypted, new_key, parse_keys
from perdure.stores.memory import MemoryStore
from perdure.stores.payload_codec import Compressed, PayloadCodec
from perdure.stores.protocol import Commit, Committed, LogRow, Post, Store
from perdure.stores.records import RecordChange, RecordFilter, RecordKey
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance import Clock, StoreConformance
from perdure.testing.conformance.store_world import key, plain_message, queue
from tests.stores.sqlite.store_processes import claim, opening
from tests.stores.sqlite.store_processes import step as event
from tests.stores.sqlite.user_connections import FileUsers

pytest.importorskip("cryptography", reason="encryption needs the package cryptography: pip install 'perdure[crypto]'")

OLD, NEW = parse_keys(f"old:{new_key()}"), parse_keys(f"new:{new_key()}")
ROW = messages.encode_message(TerminateMessage("any bytes that begin with a version"))


@dataclass
class Shouting:
    """A codec of somebody else's, to see that all that it gets is kept as it says."""

    def encode(self, raw: bytes, about: bytes) -> bytes:
        return b"!" + about + b"!" + raw[::-1]

    def decode(self, stored: bytes, about: bytes) -> bytes:
        assert stored.startswith(b"!" + about + b"!")
        return stored[len(about) + 2 :][::-1]


CODECS: dict[str, Callable[[], PayloadCodec]] = {
    "compressed": lambda: Compressed(1),
    "zstd": lambda: Compressed(1, "zstd"),
    "encrypted": lambda: Encrypted(OLD, required=True),
    "both": lambda: Encrypted(NEW | OLD, Compressed(1)),
    "foreign": Shouting,
}


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.slow
class TestCodedMemory(StoreConformance):
    """The suite."""

    @pytest.fixture(autouse=True)
    def _codec(self, codec: Callable[[], PayloadCodec]) -> None:
        self.codec = codec()

    async def make(self, clock: Clock) -> Store:
        return EncodedStore(MemoryStore(clock), self.codec)

    async def make_other(self, clock: Clock) -> Store:
        return EncodedStore(MemoryStore(clock), self.codec)


@pytest.mark.parametrize("codec", [CODECS["compressed"], CODECS["both"]], ids=["compressed", "both"])
@pytest.mark.slow
class TestCodedSqlite(FileUsers, StoreConformance):
    """The suite, over a file."""

    @pytest.fixture(autouse=True)
    def _codec(self, codec: Callable[[], PayloadCodec], tmp_path: Path) -> None:
        self.codec, self.directory = codec(), tmp_path

    async def make(self, clock: Clock) -> Store:
        return EncodedStore(SqliteStore(self.directory / "perdure.db", clock, synchronous="OFF"), self.codec)

    async def make_other(self, clock: Clock) -> Store:
        return EncodedStore(MemoryStore(clock), self.codec)


@pytest.mark.slow
class TestCodedReaches(StoreConformance):
    """The suite, where mail leaves its reach encoded."""

    reaches = 3

    async def make(self, clock: Clock) -> Store:
        return EncodedStore(MemoryStore(clock, reaches=3), Encrypted(OLD))

    async def make_other(self, clock: Clock) -> Store:
        return EncodedStore(MemoryStore(clock), Encrypted(OLD))


# Tampering: what is in the inner store is changed behind the codec's back.


@dataclass
class EncryptedStore:
    """An encrypted store, and the one in which it keeps what it is given."""

    inner: MemoryStore
    store: EncodedStore

    async def put(self, *changes: Commit | Post) -> None:
        assert all(isinstance(answer, Committed) for answer in await self.store.commit(changes))

    def rows(self, of: str = "1") -> list[LogRow]:
        return self.inner._executions[key(of)].rows

    def set_row(self, number: int, row: bytes, of: str = "1") -> None:
        self.rows(of)[number] = LogRow(self.rows(of)[number].version, row)

    async def read(self, of: str = "1", after: int = 0) -> list[bytes]:
        log = await self.store.read(key(of), after)
        assert log is not None
        return list(log.payloads)


@pytest.fixture
def vault() -> EncryptedStore:
    inner = MemoryStore(Clock())
    return EncryptedStore(inner, EncodedStore(inner, Encrypted(OLD)))


@pytest.mark.slow
async def test_a_change_of_any_bit_of_a_row_is_noticed(vault: EncryptedStore) -> None:
    await vault.put(event(key(), row=ROW))
    whole = vault.rows()[0].payload
    assert ROW not in whole and await vault.read() == [ROW]
    for position in range(8 * len(whole)):
        altered = bytearray(whole)
        altered[position // 8] ^= 1 << position % 8
        vault.set_row(0, bytes(altered))
        with pytest.raises(PerdureError):
            messages.decode_message_or_task((await vault.read())[0])
    vault.set_row(0, whole)
    assert await vault.read() == [ROW]


async def test_a_change_of_any_byte_is_noticed_by_the_store_itself_where_encryption_is_required(vault: EncryptedStore) -> None:
    payload, name = b"payload" * 3, sha256(b"payload" * 3).hexdigest()
    strict = EncodedStore(vault.inner, Encrypted(OLD, required=True))
    await vault.put(event(key(), row=ROW), Post(messages=(plain_message(queue()),), blobs=((name, payload),)))
    (row,), (message,) = vault.rows(), (await vault.inner.messages(queue()))
    ((stored, blob),) = vault.inner._blobs.items()

    def put_messages(body: bytes) -> None:
        vault.inner._messages[queue()]["letter"] = QueuedMessage(message.number, message.to, message.key, body, message.due_at_s)

    def put_blob(payload: bytes) -> None:
        vault.inner._blobs[stored] = payload

    kinds: list[tuple[bytes, Callable[[bytes], None], Callable[[], Awaitable[object]]]] = [
        (row.payload, lambda part: vault.set_row(0, part), lambda: strict.read(key())),
        (message.body, put_messages, lambda: strict.messages(queue())),
        (blob, put_blob, lambda: strict.blob(name)),
    ]
    for whole, put, read in kinds:
        for number in range(len(whole)):
            for altered in (whole[:number] + bytes((whole[number] ^ 0x55,)) + whole[number + 1 :], whole[:number]):
                put(altered)
                with pytest.raises(SealedPayload):
                    await read()
        put(whole + b"\0")
        with pytest.raises(SealedPayload):
            await read()
        put(whole)
        assert await read()


async def test_a_record_that_is_set_back_or_moved_to_another_key_is_refused(vault: EncryptedStore) -> None:
    one, two = (RecordKey("acme", "note", name) for name in ("one", "two"))
    await vault.put(Post(records=(RecordChange(one, 0, ROW), RecordChange(two, 0, b"of two"))))
    kept = vault.inner._records._records
    first = kept[one]
    assert ROW not in first.value
    await vault.put(Post(records=(RecordChange(one, 1, b"second"),)))
    second = kept[one]
    for altered in (first.value, kept[two].value, second.value[:-1]):
        kept[one] = replace(second, value=altered)
        for read in (vault.store.record(one), vault.store.records(RecordFilter("acme", "note"))):
            with pytest.raises(SealedPayload):
                await read
    kept[one] = second
    assert [record.value for record in await vault.store.records(RecordFilter("acme", "note"))] == [b"second", b"of two"]


async def test_a_row_that_is_moved_to_another_execution_is_noticed(vault: EncryptedStore) -> None:
    await vault.put(event(key("1"), row=b"of one"), event(key("2"), row=b"of two"))
    vault.set_row(0, vault.rows("1")[0].payload, of="2")
    assert await vault.read("1") == [b"of one"]
    with pytest.raises(SealedPayload, match=r'\["row",\["acme","order","2"\],0,1\] was changed .* or moved from another place'):
        await vault.read("2")


async def test_rows_that_are_dropped_or_reordered_or_repeated_within_an_execution_are_noticed(vault: EncryptedStore) -> None:
    await vault.put(*(event(key(), version, row=b"row %d" % version) for version in range(4)))
    whole = list(vault.rows())
    assert await vault.read() == [b"row 0", b"row 1", b"row 2", b"row 3"]
    assert await vault.read(after=2) == [b"row 2", b"row 3"]
    parts = [row.payload for row in whole]
    for order in ([1, 2, 3], [0, 2, 3], [0, 1, 2], [0, 2, 1, 3], [0, 1, 1, 3], [3]):
        vault.rows()[:] = [LogRow(whole[number].version, parts[each]) for number, each in enumerate(order)]
        with pytest.raises(SealedPayload, match="missing or moved"):
            await vault.read()
    vault.rows()[:] = whole
    await vault.put(event(key(), 4, compacted=b"compacted", row=b"row 4"))
    assert await vault.read() == await vault.read(after=2) == [b"compacted", b"row 4"]
    assert await vault.read(after=4) == [b"row 4"]


async def test_a_message_that_is_moved_to_another_address_or_key_is_refused_and_delays_no_other(vault: EncryptedStore) -> None:
    body = messages.encode_message(SignalMessage("approved"))
    await vault.put(Post(messages=(opening(key("1")), opening(key("2")), plain_message(key("1"), "yes", body=body), plain_message(key("2"), "no", body=body))))
    box = vault.inner._messages[key("2")]
    box["no"] = QueuedMessage(box["no"].number, key("2"), "no", vault.inner._messages[key("1")]["yes"].body, box["no"].due_at_s)
    with pytest.raises(SealedPayload, match="moved from another place"):
        await vault.store.messages(key("2"))
    await vault.store.renew("one", 60)
    claimed = {one.head.key.id: {message.key: message.body for message in one.messages} for one in (await vault.store.claim(claim(epoch=1))).executions}
    assert messages.decode_message_or_task(claimed["1"]["yes"]) == SignalMessage("approved")
    assert claimed["2"]["start"] == b"start"
    with pytest.raises(SealedPayload, match="moved from another place"):
        messages.decode_message_or_task(claimed["2"]["no"])


async def test_a_blob_that_is_exchanged_for_another_is_noticed_also_where_it_was_never_encrypted(vault: EncryptedStore) -> None:
    names = [sha256(payload).hexdigest() for payload in (b"one", b"two", b"plain")]
    await vault.put(Post(blobs=((names[0], b"one"), (names[1], b"two"))))
    first, second = vault.inner._blobs
    vault.inner._blobs[first] = vault.inner._blobs[second]
    await vault.inner.commit([Post(blobs=((names[2], b"plain"),))])
    assert await vault.store.blob(names[2]) == b"plain"
    vault.inner._blobs[names[2]] = b"other"
    for name in (names[0], names[2]):
        with pytest.raises(SealedPayload, match="was changed"):
            await vault.store.blob(name)
    assert await vault.store.blob(names[1]) == b"two"


# Keys.


async def everything(store: Store) -> tuple[Any, ...]:
    log = await store.read(key())
    assert log is not None
    return log.payloads, [message.body for message in await store.messages(queue())], await store.blob(sha256(b"blob").hexdigest())


async def written(inner: Store, codec: PayloadCodec | None) -> tuple[Any, ...]:
    store = inner if codec is None else EncodedStore(inner, codec)
    await store.commit([event(key(), row=ROW), Post(messages=(plain_message(queue()),), blobs=((sha256(b"blob").hexdigest(), b"blob"),))])
    return await everything(store)


async def test_each_of_several_keys_decrypts_and_the_first_encrypts() -> None:
    inner = MemoryStore(Clock())
    seen = await written(inner, Encrypted(OLD))
    for keys in (OLD, OLD | NEW, NEW | OLD):
        assert await everything(EncodedStore(inner, Encrypted(keys))) == seen
    rotated = EncodedStore(inner, Encrypted(NEW | OLD))
    await rotated.commit([event(key(), 1, row=ROW)])
    with pytest.raises(SealedPayload, match="is encrypted with the key 'old', and this process has only new") as refused:
        await EncodedStore(inner, Encrypted(NEW)).read(key())
    assert refused.value.key_id == "old"
    newer = await EncodedStore(inner, Encrypted(NEW)).read(key(), after=1)
    assert newer is not None and newer.payloads == (ROW,)


async def test_without_a_key_or_with_a_wrong_one_reading_says_which_is_missing_and_nothing_is_changed() -> None:
    inner = MemoryStore(Clock())
    await written(inner, Encrypted(OLD, Compressed(1)))
    before = await everything_kept(inner)
    for codec, why in (
        (Encrypted(NEW), "with the key 'old', and this process has only new"),
        (Compressed(), "with the key 'old', and this process has no keys"),
        (Encrypted({"old": NEW["new"]}), "a different key of the id 'old'"),
    ):
        store = EncodedStore(inner, codec)
        for read in (store.read(key()), store.messages(queue())):
            with pytest.raises(SealedPayload, match=why) as refused:
                await read
            assert refused.value.key_id == "old" and NEW["new"].hex() not in str(refused.value)
    with pytest.raises(SealedPayload, match=r"is encrypted with the key 'old', and this process has no keys\. Give it that key, in PERDURE_ENCRYPTION_KEYS"):
        messages.decode_message_or_task((await inner.messages(queue()))[0].body)
    assert await everything_kept(inner) == before


async def everything_kept(inner: MemoryStore) -> tuple[Any, ...]:
    return await inner.read(key()), await inner.messages(queue()), dict(inner._blobs)


async def test_what_was_written_without_a_codec_or_with_another_is_read_beside_what_is_encoded() -> None:
    for first, second in pairwise([None, Compressed(1), Encrypted(OLD), Encrypted(NEW | OLD, Compressed(1))]):
        inner = MemoryStore(Clock())
        seen = await written(inner, first)
        assert second is not None
        store = EncodedStore(inner, second)
        assert await everything(store) == seen
        await store.commit([event(key(), 1, row=b"coded"), event(key(), 2, row=b"coded, too")])
        log = await store.read(key())
        assert log is not None and log.payloads == (ROW, b"coded", b"coded, too")


async def test_what_is_not_encrypted_is_refused_where_that_is_required() -> None:
    for codec in (None, Compressed(1)):
        inner = MemoryStore(Clock())
        await written(inner, codec)
        store = EncodedStore(inner, Encrypted(OLD, required=True))
        for read in (store.read(key()), store.messages(queue()), store.blob(sha256(b"blob").hexdigest())):
            with pytest.raises(SealedPayload, match="is not encrypted, which is required here"):
                await read
        await store.renew("one", 60)
        (work,) = (await store.claim(claim())).work
        with pytest.raises(SealedPayload, match="is not encrypted"):
            messages.decode_message_or_task(work.body)


def test_keys_that_mean_nothing_are_refused_and_never_shown() -> None:
    good = new_key()
    for text in ("", "a", good, f"a:{good[:-8]}", f"a:{good}x", f"a b:{good}", f":{good}", f"a:{good},a:{good}", f"a:{good},", f"{'a' * 65}:{good}"):
        with pytest.raises(BadValue) as refused:
            Encrypted(parse_keys(text))
        assert good[:20] not in str(refused.value) and good[:20] not in repr(refused.value.value)
    assert list(parse_keys(f" a:{good} , b.1_-:{new_key()}\n")) == ["a", "b.1_-"]
    secret = parse_keys(f"a:{good}")
    assert parse_keys(f"a:{good.replace('+', '-').replace('/', '_')}") == secret
    codec = Encrypted(secret, Compressed())
    assert repr(codec) == "Encrypted(keys a; Compressed(256, 'zlib'))" and secret["a"].hex() not in repr(vars(codec)["_ciphers"])
    for keys in ({}, {"a": b"short"}, {"": secret["a"]}, {"a:b": secret["a"]}):
        with pytest.raises(BadValue):
            Encrypted(keys)


def test_two_encryptions_of_the_same_differ_and_hide_all_but_the_size() -> None:
    codec = Encrypted(OLD)
    first, second = (codec.encode(b"\0" * 100, b"about") for _ in range(2))
    assert first != second and len(first) == len(second) == len(b"Eoldx") + 12 + 1 + 100 + 16
    assert b"\0" * 4 not in first


def test_a_blob_is_called_by_nothing_that_can_be_computed_without_a_key() -> None:
    name = sha256(b"a guess").hexdigest()
    old, new = Encrypted(OLD).names(name), Encrypted(NEW | OLD).names(name)
    assert new == (new[0], old[0], name) and len({*new}) == 3
    assert Encrypted(OLD).names(name) == old


# Compression.


@pytest.mark.parametrize("method", ["zlib", "zstd"])
def test_compression_is_used_from_a_size_on_and_only_where_it_saves(method: Any) -> None:
    codec = Compressed(100, method)
    plain, large = b"a" * 99, b"a" * 100
    assert codec.encode(plain, b"") == b"\0" + plain
    assert len(codec.encode(large, b"")) < 40
    noise = bytes(sha256(bytes((number,))).digest()[0] for number in range(256))
    assert codec.encode(noise, b"") == b"\0" + noise
    for raw in (b"", plain, large, noise, b"\xc1" * 300, b"\0" * 1000):
        assert Compressed(None).decode(codec.encode(raw, b""), b"") == Encrypted(OLD).decode(Encrypted(OLD, codec).encode(raw, b""), b"") == raw


def test_what_can_not_be_expanded_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Compressed(1, "zstd").encode(b"a" * 1000, b"")
    with pytest.raises(SealedPayload, match="was changed"):
        Compressed().decode(small[:-3], b"")
    with pytest.raises(SealedPayload, match="was changed"):
        Compressed().decode(b"\x01nonsense", b"")
    with pytest.raises(SealedPayload, match="does not know"):
        Compressed().decode(b"\x7f", b"")
    monkeypatch.setattr("perdure.stores.payload_codec._zstd", lambda: None)
    with pytest.raises(SealedPayload, match="pip install zstandard"):
        Compressed().decode(small, b"")
    with pytest.raises(BadValue, match="pip install zstandard"):
        Compressed(method="zstd")
    with pytest.raises(BadValue, match="zlib or zstd"):
        Compressed(method="lzma")  # type: ignore[arg-type]  # what a user might write


# All sizes, all bytes, many at once.


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
async def test_nothing_and_everything_can_be_kept(codec: Callable[[], PayloadCodec], tmp_path: Path) -> None:
    store = EncodedStore(SqliteStore(tmp_path / "perdure.db", synchronous="OFF"), codec())
    payloads = [b"", b"\0", b"\0" * 70_000, b"\xc1", b"\xc1p\x00", b"\xc1!", bytes(range(256)) * 300, b"\x01", "🐘".encode() * 20_000]
    for version, payload in enumerate(payloads):
        name = sha256(payload).hexdigest()
        await store.commit(
            [event(key("\0 é 🐘"), version, row=payload, messages=(plain_message(queue(), f"\0{version}", body=payload or b"-"),), blobs=((name, payload),))]
        )
        assert await store.blob(name) == payload
    log = await store.read(key("\0 é 🐘"))
    assert log is not None and list(log.payloads) == payloads
    assert [message.body for message in await store.messages(queue())] == [payload or b"-" for payload in payloads]
    await store.close()


@pytest.mark.slow
@pytest.mark.parametrize("codec", [CODECS["compressed"], CODECS["both"]], ids=["compressed", "both"])
async def test_sixteen_mebibytes_are_kept_while_the_loop_goes_on(codec: Callable[[], PayloadCodec], tmp_path: Path) -> None:
    store = EncodedStore(SqliteStore(tmp_path / "perdure.db", synchronous="OFF"), codec())
    payload = bytes(range(256)) * 2**16
    name, threads = sha256(payload).hexdigest(), set[int]()
    decode = store._coding._codec.encode

    def encode(raw: bytes, about: bytes) -> bytes:
        threads.add(threading.get_ident())
        return decode(raw, about)

    store._coding._codec.encode = encode  # type: ignore[method-assign]  # to see where it is done
    await store.commit([event(key(), row=payload, messages=(plain_message(queue(), body=payload),), blobs=((name, payload),))])
    assert threads and threading.get_ident() not in threads
    log, (message,) = await store.read(key()), await store.messages(queue())
    assert log is not None and log.payloads == (payload,) and message.body == payload and await store.blob(name) == payload
    await store.close()


@pytest.mark.slow
async def test_many_at_once_from_several_loops_get_what_is_theirs(tmp_path: Path) -> None:
    store = EncodedStore(SqliteStore(tmp_path / "perdure.db", synchronous="OFF"), Encrypted(NEW | OLD, Compressed(1)))

    async def work(id: str) -> None:
        await store.renew(id, 60)
        for version in range(20):
            await store.commit([event(key(id), version, row=f"{id} {version}".encode() * 100, holder=id)])
        log = await store.read(key(id))
        assert log is not None and list(log.payloads) == [f"{id} {version}".encode() * 100 for version in range(20)]

    async def several(name: str) -> None:
        await asyncio.gather(*(work(f"{name}{number}") for number in range(5)))

    threads = [threading.Thread(target=asyncio.run, args=(several(name),)) for name in "ab"]
    for thread in threads:
        thread.start()
    await several("c")
    for thread in threads:
        await asyncio.to_thread(thread.join, 30)
    assert len(await store.heads()) == 15
    await store.close()


async def test_without_the_package_encryption_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(BadValue, match=r'pip install "perdure\[crypto\]"'):
        Encrypted(OLD)


async def test_a_blob_that_is_needed_stays_by_whichever_key_it_was_named() -> None:
    inner, needed, useless = MemoryStore(), b"needed", b"useless"
    names = [sha256(raw).hexdigest() for raw in (needed, useless)]
    await EncodedStore(inner, Encrypted(OLD)).commit([Post(blobs=tuple(zip(names, (needed, useless), strict=True)))])
    store = EncodedStore(inner, Encrypted(NEW | OLD))
    removal = blob_removal_of(store)
    await removal.mark("one")
    await removal.keep(names[:1])
    refers = Post(messages=(OutgoingMessage(key("refers"), "refers", b"", refers=((names[0],),)),))
    assert isinstance((await store.commit([refers]))[0], Committed)
    assert (await removal.remove("one", names)).blobs == 1
    assert [await store.blob(name) for name in names] == [needed, None]
    assert [await store.removed_at(name) is None for name in names] == [True, False]


async def test_acks_and_repeats_are_as_in_any_store(vault: EncryptedStore) -> None:
    await vault.put(Post(messages=(plain_message(queue(), body=b"first"),)), Post(messages=(plain_message(queue(), body=b"second"),)))
    assert [message.body for message in await vault.store.messages(queue())] == [b"first"]
    await vault.put(Post(epoch=1, acks=(Ack(queue(), "letter"),)))
    assert await vault.store.messages(queue()) == []
