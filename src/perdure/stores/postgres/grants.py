"""The rights of roles that use the tables of the Postgres store and do not own them.

A role has a purpose. `grant_statements` gives a role the rights of its purpose, and takes all others in the schema from it; so it may be run again, after a
migration or for another purpose. Tables that later migrations add are granted in advance, as far as `later` says.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from perdure.core.errors import StoreError
from perdure.stores.postgres.statements import SQL, in_schema

Purpose = Literal["engine", "client", "read", "transaction"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)

DENIED = "42501"
"""The SQLSTATE of a right that a role does not have."""


class Rights(NamedTuple):
    """The rights of a purpose: on tables, on the tables that are an exception, on tables of later migrations, on sequences; and whether it runs functions."""

    tables: str
    exceptions: Mapping[str, str]
    later: str
    sequences: str = ""
    runs_functions: bool = False


_WRITES_POSTS = Rights(
    "SELECT, INSERT, UPDATE",
    {
        **dict.fromkeys(("schema_history", "meta", "holders"), "SELECT"),
        "log": "SELECT, INSERT",
        **dict.fromkeys(("attributes", "mail", "records", "record_attributes", "blob_marks", "removed_blobs"), "SELECT, INSERT, UPDATE, DELETE"),
        "vault": "",
    },
    later="SELECT",
    sequences="USAGE, SELECT",
    runs_functions=True,
)
RIGHTS: dict[Purpose, Rights] = {
    "engine": Rights("SELECT, INSERT, UPDATE, DELETE", {"schema_history": "SELECT"}, "SELECT, INSERT, UPDATE, DELETE", "USAGE, SELECT, UPDATE", True),
    "client": _WRITES_POSTS,
    "read": Rights("SELECT", {"vault": ""}, "SELECT", "SELECT"),
    "transaction": _WRITES_POSTS,
}
"""What each purpose may do. A client starts executions and sends messages, and so does the transaction of a user: it adds to what is there, and can change
no log, no lease and no epoch, remove no execution, and read no secret."""


def grant_statements(schema: str, owner: str, role: str, purpose: Purpose, tables: Sequence[str]) -> list[str]:
    """Returns the statements after which a role has exactly the rights of a purpose on `tables`, which `owner` owns, as one transaction."""
    rights, by_rights = RIGHTS[purpose], dict[str, list[str]]()
    for table in tables:
        by_rights.setdefault(rights.exceptions.get(table, rights.tables), []).append(f"{schema}.{table}")
    parts: list[tuple[str, dict[str, str]]] = [(SQL.begin_grants, {}), (SQL.revoke_rights, {}), (SQL.grant_schema, {})]
    parts += [(SQL.grant_tables, {"rights": right, "tables": ", ".join(granted)}) for right, granted in by_rights.items() if right]
    parts.append((SQL.grant_later_tables, {"rights": rights.later}))
    if rights.sequences:
        parts += [(sql, {"rights": rights.sequences}) for sql in (SQL.grant_sequences, SQL.grant_later_sequences)]
    if rights.runs_functions:
        parts += [(SQL.grant_functions, {}), (SQL.grant_later_functions, {})]
    parts.append((SQL.end_grants, {}))
    return [f"{in_schema(sql, schema).format(role=quoted(role), owner=quoted(owner), **given)};" for sql, given in parts]


def quoted(name: str) -> str:
    """A name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def missing_grant(role: str, what: str, command: str) -> StoreError:
    """The error of a role that lacks a right on a thing, such as ``table heads``, that a command needs."""
    return StoreError(
        f"the role {role} may not use the {what} (it was to run {command}). Its owner grants what is missing: "
        f"perdure db grants {role} --for {'|'.join(PURPOSES)} --yes"
    )


_DENIED_THING = re.compile(r"permission denied for (.+)")


def missing_grant_of(error: BaseException, role: str) -> StoreError | None:
    """The same for an error that Postgres has raised; None if that says something else."""
    if getattr(error, "sqlstate", None) != DENIED:
        return None
    found = _DENIED_THING.search(str(error))
    words = (getattr(error, "query", None) or "a statement").split(maxsplit=1)
    return missing_grant(role, found[1] if found else f"store ({error})", words[0].upper())
