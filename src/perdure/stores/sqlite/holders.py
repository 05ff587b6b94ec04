"""Members: who holds, and which processes they live in, as the tables have it. All of it inside of one transaction.

A holder lives while its lease has not run out and its process has not died. Leases are told by a clock that all processes of one
boot share and that nobody sets; after a boot no process lives, whatever the leases say.
"""

import socket
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from perdure.stores.protocol import HolderStatus
from perdure.stores.sqlite.database_file import Execute
from perdure.stores.sqlite.notifications import ListenerAddress, start_listening, stop_listening
from perdure.stores.sqlite.process_liveness import ProcessLock, is_process_alive, pid_of, remove_dead_files, unknown_dead_files
from perdure.stores.sqlite.store_rows import HELD_BY

PROCESSES = "SELECT name, port, token, wakes, news FROM processes"
HOLDERS = "SELECT name, process, until_s FROM holders"
INSERT_PROCESS = "INSERT OR REPLACE INTO processes (name, pid, host, port, token, wakes, news) VALUES (?, ?, ?, ?, ?, ?, ?)"
DELETE_PROCESS = "DELETE FROM processes WHERE name = ?"
RENEW = """INSERT INTO holders (name, process, until_s, about) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE
    SET process = excluded.process, until_s = excluded.until_s, about = coalesce(excluded.about, about)"""
INSERT_HOLDER = "INSERT INTO holders (name) VALUES (?) ON CONFLICT (name) DO NOTHING"
LET_GO = "UPDATE holders SET process = NULL, until_s = NULL, about = NULL WHERE name = ?"
LET_ALL_GO = "UPDATE holders SET process = NULL, until_s = NULL, about = NULL"
DELETE_HOLDER = "DELETE FROM holders WHERE name = ?"
HOLDS_ANYTHING = f"""SELECT EXISTS (SELECT 1 FROM heads WHERE {HELD_BY.format(who="?1")})
    OR EXISTS (SELECT 1 FROM mail WHERE holder = ?1 AND queue IS NOT NULL)"""
LEASES = f"""SELECT name, process, until_s, coalesce(about, x''), (SELECT count(*) FROM heads WHERE {HELD_BY.format(who="name")}),
    (SELECT count(*) FROM mail WHERE holder = name AND queue IS NOT NULL) FROM holders WHERE until_s IS NOT NULL ORDER BY name"""
MEMBERSHIP_CHANGED = "UPDATE meta SET membership = membership + 1"


class OwnProcess:
    """This store among the processes that use the file. It appears to them when it first holds, or wants to be rung.

    `name` is then that of its process, and `row` what the others are to know of it.
    """

    def __init__(self, directory: Path, callback: Callable[[int], None]) -> None:
        self.directory = directory
        self.wakes = self.news = False
        self.name: str | None = None
        self.row: tuple[Any, ...] | None = None
        self._callback = callback
        self._appearing = Lock()
        self._life: ProcessLock | None = None
        self._listener: ListenerAddress | None = None

    def appear(self) -> None:
        """Begin to live, or go on if that was ended by who removed the file.

        Raises:
            StoreError, OSError: it can't.
        """
        with self._appearing:
            if self._life is not None and not self._life.goes_on():
                self._life.end()
                self._life = None
            if self._life is None:
                self._life = ProcessLock(self.directory)
            if self._listener is None and (self.wakes or self.news):
                self._listener = start_listening(self._callback)
            port, token = self._listener or (None, None)
            row = self._life.name, port, token, int(self.wakes), int(self.news)
            if row != self.row:
                self.name, self.row = self._life.name, row

    def end(self) -> None:
        """Let go."""
        if self._listener is not None:
            stop_listening(self._listener)
        if self._life is not None:
            self._life.end()
        self._listener = self._life = self.name = self.row = None

    def abandon(self) -> None:
        """In a forked child: nothing of it is there."""
        self._listener = self._life = self.name = self.row = None

    def lives(self, process: str | None) -> bool:
        """Whether the process of this name lives."""
        return process is not None and (process == self.name or is_process_alive(self.directory / process))


class ProcessRow(NamedTuple):
    """What is known of a process that uses the file."""

    listener: ListenerAddress | None
    wakes: bool
    news: bool


