"""Imports of files: every row once, whatever kills it; nothing lost, nothing done twice, and neither the log nor memory grows."""

import csv
import io
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import batch_import
from examples.rows import KEYS, LINE_BYTES_MAX, Header, Lines, Reject, Row, header, rows_of
from perdure import Key
from perdure.code.step_environment import StepInfo, current_step

ROOT = Path(__file__).parents[2]
SMALL = ROOT / "examples/data/time-zones.csv"
REAL = sorted((ROOT.parent / "shared/data").glob("*/*.jsonl"))
RUN_S_MAX = 60.0


class Importing:
    """A file that is imported by processes of their own, into a directory."""

    def __init__(self, file: Path, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.file, self.directory, self.into = file, directory, directory / "here.sqlite"
        self.command = [sys.executable, str(ROOT / "examples/batch_import.py"), str(file), "--into", str(self.into), "--table", "rows"]
        self.command += ["--db", f"sqlite:///{directory}/perdure.db"]

    def finish(self) -> str:
        """Run it to its end; return its last line."""
        said = subprocess.run(self.command, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)
        assert (said.returncode, said.stderr) == (0, ""), said.stdout + said.stderr
        return said.stdout.splitlines()[-1]

    def kill(self, pages: int, later_s: float) -> None:
        """Run it, and kill it a moment after it has said for the so-manieth time how far it is; it may have ended by then."""
        with subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            assert process.stdout is not None
            for _ in range(pages):
                process.stdout.readline()
            time.sleep(later_s)
            process.kill()
        assert process.returncode in (-signal.SIGKILL, 0)

    def measure(self) -> tuple[float, int]:
        """Run it to its end; return how long that took, in seconds, and the most memory that it had, in bytes."""
        began_s = time.monotonic()
        with subprocess.Popen(self.command, stdout=subprocess.DEVNULL) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return time.monotonic() - began_s, used.ru_maxrss * 1024

    def rows(self) -> list[tuple[Any, ...]]:
        """The whole table."""
        with closing(sqlite3.connect(self.into)) as database:
            return database.execute("SELECT * FROM rows ORDER BY _import, _line").fetchall()

    def rejects(self) -> list[dict[str, Any]]:
        """What was rejected, in order."""
        files = list(self.directory.glob("*.rejects.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def history_bytes(self) -> int:
        """How large the database is that holds the log."""
        return sum(file.stat().st_size for file in self.directory.glob("perdure.db*") if file.is_file())


def large(directory: Path, count: int) -> Path:
    """A file of so many lines, a few of which are no rows."""
    file = directory / "large.csv"
    with file.open("w") as opened:
        opened.write("id,name,comment\n")
        for number in range(count):
            opened.write(f'{number},"name, of {number}",{"x" * (number % 40)}\n' if number % 997 else f'{number},"never closed\n')
    return file


# Whole imports.


@pytest.mark.slow
def test_a_file_becomes_a_table_and_imported_again_nothing_is_done(tmp_path: Path) -> None:
    importing = Importing(SMALL, tmp_path)
    assert importing.finish().startswith("312 rows in table rows of ")
    with SMALL.open(newline="") as opened:
        expected = list(csv.reader(opened))[1:]
    found = importing.rows()
    assert [list(row[2:]) for row in found] == expected
    assert [row[1] for row in found] == list(range(2, 314))
    with closing(sqlite3.connect(importing.into)) as database, database:
        database.execute("DELETE FROM rows WHERE _line > 10")
    assert importing.finish().endswith("imported before, so nothing was done")
    assert len(importing.rows()) == 9


@pytest.mark.prove
def test_killed_at_several_moments_it_ends_as_if_undisturbed(tmp_path: Path) -> None:
    file, moments = large(tmp_path, 40_000), random.Random(7)
    undisturbed, killed = Importing(file, tmp_path / "undisturbed"), Importing(file, tmp_path / "killed")
    _ = undisturbed.finish()
    for pages in (1, 3, 5, 2):
        killed.kill(pages, moments.uniform(0, 0.02))
        assert killed.rows() == undisturbed.rows()[: len(killed.rows())]
    assert "imported before" not in killed.finish(), "it was never killed in the middle"
    assert killed.rows() == undisturbed.rows() and len(killed.rows()) == 40_000 - 41
    assert killed.rejects() == undisturbed.rejects() and len(killed.rejects()) == 41


@pytest.mark.parametrize("torn", ["", '{"line": 5, "wh'], ids=["whole", "torn in the middle"])
def test_a_page_that_is_copied_twice_is_there_once(torn: str, tmp_path: Path) -> None:
    file, into, rejects = tmp_path / "rows.csv", tmp_path / "here.sqlite", tmp_path / "rejects.jsonl"
    file.write_bytes(b"a,b\n1,2\nbad\n3,4\n")
    job = batch_import.Job(str(file), file.stat().st_size, str(into), "rows", str(rejects))
    step = current_step.set(StepInfo(Key("default", "batch_import", "id"), (("copy_page", 1),), 1))
    try:
        begin = batch_import.prepare(job)
        first = batch_import.copy_page(job, begin)
        with rejects.open("a") as end:
            end.write(torn)
        assert batch_import.copy_page(job, begin) == first
    finally:
        current_step.reset(step)
    assert (first.rows, first.rejected, first.rejects_bytes) == (2, 1, rejects.stat().st_size)
    with closing(sqlite3.connect(into)) as database:
        assert database.execute("SELECT * FROM rows").fetchall() == [("id", 2, "1", "2"), ("id", 4, "3", "4")]
    assert [json.loads(line)["raw"] for line in rejects.read_text().splitlines()] == ["bad\n"]


@pytest.mark.prove
def test_neither_the_log_nor_memory_grows_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "short").mkdir()
    short, long = Importing(large(tmp_path / "short", 4_000), tmp_path / "of short"), Importing(large(tmp_path, 100_000), tmp_path / "of long")
    _, short_bytes = short.measure()
    took_s, long_bytes = long.measure()
    assert len(long.rows()) == 100_000 - 101
    assert took_s < 30
    assert long_bytes < short_bytes + 8 * 2**20
    assert long.history_bytes() < short.history_bytes() + 128 * 2**10


@pytest.mark.slow
def test_a_file_that_has_changed_is_another_import(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"a": 1}\n')
    importing = Importing(file, tmp_path / "into")
    _ = importing.finish()
    file.write_text('{"a": 1}\n{"A": [2], "b": null}\nnonsense\n')
    assert "2 rows" in importing.finish()
    assert [row[1:] for row in sorted(importing.rows(), key=lambda row: row[1:2])] == [(1, 1, None), (1, 1, None), (2, "[2]", None)]
    assert [(reject["line"], reject["raw"]) for reject in importing.rejects()] == [(3, "nonsense\n")]


@pytest.mark.real
@pytest.mark.skipif(not REAL, reason="the files are not at hand")
@pytest.mark.parametrize("file", REAL, ids=lambda file: file.stem)
def test_a_real_file_becomes_a_table(file: Path, tmp_path: Path) -> None:
    importing = Importing(file, tmp_path)
    importing.kill(1, 0.0)
    _ = importing.finish()
    with closing(sqlite3.connect(importing.into)) as database:
        names = [name for _, name, *_ in database.execute("PRAGMA table_info(rows)")]
    for row, line in zip(importing.rows(), file.read_text().splitlines(), strict=True):
        values = {name: value for name, value in zip(names, row, strict=True) if name not in KEYS and value is not None}
        expected = {name: json.dumps(value) if isinstance(value, list | dict) else value for name, value in json.loads(line).items() if value is not None}
        assert {name: json.loads(value) if isinstance(value, str) and value[:1] in "[{" else value for name, value in values.items()} == {
            name: json.loads(value) if isinstance(value, str) and value[:1] in "[{" else value for name, value in expected.items()
        }


# What can't be imported.


def refused(arguments: list[str], said: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It exits with 10 and one line that says so."""
    into = [] if "--into" in arguments else ["--into", str(directory / "here.sqlite")]
    assert batch_import.main([*arguments, *into, "--db", f"sqlite:///{directory}/perdure.db"]) == 10
    printed = capsys.readouterr()
    assert said in printed.err and printed.err.count("\n") == 1 and not printed.out


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("rows.txt", b"a,b\n1,2\n", "is neither of .csv and .jsonl"),
        ("rows.csv", b"", "does not begin with the names of its columns"),
        ("rows.csv", b"\n1,2\n", "does not begin with the names of its columns"),
        ("rows.csv", b"a,A\n1,2\n", "each once"),
        ("rows.csv", b"a,_line\n1,2\n", "none of _import and _line"),
        ("rows.csv", b"a,\xff\n1,2\n", "does not begin with the names of its columns"),
        ("rows.csv", b'a,"b\n1,2\n', "does not begin with the names of its columns"),
        ("rows.csv", b"a," * LINE_BYTES_MAX, "does not begin with the names of its columns"),
    ],
)
def test_a_file_without_columns_is_refused_in_one_sentence(name: str, content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    refused([str(file)], said, tmp_path, capsys)


def test_what_can_not_be_written_is_refused_before_it_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused([str(tmp_path / "missing.csv")], "can't be read (No such file or directory)", tmp_path, capsys)
    refused([str(SMALL), "--into", str(tmp_path / "no" / "here.sqlite")], "is no directory", tmp_path, capsys)
    refused([str(SMALL), "--into", str(SMALL)], "file is not a database", tmp_path, capsys)
    refused([str(SMALL), "--id", "a/b"], "can't be part of a file name", tmp_path, capsys)
    with closing(sqlite3.connect(tmp_path / "mine.sqlite")) as database, database:
        database.execute("CREATE TABLE mine (name TEXT)")
    refused([str(SMALL), "--into", str(tmp_path / "mine.sqlite"), "--table", "mine"], "that no import has made", tmp_path, capsys)


@pytest.mark.slow
def test_an_import_goes_on_only_where_it_began(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _ = Importing(SMALL, tmp_path).finish()
    refused([str(SMALL), "--table", "another"], "began with another --into, --table", tmp_path, capsys)


# The rows of a file.


def read(content: bytes, head: Header, offset: int | None = None, line: int | None = None) -> list[Row | Reject]:
    """What the lines from a place on are."""
    lines = Lines(io.BytesIO(content), head.offset if offset is None else offset, head.line if line is None else line)
    return list(rows_of(lines, head))


def of_csv(content: bytes, directory: Path) -> list[Row | Reject]:
    """What the rows of a .csv with this content are."""
    file = directory / "rows.csv"
    file.write_bytes(content)
    return read(content, header(file))


JSON = Header([], "", 0, 1)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("begins", ["", "\ufeff"], ids=["", "with a mark of its byte order"])
@pytest.mark.parametrize("divider", [",", ";", "\t", "|"])
def test_dialects_are_understood(divider: str, begins: str, ends: str, tmp_path: Path) -> None:
    text = begins + ends.join([f"a{divider}b", f'1{divider}"x ""{divider}"" y"', "", f"2{divider}"])
    assert of_csv(text.encode(), tmp_path) == [Row(2, {"a": "1", "b": f'x "{divider}" y'}), Row(4, {"a": "2", "b": ""})]


def test_a_row_may_span_lines_and_is_known_by_its_first(tmp_path: Path) -> None:
    assert of_csv(b'a,b\n1,"x\ny\n"\n2,z\n', tmp_path) == [Row(2, {"a": "1", "b": "x\ny\n"}), Row(5, {"a": "2", "b": "z"})]


def test_a_line_that_is_no_row_takes_no_others_with_it(tmp_path: Path) -> None:
    found = of_csv(b'a,b\n1,"never closed\n2,x\n3\n4,y,z\n5,\xff\n6,x\n', tmp_path)
    assert [one for one in found if isinstance(one, Row)] == [Row(3, {"a": "2", "b": "x"}), Row(7, {"a": "6", "b": "x"})]
    assert [(one.line, one.raw) for one in found if isinstance(one, Reject)] == [(2, b'1,"never closed\n'), (4, b"3\n"), (5, b"4,y,z\n"), (6, b"5,\xff\n")]


def test_a_line_that_is_too_long_is_rejected_in_pieces_and_the_next_is_read(tmp_path: Path) -> None:
    found = of_csv(b"a,b\n" + b"x" * (2 * LINE_BYTES_MAX + 5) + b"\n1,2\n", tmp_path)
    assert [len(one.raw) for one in found if isinstance(one, Reject)] == [LINE_BYTES_MAX, LINE_BYTES_MAX, 6]
    assert found[-1] == Row(3, {"a": "1", "b": "2"})


def test_only_objects_with_names_for_columns_are_rows_of_json() -> None:
    content = b'{"a": 1, "b": [1, {"c": 2}], "d": null, "e": 1.5, "f": true, "g": 18446744073709551616}\n[1]\n{"": 1}\n{"a": 1, "A": 2}\n{"_line": 1}\n\n"x\n'
    found = read(content, JSON)
    assert found[0] == Row(1, {"a": 1, "b": '[1,{"c":2}]', "d": None, "e": 1.5, "f": True, "g": "18446744073709551616"})
    assert [one.line for one in found[1:] if isinstance(one, Reject)] == [2, 3, 4, 5, 7]


SCRAPS = st.sampled_from([b"1", b"x", b",", b",", b"\n", b"\n", b'"', b"\r\n", b"\xff", b'{"a": 1}', b"{}", b" ", b"\x00"])
HEADS = st.sampled_from([Header(["a", "b"], ",", 0, 1), Header(["a"], ",", 0, 1), JSON])


@settings(deadline=None)
@given(st.lists(SCRAPS, max_size=40).map(b"".join), HEADS)
def test_whatever_a_file_is_reading_it_in_pages_is_reading_it_at_once(content: bytes, head: Header) -> None:
    whole, pages = read(content, head), list[Row | Reject]()
    offset, line = 0, 1
    while offset < len(content):
        lines = Lines(io.BytesIO(content), offset, line)
        found = next(rows_of(lines, head), None)
        assert lines.offset > offset
        pages += [] if found is None else [found]
        offset, line = lines.offset, lines.line
    assert pages == whole
    if head is JSON:
        assert [one.line for one in whole] == [number for number, text in enumerate(content.split(b"\n"), 1) if text.strip()]
