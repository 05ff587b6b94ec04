-- Messages that are queued for executions and, as tasks, for workers.

-- name: message_columns
-- A part: the columns of a message, in the order of `message_of`.
number, address, key, body, due_at_s, deliveries, lane, priority

-- name: read_messages
-- The messages of an address, in order of arrival.
SELECT {message_columns} FROM mail WHERE address = ? ORDER BY number;

-- name: read_message
-- The message of a key.
SELECT {message_columns} FROM mail WHERE address = ? AND key = ?;

-- name: is_queued
-- Whether a message of a key is queued.
SELECT 1 FROM mail WHERE address = ? AND key = ?;

-- name: is_unleased
-- Whether a task is queued that was never leased.
SELECT 1 FROM mail WHERE address = ? AND key = ? AND deliveries = 0;

-- name: holds_work
-- Whether a holder holds a task.
SELECT 1 FROM mail WHERE address = ? AND key = ? AND holder = ?;

-- name: message_number
-- The number of the message of a key.
SELECT number FROM mail WHERE address = ? AND key = ?;

-- name: first_due_of_address
-- When the first message of an address is due.
SELECT min(due_at_s) FROM mail WHERE address = ?;

-- name: queue_message
-- Queues a message, unless one of its key is queued.
INSERT INTO mail (address, key, body, due_at_s, tenant, queue, unclaimed, lane, priority, limited) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (address, key) DO NOTHING;

-- name: postpone_message
-- Lets a message wait until a later time, and frees it.
UPDATE mail SET due_at_s = ?, holder = NULL WHERE address = ? AND key = ?;

-- name: remove_message
-- Removes a message.
DELETE FROM mail WHERE address = ? AND key = ?;

-- name: remove_messages
-- Removes all messages of an address.
DELETE FROM mail WHERE address = ?;

-- name: mark_claimed
-- Says of the messages of an address that their execution exists.
UPDATE mail SET unclaimed = NULL WHERE address = ? AND unclaimed IS NOT NULL;

-- name: mark_unclaimed
-- Says of the messages of an address that no execution of this address exists.
UPDATE mail SET unclaimed = 1 WHERE address = ? AND unclaimed IS NULL;

-- name: unclaimed_messages
-- The messages of executions that do not exist.
SELECT {message_columns} FROM mail WHERE unclaimed IS NOT NULL ORDER BY number;

-- name: expired_messages
-- Messages that have waited since a time for executions that do not exist.
SELECT {message_columns} FROM mail WHERE unclaimed IS NOT NULL AND due_at_s <= ? ORDER BY due_at_s, number LIMIT ?;

-- name: release_work
-- Frees the tasks that a holder holds.
UPDATE mail SET holder = NULL WHERE holder = ?;

-- name: take_write_lock
-- Takes the lock of writers, and writes nothing.
DELETE FROM mail WHERE 0;
