"""A file of rows, imported into a table of your own: killed at any moment, it goes on where it was.

    python examples/batch_import.py examples/data/time-zones.csv       # or FILE.jsonl; makes time-zones.sqlite

A loop's state is the place in the file. In each turn one step copies a page: it reads rows from that place on, writes them in one
transaction, and returns the next place. Rows go from file to table and never through the log, which holds the places alone and
forgets the old ones: so neither memory nor the log grows with the file.

A page is copied twice if the kill comes after the write and before it was remembered. Nothing comes of it: a row is written under
its import and its line, and what a first try has added to the file of rejects is cut off before the second. A row that can't be
read is such a reject: it is kept there as it stood, with its line and the reason, and the import goes on.
"""

import argparse
import hashlib
import json
import logging
import os
import re
import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a script has nothing but its own directory there

from examples.rows import COLUMNS_MAX, KEYS, BadInput, Header, Lines, Reject, Row, header, rows_of
from perdure import Client, Context, Fatal, InputDiffers, PerdureError, Retry, WorkflowError, step, step_info, workflow

PAGE_ROWS, PAGE_BYTES = 2_000, 2**20
"""A page ends with the row that reaches either."""

BAD_INPUT, FAILED, INTERRUPTED = 10, 40, 130
"""Exit codes: it can't be imported; the import failed; Ctrl-C."""

PATIENT = Retry(max=20, only=(OSError, sqlite3.OperationalError, BadInput))
"""A disk that is full, a file that is gone, a table that somebody else has locked: some ten minutes of tries."""

logger = logging.getLogger("import")


# The workflow.


@dataclass(frozen=True)
class Job:
    """What is imported (its path and size), into which file and table, and where the rejects go."""

    file: str
    size_bytes: int
    into: str
    table: str
    rejects: str


@dataclass(frozen=True)
class Place:
    """How far an import has come: in the file, in rows, and in the file of rejects."""

    offset: int
    line: int
    rows: int = 0
    rejected: int = 0
    rejects_bytes: int = 0


@step(retry=PATIENT)
def prepare(job: Job) -> Place:
    """Make the table, unless it is there; return where the rows begin."""
    head = header(Path(job.file))
    with closing(sqlite3.connect(job.into, timeout=30)) as database, database:
        add_columns(database, job.table, head.columns)
    return Place(head.offset, head.line)


@step(retry=PATIENT)
def copy_page(job: Job, place: Place) -> Place:
    """Copy the rows of one page, and return the place behind it."""
    head = header(Path(job.file))
    rows, rejects = list[Row](), list[Reject]()
    with Path(job.file).open("rb") as file:
        if os.fstat(file.fileno()).st_size != job.size_bytes:
            raise Fatal(f"{job.file} has changed while it was imported; import what it is now under another id")
        lines = Lines(file, place.offset, place.line)
        for found in rows_of(lines, head):
            match found:
                case Row():
                    rows.append(found)
                case Reject():
                    rejects.append(found)
            if len(rows) + len(rejects) >= PAGE_ROWS or lines.offset - place.offset >= PAGE_BYTES:
                break
    size_bytes = keep_rejects(Path(job.rejects), place.rejects_bytes, rejects)
    with closing(sqlite3.connect(job.into, timeout=30)) as database, database:
        write(database, job.table, head, rows)
    return Place(lines.offset, lines.line, place.rows + len(rows), place.rejected + len(rejects), size_bytes)


@workflow(archive=False)
async def batch_import(ctx: Context, job: Job) -> Place:
    """Copy a file, page by page."""
    begin = await ctx.step(prepare, job)
    async for turn in ctx.loop("pages", state=begin, keep=1):
        place = turn.state
        percent = 100 * place.offset // max(1, job.size_bytes)
        turn.set("progress", {"rows": place.rows, "rejected": place.rejected, "percent": percent})
        progress = f"{percent:3} %  {place.rows:,} rows, {place.rejected:,} rejected"
        turn.log.info(progress)
        if place.offset >= job.size_bytes:
            break
        turn.state = await turn.step(copy_page, job, place)
    return turn.state


# The table, and the rejects.


def columns_of(database: sqlite3.Connection, table: str) -> list[str]:
    """The columns of the table, ours among them; none if there is no table yet.

    Raises:
        Fatal: it is somebody else's.
    """
    columns: list[str] = [name for _, name, *_ in database.execute(f"PRAGMA table_info({quoted(table)})")]
    if columns and not set(KEYS) <= set(columns):
        raise Fatal(f"there is a table {table} that no import has made")
    return columns


def add_columns(database: sqlite3.Connection, table: str, wanted: Sequence[str]) -> list[str]:
    """Make the table, and the columns that it lacks; return all but ours.

    Raises:
        Fatal: the table is somebody else's, or would have too many columns.
    """
    if not (columns := columns_of(database, table)):
        database.execute(f"CREATE TABLE {quoted(table)} (_import TEXT, _line INTEGER, PRIMARY KEY (_import, _line))")
        columns = list(KEYS)
    known = {name.lower() for name in columns}
    for name in wanted:
        if name.lower() not in known:
            if len(columns) >= COLUMNS_MAX:
                raise Fatal(f"table {table} would have more than {COLUMNS_MAX} columns")
            database.execute(f"ALTER TABLE {quoted(table)} ADD COLUMN {quoted(name)}")
            columns.append(name)
            known.add(name.lower())
    return [name for name in columns if name not in KEYS]


