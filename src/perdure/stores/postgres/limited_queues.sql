-- Queues with limits: their limits and turns, what is held in them, and what is ready in each of their lines.
--
-- A row of `queues` limits the executions and tasks that have its number as `limited`: those of one tenant, or of all that have no limits of their own.
-- One index holds what is free: each line is a range of it, in order of due time. The statements about lines search in the order of that index.

-- name: set_limits
-- Sets the limits of a queue for a tenant (or, if empty, for all), and keeps the state of its fairness.
INSERT INTO perdure.queues (name, tenant, concurrency, per_lane, interval_s, burst, declared) VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (name, tenant) DO UPDATE SET (concurrency, per_lane, interval_s, burst, declared) = ROW ($3, $4, $5, $6, $7);

-- name: remove_lanes
-- Removes the turns of the lanes of a queue.
DELETE FROM perdure.lanes WHERE queue = (SELECT number FROM perdure.queues WHERE name = $1 AND tenant = $2);

-- name: remove_limits
-- Removes the limits of a queue.
DELETE FROM perdure.queues WHERE name = $1 AND tenant = $2;

-- name: limits_of_executions
-- A part: the limits that apply to an execution.
coalesce((SELECT queues.number FROM perdure.queues WHERE name = heads.queue AND queues.tenant IN (heads.tenant, '') ORDER BY queues.tenant DESC LIMIT 1), 0);

-- name: mark_executions
-- Marks the executions of a queue with the limits that apply to them now.
UPDATE perdure.heads SET limited = {limits_of_executions} WHERE queue = $1 AND queue <> '' AND limited <> {limits_of_executions};

-- name: limits_of_tasks
-- A part: the limits that apply to a task.
coalesce((SELECT queues.number FROM perdure.queues WHERE name = mail.queue AND queues.tenant IN (mail.tenant, '') ORDER BY queues.tenant DESC LIMIT 1), 0);

-- name: mark_tasks
-- The same for tasks.
UPDATE perdure.mail SET limited = {limits_of_tasks} WHERE queue = $1 AND limited <> {limits_of_tasks};

-- name: all_limits
-- The limits of all queues.
SELECT number, name, tenant, concurrency, per_lane, interval_s, burst, declared FROM perdure.queues;

-- name: executions_in_queues
-- How many executions of each queue are held under each limits, and how many are free and due.
SELECT queue, limited, count(until_s), count(*) FILTER (WHERE until_s IS NULL AND (holder IS NOT NULL OR ready_at_s <= $1))
    FROM perdure.heads LEFT JOIN perdure.holders ON name = holder AND until_s > $1 WHERE queue <> '' GROUP BY queue, limited;

-- name: tasks_in_queues
-- How many tasks of each queue are leased under each limits, and how many are free.
SELECT queue, limited, count(until_s), count(*) - count(until_s)
    FROM perdure.mail LEFT JOIN perdure.holders ON name = holder AND until_s > $1 WHERE queue IS NOT NULL GROUP BY queue, limited;

-- name: wanted
-- A part: the condition that a claim puts on the programs and roots of executions.
program = ANY($2::text[]) AND ($3::bytea[] IS NULL OR root = ANY($3));

-- name: free_executions
-- A part: the free executions in queues with limits.
limited > 0 AND holder IS NULL AND ready_at_s IS NOT NULL;

-- name: free_tasks
-- A part: the free tasks in queues with limits.
limited > 0 AND holder IS NULL;

-- name: lock_queues
-- Locks the queues that have something for a claim, as far as its tenants say, until it ends.
SELECT number, name, concurrency, per_lane, interval_s, burst, turn, free_at_s, free_for_work_at_s FROM perdure.queues
    WHERE ($5::text[] IS NULL OR tenant = '' OR tenant = ANY($5)) AND (name = ANY($4::text[])
    OR cardinality($2::text[]) > 0 AND (SELECT heads.number FROM perdure.heads WHERE {free_executions}
        AND limited = queues.number AND ready_at_s <= $1 AND {wanted}
        ORDER BY limited, lane, (version > 0), priority LIMIT 1) IS NOT NULL)
    ORDER BY number FOR UPDATE;

