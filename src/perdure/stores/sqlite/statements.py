"""The statements of the SQLite store, by name: `SQL.read_head` is the text below `-- name: read_head` in one of its files.

Three kinds of SQL are not in the files. `tables.sql` and `triggers.sql` create things and have no names of statements. Statements that set up a connection
or begin and end a transaction (`PRAGMA`, `BEGIN`) stay where that happens. And lists with filters are composed of conditions, in `store_rows` for heads
and in `record_rows` for records: which index they read, and therefore their text, depends on the filter.
"""

from perdure.stores.sql_queries import SqlQueries

SQL = SqlQueries("perdure.stores.sqlite", "vault.sql")
