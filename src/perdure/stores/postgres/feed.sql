-- The change feed: what its triggers have recorded, its positions, its scan of what was there before, and the items that entries stand for.

-- name: lock_feed
-- Lets one transaction at a time give out positions. It must come first in its transaction, so that the snapshot is not older than the lock.
LOCK TABLE perdure.feed, perdure.feed_scans IN SHARE ROW EXCLUSIVE MODE;

-- name: begin_scan
-- Begins to scan a table.
INSERT INTO perdure.feed_scans VALUES ($1, $2, 0, false);

-- name: scan_position
-- How far a table was scanned, unless it is done.
SELECT name, number FROM perdure.feed_scans WHERE table_name = $1 AND NOT done;

-- name: set_scan_position
-- Records how far a table was scanned.
UPDATE perdure.feed_scans SET name = $1, number = $2, done = $3 WHERE table_name = $4;

-- name: switch_feed_triggers
-- Enables or disables the triggers that record changes.
SELECT perdure.switch_feed_triggers_1($1);

-- name: is_scanned
-- Whether all tables were scanned; null without a feed.
SELECT bool_and(done) FROM perdure.feed_scans;

-- name: end_scans
-- Ends all scans.
DELETE FROM perdure.feed_scans;

-- name: empty_feed
-- Removes all entries.
DELETE FROM perdure.feed;

-- name: empty_feed_changes
-- Removes all changes that have no position yet.
DELETE FROM perdure.feed_changes;

-- name: scan_blobs
-- Gives the next blobs their entries.
INSERT INTO perdure.feed (kind, name) SELECT 'blob', convert_to(sha256, 'UTF8')
    FROM (SELECT sha256 FROM perdure.blobs WHERE sha256 > $1 ORDER BY sha256 LIMIT $2) AS next
    ON CONFLICT DO NOTHING;

-- name: last_scanned_blob
-- Up to which blob the next ones go.
SELECT max(sha256) FROM (SELECT sha256 FROM perdure.blobs WHERE sha256 > $1 ORDER BY sha256 LIMIT $2) AS next;

-- name: scan_removed_blobs
-- Gives the next records of removed blobs their entries.
INSERT INTO perdure.feed (kind, name) SELECT 'blob', convert_to(sha256, 'UTF8')
    FROM (SELECT sha256 FROM perdure.removed_blobs WHERE sha256 > $1 ORDER BY sha256 LIMIT $2) AS next ON CONFLICT DO NOTHING;

-- name: last_scanned_removed_blob
-- Up to which record of a removed blob the next ones go.
SELECT max(sha256) FROM (SELECT sha256 FROM perdure.removed_blobs WHERE sha256 > $1 ORDER BY sha256 LIMIT $2) AS next;

-- name: next_heads
-- The next executions, with how many rows they have, as far as that matters.
SELECT number, (SELECT count(*) FROM (SELECT 1 FROM perdure.log WHERE execution = number LIMIT $2) AS counted)
    FROM (SELECT number FROM perdure.heads WHERE number > $1 ORDER BY number LIMIT $2) AS next
    ORDER BY number;

-- name: scan_heads
-- Gives some executions their entries, one after another: a former execution of the address is gone, the rows of the log, the head.
INSERT INTO perdure.feed (kind, name, version) SELECT kind, name, version FROM (
    SELECT number, 0 AS place, 'removed' AS kind, address AS name, 0::bigint AS version FROM perdure.heads WHERE number > $1 AND number <= $2
    UNION ALL SELECT execution, 1, 'row', convert_to(execution::text, 'UTF8'), version FROM perdure.log WHERE execution IN
        (SELECT number FROM perdure.heads WHERE number > $1 AND number <= $2)
    UNION ALL SELECT number, 2, 'head', convert_to(number::text, 'UTF8'), 0 FROM perdure.heads WHERE number > $1 AND number <= $2) AS entries
    ORDER BY number, place, version ON CONFLICT DO NOTHING;

-- name: scan_messages
-- Gives the next messages their entries.
INSERT INTO perdure.feed (kind, name, key) SELECT 'message', address, key FROM perdure.mail WHERE number > $1 AND number <= $2
    ORDER BY number ON CONFLICT DO NOTHING;

-- name: last_scanned_message
-- Up to which message the next ones go.
SELECT max(number) FROM (SELECT number FROM perdure.mail WHERE number > $1 ORDER BY number LIMIT $2) AS next;

-- name: scan_records
-- Gives the next records their entries.
INSERT INTO perdure.feed (kind, name) SELECT 'record', convert_to(json_build_array(tenant, kind, key)::text, 'UTF8') FROM perdure.records
    WHERE (tenant, kind, key) > ($1, $2, $3) ORDER BY tenant, kind, key LIMIT $4 ON CONFLICT DO NOTHING;

-- name: next_records
-- The next records.
SELECT tenant, kind, key FROM perdure.records WHERE (tenant, kind, key) > ($1, $2, $3) ORDER BY tenant, kind, key LIMIT $4;

