"""The members of a file: its holders, and the processes that they belong to, as the tables hold them. Everything here runs inside of one transaction.

A holder is alive while its lease has not run out and its process is alive. Leases use the monotonic clock, which all processes since one boot share and
which cannot be set. After a reboot no process is alive, whatever the leases say.
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
from perdure.stores.sqlite.statements import SQL


class OwnProcess:
    """This store as one of the processes that use the file. It appears to the others when it first holds something or has a listener.

    `name` is then the name of its process, and `row` what the table of processes says about it.
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
        """Makes this process known to the others, by a lock and a listener; once more if the file of its lock was removed.

        Raises:
            StoreError, OSError: the lock can't be taken.
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
        """Stops listening and releases the lock."""
        if self._listener is not None:
            stop_listening(self._listener)
        if self._life is not None:
            self._life.end()
        self._listener = self._life = self.name = self.row = None

    def abandon(self) -> None:
        """Clears the state in a forked child, which has neither the lock nor the listener."""
        self._listener = self._life = self.name = self.row = None

    def lives(self, process: str | None) -> bool:
        """Whether the process of this name is alive."""
        return process is not None and (process == self.name or is_process_alive(self.directory / process))


class ProcessRow(NamedTuple):
    """A row of the table of processes: where the process listens, and for what."""

    listener: ListenerAddress | None
    wakes: bool
    news: bool


class HolderTable:
    """The tables of holders and processes, with a cache of both. `holders` maps each holder to its process."""

    def __init__(self, execute: Execute, presence: OwnProcess) -> None:
        self._execute = execute
        self._presence = presence
        self.holders: dict[str, str | None] = {}
        self.processes: dict[str, ProcessRow] = {}
        self.changed = False
        self.announced: tuple[Any, ...] | None = None
        self._rows: dict[str, tuple[Any, ...]] = {}

    def reload(self) -> None:
        """Reads both tables again, since they have changed."""
        self.changed = True
        self.announced = None
        self.holders = {name: process for name, process, _ in self._execute(SQL.holders)}
        self._rows = {row[0]: row for row in self._execute(SQL.processes)}
        self.processes = {
            name: ProcessRow(None if port is None else ListenerAddress(port, token), bool(wakes), bool(news))
            for name, port, token, wakes, news in self._rows.values()
        }

    def announce(self) -> bool:
        """Writes the row of this process if it has changed; returns whether it has."""
        row = self.announced = self._presence.row
        if row is None or self._rows.get(row[0]) == row:
            return False
        if row[0] not in self._rows:
            self.clean_up()
        self._execute(SQL.put_process, (row[0], pid_of(row[0]), socket.gethostname(), *row[1:]))
        return True

    def renew(self, holder: str, until_s: float, about: bytes) -> bool:
        """Extends the lease of `holder`; returns whether the holder is new or has moved to this process."""
        process = self._presence.name
        self._execute(SQL.renew_lease, (holder, process, until_s, about or None))
        known, self.holders[holder] = self.holders.get(holder), process
        return known != process

    def starts_anew(self, holder: str) -> bool:
        """Whether a renewal starts the holder anew: it has released everything, or its process has died."""
        row = self._execute(SQL.holder_lease, (holder,)).fetchone()
        return row is None or row[1] is None or not self._presence.lives(row[0])

    def name(self, holder: str) -> bool:
        """Records `holder`, which may hold something from now on, dead or alive; returns whether it is new."""
        if holder in self.holders:
            return False
        self._execute(SQL.add_holder, (holder,))
        self.holders[holder] = None
        return True

    def let_go(self, holder: str) -> None:
        """Ends the lease of `holder`."""
        self._execute(SQL.end_lease, (holder,))
        self.forget([holder])

    def let_all_go(self) -> None:
        """Ends all leases."""
        self._execute(SQL.end_all_leases)

    def leave(self) -> bool:
        """Ends the leases of this process, and removes it and the dead processes; returns whether its holders still held something."""
        mine = [name for name, process in self.holders.items() if process is not None and process == self._presence.name]
        for holder in mine:
            self._execute(SQL.end_lease, (holder,))
        self._execute(SQL.remove_process, (self._presence.name,))
        self.clean_up()
        return len(self.forget(mine)) < len(mine)

    def forget(self, dead: list[str]) -> list[str]:
        """Removes the holders among `dead` that hold nothing; returns them."""
        gone = holders_without_claims(self._execute, dead)
        for name in gone:
            self._execute(SQL.remove_holder, (name,))
            self.holders.pop(name, None)
        return gone

    def clean_up(self) -> None:
        """Removes the dead processes that no holder belongs to, with their files."""
        needed = set(self.holders.values())
        dead = [name for name in self._rows if name not in needed and not self._presence.lives(name)]
        for name in dead:
            self._execute(SQL.remove_process, (name,))
        remove_dead_files(self._presence.directory, [*dead, *unknown_dead_files(self._presence.directory, {*self._rows, self._presence.name or ""})])


class HolderLiveness(NamedTuple):
    """Which holders are alive, which are dead, and which of the dead can't renew again (`gone`)."""

    living: frozenset[str]
    dead: list[str]
    gone: list[str]


def holder_liveness(execute: Execute, presence: OwnProcess, now_s: float) -> HolderLiveness:
    """Returns which holders are alive, on any connection. `now_s` is a time of the clock of leases."""
    living, dead, gone = set(), [], []
    process_lives: dict[str | None, bool] = {}
    for name, process, until_s in execute(SQL.holders):
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
    """Returns the holders among `gone` that hold nothing."""
    return [name for name in gone if not execute(SQL.holds_anything, (name,)).fetchone()[0]]


def execution_leases(execute: Execute, presence: OwnProcess, now_s: float) -> list[HolderStatus]:
    """See `Store.leases`."""
    known = [
        HolderStatus(name, until_s > now_s and presence.lives(process), executions, work, about)
        for name, process, until_s, about, executions, work in execute(SQL.leases)
    ]
    return [lease for lease in known if lease.alive or lease.executions or lease.work]
