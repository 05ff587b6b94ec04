"""Writers of records whose calls fail before or after they took effect, and which die and begin again: every change is made once, none is lost."""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import StoreUnavailable
from perdure.core.messages import TerminateMessage, encode_message
from perdure.core.paths import Key
from perdure.core.record_format import decode_record_value, encode_record_value
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Committed, Post, Store
from perdure.stores.records import RecordChange, RecordKey, Stale
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.faults import Faults, FaultyStore, Gate, Killed
from perdure.testing.immediate_calls import SideLoop
from perdure.testing.virtual_time import run
from tests.proof.audited_store import AuditedStore
from tests.proof.auditor import Auditor
from tests.sampling import some

KEY, LEDGER = RecordKey("acme", "counter", "shared"), Key("acme", "order", "ledger")
FAULTS = Faults(fail_before=0.1, fail_after=0.1, kill_before=0.05, kill_after=0.05, delay=0.3, freeze=0.02)
BODY = encode_message(TerminateMessage("any message"))
WRITERS, CHANGES = 4, 12


async def add(store: Store, token: str, answers: Counter[str]) -> None:
    """Add a token to the shared record and to the ledger in one post, unless an earlier life of the writer has done so."""
    while True:
        try:
            record = await store.record(KEY)
            tokens = [] if record is None else decode_record_value(record.value).decode().split()
            if token in tokens:
                return
            value = encode_record_value(" ".join([*tokens, token]).encode())
            change = RecordChange(KEY, len(tokens), value)
            (answer,) = await store.commit([Post(records=(change,), messages=(OutgoingMessage(LEDGER, f"{token} {len(tokens)}", BODY),))])
            assert isinstance(answer, Committed | Stale)
            answers[type(answer).__name__] += 1
        except StoreUnavailable:
            answers["failed"] += 1
            await asyncio.sleep(0.1)


async def write(inner: Store, seed: int, answers: Counter[str]) -> None:
    """Run the writers, each of which begins again with the same tokens whenever it was killed."""
    rng = Random(seed)

    async def writer(name: str) -> None:
        for number in range(CHANGES):
            while True:
                try:
                    await add(FaultyStore(inner, rng, FAULTS, gate=Gate()), f"{name}{number}", answers)
                    break
                except Killed:
                    answers["killed"] += 1
                    await asyncio.sleep(rng.random())

    await asyncio.gather(*(writer(name) for name in "abcd"[:WRITERS]))
    while await inner.relay():
        pass
    record = await inner.record(KEY)
    assert record is not None
    tokens = decode_record_value(record.value).decode().split()
    assert sorted(tokens) == sorted(f"{name}{number}" for name in "abcd"[:WRITERS] for number in range(CHANGES)), "each change was made once"
    assert record.version == len(tokens)
    ledger = [message.key for message in await inner.messages(LEDGER)]
    assert ledger == [f"{token} {number}" for number, token in enumerate(tokens)], "each message came with its change"
    await inner.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("seed", some(range(8), 1))
def test_every_change_of_a_record_is_made_once_whatever_fails(seed: int, kind: str, tmp_path: Path) -> None:
    answers = Counter[str]()

    async def world() -> None:
        clock, aside, auditor = asyncio.get_running_loop().time, SideLoop(), Auditor()
        inner: Store = MemoryStore(clock, reaches=2) if kind == "memory" else SqliteStore(tmp_path / "perdure.db", clock, synchronous="OFF")
        await write(AuditedStore(auditor, inner, clock, aside), seed, answers)
        aside.close()
        assert not auditor.problems

    run(world, seed=seed)
    assert min(answers[name] for name in ("Committed", "Stale", "failed", "killed")) > 0
