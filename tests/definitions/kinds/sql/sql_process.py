"""An engine with an execution whose steps write to databases, in a process that kills itself at one of its writes to the store.

    python -m tests.definitions.kinds.sql.sql_process STORE_URL CONNECTION_URL WRITE SIDE

`SIDE` is before the write, within the transaction of a step (when its statements are done, and before its commit), or after the write, before the process
learns of it. Without a death, the last line of the output has how many writes there were.
"""

import asyncio
import os
import signal
import sys
from typing import Any

from perdure import AsyncClient, Definition
from perdure.runtime.engine import Engine
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.sqlite.store import SqliteStore

LEASE_S = 0.3
DOCUMENT = {
    "perdure": 1,
    "name": "sale",
    "order": "listed",
    "steps": [
        {"id": "sell", "sql": {"connection": "shop", "execute": "INSERT INTO outbox VALUES (:idempotency_key, 'sold')"}},
        {
            "id": "move",
            "sql": {
                "connection": "shop",
                "execute": [
                    {"statement": "UPDATE accounts SET cents = cents - 5 WHERE id = 1", "expect": 1},
                    {"statement": "UPDATE accounts SET cents = cents + 5 WHERE id = 2", "expect": 1},
                    {"statement": "INSERT INTO outbox VALUES (:idempotency_key, 'moved') RETURNING body", "result": "value"},
                ],
            },
        },
        {"id": "left", "sql": {"connection": "shop", "query": "SELECT cents FROM accounts WHERE id = 1", "result": "value"}},
    ],
    "output": {"sold": "@sell", "moved": "@move", "left": "@left"},
}


class MortalStore:
    """The calls of a store that write, counted; at one of them the process dies."""

    def __init__(self, store: Any, last: int, side: str) -> None:
        self.store, self.last, self.side, self.writes = store, last, side, 0
        self.commit, self.transact = store.commit, store.transact
        store.commit, store.transact = self.committed, self.transacted

    def reached(self, side: str) -> None:
        if self.writes == self.last and self.side == side:
            os.kill(os.getpid(), signal.SIGKILL)

    async def committed(self, changes: Any) -> Any:
        self.writes += 1
        self.reached("before")
        found = await self.commit(changes)
        self.reached("after")
        return found

    async def transacted(self, guard: Any, work: Any) -> Any:
        async def within(transaction: Any) -> Any:
            found = await work(transaction)
            self.reached("within")
            return found

        self.writes += 1
        self.reached("before")
        found = await self.transact(guard, within)
        self.reached("after")
        return found


async def main(url: str, connection: str, last: int, side: str) -> None:
    """Run the execution to its end, or die."""
    store: Any = PostgresStore(url) if url.startswith("postgresql:") else SqliteStore(url.removeprefix("sqlite:///"))
    mortal = MortalStore(store, last, side)
    made = Definition.of(DOCUMENT, connections={"shop": connection})
    engine = Engine(store, [made.graph], lease_s=LEASE_S)
    running = asyncio.create_task(engine.run())
    async with AsyncClient(store) as client:
        sys.stdout.write(f"{await client.run(made.with_(id='x'))}\n")
    engine.stop()
    await running
    await store.close()
    sys.stdout.write(f"{mortal.writes}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]))
