-- Claims: what is free and ready, what dead holders hold, and the turns of tenants.

-- name: of_tenants
-- A part: the condition that a claim puts on tenants.
($5::text[] IS NULL OR tenant = ANY($5));

-- name: lives
-- Whether the lease of a claimer lasts, and whether there are queues with limits. The lock lets the holder renew until the claim ends, but not release.
SELECT until_s > $1, EXISTS (SELECT 1 FROM perdure.queues) FROM perdure.holders WHERE name = $2 FOR KEY SHARE;

-- name: assign
-- Gives executions to a claimer; returns their heads.
UPDATE perdure.heads SET holder = $2, wake_at_s = NULL,
    mail_at_s = (SELECT min(due_at_s) FROM perdure.mail WHERE sha256(mail.address) = sha256(heads.address) AND due_at_s > $3)
    WHERE number = ANY($1::bigint[]) RETURNING {head_columns_with_attributes}, number;

-- name: due_messages
-- The messages of executions that are due.
SELECT {message_columns}, heads.number FROM perdure.mail JOIN perdure.heads ON sha256(mail.address) = sha256(heads.address)
    WHERE heads.number = ANY($1::bigint[]) AND due_at_s <= $2 ORDER BY mail.number;

-- name: lease
-- Leases tasks; returns them.
UPDATE perdure.mail SET holder = $2, deliveries = deliveries + 1 WHERE number = ANY($1::bigint[]) RETURNING {message_columns};

-- name: next_time
-- When the next thing that no limits apply to becomes due for a claimer.
SELECT least((SELECT min(first.at_s) FROM unnest($2::text[]) AS name CROSS JOIN LATERAL (SELECT ready_at_s AS at_s FROM perdure.heads
        WHERE limited = 0 AND holder IS NULL AND ready_at_s IS NOT NULL AND program = name AND ($3::bytea[] IS NULL OR root = ANY($3)) AND {of_tenants}
        ORDER BY ready_at_s, number LIMIT 1) AS first),
    (SELECT min(ready_at_s) FROM perdure.heads WHERE limited = 0 AND holder = $4 AND {wanted} AND {of_tenants}),
    (SELECT min(first.at_s) FROM unnest($1::text[]) AS name CROSS JOIN LATERAL (SELECT due_at_s AS at_s FROM perdure.mail
        WHERE limited = 0 AND holder IS NULL AND queue = name AND {of_tenants} ORDER BY due_at_s, number LIMIT 1) AS first));

-- name: holders_in_table
-- A part: the names of all who hold something in {table}, each found behind the one before it.
WITH RECURSIVE names(name) AS (SELECT (SELECT min(holder) FROM perdure.{table} WHERE holder IS NOT NULL)
    UNION ALL SELECT (SELECT min(holder) FROM perdure.{table} WHERE holder > names.name) FROM names WHERE name IS NOT NULL);

-- name: is_dead
-- A part: whether the holder of a name is dead.
name IS NOT NULL AND NOT EXISTS (SELECT 1 FROM perdure.holders WHERE holders.name = names.name AND until_s > $1);

-- name: orphans
-- Some of what dead holders hold.
{holders_in_table} SELECT number FROM names CROSS JOIN LATERAL (SELECT number FROM perdure.{table} WHERE holder = names.name ORDER BY number LIMIT $2) AS held
    WHERE {is_dead} LIMIT $2;

-- name: has_orphans
-- Whether dead holders hold anything.
{holders_in_table} SELECT 1 FROM names WHERE {is_dead} LIMIT 1;

-- name: orphaned
-- A part: that the holder of a thing is dead.
(holder IS NOT NULL AND NOT EXISTS (SELECT 1 FROM perdure.holders WHERE name = holder AND until_s > $1));

-- name: free_executions_of_dead
-- Frees executions of dead holders, and has them awake.
UPDATE perdure.heads SET holder = NULL, wake_at_s = least(coalesce(wake_at_s, created_at_s), $1)
    WHERE number IN (SELECT number FROM perdure.heads WHERE number = ANY($2::bigint[]) AND {orphaned} FOR UPDATE SKIP LOCKED) RETURNING number;

-- name: free_tasks_of_dead
-- Frees tasks of dead holders.
UPDATE perdure.mail SET holder = NULL
    WHERE number IN (SELECT number FROM perdure.mail WHERE number = ANY($2::bigint[]) AND {orphaned} FOR UPDATE SKIP LOCKED) RETURNING number;

-- name: own_executions
-- The executions that the claimer holds already and that are due.
SELECT number, coalesce(ready_at_s, '-infinity'), tenant FROM perdure.heads WHERE limited = 0 AND holder = $4 AND ready_at_s <= $1 AND {wanted} AND {of_tenants}
    ORDER BY ready_at_s, number LIMIT $6;

