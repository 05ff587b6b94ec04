-- Claims: what is ready and free, or held by the claimer or by the dead; and who gets it.
--
-- What is free and due is found in order of time under each name (a program or a queue), from indexes of what has no holder. Slots: {names} and {tenants} are
-- VALUES lists of parameters, {wanted} is the condition that the claim puts on programs, tenants and roots (`claim_condition`).
-- Names and tenants cannot be passed as JSON: SQLite ends its strings at a NUL.

-- name: is_free_head
-- A part: the condition of the index of executions without a holder, outside of queues with limits; `program =` follows.
limited = 0 AND holder IS NULL AND ready_at_s IS NOT NULL AND program

-- name: is_free_work
-- A part: the condition of the index of tasks without a holder and outside of limits; `queue =` follows.
limited = 0 AND queue IS NOT NULL AND holder IS NULL AND queue

-- name: free_executions
-- The first few executions that are free and due, of each program.
SELECT number, ready_at_s, tenant FROM ({names}) AS name CROSS JOIN heads AS waiting WHERE waiting.number IN (
    SELECT number FROM heads WHERE {is_free_head} = name.column1 AND ready_at_s <= ? ORDER BY ready_at_s, number LIMIT ?);

-- name: free_work
-- The first few tasks that are free and due, of each queue.
SELECT number, due_at_s, tenant FROM ({names}) AS name CROSS JOIN mail AS waiting WHERE waiting.number IN (
    SELECT number FROM mail WHERE {is_free_work} = name.column1 AND due_at_s <= ? ORDER BY due_at_s, number LIMIT ?);

-- name: free_executions_of_tenants
-- The first few executions that are free and due, of each tenant and program.
SELECT number, ready_at_s, waiting.tenant FROM ({tenants}) AS whose CROSS JOIN ({names}) AS name CROSS JOIN heads AS waiting
    WHERE waiting.number IN (SELECT number FROM heads WHERE {is_free_head} = name.column1 AND tenant = whose.column1 AND ready_at_s <= ?
    ORDER BY ready_at_s, number LIMIT ?);

-- name: free_work_of_tenants
-- The first few tasks that are free and due, of each tenant and queue.
SELECT number, due_at_s, waiting.tenant FROM ({tenants}) AS whose CROSS JOIN ({names}) AS name CROSS JOIN mail AS waiting
    WHERE waiting.number IN (SELECT number FROM mail WHERE {is_free_work} = name.column1 AND tenant = whose.column1 AND due_at_s <= ?
    ORDER BY due_at_s, number LIMIT ?);

-- name: tenants_with_executions
-- The first tenants (?3 at most) behind a tenant (?2; {behind} is > or >=) that have a free execution of a program (?1), each by one index lookup.
WITH RECURSIVE found(tenant, count) AS (SELECT (SELECT min(tenant) FROM heads WHERE {is_free_head} = ?1 AND tenant {behind} ?2), 1
    UNION ALL SELECT (SELECT min(tenant) FROM heads WHERE {is_free_head} = ?1 AND tenant > found.tenant), count + 1 FROM found
        WHERE found.tenant IS NOT NULL AND count < ?3)
    SELECT tenant FROM found WHERE tenant IS NOT NULL;

-- name: tenants_with_work
-- The same for free tasks of a queue.
WITH RECURSIVE found(tenant, count) AS (SELECT (SELECT min(tenant) FROM mail WHERE {is_free_work} = ?1 AND tenant {behind} ?2), 1
    UNION ALL SELECT (SELECT min(tenant) FROM mail WHERE {is_free_work} = ?1 AND tenant > found.tenant), count + 1 FROM found
        WHERE found.tenant IS NOT NULL AND count < ?3)
    SELECT tenant FROM found WHERE tenant IS NOT NULL;

-- name: next_free_execution
-- When the first free execution of any of the programs is due.
SELECT min((SELECT min(ready_at_s) FROM heads WHERE {is_free_head} = name.column1)) FROM ({names}) AS name;

-- name: next_free_work
-- When the first free task of any of the queues is due.
SELECT min((SELECT min(due_at_s) FROM mail WHERE {is_free_work} = name.column1)) FROM ({names}) AS name;

-- name: next_free_execution_of_tenants
-- When the first free execution of any of the tenants and programs is due.
SELECT min((SELECT min(ready_at_s) FROM heads WHERE {is_free_head} = name.column1 AND tenant = whose.column1))
    FROM ({tenants}) AS whose CROSS JOIN ({names}) AS name;

-- name: next_free_work_of_tenants
-- When the first free task of any of the tenants and queues is due.
SELECT min((SELECT min(due_at_s) FROM mail WHERE {is_free_work} = name.column1 AND tenant = whose.column1))
    FROM ({tenants}) AS whose CROSS JOIN ({names}) AS name;

