"""The migrations of the Postgres store: numbered scripts in `migrations/`, in plain SQL that names the schema ``perdure``.

The number of a script is the version of the tables that it leaves. The first line says which engines may go on running beside it, by the last script that
they know:

    -- works with engines from schema 3 on

A script runs in one transaction, with its entry in the history. One that can't, because it makes an index while others write or changes many rows in
pieces, has a second line:

    -- outside of a transaction

Such a script may be killed in between and is then run again, so it has only statements for which that is right: `CREATE INDEX CONCURRENTLY`,
`DROP INDEX CONCURRENTLY IF EXISTS`, and `DO`, which must have the same effect when it is repeated.
"""

import re
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

_FILE_NAME = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
_WORKS_FROM = re.compile(r"-- works with engines from schema (\d+) on")
_OUTSIDE = "-- outside of a transaction"
_STATEMENT = re.compile(r"(?:--[^\n]*|\$(\w*)\$.*?\$\1\$|'(?:[^']|'')*'|[^;])+?;", re.DOTALL)
_COMMENT_LINES = re.compile(r"\A(?:\s|--[^\n]*\n)*")
_CREATES_INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY (\w+) ON perdure\.")
_REPEATABLE = re.compile(rf"{_CREATES_INDEX.pattern}|DROP INDEX CONCURRENTLY IF EXISTS perdure\.\w+;|DO ")


class Script(NamedTuple):
    """A migration. `works_from` is the oldest version of the tables whose engines may go on running beside it."""

    number: int
    name: str
    text: str
    works_from: int
    in_transaction: bool

    @property
    def sha256(self) -> str:
        """The hash of the text, by which a later Perdure knows what was applied."""
        return sha256(self.text.encode()).hexdigest()

    @property
    def statements(self) -> list[str]:
        """The statements of a script outside of a transaction, each without the comment before it."""
        return [_COMMENT_LINES.sub("", found[0]) for found in _STATEMENT.finditer(self.text)]


def created_index(statement: str) -> str | None:
    """Returns the name of the index that a statement makes while others write; None if it makes none."""
    found = _CREATES_INDEX.match(statement)
    return found and found[1]


def read_scripts(directory: Traversable) -> tuple[Script, ...]:
    """Returns the scripts of a directory, by number.

    Raises:
        ValueError: a script has no number, or not the next one; it does not say which engines it works with; or it can't be repeated and must be.
    """
    scripts = tuple(_script(file.name, file.read_text(encoding="utf-8")) for file in sorted(directory.iterdir(), key=_name) if file.name.endswith(".sql"))
    for number, script in enumerate(scripts, 1):
        if script.number != number:
            raise ValueError(f"the migration {script.name} must have the number {number:04}: numbers have no gaps, and no two scripts have one")
    return scripts


def _name(file: Traversable) -> str:
    return file.name


def _script(file_name: str, text: str) -> Script:
    named = _FILE_NAME.fullmatch(file_name)
    if named is None:
        raise ValueError(f"{file_name} is no name of a migration; name it like 0004_wider_lanes.sql")
    first, second, *_ = (*text.splitlines(), "", "")
    works = _WORKS_FROM.fullmatch(first)
    if works is None or not 1 <= int(works[1]) <= int(named[1]):
        raise ValueError(f"the first line of {file_name} must be '-- works with engines from schema N on', with an N from 1 to {int(named[1])}")
    script = Script(int(named[1]), file_name.removesuffix(".sql"), text, int(works[1]), second != _OUTSIDE)
    for problem in _problems(script):
        raise ValueError(f"{file_name}: {problem}")
    return script


def _problems(script: Script) -> Iterator[str]:
    if script.in_transaction:
        if re.search(r"^(?!--).*\bCONCURRENTLY\b", script.text, re.MULTILINE):
            yield f"CONCURRENTLY does not work in a transaction; write '{_OUTSIDE}' into the second line"
    else:
        for statement in script.statements:
            if _REPEATABLE.match(statement) is None:
                yield f"outside of a transaction, a killed script could not be repeated with {statement.splitlines()[0]!r}; give that a script of its own"


SCRIPTS = read_scripts(files("perdure.stores.postgres").joinpath("migrations"))
"""The migrations that this version of Perdure knows."""

TABLES_VERSION = len(SCRIPTS)
"""The version of the tables that engines of this version need."""
