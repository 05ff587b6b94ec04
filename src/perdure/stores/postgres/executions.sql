-- Executions: their heads, logs and attributes; the epoch, and the locks of transactions.

-- name: here
-- A part: the row of an address.
WHERE sha256(address) = sha256($1);

-- name: due
-- A part: the due time of the first message of an execution.
(SELECT min(due_at_s) FROM perdure.mail WHERE sha256(mail.address) = sha256(heads.address));

-- name: lock_places
-- Locks the epoch, shared with others or ({shared} is empty) alone, and places, until the transaction ends.
SELECT pg_advisory_xact_lock{shared}($1) UNION ALL SELECT pg_advisory_xact_lock(number) FROM unnest($2::bigint[]) AS number;

-- name: store_time
-- The time, which is $1 if that is given, and the epoch.
SELECT coalesce($1::float8, extract(epoch FROM clock_timestamp())::float8), epoch FROM perdure.meta;

-- name: raise_epoch
-- Begins the next epoch.
UPDATE perdure.meta SET epoch = epoch + 1;

-- name: notify
-- Notifies a channel when the transaction is durable.
SELECT pg_notify($1, $2);

-- name: create_head
-- Creates a head, unless there is one; returns its number.
INSERT INTO perdure.heads (address, {head_columns}, limited) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, (SELECT min(due_at_s) FROM perdure.mail {here}),
    $10, $11, $12, $13, $14, $15,
    coalesce((SELECT number FROM perdure.queues WHERE name = $13 AND name <> '' AND tenant IN ($2, '') ORDER BY tenant DESC LIMIT 1), 0))
    ON CONFLICT DO NOTHING RETURNING number;

-- name: head_is_there
-- Whether there is a head at an address.
SELECT true FROM perdure.heads {here};

-- name: advance_head
-- Writes the head of a commit that was decided on at the version $2; returns its number.
UPDATE perdure.heads SET version = $3, program = $4, status = $5, wake_at_s = $6, ended_at_s = $7, holder = coalesce(holder, $8)
    {here} AND version = $2 RETURNING number;

-- name: hand_back
-- Has a head wait for the first of its messages and, with $3, gives it back; returns whether others may have waited for its place.
UPDATE perdure.heads SET holder = CASE WHEN $3 THEN NULL ELSE holder END, mail_at_s = {due} WHERE number = $1 AND holder = $2
    RETURNING limited > 0 AND $3;

-- name: is_ready
-- Whether an execution is ready at the time $2.
SELECT ready_at_s <= $2 FROM perdure.heads WHERE number = $1;

-- name: remove_head
-- Removes a head.
DELETE FROM perdure.heads WHERE number = $1;

-- name: remove_log
-- Removes the log of an execution.
DELETE FROM perdure.log WHERE execution = $1;

-- name: append_row
-- Appends a row to a log.
INSERT INTO perdure.log VALUES ($1, $2, $3);

-- name: add_program
-- Records a program that needs capabilities.
INSERT INTO perdure.programs VALUES ($1) ON CONFLICT DO NOTHING;

-- name: programs
-- The programs that need capabilities.
SELECT name FROM perdure.programs;

-- name: rows_after
-- A part: the rows of a log behind a version.
FROM perdure.log WHERE execution = number AND log.version > $2 ORDER BY log.version;

-- name: read_execution
-- A head with the versions and the rows of its log.
SELECT {head_columns_with_attributes}, array(SELECT log.version {rows_after}), array(SELECT row {rows_after}) FROM perdure.heads {here};

-- name: number_at_position
-- The number of the execution at a position or, if it is gone, of its neighbour by the time of creation.
SELECT coalesce((SELECT number FROM perdure.heads {here}),
    (SELECT number FROM perdure.heads WHERE created_at_s <= $2 ORDER BY created_at_s DESC, number DESC LIMIT 1) + $3, 0);

-- name: list_heads
-- A list of heads. {source} is what is read in which {order}, {where} has further conditions.
SELECT {qualified_head_columns} FROM {source} WHERE ($1::text IS NULL OR heads.tenant = $1) AND ($2::text IS NULL OR workflow = $2)
    AND ($3::text[] IS NULL OR status = ANY($3)) AND starts_with(id, $4) AND ($5::bytea[] IS NULL OR address = ANY($5)) AND ($6::bytea IS NULL OR root = $6)
    AND ($7::float8 IS NULL OR created_at_s >= $7) AND ($8::boolean IS NULL OR (ended_at_s IS NOT NULL) = $8){where} ORDER BY {order} LIMIT $9;

-- name: in_order_of_attribute
-- A part: the heads that have an attribute, each once, at its first value in the order.
AND at.name = {name} AND ($1::text IS NULL OR at.tenant = $1) {living} AND NOT EXISTS (SELECT 1 FROM perdure.attributes AS other
    WHERE other.number = at.number AND other.name = at.name AND other.value {further} at.value);

-- name: qualified_head_columns
-- The columns of a head in a query that reads `attributes`, which has a tenant too.
heads.{head_columns_with_attributes};

-- name: remove_attributes
-- Removes the attributes of an execution.
DELETE FROM perdure.attributes WHERE number = $1;

-- name: insert_attributes
-- Adds attributes to an execution.
INSERT INTO perdure.attributes (number, name, value, tenant, ended)
    SELECT $1, its.name, its.value, tenant, ended_at_s IS NOT NULL FROM perdure.heads, unnest($2::text[], $3::bytea[]) AS its(name, value)
    WHERE heads.number = $1;

-- name: set_ended
-- Marks the attributes of an execution that has ended or was reopened.
UPDATE perdure.attributes SET ended = $2 WHERE number = $1 AND ended <> $2;

-- name: count_living
-- How many executions of a tenant that have not ended have an attribute, at most $4.
SELECT count(*) FROM (SELECT 1 FROM perdure.attributes WHERE tenant = $1 AND name = $2 AND value = $3 AND NOT ended LIMIT $4) AS found;

-- name: head_columns
-- The columns of a head that it shares with what is written to it.
tenant, workflow, id, program, root, version, holder, wake_at_s, mail_at_s, status, created_at_s, ended_at_s, queue, lane, priority;

-- name: head_columns_with_attributes
-- The columns of a head, for `head_of`.
{head_columns}, (SELECT string_agg(encode(convert_to(name, 'UTF8'), 'hex') || '=' || encode(value, 'hex'), ',') FROM perdure.attributes
    WHERE attributes.number = heads.number);

-- name: newest_table
-- Whether the newest of the tables is there.
SELECT to_regclass('perdure.restored_rows');
