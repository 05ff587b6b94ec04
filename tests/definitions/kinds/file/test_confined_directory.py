"""Claims about files below a directory: nothing leads out of it, what is written is there whole or not at all, and sizes are bounded."""

import errno
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from perdure.definitions.kinds.file import confined_directory
from perdure.definitions.kinds.file.confined_directory import FileAttempt, FileMissing, FileRefused, directory_entries, read_file, replace_file

BY = FileAttempt("default/it/e:a", 1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("hush")
    made = tmp_path / "allowed"
    (made / "in").mkdir(parents=True)
    (made / "in" / "a.txt").write_text("inside")
    return made


def write(root: Path, path: str, content: bytes = b"new", by: FileAttempt = BY, most: int = 100) -> int | None:
    return replace_file(root, path, lambda before: content, most, by)


@pytest.mark.parametrize("path", ["../secret.txt", "in/../../secret.txt", "/etc/passwd", "", "in/\0", "..", 5, "x" * 5_000, "\ud800", "in/", "."])
def test_a_path_that_leads_elsewhere_is_refused(root: Path, path: Any) -> None:
    for does in (lambda: read_file(root, path, 100), lambda: write(root, path)):
        with pytest.raises(FileRefused):
            does()


def test_no_symbolic_link_is_followed_wherever_it_stands(root: Path) -> None:
    (root / "file").symlink_to("../secret.txt")
    (root / "up").symlink_to("..")
    (root / "within").symlink_to("in")
    (root / "hanging").symlink_to("../new.txt")
    for path in ("file", "up/secret.txt", "within/a.txt", "hanging"):
        with pytest.raises(FileRefused, match=r"symbolic link|not a regular file"):
            read_file(root, path, 100)
        with pytest.raises(FileRefused, match=r"symbolic link|not a regular file"):
            write(root, path)
    with pytest.raises(FileRefused, match="symbolic link"):
        directory_entries(root, "up")
    assert (root.parent / "secret.txt").read_text() == "hush" and not (root.parent / "new.txt").exists()
    assert [(one["name"], one["type"]) for one in directory_entries(root, ".")] == [
        ("file", "other"),
        ("hanging", "other"),
        ("in", "directory"),
        ("up", "other"),
        ("within", "other"),
    ]


@pytest.mark.slow
def test_a_directory_that_is_made_a_link_in_the_middle_leads_nowhere(root: Path) -> None:
    """Two names change places all the time: what is read is what is inside, or nothing."""
    (root / "link").symlink_to("..")
    (root.parent / "a.txt").write_text("outside")
    ended = threading.Event()

    def swap() -> None:
        while not ended.is_set():
            for before, after in (("in", "aside"), ("link", "in"), ("in", "link"), ("aside", "in")):
                (root / before).rename(root / after)

    swapping = threading.Thread(target=swap)
    swapping.start()
    found = set()
    try:
        for _ in range(2_000):
            try:
                found.add(read_file(root, "in/a.txt", 100))
            except (FileRefused, FileMissing):
                continue
    finally:
        ended.set()
        swapping.join()
    assert found <= {b"inside"}


def test_what_is_no_plain_file_is_neither_read_nor_replaced(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "secret").mkdir()
    for path in ("pipe", "secret"):
        with pytest.raises(FileRefused, match="not a regular file"):
            read_file(root, path, 100)
        with pytest.raises(FileRefused, match="not a regular file"):
            write(root, path)
    with pytest.raises(FileRefused, match="not a directory"):
        read_file(root, "in/a.txt/b", 100)


def test_sizes_are_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_file(root, "in/a.txt", 6) == b"inside"
    with pytest.raises(FileRefused, match="more than 5 bytes"):
        read_file(root, "in/a.txt", 5)
    with pytest.raises(FileRefused, match="would have 101 bytes"):
        write(root, "in/a.txt", b"x" * 101)
    with pytest.raises(FileRefused, match="would have 101 bytes"):
        replace_file(root, "in/a.txt", lambda before: before + b"x" * 95, 100, BY)
    assert read_file(root, "in/a.txt", 6) == b"inside"
    monkeypatch.setattr(confined_directory, "ENTRIES_MAX", 0)
    with pytest.raises(FileRefused, match="more than 0 entries"):
        directory_entries(root, ".")


def test_what_is_written_is_whole_and_keeps_permissions_and_directories_are_made(root: Path) -> None:
    (root / "in" / "a.txt").chmod(0o640)
    assert write(root, "in/a.txt", b"other") == 5 and stat.S_IMODE((root / "in" / "a.txt").stat().st_mode) == 0o640
    assert write(root, "x/y/z.txt") == 3 and read_file(root, "x//./y/z.txt", 100) == b"new"
    assert [one["name"] for one in directory_entries(root, "x/y")] == ["z.txt"]


@pytest.mark.parametrize("fails", ["write", "fsync", "replace"])
def test_an_error_in_the_middle_leaves_the_file_as_it_was(root: Path, fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as broken:
        broken.setattr(os, fails, full)
        with pytest.raises(OSError, match="no space"):
            write(root, "in/a.txt")
    assert read_file(root, "in/a.txt", 100) == b"inside"
    assert write(root, "in/a.txt", by=BY._replace(number=2)) == 3
    assert os.listdir(root / "in") == ["a.txt"], "what is left of the try before is removed"  # noqa: PTH208  # hidden files count


@pytest.mark.slow
def test_who_writes_while_another_does_waits_so_that_nothing_appended_is_lost(root: Path) -> None:
    def append(number: int) -> None:
        for _ in range(20):
            while replace_file(root, "in/log", lambda before: before + b"x\n", 10_000, FileAttempt(f"step {number}", 1)) is None:
                pass

    threads = [threading.Thread(target=append, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_file(root, "in/log", 10_000) == b"x\n" * 80
