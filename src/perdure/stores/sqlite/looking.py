"""Looking at a file without changing it: SQLite itself refuses to write on these connections, and no process appears to the others."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from perdure.core.mail import Mail
from perdure.core.paths import Address, Key
from perdure.stores.base import ALL, Filter, Head, Lease, Log, Moment
from perdure.stores.sqlite.file import TROUBLE, Execute
from perdure.stores.sqlite.members import Presence, leases
from perdure.stores.sqlite.opening import file_to_look_at
from perdure.stores.sqlite.readers import Readers
from perdure.stores.sqlite.reading import read_blob, read_heads, read_log, read_mail, read_removed_at
from perdure.stores.sqlite.tables import META
from perdure.stores.sqlite.time import Anchor, SteadyClock

T = TypeVar("T")


class SqliteLook:
    """The file at `path`, looked at while others may work on it. It is not made, not upgraded, and not recovered.

    Raises:
        StoreUnavailable: the file can't be read now.
        StoreError: there is none, or it is none that can be looked at.
    """

    def __init__(self, path: str | Path) -> None:
        self._file = file_to_look_at(Path(path).absolute())
        self._readers = Readers(self._file)
        self._nobody = Presence(self._file.processes, lambda _: None)
        self._clock = SteadyClock()

    async def read(self, key: Key, after: int = 0) -> Log | None:
        """See `Store.read`."""
        return self._read(lambda execute: read_log(execute, key, after))

    async def heads(self, which: Filter = ALL) -> list[Head]:
        """See `Store.heads`."""
        return self._read(lambda execute: read_heads(execute, which))

    async def mail(self, to: Address) -> list[Mail]:
        """See `Store.mail`."""
        return self._read(lambda execute: read_mail(execute, to))

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        return self._read(lambda execute: read_blob(execute, sha256))

    async def removed_at(self, sha256: str) -> float | None:
        """See `Store.removed_at`."""
        return self._read(lambda execute: read_removed_at(execute, sha256))

    async def blob_names(self) -> list[str]:
        """The names of all blobs."""
        return self._read(lambda execute: [name for (name,) in execute("SELECT sha256 FROM blobs")])

    async def leases(self) -> list[Lease]:
        """See `Store.leases`."""
        return self._read(lambda execute: leases(execute, self._nobody, time.monotonic()))

    async def moment(self) -> Moment:
        """See `Store.moment`."""

        def look(execute: Execute) -> Moment:
            epoch, _, _, *anchor = execute(META).fetchone()
            self._clock.follow(Anchor(*anchor))
            return Moment(self._clock(), epoch)

        return self._read(look)

    async def close(self) -> None:
        """Let go of the connections."""
        self._readers.close()

    def _read(self, read: Callable[[Execute], T]) -> T:
        try:
            return self._readers.read(read)
        except TROUBLE as error:
            raise self._file.trouble(error) from error
