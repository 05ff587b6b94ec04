"""A Django project with a database of its own and an outbox in it, as a program. `PERDURE_DB` names the database of Perdure.

python outbox_project.py DATABASE migrate
python outbox_project.py DATABASE sell FIRST COUNT   orders, each with its start and a message in one transaction
python outbox_project.py DATABASE roll-back          an order whose transaction is rolled back
python outbox_project.py DATABASE refused            what is refused, one line each
python outbox_project.py DATABASE relay [die]        an engine, until the outbox is empty; killed between a post and the removal
"""

import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from typing import Any

import django
from django.conf import settings

from perdure import App, Context, Signal, workflow
from perdure.core.errors import BadValue
from perdure.django import DjangoOutbox
from perdure.stores.outbox import OutboxBatch

packed = Signal("packed", str)


@workflow
async def order(ctx: Context, number: int) -> str:
    box = await ctx.listen(packed)
    return f"{number} in {box}"


class DyingOutbox(DjangoOutbox):
    """Kills its process in a batch after the rows were posted and before they are removed, if it is told to."""

    dies = False

    @asynccontextmanager
    async def batch(self, thread: Executor) -> AsyncIterator[OutboxBatch]:
        async with super().batch(thread) as found:
            yield found
            if found.rows and self.dies:
                os.kill(os.getpid(), signal.SIGKILL)


outbox = DyingOutbox()
app = App([order], db=os.environ["PERDURE_DB"], outbox=outbox, engine="relay" in sys.argv)


def set_up(database: dict[str, Any]) -> None:
    """Sets Django up with this database."""
    settings.configure(INSTALLED_APPS=["perdure.django"], DATABASES={"default": database}, USE_TZ=True, PERDURE_APP="tests.django.outbox_project:app")
    django.setup()


def sell(shop: Any, first: int, count: int) -> None:
    """Starts orders."""
    from django.db import connection, transaction

    for number in range(first, first + count):
        with transaction.atomic():
            handle = shop.start(order.with_(id=f"order-{number}", connection=connection), number)
            handle.send(packed, f"box {number}", connection=connection)


def roll_back(shop: Any) -> None:
    """Starts an order in vain."""
    from django.db import connection, transaction

    with transaction.atomic():
        shop.start(order.with_(id="never", connection=connection), 1)
        transaction.set_rollback(True)


def refused(shop: Any) -> None:
    """Prints why each is refused."""
    import sqlite3

    from django.db import connection

    for wrong in (connection, sqlite3.connect(":memory:")):
        try:
            shop.start(order.with_(connection=wrong), 1)
        except BadValue as error:
            sys.stdout.write(f"{error}\n")


def main(database: str, what: str, *arguments: str) -> None:
    """Runs one of the commands."""
    set_up(json.loads(database))
    from django.core.management import call_command

    if what == "migrate":
        call_command("migrate", verbosity=0)
        return
    outbox.dies = "die" in arguments
    with app as shop:
        match what:
            case "sell":
                sell(shop, *map(int, arguments))
            case "roll-back":
                roll_back(shop)
            case "refused":
                refused(shop)
            case "relay":
                from perdure.django.models import OutboxEntry

                while OutboxEntry.objects.exists() or any(one.status not in ("completed", "failed") for one in shop.client.list(limit=1000)):
                    time.sleep(0.01)
                sys.stdout.write(json.dumps(sorted((one.key.id, one.status, shop.handle(one.key).result()) for one in shop.client.list(limit=1000))))


if __name__ == "__main__":
    main(*sys.argv[1:])