-- name: own_executions
-- What the claimer holds already and is due.
SELECT number, ready_at_s, tenant FROM heads WHERE holder = ? AND ready_at_s <= ? AND limited = 0 AND {wanted} ORDER BY ready_at_s, number LIMIT ?;

-- name: next_own_execution
-- When the first that the claimer holds is due.
SELECT min(ready_at_s) FROM heads WHERE holder = ? AND limited = 0 AND {wanted};

-- name: ready_roots
-- Of some roots, those that are free and due.
SELECT number, ready_at_s, waiting.tenant FROM json_each(?) AS family CROSS JOIN heads AS waiting WHERE waiting.number IN (
    SELECT number FROM heads WHERE limited = 0 AND holder IS NULL AND address = family.value AND root IS NULL AND {wanted}
    AND ready_at_s <= ? ORDER BY ready_at_s, number LIMIT ?);

-- name: ready_below_roots
-- Of the executions below some roots, those that are free and due.
SELECT number, ready_at_s, waiting.tenant FROM json_each(?) AS family CROSS JOIN heads AS waiting WHERE waiting.number IN (
    SELECT number FROM heads WHERE limited = 0 AND holder IS NULL AND root = family.value AND {wanted}
    AND ready_at_s <= ? ORDER BY ready_at_s, number LIMIT ?);

-- name: next_root
-- When the first of some roots that is free is due.
WITH family AS (SELECT value FROM json_each(?)) SELECT min((SELECT min(ready_at_s)
    FROM heads WHERE limited = 0 AND holder IS NULL AND address = family.value AND root IS NULL AND {wanted})) FROM family;

-- name: next_below_roots
-- When the first execution below some roots that is free is due.
WITH family AS (SELECT value FROM json_each(?)) SELECT min((SELECT min(ready_at_s)
    FROM heads WHERE limited = 0 AND holder IS NULL AND root = family.value AND {wanted})) FROM family;

-- name: assign_executions
-- Gives executions (?3, JSON) to a holder, who receives the messages that are due with them; they are ready again when the next message is due.
UPDATE heads SET holder = ?1, wake_at_s = NULL,
    mail_at_s = (SELECT min(due_at_s) FROM mail WHERE mail.address = heads.address AND due_at_s > ?2)
    WHERE number IN (SELECT value FROM json_each(?3)) RETURNING number, {head_columns};

-- name: due_messages
-- The messages of some addresses that are due, in order of arrival.
SELECT {message_columns} FROM mail WHERE address IN (SELECT value FROM json_each(?)) AND due_at_s <= ? ORDER BY number;

-- name: lease_work
-- Leases tasks to a holder.
UPDATE mail SET holder = ?, deliveries = deliveries + 1 WHERE number IN (SELECT value FROM json_each(?)) RETURNING {message_columns};

-- name: orphaned_executions
-- Executions that a dead holder holds.
SELECT number FROM heads WHERE holder = ? ORDER BY ready_at_s, number LIMIT ?;

-- name: free_orphaned_executions
-- Frees executions, and makes them ready from now (?1) on.
UPDATE heads SET holder = NULL, wake_at_s = min(coalesce(wake_at_s, created_at_s), ?) WHERE number IN (SELECT value FROM json_each(?));

-- name: orphaned_work
-- Tasks that a dead holder holds.
SELECT number FROM mail WHERE holder = ? ORDER BY queue, number LIMIT ?;

-- name: free_orphaned_work
-- Frees tasks.
UPDATE mail SET holder = NULL WHERE number IN (SELECT value FROM json_each(?));

-- name: tenant_turns
-- When tenants had their last turn; {tenants} are parameters.
SELECT tenant, turn FROM tenant_turns WHERE work = ? AND tenant IN ({tenants});

-- name: last_tenant_turn
-- When any tenant had its last turn.
SELECT max(turn) FROM tenant_turns;

-- name: take_tenant_turn
-- Records the turn of a tenant.
INSERT INTO tenant_turns (tenant, work, turn) VALUES (?, ?, ?) ON CONFLICT (tenant, work) DO UPDATE SET turn = excluded.turn;

-- name: forget_tenant_turns
-- Forgets some turns that are long past.
DELETE FROM tenant_turns WHERE rowid IN (SELECT rowid FROM tenant_turns WHERE turn < ? ORDER BY turn LIMIT ?);

-- name: known_programs
-- The programs that need capabilities.
SELECT name FROM programs;

-- name: add_program
-- Records a program that needs capabilities, so that claims find it.
INSERT OR IGNORE INTO programs VALUES (?);
