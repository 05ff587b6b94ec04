-- Queues with limits: their limits and turns, what is held in them, and what is ready in each of their lines.
--
-- A row of `queues` limits the executions and tasks that have its number as `limited`: those of one tenant, or of all that have no limits of their own.
-- {wanted} is the condition that the claim puts on programs, tenants and roots; its parameters follow the others.

-- name: set_limits
-- Sets the limits of a queue for a tenant (or, if empty, for all), and keeps the state of its fairness.
INSERT INTO queues (name, tenant, concurrency, per_lane, interval_s, burst, declared, turn, free_at_s, free_for_work_at_s)
    VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, 0)
    ON CONFLICT (name, tenant) DO UPDATE
    SET concurrency = excluded.concurrency, per_lane = excluded.per_lane, interval_s = excluded.interval_s, burst = excluded.burst,
    declared = excluded.declared;

-- name: remove_lanes
-- Removes the turns of the lanes of a queue.
DELETE FROM lanes WHERE queue = (SELECT number FROM queues WHERE name = ? AND tenant = ?);

-- name: remove_limits
-- Removes the limits of a queue.
DELETE FROM queues WHERE name = ? AND tenant = ?;

-- name: mark_executions
-- Marks the executions of a queue with the limits that apply to them now.
UPDATE heads SET limited = coalesce((SELECT number FROM queues WHERE name = ?1 AND queues.tenant IN (heads.tenant, '') ORDER BY queues.tenant DESC LIMIT 1), 0)
    WHERE queue = ?1 AND queue <> '';

-- name: mark_tasks
-- The same for tasks.
UPDATE mail SET limited = coalesce((SELECT number FROM queues WHERE name = ?1 AND queues.tenant IN (mail.tenant, '') ORDER BY queues.tenant DESC LIMIT 1), 0)
    WHERE queue = ?1;

-- name: limited_queues
-- All queues with limits.
SELECT number, name, tenant, concurrency, per_lane, interval_s, burst, declared, turn, free_at_s, free_for_work_at_s FROM queues ORDER BY name, tenant;

-- name: limits_that_apply
-- The limits of a queue (?1) that apply to a tenant (?2).
SELECT number FROM queues WHERE name = ?1 AND tenant IN (?2, '') ORDER BY tenant DESC LIMIT 1;

-- name: serve_lane
-- Records the turn of a lane.
INSERT INTO lanes (queue, lane, work, turn) VALUES (?, ?, ?, ?)
    ON CONFLICT (queue, lane, work) DO UPDATE SET turn = excluded.turn;

-- name: forget_lane_turns
-- Forgets some turns that are long past.
DELETE FROM lanes WHERE rowid IN
    (SELECT rowid FROM lanes INDEXED BY lanes_by_turn WHERE queue = ? AND turn < ? ORDER BY turn LIMIT ?);

-- name: set_queue_turn
-- Records the last turn of a queue, and until when its rate is used up.
UPDATE queues SET turn = ?, free_at_s = ?, free_for_work_at_s = ? WHERE number = ?;

-- name: held_in_limited_queue
-- A part: the executions of a queue with limits that are held, by holder.
FROM heads INDEXED BY heads_held_in_queue WHERE limited > 0 AND holder IS NOT NULL AND limited = ?1

-- name: held_by_lane
-- How many executions of a queue each holder holds in each lane.
SELECT lane, holder, count(*) {held_in_limited_queue} GROUP BY lane, holder;

-- name: leased_by_lane
-- How many tasks of a queue each holder holds in each lane.
SELECT lane, holder, count(*) FROM mail INDEXED BY mail_held_in_queue WHERE limited > 0 AND holder IS NOT NULL AND limited = ?
    GROUP BY lane, holder;

-- name: line_of_executions
-- A part: the free executions of a queue with limits, by lane, whether they have begun, and priority.
FROM heads INDEXED BY heads_in_line WHERE limited > 0 AND holder IS NULL AND ready_at_s IS NOT NULL AND limited = ?1

-- name: line_of_work
-- A part: the free tasks of a queue with limits, by lane, whether they have been leased before, and priority.
FROM mail INDEXED BY mail_in_line WHERE limited > 0 AND holder IS NULL AND limited = ?1

-- name: ready_in_lines
-- The first few executions (?3) that are due and free in each line of a queue. Each line is found by a lookup behind the line before it.
WITH RECURSIVE lines(head) AS (SELECT (SELECT number {line_of_executions} ORDER BY lane, begun, priority LIMIT 1)
    UNION ALL SELECT coalesce(
        (SELECT number {line_of_executions} AND lane = at.lane AND begun = at.begun AND priority > at.priority ORDER BY priority LIMIT 1),
        (SELECT number {line_of_executions} AND lane = at.lane AND begun > at.begun ORDER BY begun, priority LIMIT 1),
        (SELECT number {line_of_executions} AND lane > at.lane ORDER BY lane, begun, priority LIMIT 1))
    FROM lines CROSS JOIN heads AS at ON at.number = head)
    SELECT ready.number, ready.lane, ready.priority, ready.ready_at_s, NOT ready.begun,
    (SELECT turn FROM lanes WHERE lanes.queue = ?1 AND lanes.lane = ready.lane AND work = 0), ready.tenant
    FROM lines CROSS JOIN heads AS at ON at.number = head CROSS JOIN heads AS ready ON ready.number IN (SELECT number {line_of_executions}
    AND lane = at.lane AND begun = at.begun AND priority = at.priority AND ready_at_s <= ?2 AND {wanted} ORDER BY ready_at_s, number LIMIT ?3);

