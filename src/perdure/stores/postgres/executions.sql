-- Executions: their heads, logs and attributes; the epoch, and the locks of transactions.

-- name: here
-- A part: the row of an address.
WHERE sha256(address) = sha256($1);

-- name: lock_epoch
-- Locks the epoch until the transaction ends: shared with others or ({shared} is empty) alone.
SELECT pg_advisory_xact_lock{shared}(hashtextextended('perdure.epoch', 0));

-- name: store_time
-- The time, which is $1 if that is given, and the epoch.
SELECT coalesce($1::float8, extract(epoch FROM clock_timestamp())::float8), epoch FROM perdure.meta;

-- name: raise_epoch
-- Begins the next epoch.
UPDATE perdure.meta SET epoch = epoch + 1;

-- name: notify
-- Notifies a channel (its name in the schema ``perdure``) when the transaction is durable, and counts that for stores that poll.
SELECT pg_notify('perdure' || right($1, 5), $2), nextval(('perdure.' || right($1, 4) || '_count')::regclass);

-- name: remove_head
-- Removes a head.
DELETE FROM perdure.heads WHERE number = $1;

-- name: remove_log
-- Removes the log of an execution.
DELETE FROM perdure.log WHERE execution = $1;

-- name: add_program
-- Records a program that needs capabilities.
INSERT INTO perdure.programs VALUES ($1) ON CONFLICT DO NOTHING;

-- name: rows_after
-- A part: the rows of a log behind a version.
FROM perdure.log WHERE execution = number AND log.month = heads.month AND log.version > $2 ORDER BY log.version;

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

-- name: head_columns
-- The columns of a head that it shares with what is written to it.
tenant, workflow, id, program, root, version, holder, wake_at_s, mail_at_s, status, created_at_s, ended_at_s, queue, lane, priority;

-- name: head_columns_with_attributes
-- The columns of a head, for `head_of`.
{head_columns}, (SELECT string_agg(encode(convert_to(name, 'UTF8'), 'hex') || '=' || encode(value, 'hex'), ',') FROM perdure.attributes
    WHERE attributes.number = heads.number);
