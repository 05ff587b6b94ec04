"""The permissions of the files that the store creates: only the owner may read a new database, and other files get the permissions of the database.

Existing files keep their permissions. SQLite gives its own files beside the database (``-wal``, ``-shm``) the permissions of the database.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path

FILE_MODE, DIRECTORY_MODE = 0o600, 0o700
"""The permissions of new databases and of new directories for them."""

PROCESSES = ".processes"
"""The suffix of the directory beside a database that holds the lock files of its processes."""


def make_database_file(path: Path, mode: int = FILE_MODE, *, directories: bool = True) -> None:
    """Have an empty file at `path`, and with `directories` those above it, unless they are there. What keeps a file away, SQLite says when it opens it.

    Raises:
        OSError: a directory can't be made.
    """
    if path.exists():
        return
    if directories:
        make_directories(path.parent, directory_mode(mode))
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = _make(unfinished, os.O_WRONLY, mode)
    except OSError:
        return
    os.close(descriptor)  # Closed before it gets its name: closing any descriptor of a database drops the locks that this process has on it.
    try:
        with suppress(FileExistsError):
            path.hardlink_to(unfinished)
    except OSError:  # this file system has no links
        with suppress(FileExistsError):
            os.close(_make(path, os.O_WRONLY, mode))
    finally:
        unfinished.unlink(missing_ok=True)


def make_directories(path: Path, mode: int = DIRECTORY_MODE) -> None:
    """Creates a directory at `path`, and those above it, unless they exist.

    Raises:
        OSError: a directory can't be created.
    """
    for one in (*reversed(path.parents), path):
        with suppress(FileExistsError):
            if not one.is_dir():
                one.mkdir()
                one.chmod(mode)
    path.mkdir(exist_ok=True)  # raises FileExistsError if it is a file


def open_neighbour(path: Path, flags: int, database: Path) -> int:
    """Opens the file at `path`; a missing one is created with the permissions of the database.

    Raises:
        FileExistsError: it exists, and the `flags` have O_EXCL.
        OSError: it can't be opened or created.
    """
    try:
        return _make(path, flags, neighbour_mode(database))
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        return os.open(path, flags | os.O_CREAT, FILE_MODE)


def neighbour_mode(database: Path) -> int:
    """Returns the permissions of a file that belongs to a database."""
    try:
        return database.stat().st_mode & 0o666
    except OSError:
        return FILE_MODE


def directory_mode(mode: int) -> int:
    """Returns the permissions of a directory whose files have `mode`: those who may read the files may enter it."""
    return mode | (mode & 0o444) >> 2


def database_of_processes(processes: Path) -> Path:
    """Returns the database whose lock files are in this directory."""
    return processes.with_name(processes.name.removesuffix(PROCESSES))


def _make(path: Path, flags: int, mode: int) -> int:
    descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
    os.fchmod(descriptor, mode)  # regardless of the umask of this process
    return descriptor
