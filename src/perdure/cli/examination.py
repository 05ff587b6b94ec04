"""The doctor's examination: what is to be known about a database and who works on it, each finding with what to do.

It only looks: a database that is not there yet is not made. What can't be looked at is a finding too, and never an error.
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
from typing import Literal

import msgspec

from perdure.async_client import AsyncClient
from perdure.cli import words
from perdure.cli.asking import unknown
from perdure.core.errors import PerdureError, StoreError
from perdure.runtime.host import file_of, open_store
from perdure.service.queries import EngineView, Listed
from perdure.service.unreadable import Unreadable, unreadable
from perdure.stores.sqlite.opening import check

FREE_BYTES_MIN = 500 * 2**20
"""With less room than this on its disk, a database is in danger."""

WAL_BYTES_MAX = 256 * 2**20
"""A write-ahead log of this size says that somebody has been reading for very long."""

LEAD_S_MAX = 1.0
"""How far the store's time may be ahead of this computer's."""

UNREADABLE_SHOWN = 10
"""How many of the things that can't be read are named."""

LISTED_MAX = 100_000
"""How many executions are counted, the newest."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at: whether it is well, what was found, and what to do about it."""

    mark: Literal["ok", "warn", "bad"]
    what: str
    found: str
    advice: str = ""


def examine(url: str, tenant: str) -> list[Finding]:
    """Look at everything. A finding marked `bad` says that the database can't be used, or not be trusted."""
    return [*_versions(), *_database(url, tenant)]


