"""Examines a database and the processes that work on it; each finding says what to do.

It only reads: a database that does not exist is not created. What can't be examined is a finding, and never an error.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from perdure.async_client import AsyncClient
from perdure.cli import terminal_text
from perdure.cli.doctor_findings import DoctorFinding
from perdure.cli.execution_lookup import unknown_program
from perdure.cli.plain_text import TextCell, TextTable, cell
from perdure.cli.postgres_findings import open_to_examine, postgres_findings
from perdure.core.errors import PerdureError, StoreError
from perdure.service.queries import HolderView, ListedExecution
from perdure.service.verification import UnreadableItem, find_unreadable
from perdure.stores.configured_store import database_file, is_postgres
from perdure.stores.move_mark import MOVE_MARK
from perdure.stores.sqlite.database_setup import check_database

FREE_BYTES_MIN = 500 * 2**20
"""With less free space on its disk than this, a database is in danger."""

WAL_BYTES_MAX = 256 * 2**20
"""A write-ahead log larger than this shows that a process has been reading for very long."""

LEAD_S_MAX = 1.0
"""How far the store's time may differ from this computer's."""

UNREADABLE_SHOWN = 10
"""How many unreadable items are listed."""

LISTED_MAX = 100_000
"""How many executions are counted, newest first."""


def examine(url: str, tenant: str) -> list[DoctorFinding]:
    """Examines everything. A finding marked `bad` means that the database can't be used, or not be trusted."""
    return [*_versions(), *_database(url, tenant)]


