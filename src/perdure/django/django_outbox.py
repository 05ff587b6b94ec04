"""An outbox in a database of a Django project. See `perdure.stores.outbox`."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from typing import Any

from perdure.core.errors import BadValue
from perdure.stores.outbox import OUTBOX_FORMAT, ROWS_PER_BATCH, Outbox, OutboxBatch, OutboxRow
from perdure.stores.user_transactions import is_instance_of


class DjangoOutbox(Outbox):
    """The outbox in the database `using` of the project, whose table `manage.py migrate` makes: ``App([order], outbox=DjangoOutbox())``.

    It may be made before Django is set up. A start takes the connection of the transaction: ``order.with_(connection=connection)``, that of `django.db`.
    """

    def __init__(self, using: str = "default") -> None:
        super().__init__()
        self.using = using

    async def put(self, connection: Any, target: str, body: bytes) -> None:
        """See `Outbox.put`."""
        from django.db import transaction

        if not is_instance_of(connection, "django", "ConnectionProxy", "BaseDatabaseWrapper") or connection.alias != self.using:
            raise BadValue("connection=", connection, f"the connection of Django to the database {self.using!r}: django.db.connections[{self.using!r}]")
        if not connection.in_atomic_block:
            raise BadValue("connection=", connection, "in a transaction, and it commits by itself; open one with `with transaction.atomic():`")
        _entries(self.using).create(format=OUTBOX_FORMAT, target=target, body=body)
        transaction.on_commit(self.notify, using=self.using)

    @asynccontextmanager
    async def batch(self, thread: Executor) -> AsyncIterator[OutboxBatch]:
        """See `Outbox.batch`."""
        loop, taken = asyncio.get_running_loop(), _TakenRows(self.using)
        try:
            found = OutboxBatch(await loop.run_in_executor(thread, taken.read), {})
            yield found
            await loop.run_in_executor(thread, taken.remove, found)
        finally:
            thread.submit(taken.leave)


class _TakenRows:
    """The rows of one batch. All methods are called in one thread, since a connection of Django belongs to its thread.

    Where the database can skip locked rows, they are locked by a transaction from the first to the last call. Elsewhere no transaction is open meanwhile: in
    SQLite it would keep the writers waiting for the post.
    """

    def __init__(self, using: str) -> None:
        from django.db import connections, transaction

        self._using, self._connections, self._transaction = using, connections, transaction
        self._open: Any = None

    def read(self) -> list[OutboxRow]:
        """Reads the first rows, and locks them."""
        connection = self._connections[self._using]
        connection.close_if_unusable_or_obsolete()
        which = _entries(self._using).filter(error__isnull=True, format__lte=OUTBOX_FORMAT).order_by("pk")
        if connection.features.has_select_for_update_skip_locked:
            self._open = self._transaction.atomic(using=self._using)
            self._open.__enter__()
            which = which.select_for_update(skip_locked=True)
        return [OutboxRow(*row) for row in which.values_list("pk", "target", "body")[:ROWS_PER_BATCH]]

    def remove(self, batch: OutboxBatch) -> None:
        """Removes what is posted, and notes what has failed."""
        with self._transaction.atomic(using=self._using):
            if batch.posted:
                _entries(self._using).filter(pk__in=batch.posted).delete()
            for number, why in batch.failed.items():
                _entries(self._using).filter(pk=number).update(error=why)
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = None

    def leave(self) -> None:
        """Rolls back what is still open."""
        if self._open is not None:
            self._transaction.set_rollback(True, using=self._using)
            self._open.__exit__(None, None, None)


def _entries(using: str) -> Any:
    from perdure.django.models import OutboxEntry  # needs a Django that is set up

    return OutboxEntry.objects.using(using)
