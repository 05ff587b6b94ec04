"""What it costs to prune many short executions, to forget their ids, and to give the space back; and how large the file is after each."""

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from perdure.async_maintenance import AsyncUpkeep
from perdure.core import events as e
from perdure.core import log_format, values
from perdure.core.operations import Success
from perdure.core.paths import Key
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import Commit
from perdure.stores.sqlite.database_setup import check_database
from perdure.stores.sqlite.store import SqliteStore
from perdure.stores.sqlite.vacuum import vacuum

EXECUTIONS, BATCH = 60_000, 500
ENDED_S = 1_000_000_000.0


def ended(number: int) -> Commit:
    """A short execution that ended long ago."""
    key = Key("default", "greet", f"g{number}")
    events: list[e.Event] = [
        e.StartedEvent(1, ENDED_S, values.encode(["Ada", number], "the input"), seed=number),
        e.EndedEvent("completed", Success(values.encode("Hello Ada", "the result")), ENDED_S + 1),
    ]
    return Commit(
        key=key,
        epoch=1,
        holder="bench",
        version=0,
        program="greet@1",
        root=key,
        creates=True,
        row=log_format.encode_row(events),
        count=2,
        status="completed",
        ended_at_s=ENDED_S + 1,
        release=True,
    )


async def main(executions: int) -> None:
    """Fill a file, and prune it."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "bench.db"
        store = SqliteStore(file)
        for first in range(0, executions, BATCH):
            await store.commit([ended(number) for number in range(first, min(first + BATCH, executions))])
        upkeep = AsyncUpkeep(StoreAccess(store))

        async def given_back() -> None:
            await asyncio.to_thread(vacuum, file)

        doings: list[tuple[str, Callable[[], Awaitable[object]]]] = [
            ("pruned", lambda: upkeep.prune("1d")),
            ("ids forgotten", lambda: upkeep.prune("1d", forget_ids=True)),
            ("given back", given_back),
        ]
        tell(f"{executions:,} executions", 0.0, file)
        for name, do in doings:
            began_s = time.perf_counter()
            await do()
            tell(name, time.perf_counter() - began_s, file)
        await store.close()


def tell(what: str, took_s: float, file: Path) -> None:
    """Print a line."""
    health = check_database(file)
    sys.stdout.write(f"{what:20} {took_s:6.1f} s   {health.size_bytes / 2**20:6.1f} MiB, of which {health.free_bytes / 2**20:6.1f} free\n")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else EXECUTIONS))
