"""The limit: what the same disk does in the same minute with nothing around it. One after the other, each durable before the next."""

import os
import sqlite3
import time
from pathlib import Path
from statistics import median

ROW_BYTES = 140
DISK_CALM, BUSY_CALM, LOOK_S = 1.5, 0.15, 0.3
GROWTH = 1200
"""How many commits it takes until the write-ahead log has its full size, and is written over again."""


class Disk:
    """A SQLite file in WAL mode with `synchronous=FULL`, as a store has it, and a file that is only appended to. Made warm: see `Bench.sides`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._database = sqlite3.connect(directory / "limit.db", isolation_level=None)
        (self.journal_mode,) = self._database.execute("PRAGMA journal_mode = WAL").fetchone()
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("PRAGMA fullfsync = 1")
        (self.synchronous,) = self._database.execute("PRAGMA synchronous").fetchone()
        self._database.execute("CREATE TABLE log (number INTEGER PRIMARY KEY, row BLOB NOT NULL)")
        _ = self.commits_s(GROWTH, ROW_BYTES)
        self._file = os.open(directory / "limit.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def commits_s(self, count: int, row_bytes: int) -> list[float]:
        """How long each of `count` commits of one row takes."""
        row, taken = os.urandom(row_bytes), []
        for _ in range(count):
            begun = time.perf_counter()
            self._database.execute("BEGIN IMMEDIATE")
            self._database.execute("INSERT INTO log (row) VALUES (?)", (row,))
            self._database.execute("COMMIT")
            taken.append(time.perf_counter() - begun)
        return taken

    def appends_s(self, count: int, row_bytes: int) -> list[float]:
        """How long each of `count` appended rows takes to reach the disk."""
        row = os.urandom(row_bytes)
        return [_append_s(self._file, row) for _ in range(count)]

    def close(self) -> None:
        """Let go of the files."""
        self._database.close()
        os.close(self._file)


def described(directory: Path) -> str:
    """The filesystem of a directory and the device under it, where the system says it."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return "unknown filesystem"
    found = [line.split()[:3] for line in mounts.read_text().splitlines()]
    inside = [(len(point), kind, device) for device, point, kind in found if directory.resolve().is_relative_to(point)]
    _, kind, device = max(inside)
    return f"{kind} on {device}"


class Calm:
    """Knows when nothing else uses the machine: the processors idle, and the disk as fast as it was at its best."""

    def __init__(self, directory: Path, patience_s: float) -> None:
        self._file = os.open(directory / "calm", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._patience_s = patience_s
        self._best_s = float("inf")

    def wait(self) -> None:
        """Wait until it is so, as long as there is patience."""
        until_s = time.monotonic() + self._patience_s
        while time.monotonic() < until_s and not self._is_calm():
            time.sleep(0.5)

    def _is_calm(self) -> bool:
        taken_s = median(_append_s(self._file, bytes(ROW_BYTES)) for _ in range(50))
        self._best_s = min(self._best_s, taken_s)
        return taken_s <= self._best_s * DISK_CALM and _busy_share() <= BUSY_CALM


def _append_s(file: int, row: bytes) -> float:
    begun = time.perf_counter()
    os.write(file, row)
    getattr(os, "fdatasync", os.fsync)(file)
    return time.perf_counter() - begun


def _busy_share() -> float:
    """How much of the processors is used during some moments, by all; 0 where the system doesn't say."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    counts = []
    for pause_s in (LOOK_S, 0.0):
        user, nice, system, idle, waiting, *rest = (int(part) for part in stat.read_text().partition("\n")[0].split()[1:])
        counts.append((user + nice + system + sum(rest), user + nice + system + idle + waiting + sum(rest)))
        time.sleep(pause_s)
    (busy, total), (busy_then, total_then) = counts
    return (busy_then - busy) / max(total_then - total, 1)
