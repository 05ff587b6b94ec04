"""What a codec costs a commit: plain, compressed and encrypted by turns, over the same commits, as ratios of the same run.

Each side commits the rows of one execution one by one, to a SQLite file of its own: with synchronous=FULL, where the disk is waited for, and
with OFF, where what is left is work. Two sizes of rows: what a small step leaves, and text that compresses. The last lines are large
blobs, and reading a log.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

from perdure.core.paths import Key
from perdure.stores.encoded_store import EncodedStore
from perdure.stores.encryption import Encrypted, new_key, parse_keys
from perdure.stores.payload_codec import Compressed, PayloadCodec
from perdure.stores.protocol import Commit, Committed, Post, Store
from perdure.stores.sqlite.store import SqliteStore

COMMITS = 300
ROUNDS = 7
BLOB_BYTES = 4 * 2**20
KEYS = parse_keys(f"bench:{new_key()}")
CODECS: dict[str, PayloadCodec | None] = {
    "plain": None,
    "compressed": Compressed(),
    "encrypted": Encrypted(KEYS),
    "compressed and encrypted": Encrypted(KEYS, Compressed()),
}
SMALL = b"\x01" + bytes(range(150))
TEXT = b"\x01" + json.dumps([{"name": f"customer {number}", "city": "Wien", "orders": number * 7} for number in range(80)]).encode()

Measure = Callable[[Store, int], Awaitable[None]]


def commits(row: bytes) -> Measure:
    """One commit after the other, each of one row."""

    async def measure(store: Store, number: int) -> None:
        key = Key("bench", "count", str(number))
        for version in range(COMMITS):
            change = Commit(key=key, epoch=1, holder="bench", version=version, program="count@1", root=key, creates=version == 0, row=row, count=1)
            (answer,) = await store.commit([change])
            assert isinstance(answer, Committed)

    return measure


async def reading(store: Store, number: int) -> None:
    """The log of an execution, read again and again."""
    await commits(TEXT)(store, number)
    for _ in range(20):
        assert await store.read(Key("bench", "count", str(number))) is not None


async def blobs(store: Store, number: int) -> None:
    """Large payloads, written and read."""
    for each in range(3):
        payload = (TEXT + b"%d %d" % (number, each)) * (BLOB_BYTES // len(TEXT))
        name = sha256(payload).hexdigest()
        await store.commit([Post(blobs=((name, payload),))])
        assert await store.blob(name) is not None


async def compare(measure: Measure, synchronous: str, directory: Path) -> dict[str, list[float]]:
    """Seconds of each side, by turns, after one round that is not counted."""
    stores: dict[str, Store] = {}
    for name, codec in CODECS.items():
        inner = SqliteStore(directory / f"{name}.db", synchronous=synchronous)
        stores[name] = inner if codec is None else EncodedStore(inner, codec)
    times_s: dict[str, list[float]] = {name: [] for name in stores}
    for number in range(ROUNDS + 1):
        for name, store in stores.items():
            began_s = time.perf_counter()
            await measure(store, number)
            times_s[name].append(time.perf_counter() - began_s)
    for store in stores.values():
        await store.close()
    return {name: its[1:] for name, its in times_s.items()}


def main() -> None:
    """Measure and print."""
    print(f"{COMMITS} commits of one row, median of {ROUNDS} rounds by turns; Python {sys.version.split()[0]}")
    kinds: list[tuple[str, Measure, str, int]] = [
        (f"commits of {len(SMALL)} bytes, synchronous=FULL", commits(SMALL), "FULL", COMMITS),
        (f"commits of {len(SMALL)} bytes, synchronous=OFF", commits(SMALL), "OFF", COMMITS),
        (f"commits of {len(TEXT):,} bytes of text, synchronous=OFF", commits(TEXT), "OFF", COMMITS),
        (f"the same, and 20 times read {COMMITS} of them", reading, "OFF", COMMITS),
        (f"3 blobs of {BLOB_BYTES >> 20} MiB of text, written and read, synchronous=OFF", blobs, "OFF", 3),
    ]
    for title, measure, synchronous, count in kinds:
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
            times_s = asyncio.run(compare(measure, synchronous, Path(place)))
            sizes = {name: sum(file.stat().st_size for file in Path(place).glob(f"{name}.db")) for name in CODECS}
        print(title)
        for name, its in times_s.items():
            ratio = statistics.median(one / plain for one, plain in zip(its, times_s["plain"], strict=True))
            print(f"  {name:26} {statistics.median(its) / count * 1e6:10,.0f} µs each  {ratio:5.2f}×   file {sizes[name] / sizes['plain']:5.2f}×")


if __name__ == "__main__":
    main()
