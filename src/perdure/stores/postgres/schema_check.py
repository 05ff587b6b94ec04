"""Compares a schema with what its migrations make: they are run in a schema that is never committed, and the catalogs of both are compared."""

import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import msgspec

from perdure.core.errors import StoreError
from perdure.stores.postgres.migrations import STATEMENT_S, SchemaMigrations, SchemaState
from perdure.stores.postgres.statements import SQL, in_schema


class SchemaDifference(msgspec.Struct, frozen=True):
    """Something in which a schema is not as the migrations make it. `expected` and `found` are definitions, or owners if the `problem` is the owner."""

    kind: str
    name: str
    problem: Literal["missing", "different", "additional", "owner"]
    expected: str | None = None
    found: str | None = None

    def __str__(self) -> str:
        match self.problem:
            case "missing":
                return f"the {self.kind} {self.name} is missing"
            case "additional":
                return f"the {self.kind} {self.name} is there and no migration makes it"
            case "owner":
                return f"the {self.kind} {self.name} belongs to the role {self.found} and not to {self.expected}"
            case _:
                return f"the {self.kind} {self.name} is {self.found!r} and not {self.expected!r}"


class _Thing(NamedTuple):
    definition: str
    owner: str | None


_Things = dict[tuple[str, str], _Thing]


async def schema_differences(connection: Any, migrations: SchemaMigrations, state: SchemaState) -> list[SchemaDifference]:
    """Compares a schema with what the scripts that it has make. Nothing is changed, and nobody is kept waiting.

    Tables, functions and indexes that are there in addition do not count, but columns, constraints, triggers and unique indexes of Perdure's tables do.

    Raises:
        StoreError: the role may not create the schema to compare with.
    """
    if not state.may_create_schemas:
        raise StoreError(
            f"the tables of {state.place} can't be compared: that needs a second schema, which is not kept, and the role {state.role} may not create one. "
            f"Use a role that may (GRANT CREATE ON DATABASE {state.database})"
        )
    if not state.has_history:
        return []
    made_in = f"perdure_check_{uuid4().hex[:12]}"
    transaction = connection.transaction(isolation="read_committed")
    await transaction.start()
    try:
        await connection.execute(SQL.migration_settings.format(local="true", lock_timeout_s=0))
        found = await _things(connection, migrations.schema)
        await connection.execute(_made(migrations, state, made_in), timeout=STATEMENT_S)
        expected = await _things(connection, made_in)
    finally:
        await transaction.rollback()
    return [*_differences(expected, found), *_foreign(expected, found, state.owner)]


def _made(migrations: SchemaMigrations, state: SchemaState, schema: str) -> str:
    """Returns the SQL that makes the tables in an empty schema, within a transaction: indexes are made at once there, and there are no rows to change."""
    parts = ["CREATE SCHEMA perdure", SQL.create_history]
    for script in migrations.scripts[: state.number]:
        if script.in_transaction:
            parts.append(script.text)
        else:
            parts += [statement.replace(" CONCURRENTLY", "", 1) for statement in script.statements if not statement.startswith("DO ")]
    parts.append("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA perdure FROM PUBLIC")
    return in_schema(";\n".join(part.rstrip().removesuffix(";") for part in parts), schema)


async def _things(connection: Any, schema: str) -> _Things:
    """Returns what is in a schema, by kind and name, in words that do not name the schema."""
    rows = await connection.fetch(SQL.describe_schema, schema)
    word = re.compile(rf"\b{schema}\b")
    return {(kind, word.sub("perdure", name)): _Thing(word.sub("perdure", definition), owner) for kind, name, definition, owner in rows}


def _differences(expected: _Things, found: _Things) -> Iterator[SchemaDifference]:
    tables = {name for kind, name in expected if kind in ("table", "type")}
    for (kind, name), thing in expected.items():
        there = found.get((kind, name))
        if there is None:
            yield SchemaDifference(kind, name, "missing", thing.definition)
        elif there.definition != thing.definition:
            yield SchemaDifference(kind, name, "different", thing.definition, there.definition)
    for (kind, name), there in found.items():
        if (kind, name) not in expected and _matters(kind, name, there.definition, tables):
            yield SchemaDifference(kind, name, "additional", None, there.definition)


def _matters(kind: str, name: str, definition: str, tables: set[str]) -> bool:
    """Whether something that no migration makes has an effect on the tables of Perdure."""
    if kind == "index":
        on = re.match(r"CREATE UNIQUE INDEX \S+ ON (?:ONLY )?perdure\.(\w+)", definition)
        return on is not None and on[1] in tables
    return kind in ("column", "constraint", "trigger") and name.partition(".")[0] in tables


def _foreign(expected: _Things, found: _Things, owner: str | None) -> Iterator[SchemaDifference]:
    for (kind, name), thing in found.items():
        if (kind, name) in expected and thing.owner not in (None, owner):
            yield SchemaDifference(kind, name, "owner", owner, thing.owner)
