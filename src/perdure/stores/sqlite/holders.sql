-- Holders and processes: who may hold something, how long, and where processes listen for notifications.

-- name: processes
-- All processes, and where they listen for what.
SELECT name, port, token, wakes, news FROM processes;

-- name: put_process
-- Adds or replaces a process.
INSERT OR REPLACE INTO processes (name, pid, host, port, token, wakes, news) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: remove_process
-- Removes a process.
DELETE FROM processes WHERE name = ?;

-- name: remove_processes
-- Removes all processes.
DELETE FROM processes;

-- name: holders
-- All holders, with their processes and the ends of their leases.
SELECT name, process, until_s FROM holders ORDER BY name;

-- name: holder_lease
-- The process of a holder, and the end of its lease.
SELECT process, until_s FROM holders WHERE name = ?;

-- name: renew_lease
-- Extends a lease, and keeps what the holder says about itself if it says nothing new.
INSERT INTO holders (name, process, until_s, about) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE
    SET process = excluded.process, until_s = excluded.until_s, about = coalesce(excluded.about, about);

-- name: add_holder
-- Records a holder without a lease.
INSERT INTO holders (name) VALUES (?) ON CONFLICT (name) DO NOTHING;

-- name: end_lease
-- Ends the lease of a holder.
UPDATE holders SET process = NULL, until_s = NULL, about = NULL WHERE name = ?;

-- name: end_all_leases
-- Ends all leases.
UPDATE holders SET process = NULL, until_s = NULL, about = NULL;

-- name: remove_holder
-- Removes a holder.
DELETE FROM holders WHERE name = ?;

-- name: holds_anything
-- Whether a holder holds an execution or a task.
SELECT EXISTS (SELECT 1 FROM heads WHERE holder = ?1) OR EXISTS (SELECT 1 FROM mail WHERE holder = ?1);

-- name: leases
-- All leases, with how many executions and tasks each holds.
SELECT name, process, until_s, coalesce(about, x''), (SELECT count(*) FROM heads WHERE holder = name),
    (SELECT count(*) FROM mail WHERE holder = name) FROM holders WHERE until_s IS NOT NULL ORDER BY name;
