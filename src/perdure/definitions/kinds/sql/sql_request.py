"""What an sql step asks for: its statements, how their results are taken, and the values that are bound to them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args

from perdure.definitions.format.verb_shapes import CONNECTION_PATTERN
from perdure.definitions.kinds.sql.sql_errors import SqlRefused, TooManyRows, UnexpectedRows
from perdure.definitions.kinds.sql.sql_text import KEY_NAME, SqlText, label_of_sql, parse_sql, text_problems

ResultForm = Literal["rows", "row", "value", "count"]
"""How the result of a statement is taken: all rows, the only row, its only column, or how many rows were changed."""

RESULT_FORMS: tuple[ResultForm, ...] = get_args(ResultForm)
ROWS_MAX, ROWS_MAX_MOST = 1_000, 100_000
"""How many rows a statement may return: unless the step says otherwise, and at most."""

STATEMENTS_MAX = 100
FIELDS = ("connection", "query", "execute", "result", "expect", "max_rows")
STATEMENT_FIELDS = ("statement", "result", "expect")
VERB_ONLY = "its statements stand behind the verb `sql`, where they are checked and are the same in every execution"


class SqlStatement(NamedTuple):
    """One statement. `expect` is how many rows it has to change or return (None: any number); `where` names it in messages."""

    text: SqlText
    result: ResultForm
    expect: int | None
    where: str


class SqlRequest(NamedTuple):
    """The statements of a step, which are one transaction, and their values by name. `reads`: the transaction changes nothing. `is_list`: so is the result."""

    connection: str
    statements: tuple[SqlStatement, ...]
    values: Mapping[str, Any]
    reads: bool
    is_list: bool
    rows_max: int = ROWS_MAX

    def result(self, results: list[Any]) -> Any:
        """The result of the step, of those of its statements."""
        return results if self.is_list else results[0]

    @property
    def secret_values(self) -> Iterator[Any]:
        """The values that no message may show."""
        return (value for name, value in self.values.items() if name != KEY_NAME)


def build_request(config: Any, given: Any, key: str) -> SqlRequest:
    """The request of a step: `given` are the values by name, `key` is the idempotency key of the step.

    Raises:
        SqlRefused: it is not a valid request.
    """
    if not isinstance(config, Mapping):
        raise SqlRefused(f"sql: {VERB_ONLY}")
    for where, what in check_config(config):
        raise SqlRefused(f"sql{where.replace('/', '.')}: {what}")
    for where, what in _value_problems(config, given):
        raise SqlRefused(f"sql{where}: {what}")
    reads, connection = "query" in config, config["connection"]
    said = config["query"] if reads else config["execute"]
    default: ResultForm = "rows" if reads else "count"
    several = isinstance(said, list)
    parts = [_fields(one, {} if several else config) for one in (said if several else [said])]
    statements = tuple(
        SqlStatement(
            parse_sql(part["statement"]),
            part.get("result", default),
            part.get("expect"),
            f"{connection}: {f'statement {number}: ' if several else ''}{label_of_sql(part['statement'])}",
        )
        for number, part in enumerate(parts, 1)
    )
    return SqlRequest(connection, statements, {**(given or {}), KEY_NAME: key}, reads, several, config.get("max_rows", ROWS_MAX))


def _fields(said: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of one statement, which may be its text alone."""
    return {**{name: config[name] for name in STATEMENT_FIELDS if name in config}, **(said if isinstance(said, Mapping) else {"statement": said})}


def taken_result(statement: SqlStatement, rows: list[dict[str, Any]], count: int, columns: int) -> Any:
    """Returns the result of a statement in the form that it asks for. `count` is how many rows it has changed, or returned.

    Raises:
        UnexpectedRows: the number of rows is another than the one that is expected, or a single one is asked for and there are more.
        SqlRefused: it has no rows or several columns, and its result is to be a value.
    """
    if statement.expect is not None and count != statement.expect:
        raise UnexpectedRows(f"{statement.where}: {count} rows were changed or returned, and {statement.expect} were expected; nothing was kept")
    if statement.result == "count":
        return count
    if not columns:
        raise SqlRefused(f"{statement.where}: it returns no rows; take its result as count, or let it return some (RETURNING)")
    if statement.result == "rows":
        return rows
    if len(rows) > 1:
        raise UnexpectedRows(f"{statement.where}: it has returned {len(rows)} rows, and its result is one {statement.result}; take it as rows, or select fewer")
    if statement.result == "value" and columns != 1:
        raise SqlRefused(f"{statement.where}: it returns {columns} columns, and its result is one value; take it as row, or select one column")
    row = rows[0] if rows else None
    return row if row is None or statement.result == "row" else next(iter(row.values()))


def check_rows(statement: SqlStatement, number: int, rows_max: int) -> None:
    """Checks how many rows a statement has returned.

    Raises:
        TooManyRows: more than the step allows.
    """
    if number > rows_max:
        raise TooManyRows(f"{statement.where}: it returns more than {rows_max:,} rows; select fewer, or allow more by max_rows (up to {ROWS_MAX_MOST:,})")


def check_columns(statement: SqlStatement, names: list[str]) -> None:
    """Checks that each column of a result has a name of its own.

    Raises:
        SqlRefused: two have the same.
    """
    twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if twice is not None:
        raise SqlRefused(f"{statement.where}: two columns of its result are called {twice}; name them with AS")


