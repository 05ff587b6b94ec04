"""Examines how a database in Postgres is reached: its server, encryption, durability, connections and notifications. It changes nothing."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from perdure.cli import terminal_text
from perdure.cli.doctor_findings import DoctorFinding
from perdure.core.errors import PerdureError
from perdure.stores.configured_store import is_postgres, open_read_only_store, open_store
from perdure.stores.protocol import Store

if TYPE_CHECKING:
    from perdure.stores.postgres.store import StoreConnections

LOSES_IN_A_CRASH = frozenset(("off",))
LOSES_IN_A_FAILOVER = frozenset(("local",))


def open_to_examine(url: str) -> Store:
    """Opens a store so that what it lacks is not created."""
    return open_read_only_store(url) if is_postgres(url) else open_store(url)  # type: ignore[return-value]  # that of Postgres has all methods


def postgres_findings(url: str) -> Iterator[DoctorFinding]:
    """Examines the server and the connections to it. That it can't be reached is found by what reads the store."""
    try:
        about = asyncio.run(_about(url))
    except PerdureError as error:
        yield DoctorFinding("bad", "server", terminal_text.without_passwords(terminal_text.first_line(str(error))), "see there")
        return
    yield from connection_findings(about)


async def _about(url: str) -> "StoreConnections":
    from perdure.stores.postgres.store import PostgresStore

    store = PostgresStore(url, read_only=True)
    try:
        return await store.about()
    finally:
        await store.close()


def connection_findings(about: "StoreConnections") -> Iterator[DoctorFinding]:
    """Returns what there is to say about the connections of a store."""
    settings, server = about.settings, about.server
    yield DoctorFinding("ok", "server", f"Postgres {server.version}, schema {settings.schema}")
    far = any(host is not None and not host.startswith("/") and host not in ("localhost", "127.0.0.1", "::1") for host, _ in settings.main.servers)
    plain, encryption = far and not server.is_encrypted, "TLS" if server.is_encrypted else "none"
    advice = "add sslmode=verify-full and sslrootcert= to the URL" if plain else ""
    yield DoctorFinding("warn" if plain else "ok", "encryption", encryption, advice)
    chosen = settings.synchronous_commit
    lost = "the server" if chosen in LOSES_IN_A_CRASH else "the primary server" if chosen in LOSES_IN_A_FAILOVER else ""
    advice = f"what is acknowledged may be lost if {lost} fails; perdure_synchronous_commit=on keeps it" if lost else ""
    yield DoctorFinding("warn" if lost else "ok", "durability", f"synchronous_commit = {chosen}", advice)
    most = f"at most {settings.connections}, 1 for notifications, and {settings.step_connections} for transactional steps, of {server.connections_max}"
    yield DoctorFinding("ok", "connections", most + (", through a pooler in transaction mode" if server.is_pooled else ""))
    polls = about.notifications != "listening"
    advice = "wake-ups take up to a second longer; perdure_direct_url= of the URL, or PERDURE_DB_DIRECT, leads past a pooler" if polls else ""
    yield DoctorFinding("warn" if polls else "ok", "notifications", about.notifications, advice)