class HolderTable:
    """Holders and processes, as the tables have them. `holders` says in which process each lives."""

    def __init__(self, execute: Execute, presence: OwnProcess) -> None:
        self._execute = execute
        self._presence = presence
        self.holders: dict[str, str | None] = {}
        self.processes: dict[str, ProcessRow] = {}
        self.changed = False
        self.announced: tuple[Any, ...] | None = None
        self._rows: dict[str, tuple[Any, ...]] = {}

    def reload(self) -> None:
        """Read them, since they have changed."""
        self.changed = True
        self.announced = None
        self.holders = {name: process for name, process, _ in self._execute(HOLDERS)}
        self._rows = {row[0]: row for row in self._execute(PROCESSES)}
        self.processes = {
            name: ProcessRow(None if port is None else ListenerAddress(port, token), bool(wakes), bool(news))
            for name, port, token, wakes, news in self._rows.values()
        }

    def announce(self) -> bool:
        """Have the others know what has changed of this process; False if nothing has."""
        row = self.announced = self._presence.row
        if row is None or self._rows.get(row[0]) == row:
            return False
        if row[0] not in self._rows:
            self.clean_up()
        self._execute(INSERT_PROCESS, (row[0], pid_of(row[0]), socket.gethostname(), *row[1:]))
        return True

    def renew(self, holder: str, until_s: float, about: bytes) -> bool:
        """Let `holder` live until then; return whether it is new to those who know the holders."""
        process = self._presence.name
        self._execute(RENEW, (holder, process, until_s, about or None))
        known, self.holders[holder] = self.holders.get(holder), process
        return known != process

    def starts_anew(self, holder: str) -> bool:
        """Whether a renewal begins a new life: `holder` has let go of what it held, or the process has died in which it did."""
        row = self._execute("SELECT process, until_s FROM holders WHERE name = ?", (holder,)).fetchone()
        return row is None or row[1] is None or not self._presence.lives(row[0])

    def name(self, holder: str) -> bool:
        """Know `holder`, who may hold something from now on, dead or alive; return whether it is new."""
        if holder in self.holders:
            return False
        self._execute(INSERT_HOLDER, (holder,))
        self.holders[holder] = None
        return True

    def let_go(self, holder: str) -> None:
        """End the life of `holder`."""
        self._execute(LET_GO, (holder,))
        self.forget([holder])

    def let_all_go(self) -> None:
        """End all lives."""
        self._execute(LET_ALL_GO)

    def leave(self) -> bool:
        """End what lives in this process, let the others forget it, and forget the dead; return whether something was held."""
        mine = [name for name, process in self.holders.items() if process is not None and process == self._presence.name]
        for holder in mine:
            self._execute(LET_GO, (holder,))
        self._execute(DELETE_PROCESS, (self._presence.name,))
        self.clean_up()
        return len(self.forget(mine)) < len(mine)

    def forget(self, dead: list[str]) -> list[str]:
        """Forget those of the dead that hold nothing, unless they may come back; return whom."""
        gone = holders_without_claims(self._execute, dead)
        for name in gone:
            self._execute(DELETE_HOLDER, (name,))
            self.holders.pop(name, None)
        return gone

    def clean_up(self) -> None:
        """Forget the processes that have died and that nobody holds anything in; what they left is removed."""
        needed = set(self.holders.values())
        dead = [name for name in self._rows if name not in needed and not self._presence.lives(name)]
        for name in dead:
            self._execute(DELETE_PROCESS, (name,))
        remove_dead_files(self._presence.directory, [*dead, *unknown_dead_files(self._presence.directory, {*self._rows, self._presence.name or ""})])


class HolderLiveness(NamedTuple):
    """Which holders live, which don't, and which of the latter can't come back as who they were."""

    living: frozenset[str]
    dead: list[str]
    gone: list[str]


def holder_liveness(execute: Execute, presence: OwnProcess, now_s: float) -> HolderLiveness:
    """How the holders stand, on any connection; `now_s` is told by the clock of the leases."""
    living, dead, gone = set(), [], []
    process_lives: dict[str | None, bool] = {}
    for name, process, until_s in execute(HOLDERS + " ORDER BY name"):
        if process not in process_lives:
            process_lives[process] = presence.lives(process)
        if process_lives[process] and until_s is not None and until_s > now_s:
            living.add(name)
        else:
            dead.append(name)
            if until_s is None or not process_lives[process]:
                gone.append(name)
    return HolderLiveness(frozenset(living), dead, gone)


def holders_without_claims(execute: Execute, gone: list[str]) -> list[str]:
    """Those that hold nothing."""
    return [name for name in gone if not execute(HOLDS_ANYTHING, (name,)).fetchone()[0]]


def execution_leases(execute: Execute, presence: OwnProcess, now_s: float) -> list[HolderStatus]:
    """See `Store.leases`."""
    known = [
        HolderStatus(name, until_s > now_s and presence.lives(process), executions, work, about)
        for name, process, until_s, about, executions, work in execute(LEASES)
    ]
    return [lease for lease in known if lease.alive or lease.executions or lease.work]