def _versions() -> Iterator[DoctorFinding]:
    try:
        own = version("perdure")
    except PackageNotFoundError:
        own = "not installed"
    yield DoctorFinding("ok", "perdure", own)
    yield DoctorFinding("ok", "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield DoctorFinding("ok", "sqlite", sqlite3.sqlite_version)


def _database(url: str, tenant: str) -> Iterator[DoctorFinding]:
    yield DoctorFinding("ok", "database", terminal_text.without_passwords(url))
    file = database_file(url)
    if is_postgres(url):
        yield from postgres_findings(url)
    if file is not None:
        yield from _directory_findings(file)
        if not file.exists():
            yield DoctorFinding("warn", "file", f"{file} does not exist yet", "perdure run and perdure worker create it; --db or PERDURE_DB names another")
            return
        inside = list(_file_findings(file))
        yield from inside
        if any(one.mark == "bad" for one in inside):
            return
    yield from _open_findings(url, tenant)


def _directory_findings(file: Path) -> Iterator[DoctorFinding]:
    """Examines the directory, or the nearest ancestor that exists."""
    directory = next(place for place in file.parents if place.exists())
    if os.access(directory, os.W_OK | os.X_OK):
        yield DoctorFinding("ok", "directory", f"{directory} can be written")
    else:
        yield DoctorFinding(
            "bad", "directory", f"{directory} can't be written", "give this user write permission, or name another file with --db or PERDURE_DB"
        )
    free_bytes = shutil.disk_usage(directory).free
    full = free_bytes < FREE_BYTES_MIN
    yield DoctorFinding("warn" if full else "ok", "disk", f"{terminal_text.size(free_bytes)} free", "free some space" if full else "")


def _file_findings(file: Path) -> Iterator[DoctorFinding]:
    """Examines the file without changing it."""
    try:
        health = check_database(file)
    except StoreError as error:
        yield DoctorFinding("bad", "file", terminal_text.first_line(str(error)))
        return
    whole_size, free_size, wal_size = (terminal_text.size(size_bytes) for size_bytes in (health.size_bytes, health.free_bytes, health.wal_bytes))
    said = f"{whole_size}, of which {free_size} free; write-ahead log {wal_size}"
    long = health.wal_bytes > WAL_BYTES_MAX
    yield DoctorFinding("warn" if long else "ok", "file", said, "end processes that have been reading it for long, such as a database shell" if long else "")
    older = health.version < health.version_known
    known = f"version {health.version}, this Perdure uses {health.version_known}" if older else f"version {health.version}"
    yield DoctorFinding("warn" if older else "ok", "tables", known, "end all processes that use it, then run perdure db upgrade" if older else "")
    wal = health.mode == "wal"
    yield DoctorFinding("ok" if wal else "warn", "journal", health.mode, "" if wal else "opening it sets it to wal; if it can't, put it on a local disk")
    if health.damage:
        yield DoctorFinding("bad", "integrity", "; ".join(health.damage[:3]), "restore the file from a backup")
    else:
        yield DoctorFinding("ok", "integrity", "the file is intact")
    yield DoctorFinding(
        "ok", "processes", f"{terminal_text.count(len(health.processes), 'other process', 'other processes')}: {_pids(health.processes)}".rstrip(": ")
    )


def _pids(processes: Sequence[int]) -> str:
    return ", ".join(map(str, processes))


def _open_findings(url: str, tenant: str) -> Iterator[DoctorFinding]:
    try:
        yield from asyncio.run(_store_findings(url, tenant))
    except (PerdureError, OSError) as error:
        yield DoctorFinding(
            "bad", "store", terminal_text.without_passwords(terminal_text.first_line(str(error))), "perdure can't work until the store opens; see above"
        )


async def _store_findings(url: str, tenant: str) -> list[DoctorFinding]:
    store = open_to_examine(url)
    try:
        before_s, moment, after_s = time.time(), await store.store_time(), time.time()
        async with AsyncClient(store) as client:
            engines = await client.engines()
            listed = await client.list(limit=LISTED_MAX, internal=True, tenant=tenant)
        unreadable = [one async for one in find_unreadable(store)]
        mark = store.part(MOVE_MARK)
        move = None if mark is None else await mark.read()
    finally:
        await store.close()
    lead_s = max(moment.now_s - after_s, before_s - moment.now_s, 0.0)
    serving = [one for one in engines if one.tenants is None or tenant in one.tenants]
    return [
        _clock_finding(lead_s),
        *([] if move is None else [DoctorFinding("bad", "moving", move.refusal)]),
        *_engine_findings(engines),
        *_tenant_findings(engines, serving, tenant),
        *_execution_findings(listed, serving),
        *_unreadable_findings(unreadable),
    ]


def _clock_finding(lead_s: float) -> DoctorFinding:
    if lead_s <= LEAD_S_MAX:
        return DoctorFinding("ok", "clock", f"the store's time agrees with this computer's, to {terminal_text.duration(lead_s)}")
    return DoctorFinding(
        "warn",
        "clock",
        f"the store's time is {terminal_text.duration(lead_s)} from this computer's",
        "correct the clock that is wrong: timers use the store's",
    )


def _engine_findings(engines: Sequence[HolderView]) -> Iterator[DoctorFinding]:
    alive = [one for one in engines if one.alive]
    if not alive:
        yield DoctorFinding("warn", "engines", "no process works on this database", "perdure worker FILE.py starts an engine")
    for one in engines:
        holds = f"holds {terminal_text.count(one.executions, 'execution')}, {terminal_text.count(one.tasks, 'call')}"
        where = f"{one.name} on {one.host} ({one.pid})" if one.pid else one.name
        if one.alive:
            yield DoctorFinding("ok", one.kind, f"{where}: {holds}")
        else:
            yield DoctorFinding("warn", one.kind, f"{where} is gone: {holds}", "another engine takes over what it held")


def _tenant_findings(engines: Sequence[HolderView], serving: Sequence[HolderView], tenant: str) -> Iterator[DoctorFinding]:
    if any(one.alive and one.programs for one in engines) and not any(one.alive and one.programs for one in serving):
        yield DoctorFinding("warn", "tenant", f"no engine serves tenant {tenant}", f"perdure worker FILE.py --only-tenant {tenant} starts one that does")


def _unreadable_findings(found: Sequence[UnreadableItem]) -> Iterator[DoctorFinding]:
    for one in found[:UNREADABLE_SHOWN]:
        what = f"message {one.message} of {one.key}" if one.message else f"the log of {one.key}"
        advice = "perdure verify examines everything; restore a backup, or run a version of Perdure that can read it"
        yield DoctorFinding("bad", "unreadable", f"{what} can't be read and is in quarantine: {terminal_text.first_line(one.why)}", advice)
    if (more := len(found) - UNREADABLE_SHOWN) > 0:
        yield DoctorFinding("bad", "unreadable", f"{more:,} more can't be read", "perdure verify lists them")


def _execution_findings(listed: Sequence[ListedExecution], engines: Sequence[HolderView]) -> Iterator[DoctorFinding]:
    by_status = Counter(one.status for one in listed)
    counts = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in sorted(by_status.items())) or "none"
    newest = f" (of the newest {LISTED_MAX:,})" if len(listed) >= LISTED_MAX else ""
    yield DoctorFinding("ok", "executions", counts + newest)
    if by_status["needs_attention"]:
        found = terminal_text.count(by_status["needs_attention"], "execution")
        yield DoctorFinding("warn", "attention", f"{found} can't continue without a person", "perdure ls --status needs_attention, then perdure show ID")
    programs = {program for one in engines if one.alive for program in one.programs}
    for program, count in sorted(Counter(unknown_program(one, programs) for one in listed).items(), key=str):
        if program is not None:
            found = f"no running engine knows {program}, and {terminal_text.count(count, 'execution')} of it {'waits' if count == 1 else 'wait'}"
            yield DoctorFinding("warn", "programs", found, "start an engine with its code: perdure worker FILE.py")


MARK_STYLES = {"ok": "good", "warn": "warn", "bad": "bad"}


def doctor_table(found: Sequence[DoctorFinding]) -> TextTable:
    """A row for each finding; the last column says what to do."""
    return TextTable(("", "SUBJECT", "FOUND", "WHAT TO DO"), tuple(_finding_row(one) for one in found))


def _finding_row(one: DoctorFinding) -> tuple[TextCell, ...]:
    return (TextCell(one.mark, MARK_STYLES[one.mark]), cell(one.what, "strong"), cell(one.found), cell(one.advice))