def write(database: sqlite3.Connection, table: str, head: Header, rows: Sequence[Row]) -> None:
    """Write rows under their lines; those that are there already come to be what they are."""
    wanted = head.columns or list(dict.fromkeys(name for row in rows for name in row.values))
    known = {name.lower(): name for name in add_columns(database, table, wanted)}
    columns = list(dict.fromkeys(known[name.lower()] for name in wanted))
    names = ", ".join(map(quoted, (*KEYS, *columns)))
    update = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in columns)
    places = ", ".join("?" * (len(columns) + 2))
    id, lower = step_info().execution.id, [name.lower() for name in columns]
    database.executemany(
        f"INSERT INTO {quoted(table)} ({names}) VALUES ({places}) ON CONFLICT (_import, _line) DO {f'UPDATE SET {update}' if update else 'NOTHING'}",
        ((id, row.line, *map(row.lower().get, lower)) for row in rows),
    )


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"{}"'.format(name.replace('"', '""'))


def keep_rejects(file: Path, size_bytes: int, rejects: Sequence[Reject]) -> int:
    """Have the file be what its first `size_bytes` are, with these behind them; return its size. There is none while nothing was rejected."""
    if not rejects and not file.exists():
        return size_bytes
    with file.open("ab") as end:
        end.truncate(size_bytes)
        for reject in rejects:
            raw = reject.raw.decode(errors="surrogateescape")  # so that it can be made bytes again
            end.write(json.dumps({"line": reject.line, "why": reject.why, "raw": raw}).encode() + b"\n")
        end.flush()
        os.fsync(end.fileno())
        return end.tell()


# The command.


def job_of(file: Path, options: argparse.Namespace) -> tuple[Job, str]:
    """What is to be imported whereto, and the id of that.

    Raises:
        BadInput: it can't be.
    """
    _ = header(file)
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    id = f"{file.stem[:100]}-{digest[:12]}" if options.id is None else options.id
    if not id or "/" in id or "\0" in id or len(id.encode()) > 200:
        raise BadInput(f"--id {id!r:.60} can't be part of a file name; choose one of 1 to 200 bytes without a slash")
    into = (options.into or Path(f"{file.stem}.sqlite")).absolute()
    table = options.table or re.sub(r"\W", "_", file.stem)
    if not into.parent.is_dir():
        raise BadInput(f"{into.parent} is no directory; name a file in one that is there with --into")
    if into.exists():
        try:
            with closing(sqlite3.connect(f"{into.as_uri()}?mode=ro", uri=True)) as database:
                _ = columns_of(database, table)
        except (sqlite3.Error, Fatal) as error:
            raise BadInput(f"{into}: {error}; choose another with --into or --table") from error
    return Job(str(file.absolute()), file.stat().st_size, str(into), table, str(into.with_name(f"{id}.rejects.jsonl"))), id


def execute(job: Job, id: str, url: str | None) -> str:
    """Import a file to its end, or from where it was to its end; return what there is to say about it."""
    with Client(url) as client:
        before = client.start(batch_import.with_(id=id, strict=True), job).status()
    began_s = time.monotonic()
    place: Place = batch_import.with_(id=id, db=url).run(job)
    took = "imported before, so nothing was done" if before.ended_at_s else f"in {time.monotonic() - began_s:.1f} s"
    kept = f", which {job.rejects} keeps" if place.rejected else ""
    return f"{place.rows:,} rows in table {job.table} of {job.into}, {place.rejected:,} rejected{kept}; {took}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 if the file was imported, else one of the exit codes."""
    parser = argparse.ArgumentParser(
        description="Import a file of rows into an SQLite table, durably. Killed, it goes on when started again; imported, it does nothing.",
        epilog="Exit codes: 0 imported, 10 it can't be, 40 the import failed, 130 interrupted: start it again to go on.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a .csv with its columns on the first line, or a .jsonl with an object on each")
    parser.add_argument("--into", type=Path, metavar="FILE", help="the SQLite file of the table (default: the file's name with .sqlite, here)")
    parser.add_argument("--table", help="the table (default: the file's name)")
    parser.add_argument("--id", help="the id of the import (default: the file's name and a hash of what is in it)")
    parser.add_argument("--db", metavar="URL", help="where the history is kept (default: PERDURE_DB, else sqlite:///.perdure/perdure.db)")
    options = parser.parse_args(arguments)
    progress, tty = logging.StreamHandler(sys.stdout), sys.stdout.isatty()
    progress.terminator = "\r" if tty else "\n"
    logging.basicConfig(handlers=[progress], level=logging.INFO, format="%(message)s\x1b[K" if tty else "%(message)s")
    try:
        print(execute(*job_of(options.file, options), options.db))
    except KeyboardInterrupt:
        print("interrupted; start it again to go on", file=sys.stderr)
        return INTERRUPTED
    except InputDiffers:
        print("this import began with another --into, --table or place of the file; give it what it began with, or another --id", file=sys.stderr)
        return BAD_INPUT
    except WorkflowError as error:
        print(f"{error}\nan import that has failed stays so; choose another --id to begin anew", file=sys.stderr)
        return FAILED
    except (BadInput, PerdureError) as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    return 0


if __name__ == "__main__":
    sys.exit(main())
