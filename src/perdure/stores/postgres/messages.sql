-- Messages that are queued for executions and for workers.

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