-- name: add_limits_entries
-- Gives every queue with limits its entry.
INSERT INTO perdure.feed (kind, name, key) SELECT 'limits', convert_to(name, 'UTF8'), convert_to(tenant, 'UTF8') FROM perdure.queues;

-- name: same_thing
-- Whether an entry of the feed and a change are about the same thing.
feed.kind = change.kind AND sha256(feed.name) = sha256(change.name) AND sha256(feed.key) = sha256(change.key) AND feed.version = change.version;

-- name: place_changes
-- Gives the next changes that have no position yet a position, which moves the entries of what they name to the end; returns the numbers of the changes.
INSERT INTO perdure.feed (kind, name, key, version, change) SELECT kind, name, key, version, id FROM perdure.feed_changes AS change
    WHERE NOT EXISTS (SELECT 1 FROM perdure.feed WHERE {same_thing} AND feed.change = change.id) ORDER BY id LIMIT $1
    ON CONFLICT (kind, sha256(name), sha256(key), version) DO UPDATE SET position = nextval('perdure.feed_position_seq'), change = excluded.change
    RETURNING change;

-- name: forget_placed_changes
-- Removes changes that have a position: the given ones, and some that were locked earlier. It waits for no transaction that has changed the same thing again.
DELETE FROM perdure.feed_changes WHERE id IN (SELECT id FROM perdure.feed_changes AS change
    WHERE id = ANY(ARRAY(SELECT unnest($1::bigint[]) UNION SELECT id FROM (SELECT id FROM perdure.feed_changes ORDER BY id LIMIT $2) AS first))
        AND EXISTS (SELECT 1 FROM perdure.feed WHERE {same_thing} AND feed.change = change.id) FOR UPDATE OF change SKIP LOCKED);

-- name: feed_entries
-- The entries behind a position, with the size of what they name. What has changed again since has a change without a position, and is not to be shipped yet.
SELECT position, kind, name, key, version,
    EXISTS (SELECT 1 FROM perdure.feed_changes AS change WHERE {same_thing} AND change.id IS DISTINCT FROM feed.change),
    coalesce(CASE kind
        WHEN 'blob' THEN (SELECT octet_length(bytes) FROM perdure.blobs WHERE sha256 = convert_from(name, 'UTF8') LIMIT 1)
        WHEN 'row' THEN (SELECT octet_length(row) FROM perdure.log WHERE execution = convert_from(name, 'UTF8')::bigint AND log.version = feed.version)
        WHEN 'message' THEN (SELECT octet_length(body) FROM perdure.mail WHERE sha256(mail.address) = sha256(feed.name) AND sha256(mail.key) = sha256(feed.key))
        WHEN 'record' THEN (SELECT octet_length(value) FROM perdure.records WHERE tenant = convert_from(name, 'UTF8')::json ->> 0
            AND records.kind = convert_from(name, 'UTF8')::json ->> 1 AND records.key = convert_from(name, 'UTF8')::json ->> 2)
    END, 0) FROM perdure.feed WHERE position > $1 ORDER BY position LIMIT $2;

-- name: trim_feed
-- Removes the entries up to a position, except those that say that a change, which is locked still, has its position.
DELETE FROM perdure.feed WHERE position <= $1
    AND NOT EXISTS (SELECT 1 FROM perdure.feed_changes AS change WHERE {same_thing} AND change.id = feed.change);

-- name: shipped_blobs
-- Blobs, and when they were removed.
SELECT name, bytes, at_s FROM unnest($1::text[]) AS name LEFT JOIN perdure.blobs ON blobs.sha256 = name
    LEFT JOIN perdure.removed_blobs ON removed_blobs.sha256 = name;

-- name: shipped_rows
-- Rows of logs, and the addresses of their executions.
SELECT log.execution, log.version, heads.address, log.row FROM unnest($1::bigint[], $2::bigint[]) AS asked(execution, version)
    JOIN perdure.log USING (execution, version) JOIN perdure.heads ON heads.number = log.execution;

-- name: shipped_heads
-- Heads, and the first versions of their logs.
SELECT {head_columns_with_attributes}, number, (SELECT min(log.version) FROM perdure.log WHERE execution = number)
    FROM perdure.heads WHERE number = ANY($1::bigint[]);

-- name: shipped_messages
-- Messages.
SELECT {message_columns} FROM unnest($1::bytea[], $2::bytea[]) AS asked(address, name)
    JOIN perdure.mail ON sha256(mail.address) = sha256(asked.address) AND sha256(mail.key) = sha256(asked.name);

-- name: shipped_limits
-- The limits of queues.
SELECT name, tenant, concurrency, per_lane, interval_s, burst, declared FROM perdure.queues
    WHERE (name, tenant) IN (SELECT asked.name, asked.tenant FROM unnest($1::text[], $2::text[]) AS asked(name, tenant));

-- name: shipped_record
-- A record, also if it has expired.
SELECT {record_columns} FROM perdure.records AS at WHERE tenant = $1 AND kind = $2 AND key = $3;

