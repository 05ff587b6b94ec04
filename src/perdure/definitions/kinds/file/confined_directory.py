"""Access to the files below one directory, and to nothing outside of it.

Each part of a path is opened below the one before, and no symbolic link is followed. Therefore neither ``..`` nor a link, not even one that is created
meanwhile, leads outside. A write goes to a new file that is made durable and then replaces the old one, so a reader sees one or the other.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from perdure.core.errors import Fatal
from perdure.definitions.expr.plain_values import shortened

PATH_CHARACTERS_MAX = 4096
ENTRIES_MAX = 10_000
"""A directory with more entries is not listed."""

ATTEMPTS_LEFT = 10
"""How many earlier attempts of a step are checked for incomplete files, which are left if an attempt is killed while it writes."""

BLOCK_BYTES = 1024 * 1024
CLOEXEC, NOFOLLOW, NONBLOCK = getattr(os, "O_CLOEXEC", 0), getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)
DIRECTORY = getattr(os, "O_DIRECTORY", 0) | NOFOLLOW | CLOEXEC


class FileRefused(Fatal):
    """The operation of a step is impossible because of its path, its size, or an existing entry; a retry is useless."""

    code = "file_refused"


class FileMissing(Exception):
    """There is no file or directory of that name yet. The step is retried."""

    code = "file_missing"


class FileAttempt(NamedTuple):
    """An attempt of a step: its idempotency key, which names its new files, and its number."""

    key: str
    number: int

    def temporary(self, number: int) -> str:
        """The name of an attempt's new file until it is complete."""
        return f".perdure-{sha256(self.key.encode('utf-8', 'replace')).hexdigest()[:24]}-{number}"


def path_parts(path: Any) -> tuple[str, ...]:
    """The parts of a path below the directory; none of the directory itself.

    Raises:
        FileRefused: it leads elsewhere, or is no path.
    """
    if not isinstance(path, str) or not path or "\0" in path or len(path) > PATH_CHARACTERS_MAX:
        raise FileRefused(f"{shortened(repr(path))} is not a path; a path is text such as reports/today.csv")
    found = tuple(part for part in path.split("/") if part not in ("", "."))
    if path.startswith("/") or ".." in found:
        raise FileRefused(f"{shortened(path)} leads out of the directory that is allowed; name a path below it, without ..")
    try:
        _ = path.encode()
    except UnicodeError:
        raise FileRefused(f"{shortened(ascii(path))} is not a path: it can't be encoded in UTF-8") from None
    return found


def read_file(root: Path, path: str, bytes_max: int) -> bytes:
    """The content of a file.

    Raises:
        FileMissing: there is none.
        FileRefused: it is not a regular file, or larger than `bytes_max`.
        OSError: it can't be read.
    """
    with _parent(root, path) as (inside, name):
        return _read(inside, name, path, bytes_max)


def replace_file(root: Path, path: str, content: Callable[[bytes], bytes], bytes_max: int, by: FileAttempt) -> int | None:
    """Replaces a file by what `content` makes of its old content (nothing, if there is none); returns the new size in bytes. Creates missing directories.

    Returns None, and does nothing, if another process writes in the directory at this moment.

    Raises:
        FileRefused: something other than a regular file is there, or the content is too large.
        OSError: it can't be written.
    """
    with _parent(root, path, make=True) as (inside, name):
        if not _is_locked(inside):
            return None
        for number in range(max(1, by.number - ATTEMPTS_LEFT), by.number + 1):
            with suppress(FileNotFoundError):
                os.unlink(by.temporary(number), dir_fd=inside)
        mode = _mode(inside, name, path)
        made = content(b"" if mode is None else _read(inside, name, path, bytes_max))
        if len(made) > bytes_max:
            raise FileRefused(f"{shortened(path)} would have {len(made):,} bytes, and at most {bytes_max:,} are allowed; write it to several files")
        _written(inside, by.temporary(by.number), made, 0o666 if mode is None else None, mode)
        os.replace(by.temporary(by.number), name, src_dir_fd=inside, dst_dir_fd=inside)
        os.fsync(inside)
        return len(made)


