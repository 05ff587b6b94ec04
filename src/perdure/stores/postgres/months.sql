-- Months: which there are, what is left in them, and their removal.

-- name: months
-- The months that ended before a time: their numbers and names, when each begins and ends, and its size.
SELECT month, name, extract(epoch FROM begins)::float8, extract(epoch FROM begins + interval '1 month')::float8,
    pg_total_relation_size(('perdure.log_' || name)::regclass) + pg_total_relation_size(('perdure.blobs_' || name)::regclass)
    FROM perdure.months, LATERAL (SELECT to_date(name, 'YYYY_MM')::timestamp AT TIME ZONE 'UTC' AS begins) AS its
    WHERE month BETWEEN 0 AND perdure.month_of($1) - 1 ORDER BY month;

-- name: move_kept_logs
-- Moves the logs of some executions of a month that have ended, and whose log is one row, to what is kept; returns the last of them.
WITH old AS (SELECT number, created_at_s FROM perdure.heads WHERE created_at_s >= $2 AND created_at_s < $3 AND (created_at_s, number) > ($4, $5) AND month = $1
        AND ended_at_s IS NOT NULL AND holder IS NULL AND (SELECT count(*) FROM (SELECT FROM perdure.log WHERE execution = number AND log.month = $1 LIMIT 2) AS two) < 2
        ORDER BY created_at_s, number LIMIT $6 FOR UPDATE OF heads SKIP LOCKED),
    logs AS (UPDATE perdure.log SET month = -1 FROM old WHERE log.month = $1 AND execution = old.number),
    moved AS (UPDATE perdure.heads SET month = -1 FROM old WHERE heads.number = old.number)
    SELECT created_at_s, number FROM old ORDER BY created_at_s DESC, number DESC LIMIT 1;

-- name: left_in_month
-- How many executions have a log in a month, and how many of them have not ended.
SELECT count(*), count(*) FILTER (WHERE ended_at_s IS NULL) FROM perdure.heads WHERE created_at_s >= $2 AND created_at_s < $3 AND month = $1;

-- name: move_blobs
-- Moves some blobs of a month to the present one; returns how many there were.
WITH old AS (DELETE FROM perdure.blobs WHERE month = $1 AND sha256 IN (SELECT sha256 FROM perdure.blobs WHERE month = $1 LIMIT $2) RETURNING sha256, bytes),
    moved AS (INSERT INTO perdure.blobs SELECT perdure.month_of($3), sha256, bytes FROM old ON CONFLICT DO NOTHING)
    SELECT count(*) FROM old;

-- name: lock_creations
-- Waits for those who are creating executions, and lets nobody else create one, until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('perdure.creations', 0));

-- name: close_month
-- Takes a month out of the list, so that nothing is added to it any more.
DELETE FROM perdure.months WHERE month = $1;

-- name: closed_tables
-- The tables of months that are not in the list: their parents, if they are attached, and whether a removal was interrupted.
SELECT part.relname::text, parent.relname::text, coalesce(inhdetachpending, false) FROM pg_class AS part
    LEFT JOIN pg_inherits ON inhrelid = part.oid LEFT JOIN pg_class AS parent ON parent.oid = inhparent
    WHERE part.relnamespace = 'perdure'::regnamespace AND part.relkind = 'r' AND part.relname ~ '^(log|blobs)_[0-9]+_[0-9]+$'
        AND NOT EXISTS (SELECT FROM perdure.months WHERE part.relname IN ('log_' || name, 'blobs_' || name)) ORDER BY part.relname;

-- name: detach_table
-- Takes a table out of its parent, while others work.
ALTER TABLE perdure.{parent} DETACH PARTITION perdure.{table} {how};

-- name: drop_table
-- Removes a table.
DROP TABLE perdure.{table};

-- name: owner_of_tables
-- Whether the role may remove tables, its name and that of their owner.
SELECT pg_has_role(relowner, 'USAGE'), current_user::text, relowner::regrole::text FROM pg_class WHERE oid = 'perdure.log'::regclass;