-- name: own_in_queues
-- The executions in queues with limits that the claimer holds already and that are due.
SELECT number, ready_at_s, tenant FROM perdure.heads WHERE limited > 0 AND holder = $4 AND ready_at_s <= $1 AND {wanted}
    AND ($5::text[] IS NULL OR tenant = ANY($5)) ORDER BY ready_at_s, number LIMIT $6 FOR UPDATE SKIP LOCKED;

-- name: next_own_in_queues
-- When the first of these is due.
SELECT min(ready_at_s) FROM perdure.heads WHERE limited > 0 AND program = ANY($1::text[]) AND ($2::bytea[] IS NULL OR root = ANY($2)) AND holder = $3;

-- name: held_by_lane
-- How many executions of queues are held in each lane.
SELECT limited, lane, count(*) FROM perdure.heads JOIN perdure.holders ON name = holder AND until_s > $1
    WHERE limited > 0 AND holder IS NOT NULL AND limited = ANY($2::bigint[]) GROUP BY limited, lane;

-- name: leased_by_lane
-- How many tasks of queues are leased in each lane.
SELECT limited, lane, count(*) FROM perdure.mail JOIN perdure.holders ON name = holder AND until_s > $1
    WHERE limited > 0 AND holder IS NOT NULL AND limited = ANY($2::bigint[]) GROUP BY limited, lane;

-- name: lines_of_executions
-- A part: the lines of queues, each found by a lookup behind the line before it. {queues} are the numbers of the queues.
WITH RECURSIVE lines(limited, lane, begun, priority) AS (SELECT first.* FROM unnest({queues}::bigint[]) AS asked(queue) CROSS JOIN LATERAL (
        SELECT limited, lane, version > 0, priority FROM perdure.heads WHERE {free_executions} AND limited = asked.queue
        ORDER BY limited, lane, (version > 0), priority LIMIT 1) AS first
    UNION ALL SELECT next.* FROM lines CROSS JOIN LATERAL (SELECT one.limited, one.lane, version > 0, one.priority FROM perdure.heads AS one
        WHERE one.limited > 0 AND holder IS NULL AND ready_at_s IS NOT NULL AND one.limited = lines.limited
        AND (one.lane, version > 0, one.priority) > (lines.lane, lines.begun, lines.priority)
        ORDER BY one.limited, one.lane, (version > 0), one.priority LIMIT 1) AS next);

-- name: lines_of_tasks
-- The same for tasks.
WITH RECURSIVE lines(limited, lane, begun, priority) AS (SELECT first.* FROM unnest({queues}::bigint[]) AS asked(queue) CROSS JOIN LATERAL (
        SELECT limited, lane, deliveries > 0, priority FROM perdure.mail WHERE {free_tasks} AND limited = asked.queue
        ORDER BY limited, lane, (deliveries > 0), priority LIMIT 1) AS first
    UNION ALL SELECT next.* FROM lines CROSS JOIN LATERAL (SELECT one.limited, one.lane, deliveries > 0, one.priority FROM perdure.mail AS one
        WHERE one.limited > 0 AND holder IS NULL AND one.limited = lines.limited
        AND (one.lane, deliveries > 0, one.priority) > (lines.lane, lines.begun, lines.priority)
        ORDER BY one.limited, one.lane, (deliveries > 0), one.priority LIMIT 1) AS next);

-- name: executions_in_line
-- A part: the executions of a line that a claim wants.
FROM perdure.heads AS one WHERE one.limited > 0 AND holder IS NULL AND ready_at_s IS NOT NULL AND one.limited = lines.limited AND one.lane = lines.lane
    AND (version > 0) = lines.begun AND one.priority = lines.priority AND {wanted} AND ({tenants}::text[] IS NULL OR tenant = ANY({tenants}));

-- name: tasks_in_line
-- A part: the tasks of a line that a claim wants.
FROM perdure.mail AS one WHERE one.limited > 0 AND holder IS NULL AND one.limited = lines.limited AND one.lane = lines.lane
    AND (deliveries > 0) = lines.begun AND one.priority = lines.priority AND ({tenants}::text[] IS NULL OR tenant = ANY({tenants}));