def check_config(config: Any) -> Iterator[tuple[str, str]]:
    """Yields the problems of a config beyond its JSON Schema, as JSON pointers and texts."""
    if not isinstance(config, Mapping):
        yield "", "it is a mapping of connection and query or execute"
        return
    yield from ((f"/{name}", f"it is no field of sql, which has {', '.join(FIELDS)}") for name in config if name not in FIELDS)
    connection = config.get("connection")
    if not isinstance(connection, str) or not re.fullmatch(CONNECTION_PATTERN, connection):
        yield "/connection", "it is the name of a connection of the deployment: a to z, digits and _"
    if ("query" in config) is ("execute" in config):
        yield "", "it has either query, which only reads, or execute"
        return
    reads = "query" in config
    field = "query" if reads else "execute"
    said = config[field]
    if isinstance(said, list) and not reads:
        yield from _list_problems(config, said)
    else:
        yield from _statement_problems(f"/{field}", _fields(said, config) if isinstance(said, str) else {"statement": said}, reads)
    most = config.get("max_rows", ROWS_MAX)
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= ROWS_MAX_MOST:
        yield "/max_rows", f"it is a whole number from 1 to {ROWS_MAX_MOST:,}"


def _list_problems(config: Mapping[str, Any], statements: list[Any]) -> Iterator[tuple[str, str]]:
    if not 1 <= len(statements) <= STATEMENTS_MAX:
        yield "/execute", f"it has 1 to {STATEMENTS_MAX} statements"
    for name in ("result", "expect"):
        if name in config:
            yield f"/{name}", f"each statement of a list has its own: {{statement: …, {name}: …}}"
    for number, one in enumerate(statements):
        yield from _statement_problems(f"/execute/{number}", _fields(one, {}), False)


def _statement_problems(where: str, said: Mapping[str, Any], reads: bool) -> Iterator[tuple[str, str]]:
    text = said.get("statement")
    if not isinstance(text, str):
        yield where, "a statement is text"
        return
    yield from ((where, why) for why in text_problems(text, reads=reads))
    yield from ((f"{where}/{name}", f"it is no field of a statement, which has {', '.join(STATEMENT_FIELDS)}") for name in said if name not in STATEMENT_FIELDS)
    if said.get("result", "rows") not in RESULT_FORMS:
        yield where, f"its result is taken as {', '.join(RESULT_FORMS[:-1])} or {RESULT_FORMS[-1]}"
    expect = said.get("expect", 0)
    if not isinstance(expect, int) or isinstance(expect, bool) or expect < 0:
        yield where, "expect is the number of rows that it has to change or return"


def check_sql_step(step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the problems of a whole step: values that are missing or not used, and statements in another place than behind the verb."""
    if step.get("env"):
        yield "", "a statement has no environment; put what is in `env` into `with`"
    config = step.get("sql")
    if "sql" not in step:
        yield "", VERB_ONLY
    elif isinstance(config, Mapping) and not isinstance(step.get("with"), str):
        yield from _value_problems(config, step.get("with"))


def _value_problems(config: Mapping[str, Any], given: Any) -> Iterator[tuple[str, str]]:
    """The problems of the values that are given to the statements of a config."""
    if given is not None and not isinstance(given, Mapping):
        yield "", "`with` has the values of its placeholders by name"
        return
    names = _placeholders(config)
    values = given or {}
    if KEY_NAME in values:
        yield "", f":{KEY_NAME} is the key of the step, which Perdure gives; call yours another name"
    for name in names - values.keys() - {KEY_NAME}:
        yield "", f"the placeholder :{name} has no value; give it in with: {{{name}: …}} (inside of text or a slice, write a space behind the colon)"
    for name in values.keys() - names - {KEY_NAME}:
        yield "", f"no statement has the placeholder :{name}; leave its value out of `with`, or use it"


def _placeholders(config: Mapping[str, Any]) -> set[str]:
    said = config.get("query", config.get("execute"))
    texts = [one.get("statement") if isinstance(one, Mapping) else one for one in (said if isinstance(said, list) else [said])]
    return {name for text in texts if isinstance(text, str) for name in parse_sql(text).names}


def written_request(config: Any) -> Any:
    """Returns a config whose statements are left as they are when references are resolved, whatever is in them.

    Raises:
        SqlRefused: it is not a mapping, so that its statements would come from data.
    """
    if not isinstance(config, Mapping):
        raise SqlRefused(f"sql: {VERB_ONLY}")
    return {name: _literal(value) if name in ("connection", "query", "execute") else value for name, value in config.items()}


def undo_request(written: Any) -> dict[str, Any]:
    """Returns the config and the values of an undo, whose ``with`` has the fields of the verb, and the values in its own ``with``.

    Raises:
        SqlRefused: it is not a mapping.
    """
    if not isinstance(written, Mapping):
        raise SqlRefused(f"sql: {VERB_ONLY}")
    return {"config": {name: value for name, value in written.items() if name != "with"}, "input": written.get("with")}


def _literal(value: Any) -> Any:
    match value:
        case str():
            return value.replace("@", "@@")
        case list():
            return [_literal(one) for one in value]
        case Mapping():
            return {name: _literal(one) for name, one in value.items()}
    return value
