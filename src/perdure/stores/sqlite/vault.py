"""The vault in a file: what becomes of its rows inside of a transaction, and that nothing is left in the file of those that are gone.

SQLite overwrites what is deleted where it is told to; what was written ahead is still in the write-ahead log then, until that is emptied.
"""

import time
from contextlib import closing

from perdure.stores.sqlite.file import DatabaseFile, Execute
from perdure.stores.vault import Sealed

WIPE_MAX_S = 5.0

READ = "SELECT tenant, name, version, sealed, set_at_s FROM vault WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR name = ?2) ORDER BY tenant, name"
FIRST = "INSERT INTO vault (tenant, name, version, sealed, set_at_s) VALUES (?, ?, 1, ?, ?) ON CONFLICT (tenant, name) DO NOTHING"
NEXT = "UPDATE vault SET version = ?, sealed = ?, set_at_s = ? WHERE tenant = ? AND name = ? AND version = ?"
DROP = "DELETE FROM vault WHERE tenant = ? AND name = ?"


def read(execute: Execute, tenant: str | None, name: str | None) -> list[Sealed]:
    """See `Vault.secrets`."""
    return [Sealed(*row) for row in execute(READ, (tenant, name))]


def keep(execute: Execute, row: Sealed) -> bool:
    """See `Vault.keep_secret`."""
    if row.version == 1:
        return bool(execute(FIRST, (row.tenant, row.name, row.sealed, row.set_at_s)).rowcount)
    execute("PRAGMA secure_delete = ON")
    done = execute(NEXT, (row.version, row.sealed, row.set_at_s, row.tenant, row.name, row.version - 1)).rowcount
    execute("PRAGMA secure_delete = OFF")
    return bool(done)


def drop(execute: Execute, tenant: str, name: str) -> bool:
    """See `Vault.drop_secret`."""
    execute("PRAGMA secure_delete = ON")
    done = execute(DROP, (tenant, name)).rowcount
    execute("PRAGMA secure_delete = OFF")
    return bool(done)


def wipe(file: DatabaseFile) -> bool:
    """Empty the write-ahead log, in attempts so short that nobody has to wait to write; False if somebody reads from it all the time."""
    with file.said_clearly(), closing(file.connect()) as connection:
        connection.execute("PRAGMA busy_timeout = 20")
        ends_s = time.monotonic() + WIPE_MAX_S
        while True:
            blocked, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not blocked or time.monotonic() > ends_s:
                return not blocked
            time.sleep(0.05)