-- name: ready_work_in_lines
-- The same for tasks.
WITH RECURSIVE lines(head) AS (SELECT (SELECT number {line_of_work} ORDER BY lane, begun, priority LIMIT 1)
    UNION ALL SELECT coalesce(
        (SELECT number {line_of_work} AND lane = at.lane AND begun = at.begun AND priority > at.priority ORDER BY priority LIMIT 1),
        (SELECT number {line_of_work} AND lane = at.lane AND begun > at.begun ORDER BY begun, priority LIMIT 1),
        (SELECT number {line_of_work} AND lane > at.lane ORDER BY lane, begun, priority LIMIT 1))
    FROM lines CROSS JOIN mail AS at ON at.number = head)
    SELECT ready.number, ready.lane, ready.priority, ready.due_at_s, NOT ready.begun,
    (SELECT turn FROM lanes WHERE lanes.queue = ?1 AND lanes.lane = ready.lane AND work = 1), ready.tenant
    FROM lines CROSS JOIN mail AS at ON at.number = head CROSS JOIN mail AS ready ON ready.number IN (SELECT number {line_of_work}
    AND lane = at.lane AND begun = at.begun AND priority = at.priority AND due_at_s <= ?2 AND {wanted} ORDER BY due_at_s, number LIMIT ?3);

-- name: own_in_queue
-- What the claimer holds already in a queue and is due.
SELECT number, ready_at_s, tenant {held_in_limited_queue} AND holder = ? AND ready_at_s <= ? AND {wanted};

-- name: next_own_in_queue
-- When the first that the claimer holds in a queue is due.
SELECT min(ready_at_s) {held_in_limited_queue} AND holder = ? AND {wanted};

-- name: next_in_queue
-- When the next free execution of a queue becomes due.
SELECT min(ready_at_s) FROM heads WHERE limited > 0 AND holder IS NULL AND ready_at_s IS NOT NULL AND limited = ? AND ready_at_s > ? AND {wanted};

-- name: new_execution_waits
-- Whether an execution that has not begun is free and due in a queue.
SELECT EXISTS (SELECT 1 FROM heads WHERE limited > 0 AND holder IS NULL AND ready_at_s IS NOT NULL AND limited = ? AND ready_at_s <= ?
    AND version = 0 AND {wanted});

-- name: next_work_in_queue
-- When the next free task of a queue becomes due.
SELECT min(due_at_s) FROM mail WHERE limited > 0 AND holder IS NULL AND limited = ? AND due_at_s > ? AND {wanted};

-- name: new_work_waits
-- Whether a task that was never leased is free and due in a queue.
SELECT EXISTS (SELECT 1 FROM mail WHERE limited > 0 AND holder IS NULL AND limited = ? AND due_at_s <= ? AND deliveries = 0 AND {wanted});

-- name: queue_names
-- The queues in which anything is.
SELECT DISTINCT queue FROM heads INDEXED BY heads_by_queue WHERE queue <> '' UNION SELECT DISTINCT queue FROM mail INDEXED BY mail_by_queue
    WHERE queue IS NOT NULL;

-- name: held_in_queue
-- How many executions of a queue each holder holds under each limits.
SELECT limited, holder, count(*) FROM heads INDEXED BY heads_by_queue WHERE queue = ? AND queue <> '' AND holder > '' GROUP BY limited, holder;

-- name: waiting_in_queue
-- How many executions of a queue are free and due under each limits.
SELECT limited, count(*) FROM heads INDEXED BY heads_by_queue WHERE queue = ? AND queue <> '' AND holder IS NULL AND ready_at_s <= ? GROUP BY limited;

-- name: oldest_free_task
-- Since when the task is due that waits longest in a queue without limits, of those that no holder leases.
SELECT min(due_at_s) FROM mail INDEXED BY mail_free WHERE limited = 0 AND queue = ? AND holder IS NULL AND due_at_s <= ?;

-- name: oldest_limited_task
-- The same of a queue under limits.
SELECT min(due_at_s) FROM mail INDEXED BY mail_due_in_queue WHERE limited > 0 AND limited = ? AND holder IS NULL AND due_at_s <= ?;

-- name: work_in_queue
-- How many tasks of a queue each holder holds under each limits; those of null are free.
SELECT limited, holder, count(*) FROM mail INDEXED BY mail_by_queue WHERE queue = ? GROUP BY limited, holder;
