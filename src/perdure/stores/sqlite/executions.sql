-- Executions: their heads, their logs, and the attributes by which they are found.

-- name: head_columns
-- A part: the columns of a head, in the order of `head_of`; the last has its attributes.
address, program, root, version, holder, wake_at_s, mail_at_s, status, created_at_s, ended_at_s, queue, lane, priority,
    (SELECT group_concat(hex(name) || '=' || hex(value)) FROM attributes WHERE attributes.number = heads.number)

-- name: first_due
-- A part: when the first message of a head is due.
(SELECT min(due_at_s) FROM mail WHERE mail.address = heads.address)

-- name: read_head
-- The head of an address.
SELECT {head_columns} FROM heads WHERE address = ?;

-- name: read_numbered_head
-- The number and the head of an address.
SELECT number, {head_columns} FROM heads WHERE address = ?;

-- name: read_heads
-- The heads of some numbers.
SELECT number, {head_columns} FROM heads WHERE number IN (SELECT value FROM json_each(?));

-- name: head_number
-- The number of an address.
SELECT number FROM heads WHERE address = ?;

-- name: oldest_since
-- The number of the first execution that was created at a time or later.
SELECT min(number) FROM heads INDEXED BY heads_by_time WHERE created_at_s >= ?;

-- name: latest_until
-- The number of the last execution that was created at a time or earlier.
SELECT number FROM heads INDEXED BY heads_by_time WHERE created_at_s <= ? ORDER BY created_at_s DESC, number DESC LIMIT 1;

-- name: holds_execution
-- Whether a holder holds an execution.
SELECT 1 FROM heads WHERE address = ? AND holder = ?;

-- name: create_head
-- Creates an execution that does not exist; returns its number, and when the first message that waited for it is due.
INSERT INTO heads (address, tenant, workflow, program, root, version, holder, wake_at_s, status, created_at_s, ended_at_s,
    queue, lane, priority, limited, mail_at_s)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT min(due_at_s) FROM mail WHERE address = ?))
    ON CONFLICT (address) DO NOTHING RETURNING number, mail_at_s;

-- name: advance_head
-- Changes the version of a head, if it is at the version before and all else is as it was decided on. Most commits change no other column.
UPDATE heads SET version = ? WHERE number = ? AND version = ?
    AND holder = ? AND program = ? AND status = ? AND wake_at_s IS ? AND ended_at_s IS ?;

-- name: head_state
-- The columns of a head that commits change, in the order of `HeadState`.
SELECT version, holder, program, status, wake_at_s, mail_at_s, ended_at_s FROM heads WHERE number = ?;

-- name: is_limited
-- The number of the limits that apply to an execution, or 0.
SELECT limited FROM heads WHERE number = ?;

-- name: set_message_time
-- Sets when the first message of an execution is due.
UPDATE heads SET mail_at_s = {first_due} WHERE number = ?;

-- name: set_message_time_of_address
-- The same, by address.
UPDATE heads SET mail_at_s = {first_due} WHERE address = ?;

-- name: bring_message_time_forward
-- Sets when an execution is ready because of a message.
UPDATE heads SET mail_at_s = ? WHERE number = ?;

-- name: message_receiver
-- Whom a message to an execution wakes: its number and holder, and when it is ready without the message.
SELECT number, holder, mail_at_s FROM heads WHERE address = ?;

-- name: release_executions
-- Frees what a holder holds, and makes it ready from now (?1) on.
UPDATE heads SET holder = NULL, wake_at_s = min(coalesce(wake_at_s, created_at_s), ?) WHERE holder = ?;

-- name: remove_head
-- Removes an execution.
DELETE FROM heads WHERE number = ?;

-- name: count_heads
-- How many executions there are.
SELECT count(*) FROM heads;

-- name: append_row
-- Appends a row to a log.
INSERT INTO log (execution, version, row) VALUES (?, ?, ?);

-- name: read_rows
-- The rows of a log behind a version.
SELECT version, row FROM log WHERE execution = ? AND version > ? ORDER BY version;

-- name: remove_log
-- Removes the rows of a log.
DELETE FROM log WHERE execution = ?;

-- name: insert_attribute
-- Adds a value of an attribute.
INSERT INTO attributes (number, name, value, tenant, ended) VALUES (?, ?, ?, ?, ?);

-- name: set_ended
-- Says of the attributes of an execution whether it has ended.
UPDATE attributes SET ended = ? WHERE number = ?;

-- name: remove_attributes
-- Removes the attributes of an execution.
DELETE FROM attributes WHERE number = ?;

-- name: count_matches
-- How many values of an attribute are in a range, up to a maximum.
SELECT count(*) FROM (SELECT 1 FROM attributes INDEXED BY attributes_by_value WHERE tenant = ? AND name = ? AND value >= ? AND value < ? LIMIT ?);

-- name: count_living
-- How many executions that have not ended have a value of an attribute, up to a maximum.
SELECT count(*) FROM (SELECT 1 FROM attributes INDEXED BY attributes_of_living WHERE tenant = ? AND name = ? AND value = ? AND ended = 0 LIMIT ?);

-- name: next_tenant_with_attributes
-- The first tenant behind another one that has attributes.
SELECT min(tenant) FROM attributes INDEXED BY attributes_by_value WHERE tenant > ?;
