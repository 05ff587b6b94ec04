-- Messages that are queued for executions and for workers.

-- name: is_any_queued
-- Whether a message of one of these keys is queued at an address.
SELECT 1 FROM perdure.mail {here} AND sha256(key) = ANY(SELECT sha256(one) FROM unnest($2::bytea[]) AS one);

-- name: queue_message
-- Queues a message, unless its key is queued; returns its number.
INSERT INTO perdure.mail (address, key, body, due_at_s, queue, lane, priority, tenant, limited) VALUES ($1, $2, $3, $4, $5, $6, $7, $8,
    coalesce((SELECT number FROM perdure.queues WHERE name = $5 AND tenant IN ($8, '') ORDER BY tenant DESC LIMIT 1), 0))
    ON CONFLICT DO NOTHING RETURNING number;

-- name: acknowledge
-- Removes a message; returns whether others may have waited for its place, and its deliveries.
DELETE FROM perdure.mail {here} AND sha256(key) = sha256($2) RETURNING limited > 0 AND holder IS NOT NULL, deliveries;

-- name: remove_messages
-- Removes all messages of an address.
DELETE FROM perdure.mail {here};

-- name: postpone
-- Postpones a message, which has no holder then; returns whether others may have waited for its place.
UPDATE perdure.mail SET due_at_s = $3, holder = NULL {here} AND sha256(key) = sha256($2) RETURNING limited > 0;

-- name: bring_message_time_forward
-- Has an execution wait until a message is due, at the latest.
UPDATE perdure.heads SET mail_at_s = least(mail_at_s, $2) {here};

-- name: drop_expired
-- Removes some messages to executions that have not come to be; returns them.
DELETE FROM perdure.mail WHERE number IN (SELECT number FROM perdure.mail WHERE queue IS NULL AND limited = 0 AND due_at_s <= $1
    AND NOT EXISTS (SELECT 1 FROM perdure.heads WHERE sha256(heads.address) = sha256(mail.address)) ORDER BY due_at_s, number LIMIT $2)
    RETURNING {message_columns};

-- name: are_queued
-- Whether each of some messages is queued, in order.
SELECT EXISTS (SELECT 1 FROM perdure.mail WHERE sha256(mail.address) = sha256(asked.address) AND sha256(mail.key) = sha256(asked.key))
    FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS asked(address, key, place) ORDER BY place;

-- name: read_messages
-- The messages of an address.
SELECT {message_columns} FROM perdure.mail {here} ORDER BY number;

-- name: message_columns
-- The columns of a message, for `message_of`.
mail.number, mail.address, mail.key, body, due_at_s, deliveries, mail.lane, mail.priority;
