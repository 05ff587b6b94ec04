-- Holders and their leases.

-- name: renew_holder
-- Renews a lease; returns the name if there is one.
UPDATE perdure.holders SET until_s = $2, about = CASE WHEN $3 = ''::bytea THEN about ELSE $3 END WHERE name = $1 RETURNING name;

-- name: add_holder
-- Begins a lease.
INSERT INTO perdure.holders VALUES ($1, $2, $3);

-- name: remove_holder
-- Ends a lease.
DELETE FROM perdure.holders WHERE name = $1;

-- name: remove_all_holders
-- Ends all leases.
DELETE FROM perdure.holders;

-- name: let_executions_go
-- Frees the executions of a holder, and has them awake.
UPDATE perdure.heads SET holder = NULL, wake_at_s = least(coalesce(wake_at_s, created_at_s), $2) WHERE holder = $1 RETURNING number;

-- name: let_tasks_go
-- Frees the tasks of a holder.
UPDATE perdure.mail SET holder = NULL WHERE holder = $1 RETURNING number;

-- name: leases
-- All holders, whether their leases last, how much they hold, and what they say about themselves.
SELECT name, until_s > $1, (SELECT count(*) FROM perdure.heads WHERE holder = name), (SELECT count(*) FROM perdure.mail WHERE holder = name), about
    FROM perdure.holders;
