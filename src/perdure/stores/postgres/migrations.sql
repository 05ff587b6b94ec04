-- The state of a schema, its history, and what migrations do besides their scripts.

-- name: schema_state
-- What a role finds in the schema $1, where $2 is the right to act as another role: the database, the role, whether the schema has a word of SQL as its
-- name, whether the server is a standby, whether there is a schema, who owns its history or else itself, whether the role may use it, whether it has a history, whether the role may read that, whether the schema
-- has tables of a store without a history, whether it has any others, whether the role may act as the owner, whether it may create here, and its OID.
SELECT current_database()::text, current_user::text, quote_ident($1::text) <> $1::text, pg_is_in_recovery(), space.oid IS NOT NULL,
    pg_get_userbyid(coalesce(history.relowner, space.nspowner))::text,
    coalesce(has_schema_privilege(space.oid, 'USAGE'), true), history.oid IS NOT NULL, coalesce(has_table_privilege(history.oid, 'SELECT'), true),
    EXISTS (SELECT FROM pg_class WHERE relnamespace = space.oid AND relname = 'meta') AND history.oid IS NULL,
    EXISTS (SELECT FROM pg_class WHERE relnamespace = space.oid AND relkind IN ('r', 'p', 'v', 'm', 'S', 'f')) AND history.oid IS NULL,
    coalesce(pg_has_role(coalesce(history.relowner, space.nspowner), $2), false),
    CASE WHEN space.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE') ELSE has_schema_privilege(space.oid, 'CREATE') END,
    has_database_privilege(current_database(), 'CREATE')
FROM (SELECT 1) AS one LEFT JOIN pg_namespace AS space ON space.nspname = $1::text
    LEFT JOIN pg_class AS history ON history.relnamespace = space.oid AND history.relname = 'schema_history';

-- name: schema_history
-- The scripts that were applied.
SELECT number, name, sha256, works_from, applied_at, perdure_version FROM perdure.schema_history ORDER BY number;

-- name: create_history
-- Creates the history.
CREATE TABLE perdure.schema_history (
    number int PRIMARY KEY,
    name text NOT NULL,
    sha256 text NOT NULL,
    works_from int NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    perdure_version text NOT NULL
);

-- name: end_script
-- Ends a script: only those run a function to whom it is granted, and the history has the script.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA perdure FROM PUBLIC;
INSERT INTO perdure.schema_history (number, name, sha256, works_from, perdure_version) VALUES ({number}, '{name}', '{sha256}', {works_from}, '{version}');

-- name: migration_settings
-- Sets what a script needs: nothing but a lock ends it early, which waits {lock_timeout_s} seconds, and names are complete. With {local}, for a transaction.
SELECT set_config(name, '0', {local}) FROM pg_settings WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout');
SELECT set_config('lock_timeout', '{lock_timeout_s}s', {local}), set_config('search_path', 'pg_catalog, pg_temp', {local});

-- name: reset_migration_settings
-- Sets all of that back to what the connection began with.
RESET ALL;
RESET ROLE;

-- name: try_lock_migrations
-- Takes the lock of migrations until the transaction ends, unless another process has it. (Who waits for a lock in a statement delays the making of indexes.)
SELECT pg_try_advisory_xact_lock($1);

-- name: try_hold_migrations
-- The same until `release_migrations`.
SELECT pg_try_advisory_lock($1);

-- name: release_migrations
-- Gives the lock back.
SELECT pg_advisory_unlock($1);

-- name: is_index_valid
-- Whether an index is complete; no row if there is none.
SELECT indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE relnamespace = $1::text::regnamespace AND relname = $2;

-- name: drop_index
-- Removes an index while others write.
DROP INDEX CONCURRENTLY IF EXISTS perdure.{name};

-- name: expect_schema
-- Fails, unless the tables have the version before that of a script.
DO $expect$ BEGIN
    IF to_regclass('perdure.schema_history') IS NULL THEN
        IF {before} > 0 THEN RAISE EXCEPTION '{name} needs tables of version {before}, and there are none; nothing was changed'; END IF;
    ELSIF (SELECT coalesce(max(number), 0) FROM perdure.schema_history) <> {before} THEN
        RAISE EXCEPTION '{name} needs tables of version {before}, and these have another; nothing was changed';
    END IF;
END $expect$;

-- name: long_transactions
-- The longest transactions that are open beside this one: process, role, program, and for how many seconds.
SELECT pid, coalesce(usename, '')::text, coalesce(application_name, ''), extract(epoch FROM clock_timestamp() - xact_start)::float8
    FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL ORDER BY xact_start LIMIT 3;
