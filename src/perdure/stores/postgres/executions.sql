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
-- A list of heads: those in {source} that satisfy {where}, in this {order}.
SELECT {qualified_head_columns} FROM {source} WHERE {where} ORDER BY {order} LIMIT {limit};

-- name: list_heads_of_lines
-- A list of heads of a tenant, the newest first, merged from its lines: a line holds the heads of one workflow and one status, and is found by one lookup behind
-- the line before it. The order within a line names all columns of its index, since a plan by the primary key would pass over all other lines.
WITH RECURSIVE lines(workflow, status) AS (
        (SELECT workflow, status FROM perdure.heads WHERE tenant = {tenant} ORDER BY tenant, workflow, status LIMIT 1)
        UNION ALL SELECT next.* FROM lines CROSS JOIN LATERAL (SELECT heads.workflow, heads.status FROM perdure.heads
            WHERE heads.tenant = {tenant} AND (heads.workflow, heads.status) > (lines.workflow, lines.status)
            ORDER BY heads.tenant, heads.workflow, heads.status LIMIT 1) AS next),
    first AS (SELECT line.number FROM (SELECT workflow, status FROM lines WHERE {lines}) AS its CROSS JOIN LATERAL (SELECT heads.number FROM perdure.heads
        WHERE heads.tenant = {tenant} AND heads.workflow = its.workflow AND heads.status = its.status AND {where}
        ORDER BY heads.tenant DESC, heads.workflow DESC, heads.status DESC, heads.number DESC LIMIT {limit}) AS line ORDER BY line.number DESC LIMIT {limit})
    SELECT {qualified_head_columns} FROM perdure.heads WHERE heads.number = ANY(ARRAY(SELECT number FROM first)) ORDER BY heads.number DESC;

-- name: heads_at
-- A part: heads at these addresses, each found by its hash.
heads.number = ANY(ARRAY(SELECT found.number FROM unnest({addresses}) AS its(address)
    CROSS JOIN LATERAL (SELECT number FROM perdure.heads WHERE sha256(heads.address) = sha256(its.address) LIMIT 1) AS found));

-- name: heads_of_family
-- A part: an execution that was not started by another one, and all below it.
heads.number = ANY(ARRAY(SELECT number FROM perdure.heads WHERE sha256(root) = sha256({root}) AND root <> address
    UNION ALL SELECT number FROM perdure.heads WHERE sha256(address) = sha256({root}) AND root = address));

-- name: heads_by_id
-- The heads of a tenant whose ids are between two texts.
SELECT number FROM perdure.heads WHERE tenant = {tenant} AND id COLLATE "C" >= {first} AND id COLLATE "C" <= {last};

-- name: created_from
-- A part: heads that were created at a time or later. The first number among them ends the search where those before begin.
heads.created_at_s >= {from_s} AND heads.number >= (SELECT min(number) FROM perdure.heads WHERE created_at_s >= {from_s});

-- name: is_first_value
-- A part: each head once, at its first value in the order.
NOT EXISTS (SELECT 1 FROM perdure.attributes AS other WHERE other.number = at.number AND other.name = at.name AND other.value {further} at.value);

-- name: count_up_to
-- How many rows a query has, counted up to a limit.
SELECT count(*) FROM ({query} LIMIT {limit}) AS counted;

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