-- name: ready_in_lines
-- The first few executions ($5) that are due and free in each line.
{lines_of_executions} SELECT lines.limited, number, lines.lane, lines.priority, at_s, NOT begun, tenant FROM lines CROSS JOIN LATERAL (
    SELECT number, ready_at_s AS at_s, tenant {executions_in_line} AND ready_at_s <= $1 ORDER BY ready_at_s, number LIMIT $5) AS first;

-- name: ready_work_in_lines
-- The same for tasks.
{lines_of_tasks} SELECT lines.limited, number, lines.lane, lines.priority, at_s, NOT begun, tenant FROM lines CROSS JOIN LATERAL (
    SELECT number, due_at_s AS at_s, tenant {tasks_in_line} AND due_at_s <= $1 ORDER BY due_at_s, number LIMIT $3) AS first;

-- name: lock_executions
-- Locks executions that were chosen, unless another transaction has them locked.
SELECT number FROM perdure.heads WHERE number = ANY($2::bigint[]) AND limited > 0 AND holder IS NULL AND ready_at_s <= $1 FOR UPDATE SKIP LOCKED;

-- name: lock_tasks
-- The same for tasks.
SELECT number FROM perdure.mail WHERE number = ANY($2::bigint[]) AND limited > 0 AND holder IS NULL AND due_at_s <= $1 FOR UPDATE SKIP LOCKED;

-- name: next_in_lines
-- When the next free execution of each queue becomes due, and whether one that has not begun is free and due.
{lines_of_executions}, times AS (SELECT lines.limited,
        (SELECT ready_at_s {executions_in_line} AND ready_at_s > $1 ORDER BY ready_at_s, number LIMIT 1) AS at_s,
        NOT begun AND (SELECT number {executions_in_line} AND ready_at_s <= $1 ORDER BY ready_at_s, number LIMIT 1) IS NOT NULL AS waits FROM lines)
    SELECT concurrency, per_lane, interval_s, burst, free_at_s, min(at_s), bool_or(waits)
        FROM times JOIN perdure.queues ON number = limited GROUP BY number;

-- name: next_work_in_lines
-- The same for tasks.
{lines_of_tasks}, times AS (SELECT lines.limited,
        (SELECT due_at_s {tasks_in_line} AND due_at_s > $1 ORDER BY due_at_s, number LIMIT 1) AS at_s,
        NOT begun AND (SELECT number {tasks_in_line} AND due_at_s <= $1 ORDER BY due_at_s, number LIMIT 1) IS NOT NULL AS waits FROM lines)
    SELECT concurrency, per_lane, interval_s, burst, free_for_work_at_s, min(at_s), bool_or(waits)
        FROM times JOIN perdure.queues ON number = limited GROUP BY number;

-- name: queues_of_tenants
-- The queues with limits of which a claim may get something, as far as its tenants say.
SELECT number, name FROM perdure.queues WHERE $1::text[] IS NULL OR tenant = '' OR tenant = ANY($1);

-- name: lane_turns
-- The turns of lanes.
SELECT queue, lane, turn FROM perdure.lanes WHERE work = $1 AND queue = ANY($2::bigint[]) AND lane = ANY($3::text[]);

-- name: serve_lanes
-- Records the turns of lanes.
INSERT INTO perdure.lanes SELECT $1, $2, lane, turn FROM unnest($3::text[], $4::float8[]) AS served(lane, turn)
    ON CONFLICT (queue, work, lane) DO UPDATE SET turn = excluded.turn;

-- name: forget_lane_turns
-- Forgets some turns that are long past.
DELETE FROM perdure.lanes WHERE ctid = ANY(ARRAY(SELECT ctid FROM perdure.lanes WHERE queue = $1 AND work = $2 AND turn < $3 ORDER BY turn LIMIT $4));

-- name: set_queue_turn
-- Records the last turn of a queue, and until when its rate is used up.
UPDATE perdure.queues SET turn = $2, free_at_s = $3, free_for_work_at_s = $4 WHERE number = $1;
