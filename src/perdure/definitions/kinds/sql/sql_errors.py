"""The failures of an sql step: which are retried by the policy of the step, and which fail it at once.

No message contains a value that was bound to a statement, because that may be a secret or personal data. Databases quote values in many of their messages,
so a message of a database is shown only where it is known to be about the text of the statement, and names of conditions and constraints elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from perdure.core.errors import Fatal


class SqlRefused(Fatal):
    """The step is not valid: its statement, its values, or its connection."""

    code = "sql_refused"


class StatementRefused(Fatal):
    """The database has refused a statement, and would again. Nothing of the transaction was kept. `sqlstate` is the SQLSTATE, if the database has one."""

    code = "statement_refused"

    def __init__(self, message: str, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class StatementTransient(Exception):
    """The database could not perform a statement now, such as after a deadlock; another attempt may succeed. Nothing of the transaction was kept."""

    code = "statement_transient"

    def __init__(self, message: str, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class StatementTimeout(StatementTransient):
    """The statements took longer than the step's timeout, and were cancelled in the database. The step is retried."""

    code = "statement_timeout"


class DatabaseUnreachable(Exception):
    """The database could not be reached, or the connection broke before the commit. The step is retried."""

    code = "database_unreachable"


class CommitInDoubt(Exception):
    """The connection broke during the commit, so it is not known whether the writes were kept. The step is retried."""

    code = "commit_in_doubt"


class TooManyRows(Fatal):
    """A statement has returned more rows than the step allows."""

    code = "too_many_rows"


class UnexpectedRows(Fatal):
    """A statement has changed or returned another number of rows than the step expects. Nothing of its transaction was kept."""

    code = "unexpected_rows"


SqlError = StatementRefused | StatementTransient

TRANSIENT_CLASSES = frozenset(("08", "40", "53", "58"))
"""The classes of SQLSTATE after which another attempt may succeed: connections, conflicts of transactions, resources, system errors."""

TRANSIENT_STATES = frozenset(("55P03", "55006", "57P01", "57P02", "57P03", "57P05", "57014"))
"""Further such states: a lock that is not available, an object in use, a server that shuts down or starts, a statement that was cancelled."""

TEXT_CLASSES = frozenset(("08", "0A", "25", "28", "3D", "3F", "40", "42", "53", "55", "57", "58"))
"""The classes whose messages are about the statement, the connection or the server, and quote no values."""

_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
SHOWN_CHARACTERS_MIN = 3
"""A value whose text is shorter is not looked for in a message: it would match everywhere."""


def is_transient(sqlstate: str) -> bool:
    """Whether another attempt may succeed after an error of this SQLSTATE."""
    return sqlstate[:2] in TRANSIENT_CLASSES or sqlstate in TRANSIENT_STATES


def error_of_state(where: str, error: Any, sqlstate: str, values: Iterable[Any]) -> SqlError:
    """Returns the failure for an error of a database that has SQLSTATEs; `where` names the connection and the statement."""
    said = _condition(error)
    if sqlstate[:2] in TEXT_CLASSES and (message := str(getattr(error, "message", "") or "")):
        said = without_values(message, values)
    named = [f"{name} {found}" for name in ("constraint", "table", "column") if (found := getattr(error, f"{name}_name", None))]
    message = f"{where}: {said} ({', '.join((f'SQLSTATE {sqlstate}', *named))})"
    return StatementTransient(message, sqlstate) if is_transient(sqlstate) else StatementRefused(message, sqlstate)


def _condition(error: Any) -> str:
    """The name of an error's condition in words: "unique violation"."""
    return _WORDS.sub(" ", type(error).__name__.removesuffix("Error")).lower()


def without_values(message: str, values: Iterable[Any]) -> str:
    """Returns a message with ``***`` in place of the texts of values."""
    texts = {str(value) for value in values if isinstance(value, str | int | float) and not isinstance(value, bool)}
    for text in sorted((text for text in texts if len(text) >= SHOWN_CHARACTERS_MIN), key=len, reverse=True):
        message = message.replace(text, "***")
    return message