def _versions() -> Iterator[Finding]:
    try:
        own = version("perdure")
    except PackageNotFoundError:
        own = "not installed"
    yield Finding("ok", "perdure", own)
    yield Finding("ok", "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield Finding("ok", "sqlite", sqlite3.sqlite_version)


def _database(url: str, tenant: str) -> Iterator[Finding]:
    yield Finding("ok", "database", words.without_passwords(url))
    file = file_of(url)
    if file is not None:
        yield from _place(file)
        if not file.exists():
            yield Finding("warn", "file", f"there is no {file} yet", "perdure run and perdure worker make it; --db or PERDURE_DB names another")
            return
        inside = list(_inside(file))
        yield from inside
        if any(one.mark == "bad" for one in inside):
            return
    yield from _opened(url, tenant)


def _place(file: Path) -> Iterator[Finding]:
    """The directory, or the nearest one above it that there is."""
    directory = next(place for place in file.parents if place.exists())
    if os.access(directory, os.W_OK | os.X_OK):
        yield Finding("ok", "directory", f"{directory} can be written")
    else:
        yield Finding("bad", "directory", f"{directory} can't be written", "let this user write there, or name another place with --db or PERDURE_DB")
    free_bytes = shutil.disk_usage(directory).free
    full = free_bytes < FREE_BYTES_MIN
    yield Finding("warn" if full else "ok", "disk", f"{words.size(free_bytes)} free", "free some space" if full else "")


def _inside(file: Path) -> Iterator[Finding]:
    """What stands in the file, read without changing it."""
    try:
        health = check(file)
    except StoreError as error:
        yield Finding("bad", "file", words.first_line(str(error)))
        return
    said = f"{words.size(health.size_bytes)}, of which {words.size(health.free_bytes)} free; write-ahead log {words.size(health.wal_bytes)}"
    long = health.wal_bytes > WAL_BYTES_MAX
    yield Finding("warn" if long else "ok", "file", said, "end what has been reading it for long, such as a database shell" if long else "")
    older = health.version < health.version_known
    known = f"version {health.version}, this Perdure has {health.version_known}" if older else f"version {health.version}"
    yield Finding("warn" if older else "ok", "tables", known, "end all that use it, then: perdure db upgrade" if older else "")
    wal = health.mode == "wal"
    yield Finding("ok" if wal else "warn", "journal", health.mode, "" if wal else "opening it sets it to wal; if it can't, put it on a local disk")
    if health.damage:
        yield Finding("bad", "integrity", "; ".join(health.damage[:3]), "restore the file from a backup")
    else:
        yield Finding("ok", "integrity", "the file is whole")
    yield Finding("ok", "processes", f"{words.count(len(health.processes), 'other process', 'other processes')}: {_pids(health.processes)}".rstrip(": "))


def _pids(processes: Sequence[int]) -> str:
    return ", ".join(map(str, processes))


def _opened(url: str, tenant: str) -> Iterator[Finding]:
    try:
        yield from asyncio.run(_asked(url, tenant))
    except (PerdureError, OSError) as error:
        yield Finding("bad", "store", words.without_passwords(words.first_line(str(error))), "perdure needs to open it; see above")


async def _asked(url: str, tenant: str) -> list[Finding]:
    store = open_store(url)
    try:
        before_s, moment, after_s = time.time(), await store.moment(), time.time()
        async with AsyncClient(store) as client:
            engines = await client.engines()
            listed = await client.list(limit=LISTED_MAX, internal=True, tenant=tenant)
        aside = [one async for one in unreadable(store)]
    finally:
        await store.close()
    lead_s = max(moment.now_s - after_s, before_s - moment.now_s, 0.0)
    return [_clock(lead_s), *_living(engines), *_executions(listed, engines), *_set_aside(aside)]


def _clock(lead_s: float) -> Finding:
    if lead_s <= LEAD_S_MAX:
        return Finding("ok", "clock", f"the store's time is this computer's, to {words.duration(lead_s)}")
    return Finding(
        "warn",
        "clock",
        f"the store's time is {words.duration(lead_s)} from this computer's",
        "set the clock of the one that is wrong: timers go by the store's",
    )


def _living(engines: Sequence[EngineView]) -> Iterator[Finding]:
    alive = [one for one in engines if one.alive]
    if not alive:
        yield Finding("warn", "engines", "nobody works on this database", "perdure worker FILE.py starts an engine")
    for one in engines:
        holds = f"holds {words.count(one.executions, 'execution')}, {words.count(one.work, 'call')}"
        where = f"{one.name} on {one.host} ({one.pid})" if one.pid else one.name
        if one.alive:
            yield Finding("ok", one.kind, f"{where}: {holds}")
        else:
            yield Finding("warn", one.kind, f"{where} is gone: {holds}", "another engine takes over what it held")


def _set_aside(found: Sequence[Unreadable]) -> Iterator[Finding]:
    for one in found[:UNREADABLE_SHOWN]:
        what = f"message {one.message} of {one.key}" if one.message else f"the log of {one.key}"
        advice = "perdure verify looks at everything; restore a backup, or run a Perdure that can read it"
        yield Finding("bad", "unreadable", f"{what} can't be read and is set aside: {words.first_line(one.why)}", advice)
    if (more := len(found) - UNREADABLE_SHOWN) > 0:
        yield Finding("bad", "unreadable", f"{more:,} more can't be read", "perdure verify lists them")


def _executions(listed: Sequence[Listed], engines: Sequence[EngineView]) -> Iterator[Finding]:
    by_status = Counter(one.status for one in listed)
    counts = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in sorted(by_status.items())) or "none"
    newest = f" (of the newest {LISTED_MAX:,})" if len(listed) >= LISTED_MAX else ""
    yield Finding("ok", "executions", counts + newest)
    if by_status["needs_attention"]:
        found = words.count(by_status["needs_attention"], "execution")
        yield Finding("warn", "attention", f"{found} can't go on alone", "perdure ls --status needs_attention, then perdure show ID")
    programs = {program for one in engines if one.alive for program in one.programs}
    for program, count in sorted(Counter(unknown(one, programs) for one in listed).items(), key=str):
        if program is not None:
            found = f"no engine here knows {program}, and {words.count(count, 'execution')} of it {'waits' if count == 1 else 'wait'}"
            yield Finding("warn", "programs", found, "start an engine with its code: perdure worker FILE.py")