def directory_entries(root: Path, path: str) -> list[dict[str, Any]]:
    """The entries of a directory: name, type (file, directory, other), size and time of change.

    Raises:
        FileMissing, FileRefused: there is no such directory, or it has too many entries.
    """
    found = list[dict[str, Any]]()
    with _opened(root, path_parts(path), path) as inside, os.scandir(inside) as each:
        for entry in each:
            if entry.name.startswith(".perdure-"):
                continue
            if len(found) >= ENTRIES_MAX:
                raise FileRefused(f"{shortened(path)} has more than {ENTRIES_MAX:,} entries; keep fewer in one directory")
            try:
                status = entry.stat(follow_symlinks=False)
                _ = entry.name.encode()
            except (FileNotFoundError, UnicodeError):  # it has gone, or has a name that no text can say
                continue
            kind = "file" if stat.S_ISREG(status.st_mode) else "directory" if stat.S_ISDIR(status.st_mode) else "other"
            found.append({"name": entry.name, "type": kind, "size_bytes": status.st_size, "modified_s": status.st_mtime})
    return sorted(found, key=lambda one: str(one["name"]))


@contextmanager
def _parent(root: Path, path: str, make: bool = False) -> Iterator[tuple[int, str]]:
    """The open directory that contains a file, and the file's name."""
    *above, name = path_parts(path) or ("",)
    if not name or path.endswith("/"):
        raise FileRefused(f"{shortened(path)} is a directory; name a file in it")
    with _opened(root, tuple(above), path, make) as inside:
        yield inside, name


@contextmanager
def _opened(root: Path, below: tuple[str, ...], path: str, make: bool = False) -> Iterator[int]:
    if os.open not in os.supports_dir_fd:
        raise FileRefused(f"files can't be kept within a directory on {sys.platform}; run the engine on Linux or macOS")
    inside = os.open(root, os.O_RDONLY | (DIRECTORY & ~NOFOLLOW))  # the operator may have named it by a link
    try:
        for part in below:
            before, inside = inside, _directory(inside, part, path, make)
            os.close(before)
        yield inside
    finally:
        os.close(inside)


def _directory(inside: int, part: str, path: str, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(part, dir_fd=inside)
    try:
        return os.open(part, os.O_RDONLY | DIRECTORY, dir_fd=inside)
    except FileNotFoundError:
        raise FileMissing(f"{shortened(path)} is not there") from None
    except OSError as error:
        raise _refusal(error, inside, part, path) from None


def _read(inside: int, name: str, path: str, bytes_max: int) -> bytes:
    try:
        file = os.open(name, os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC, dir_fd=inside)
    except FileNotFoundError:
        raise FileMissing(f"{shortened(path)} is not there") from None
    except OSError as error:
        raise _refusal(error, inside, name, path) from None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise FileRefused(f"{shortened(path)} is not a regular file; name one")
        found = bytearray()
        while len(found) <= bytes_max and (block := os.read(file, min(BLOCK_BYTES, bytes_max + 1 - len(found)))):
            found += block
    finally:
        os.close(file)
    if len(found) > bytes_max:
        raise FileRefused(f"{shortened(path)} has more than {bytes_max:,} bytes; raise max_bytes if that is wanted, or read a smaller file")
    return bytes(found)


def _mode(inside: int, name: str, path: str) -> int | None:
    """The permissions of a file that is to be replaced; None, if there is none."""
    try:
        status = os.stat(name, dir_fd=inside, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise FileRefused(f"{shortened(path)} is not a regular file and is not replaced; name another path")
    return stat.S_IMODE(status.st_mode)


def _written(inside: int, name: str, content: bytes, new: int | None, mode: int | None) -> None:
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | CLOEXEC, 0o600 if new is None else new, dir_fd=inside)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(file, left) :]
        if mode is not None:
            os.fchmod(file, mode)
        os.fsync(file)
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=inside)
        raise
    finally:
        os.close(file)


def _is_locked(inside: int) -> bool:
    """Locks a directory for writing, until it is closed; says whether that succeeded. Without the lock, one of two concurrent appends would be lost."""
    import fcntl  # here, as Windows has none

    try:
        fcntl.flock(inside, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _refusal(error: OSError, inside: int, name: str, path: str) -> Exception:
    """The error for opening something that is not as expected."""
    if error.errno == errno.ENAMETOOLONG:
        return FileRefused(f"{shortened(path)} is too long; give it a shorter name")
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
        with suppress(OSError):
            if stat.S_ISLNK(os.stat(name, dir_fd=inside, follow_symlinks=False).st_mode):
                return FileRefused(f"{shortened(path)} leads through a symbolic link, and links are not followed; name the real path")
        return FileRefused(f"{shortened(path)} leads through something that is not a directory; name another path")
    return error