-- name: first_due
-- The due time of the first message of an execution.
(SELECT min(due_at_s) FROM perdure.mail WHERE sha256(mail.address) = sha256(heads.address));

-- name: replace_blob
-- Puts a blob in the place of one that is there; returns whether there is one.
UPDATE perdure.blobs SET bytes = $2 WHERE sha256 = $1 RETURNING true;

-- name: insert_blob
-- Adds a blob to a month.
INSERT INTO perdure.blobs VALUES (perdure.month_of($3), $1, $2);

-- name: ensure_month
-- Makes the partitions of the month of a time.
SELECT perdure.ensure_month(perdure.month_of($1));

-- name: remove_blob
-- Removes a blob.
DELETE FROM perdure.blobs WHERE sha256 = $1;

-- name: unmark_blob
-- Takes the mark of a sweep away.
DELETE FROM perdure.blob_marks WHERE sha256 = $1;

-- name: replace_removal
-- Records when a blob was removed.
INSERT INTO perdure.removed_blobs VALUES ($1, $2) ON CONFLICT (sha256) DO UPDATE SET at_s = excluded.at_s;

-- name: keep_row_aside
-- Keeps a row of a log whose head is not there yet.
INSERT INTO perdure.restored_rows VALUES ($1, $2, $3) ON CONFLICT (sha256(address), version) DO UPDATE SET row = excluded.row;

-- name: restore_head
-- Puts a head in place, which has no holder; returns its number.
INSERT INTO perdure.heads (address, month, {head_columns}, attributed, limited)
    VALUES ($1, perdure.month_of($10), $2, $3, $4, $5, $6, $7, NULL, $8, NULL, $9, $10, $11, $12, $13, $14, $15,
    coalesce((SELECT number FROM perdure.queues WHERE name = $12 AND name <> '' AND tenant IN ($2, '') ORDER BY tenant DESC LIMIT 1), 0))
    ON CONFLICT (sha256(address)) DO UPDATE SET month = excluded.month, program = excluded.program, root = excluded.root, version = excluded.version, holder = NULL,
        wake_at_s = excluded.wake_at_s, status = excluded.status, created_at_s = excluded.created_at_s, ended_at_s = excluded.ended_at_s,
        queue = excluded.queue, lane = excluded.lane, priority = excluded.priority,
        attributed = excluded.attributed, limited = excluded.limited
    RETURNING number, month;

-- name: move_rows
-- Moves the rows of a log to another month.
UPDATE perdure.log SET month = $2 WHERE execution = $1 AND month <> $2;

-- name: drop_rows
-- Removes the rows of a log that its head does not count, and those that were restored again.
DELETE FROM perdure.log WHERE execution = $1 AND (version < $2 OR version > $3
    OR version IN (SELECT version FROM perdure.restored_rows WHERE sha256(address) = sha256($4)));

-- name: take_rows
-- Moves rows that were kept aside into the log.
INSERT INTO perdure.log (month, execution, version, row) SELECT $5, $1, version, row FROM perdure.restored_rows
    WHERE sha256(address) = sha256($4) AND version BETWEEN $2 AND $3;

-- name: drop_rows_aside
-- Removes rows that were kept aside, up to a version.
DELETE FROM perdure.restored_rows WHERE sha256(address) = sha256($1) AND version <= $2;

-- name: drop_all_rows_aside
-- Removes all rows of an address that were kept aside.
DELETE FROM perdure.restored_rows WHERE sha256(address) = sha256($1);

-- name: restored_head_number
-- The number of an execution.
SELECT number FROM perdure.heads WHERE sha256(address) = sha256($1);

-- name: set_message_time
-- Has an execution wait for the first of its messages.
UPDATE perdure.heads SET mail_at_s = {first_due} WHERE sha256(address) = sha256($1);

-- name: is_number_taken
-- Whether another message has a number.
SELECT 1 FROM perdure.mail WHERE number = $1 AND (sha256(address) <> sha256($2) OR sha256(key) <> sha256($3));

-- name: message_number
-- The number of a message.
SELECT number FROM perdure.mail WHERE sha256(address) = sha256($1) AND sha256(key) = sha256($2);

-- name: remove_message
-- Removes a message.
DELETE FROM perdure.mail WHERE sha256(address) = sha256($1) AND sha256(key) = sha256($2);

-- name: restore_message
-- Puts a message in place: under its number, or behind all others.
INSERT INTO perdure.mail (number, address, key, body, due_at_s, deliveries, lane, priority, queue, tenant, limited)
    VALUES (coalesce($1, nextval('perdure.mail_number_seq')),
    $2, $3, $4, $5, $6, $7, $8, $9, $10,
    coalesce((SELECT number FROM perdure.queues WHERE name = $9 AND tenant IN ($10, '') ORDER BY tenant DESC LIMIT 1), 0));

-- name: number_messages_behind
-- Has later messages come behind one of this number.
SELECT setval('perdure.mail_number_seq', $1) FROM perdure.mail_number_seq WHERE last_value <= $1;
