"""The statements of the Postgres store, by name: `SQL.lock_feed` is the text below `-- name: lock_feed` in one of its files.

What creates and changes tables and functions is in `migrations/`.
"""

import re
from functools import cache

from perdure.stores.sql_queries import SqlQueries

SQL = SqlQueries(
    "perdure.stores.postgres",
    *(
        "blobs.sql",
        "claims.sql",
        "connections.sql",
        "executions.sql",
        "feed.sql",
        "grants.sql",
        "holders.sql",
        "limited_queues.sql",
        "messages.sql",
        "migrations.sql",
        "months.sql",
        "move_mark.sql",
        "schema_check.sql",
        "records.sql",
        "transactions.sql",
        "vault.sql",
    ),
)

PERDURE_WORD = re.compile(r"\bperdure\b")


@cache
def in_schema(sql: str, schema: str) -> str:
    """Returns SQL in which the schema is `schema`. All SQL of this package names the schema ``perdure``, and uses this word for nothing else."""
    return sql if schema == "perdure" else PERDURE_WORD.sub(schema, sql)
