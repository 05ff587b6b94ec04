"""A shop whose orders are in a database of its own, apart from Perdure's, with an outbox between them; as a program, one process of it that can be killed.

python outbox_shop.py DIRECTORY sell FIRST COUNT     each order in a transaction, which is written to the file `sold` after its commit
python outbox_shop.py DIRECTORY relay [die-after N]  an engine with its relay; killed in the batch N, between the post and the removal
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import Engine, MetaData, create_engine, text
from sqlalchemy.orm import Session

from perdure import App, Context, Signal, step, workflow
from perdure.sqlalchemy import SqlalchemyOutbox
from perdure.stores.outbox import OutboxBatch

packed = Signal("packed", str)


@workflow
async def order(ctx: Context, number: int) -> str:
    box = await ctx.listen(packed)
    await ctx.step(deliver, number, box)
    return box


@step
def deliver(number: int, box: str) -> None:
    """Writes down that the order was delivered; a second line would be a second start."""
    with Path(os.environ["DELIVERED"]).open("a") as file:
        file.write(f"{number} {box}\n")


class DyingOutbox(SqlalchemyOutbox):
    """Kills its process in a batch after the rows were posted and before they are removed."""

    dies_after = 0

    @asynccontextmanager
    async def batch(self, thread: Executor) -> AsyncIterator[OutboxBatch]:
        async with super().batch(thread) as found:
            yield found
            if found.rows and self.dies_after:
                self.dies_after -= 1
                if not self.dies_after:
                    os.kill(os.getpid(), signal.SIGKILL)


def shop(directory: Path, *, engine: bool) -> tuple[App, Engine, DyingOutbox]:
    """The App of the shop, its own database, and its outbox; the table is made if need be."""
    os.environ["DELIVERED"] = str(directory / "delivered")
    database, metadata = create_engine(f"sqlite:///{directory}/shop.db", connect_args={"timeout": 30}), MetaData()
    outbox = DyingOutbox(database, metadata)
    metadata.create_all(database)
    return App([order], db=f"sqlite:///{directory}/perdure.db", outbox=outbox, engine=engine), database, outbox


def sell(directory: Path, first: int, count: int) -> None:
    """Writes orders, each with its start and its message in one transaction."""
    app, database, _ = shop(directory, engine=False)
    with app as open_app:
        for number in range(first, first + count):
            with Session(database) as session, session.begin():
                session.execute(text("INSERT INTO orders VALUES (:number)"), {"number": number})
                handle = open_app.start(order.with_(id=f"order-{number}", connection=session), number)
                handle.send(packed, f"box {number}", connection=session)
            with (directory / "sold").open("a") as file:
                file.write(f"{number}\n")


async def relay(directory: Path, dies_after: int) -> None:
    """Runs an engine until it is killed."""
    app, _, outbox = shop(directory, engine=True)
    outbox.dies_after = dies_after
    async with app:
        await asyncio.Event().wait()


if __name__ == "__main__":
    match sys.argv[1:]:
        case [where, "sell", first_number, how_many]:
            sell(Path(where), int(first_number), int(how_many))
        case [where, "relay", *dying]:
            asyncio.run(relay(Path(where), int(dying[1]) if dying else 0))