-- name: free_by_program
-- A part: the free executions of a program.
limited = 0 AND holder IS NULL AND ready_at_s IS NOT NULL AND program;

-- name: free_by_queue
-- A part: the free tasks of a queue.
limited = 0 AND holder IS NULL AND queue;

-- name: first_executions
-- The first free executions of programs that are due.
SELECT first.* FROM unnest($2::text[]) AS name CROSS JOIN LATERAL (SELECT number, ready_at_s, tenant FROM perdure.heads
    WHERE {free_by_program} = name AND ready_at_s <= $1 AND ($3::text[] IS NULL OR tenant = ANY($3)) AND ($5::bytea[] IS NULL OR root = ANY($5))
    ORDER BY ready_at_s, number LIMIT $4) AS first;

-- name: first_tasks
-- The same for tasks of queues; $5 is null.
SELECT first.* FROM unnest($2::text[]) AS name CROSS JOIN LATERAL (SELECT number, due_at_s, tenant FROM perdure.mail
    WHERE {free_by_queue} = name AND due_at_s <= $1 AND ($3::text[] IS NULL OR tenant = ANY($3)) AND $5::bytea[] IS NULL
    ORDER BY due_at_s, number LIMIT $4) AS first;

-- name: tenants_of_program
-- The next tenants that have free executions of a program; {behind} compares with the last one.
WITH RECURSIVE found(tenant, count) AS (SELECT (SELECT min(tenant) FROM perdure.heads WHERE {free_by_program} = $1 AND tenant {behind} $2), 1
    UNION ALL SELECT (SELECT min(tenant) FROM perdure.heads WHERE {free_by_program} = $1 AND tenant > found.tenant), count + 1 FROM found
        WHERE found.tenant IS NOT NULL AND count < $3)
    SELECT tenant FROM found WHERE tenant IS NOT NULL;

-- name: tenants_of_queue
-- The same for tasks of a queue.
WITH RECURSIVE found(tenant, count) AS (SELECT (SELECT min(tenant) FROM perdure.mail WHERE {free_by_queue} = $1 AND tenant {behind} $2), 1
    UNION ALL SELECT (SELECT min(tenant) FROM perdure.mail WHERE {free_by_queue} = $1 AND tenant > found.tenant), count + 1 FROM found
        WHERE found.tenant IS NOT NULL AND count < $3)
    SELECT tenant FROM found WHERE tenant IS NOT NULL;

-- name: executions_of_tenants
-- The first free executions of a program that are due, of each of some tenants.
SELECT first.* FROM unnest($3::text[]) AS whose CROSS JOIN LATERAL (SELECT number, ready_at_s, tenant FROM perdure.heads
    WHERE {free_by_program} = $2 AND tenant = whose AND ready_at_s <= $1 ORDER BY ready_at_s, number LIMIT $4) AS first;

-- name: tasks_of_tenants
-- The same for tasks of a queue.
SELECT first.* FROM unnest($3::text[]) AS whose CROSS JOIN LATERAL (SELECT number, due_at_s, tenant FROM perdure.mail
    WHERE {free_by_queue} = $2 AND tenant = whose AND due_at_s <= $1 ORDER BY due_at_s, number LIMIT $4) AS first;

-- name: lock_free_executions
-- Locks executions that were chosen, unless another transaction has them.
SELECT number FROM perdure.heads
    WHERE number = ANY($2::bigint[]) AND (holder IS NULL OR holder = $3) AND ready_at_s <= $1 FOR UPDATE SKIP LOCKED;

-- name: lock_free_tasks
-- The same for tasks.
SELECT number FROM perdure.mail
    WHERE number = ANY($2::bigint[]) AND (holder IS NULL OR holder = $3) AND due_at_s <= $1 FOR UPDATE SKIP LOCKED;

-- name: turns_of_tenants
-- The last turns of tenants.
SELECT tenant, turn FROM perdure.tenant_turns WHERE work = $1 AND tenant = ANY($2::text[]);

-- name: last_turn
-- The last turn of all, and whose it was.
SELECT tenant, turn FROM perdure.tenant_turns ORDER BY turn DESC LIMIT 1;

-- name: take_turns
-- Records the turns of tenants.
INSERT INTO perdure.tenant_turns SELECT tenant, $1, turn FROM unnest($2::text[], $3::float8[]) AS given(tenant, turn)
    ON CONFLICT (tenant, work) DO UPDATE SET turn = excluded.turn;

-- name: forget_turns
-- Forgets some turns that are long past.
DELETE FROM perdure.tenant_turns WHERE ctid = ANY(ARRAY(SELECT ctid FROM perdure.tenant_turns WHERE turn < $1 ORDER BY turn LIMIT $2));
