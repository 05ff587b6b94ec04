"""The statements of the Postgres store that are in files, by name: `SQL.lock_feed` is the text below `-- name: lock_feed` in one of them.

The other statements are still in the modules that execute them. `tables.sql` and `feed_triggers.sql` hold what creates things.
"""

from perdure.stores.sql_queries import SqlQueries

SQL = SqlQueries("perdure.stores.postgres", "blobs.sql", "feed.sql", "limited_queues.sql", "vault.sql")
FEED_TRIGGERS = SqlQueries("perdure.stores.postgres", "feed_triggers.sql")
