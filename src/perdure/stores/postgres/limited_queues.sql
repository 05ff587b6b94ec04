-- Queues with limits: their limits, and how much is in them. `migrations/0005_limited_queues.sql` has what claims do with them.

-- name: set_limits
-- Sets or removes the limits of a queue for a tenant or, if that is empty, for all; false if it must be called again.
SELECT perdure.limit_1($1, $2, $3, $4, $5, $6, $7, $8);

-- name: all_limits
-- The limits of all queues.
SELECT number, name, tenant, concurrency, per_lane, interval_s, burst, declared FROM perdure.queues;

-- name: executions_in_queues
-- How many executions of each queue live holders hold under each limits, and how many wait: are free and due, or are held by the dead. The names are found one
-- behind the other in an index, since executions that have ended keep theirs. What is held and what waits is counted in the same index.
WITH RECURSIVE names(queue) AS (SELECT (SELECT min(queue) FROM perdure.heads WHERE queue <> '')
        UNION ALL SELECT (SELECT min(heads.queue) FROM perdure.heads WHERE heads.queue <> '' AND heads.queue > names.queue) FROM names WHERE names.queue IS NOT NULL),
    parts AS (SELECT names.queue, 0::bigint AS limited FROM names WHERE names.queue IS NOT NULL UNION ALL SELECT name, number FROM perdure.queues),
    held AS (SELECT parts.queue, parts.limited, count(name) AS live, count(*) AS all_held FROM parts
        JOIN perdure.heads ON heads.queue <> '' AND heads.queue = parts.queue AND heads.limited = parts.limited AND holder IS NOT NULL
        LEFT JOIN perdure.holders ON name = holder AND until_s > $1 GROUP BY parts.queue, parts.limited)
    SELECT parts.queue, parts.limited, coalesce(live, 0), coalesce(all_held - live, 0) + (SELECT count(*) FROM perdure.heads
            WHERE heads.queue <> '' AND heads.queue = parts.queue AND heads.limited = parts.limited AND holder IS NULL AND free_at_s <= $1)
        FROM parts LEFT JOIN held ON held.queue = parts.queue AND held.limited = parts.limited;

-- name: tasks_in_queues
-- How many tasks of each queue live holders lease under each limits, how many wait, and since when the longest waiting one that is free is due, all by an index.
SELECT queue, limited, sum(live)::bigint, sum(waiting)::bigint, min(oldest) FROM (
    SELECT queue, 0::bigint AS limited, 0 AS live, count(*) AS waiting, min(due_at_s) FILTER (WHERE due_at_s <= $1) AS oldest FROM perdure.mail
        WHERE limited = 0 AND holder IS NULL AND queue IS NOT NULL GROUP BY queue
    UNION ALL SELECT name, number, 0, free.count, free.oldest FROM perdure.queues CROSS JOIN LATERAL (SELECT count(*), min(due_at_s) FILTER (WHERE due_at_s <= $1)
        AS oldest FROM perdure.mail WHERE limited > 0 AND holder IS NULL AND limited = queues.number) AS free WHERE free.count > 0
    UNION ALL SELECT queue, limited, count(name), count(*) - count(name), NULL FROM perdure.mail LEFT JOIN perdure.holders ON name = holder AND until_s > $1
        WHERE holder IS NOT NULL GROUP BY queue, limited) AS counts GROUP BY queue, limited;
