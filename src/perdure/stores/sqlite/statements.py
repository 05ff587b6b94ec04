"""The statements of the SQLite store, by name: `SQL.read_head` is the text below `-- name: read_head` in one of its files.

Other SQL is elsewhere. `tables.sql` and `triggers.sql` hold what creates things. What sets up a connection, or begins and ends a transaction (`PRAGMA`,
`BEGIN`), is where that happens. Composed in code are lists, in `store_rows` of heads and in `record_rows` of records: their filter decides which index
they read, under which conditions and in which order; the condition of a claim, in `limited_queues`; and the update of those columns of a head that change,
in `store_tables`.
"""

from perdure.stores.sql_queries import SqlQueries

SQL = SqlQueries(
    "perdure.stores.sqlite",
    "blobs.sql",
    "claims.sql",
    "database.sql",
    "executions.sql",
    "feed.sql",
    "holders.sql",
    "limited_queues.sql",
    "messages.sql",
    "move_mark.sql",
    "payloads.sql",
    "records.sql",
    "vault.sql",
)
