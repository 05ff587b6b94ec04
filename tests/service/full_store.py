"""A store with everything in it: the newest file of the corpus, every log of the corpus, odd names, large payloads, records, secrets, limits and messages."""

from pathlib import Path

from msgspec.structs import replace

from perdure.core.events import EndedEvent
from perdure.core.paths import Key
from perdure.core.replay import fold_events
from perdure.stores.change_feed import CHANGE_FEED, ShippedBlob, ShippedHead, ShippedItem, ShippedRow
from perdure.stores.protocol import Head, LogRow, Post, QueueLimits, Store
from perdure.stores.records import RecordChange, RecordKey
from perdure.stores.secret_vault import VAULT
from perdure.testing.conformance.store_world import NAMES, key, plain_message, queue
from tests.corpus.make_files import newest_file
from tests.test_corpus import EXECUTIONS

LARGE = bytes(range(256)) * 8_192
"""A payload of 2 MiB."""


def unpack_corpus(file: Path) -> None:
    """Puts the newest file of the corpus there: executions in every state, of processes that were killed."""
    file.write_bytes(newest_file())


def corpus_items() -> list[ShippedItem]:
    """Every log of the corpus with its blobs, as what a change feed ships."""
    items: list[ShippedItem] = []
    seen = set[Key]()
    for one in EXECUTIONS:
        of = one.record.key._replace(tenant="logs", id=f"{one.case}/{one.record.key.id}/{len(seen)}")
        if of in seen:
            continue
        seen.add(of)
        folded = fold_events(of, one.events, of)
        ended = one.events[-1].at_s if isinstance(one.events[-1], EndedEvent) else None
        items += [ShippedBlob(name, payload) for name, payload in one.blobs.items()]
        version = folded.version
        rows = [LogRow(version - len(one.rows) + number + 1, row) for number, row in enumerate(one.rows)]
        items += [ShippedRow(of, row) for row in rows]
        head = Head(of, f"{of.workflow}@1", of, version, status=folded.status, ended_at_s=ended, created_at_s=float(len(seen)))
        items.append(ShippedHead(head, rows[0].version))
    return items


async def fill(store: Store) -> None:
    """Adds what the file of the corpus lacks. Its executions need not make sense: a store does not read them."""
    feed, vault = store.part(CHANGE_FEED), store.part(VAULT)
    assert feed is not None and vault is not None
    await feed.restore(corpus_items())
    odd = [key(name or "empty", tenant=name or "acme", workflow=name or "order") for name in NAMES]
    for number, of in enumerate(odd):
        head = Head(of, "order@1", odd[0], 1, status="waiting", wake_at_s=4e9 + number / 7, created_at_s=2e9 + number, lane=of.id, queue="odd")
        attributes = tuple(sorted({("attribute", b"s" + of.id.encode()), ("size", b"n\xc0\0\xff")}))
        shipped = ShippedHead(replace(head, priority=-number, attributes=attributes), 1)
        await feed.restore([ShippedRow(of, LogRow(1, b"\0" + of.id.encode())), shipped])
        await store.commit([Post(messages=(plain_message(of, f"note {of.id}", due_at_s=4e9 + number),))])
        name = RecordKey(of.tenant.replace("\0", "0"), "note", of.id.replace("\0", "0"))
        await store.commit([Post(records=(RecordChange(name, 0, of.id.encode(), (("a", b"s\0"),), 4e9 if number % 2 else None),))])
        assert await vault.keep(of.tenant, f"TOKEN {of.id}", 1, b"\0sealed") and await vault.keep(of.tenant, f"TOKEN {of.id}", 2, b"\0sealed again")
    await store.commit([Post(messages=(plain_message(key("nobody"), "early"), plain_message(queue("heavy"), "large", body=LARGE)), blobs=(("large", LARGE),))])
    for number in range(100):
        await store.commit([Post(messages=(plain_message(queue("many", f"tenant {number % 3}"), f"task {number}", due_at_s=number % 7),))])
    await store.limit("many", QueueLimits(concurrency=2, per_lane=1, interval_s=0.25, burst=3, declared="2 at a time"))
    await store.limit("many", QueueLimits(per_lane=1), "tenant 1")
