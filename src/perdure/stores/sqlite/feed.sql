-- The change feed: its scan of what was there before, its entries, and the items that they stand for; and what puts items in place elsewhere.

-- name: begin_scan
-- Begins to scan a table.
INSERT INTO feed_scans VALUES (?, '', 0, 0);

-- name: scan_position
-- How far a table was scanned, unless it is done.
SELECT table_name, name, number FROM feed_scans WHERE table_name = ?1 AND NOT done;

-- name: set_scan_position
-- Records how far a table was scanned.
UPDATE feed_scans SET name = ?, number = ?, done = ? WHERE table_name = ?;

-- name: is_scanned
-- Whether all tables were scanned; null without a feed.
SELECT min(done) FROM feed_scans;

-- name: end_scans
-- Ends all scans.
DELETE FROM feed_scans;

-- name: scan_blobs
-- The next blobs.
SELECT sha256 FROM blobs WHERE sha256 > ? ORDER BY sha256 LIMIT ?;

-- name: scan_removed_blobs
-- The next records of removed blobs.
SELECT sha256 FROM removed_blobs WHERE sha256 > ? ORDER BY sha256 LIMIT ?;

-- name: scan_heads
-- The next executions.
SELECT number, address FROM heads WHERE number > ? ORDER BY number LIMIT ?;

-- name: scan_messages
-- The next messages.
SELECT number, address, key FROM mail WHERE number > ? ORDER BY number LIMIT ?;

-- name: scan_records
-- The next records.
SELECT number, json_array(tenant, kind, key) FROM records WHERE number > ? ORDER BY number LIMIT ?;

-- name: add_limits_entries
-- Gives every queue with limits its entry.
INSERT INTO feed (kind, name, key) SELECT 'limits', name, tenant FROM queues;

-- name: add_blob_entry
-- Gives a blob its entry.
INSERT OR IGNORE INTO feed (kind, name) VALUES ('blob', ?);

-- name: add_removed_entry
-- Says that a former execution of this address is gone.
INSERT OR REPLACE INTO feed (kind, name) VALUES ('removed', ?);

-- name: add_row_entries
-- Gives the rows of a log their entries.
INSERT OR REPLACE INTO feed (kind, name, version) SELECT 'row', CAST(execution AS TEXT), version FROM log WHERE execution = ? ORDER BY version;

-- name: add_head_entry
-- Gives a head its entry.
INSERT OR REPLACE INTO feed (kind, name) VALUES ('head', CAST(? AS TEXT));

-- name: add_message_entry
-- Gives a message its entry.
INSERT OR REPLACE INTO feed (kind, name, key) VALUES ('message', ?, ?);

-- name: add_record_entry
-- Gives a record its entry.
INSERT OR REPLACE INTO feed (kind, name) VALUES ('record', ?);

-- name: feed_entries
-- The entries behind a position.
SELECT position, kind, name, key, version FROM feed WHERE position > ? ORDER BY position LIMIT ?;

-- name: trim_feed
-- Removes the entries up to a position.
DELETE FROM feed WHERE position <= ?;

-- name: empty_feed
-- Removes all entries.
DELETE FROM feed;

-- name: shipped_head
-- A head, and the first version of its log.
SELECT (SELECT min(log.version) FROM log WHERE execution = number), {head_columns} FROM heads WHERE number = ?;

-- name: shipped_row
-- A row of a log, and the address of its execution.
SELECT heads.address, log.row FROM log CROSS JOIN heads ON heads.number = log.execution WHERE log.execution = ? AND log.version = ?;

-- name: shipped_limits
-- The limits of a queue.
SELECT concurrency, per_lane, interval_s, burst, declared FROM queues WHERE name = ? AND tenant = ?;

-- name: restore_head
-- Puts a head in place, which has no holder; returns its number.
INSERT INTO heads (address, tenant, workflow, program, root, version, wake_at_s, status, created_at_s, ended_at_s, queue, lane, priority,
    limited) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (address) DO UPDATE SET program = excluded.program, root = excluded.root, version = excluded.version, holder = NULL,
    wake_at_s = excluded.wake_at_s, status = excluded.status, created_at_s = excluded.created_at_s, ended_at_s = excluded.ended_at_s, queue = excluded.queue,
    lane = excluded.lane, priority = excluded.priority, limited = excluded.limited, mail_at_s = {first_due}
    RETURNING number;

-- name: keep_row_aside
-- Keeps a row of a log whose head is not there yet.
INSERT INTO restored_rows (address, version, row) VALUES (?, ?, ?) ON CONFLICT (address, version) DO UPDATE SET row = excluded.row;

-- name: drop_rows
-- Removes the rows of a log (?1) that its head does not count (?2 to ?3), and those that were restored again (of ?4).
DELETE FROM log WHERE execution = ?1 AND (version < ?2 OR version > ?3 OR version IN (SELECT version FROM restored_rows WHERE address = ?4));

-- name: take_rows
-- Moves rows that were kept aside into the log.
INSERT INTO log (execution, version, row) SELECT ?1, version, row FROM restored_rows WHERE address = ?4 AND version BETWEEN ?2 AND ?3;

-- name: drop_rows_aside
-- Removes rows that were kept aside, up to a version.
DELETE FROM restored_rows WHERE address = ? AND version <= ?;

-- name: drop_all_rows_aside
-- Removes all rows of an address that were kept aside.
DELETE FROM restored_rows WHERE address = ?;

-- name: is_number_taken
-- Whether another message has a number.
SELECT 1 FROM mail WHERE number = ? AND (address <> ? OR key <> ?);

-- name: restore_message
-- Puts a message in place.
INSERT INTO mail (number, address, key, body, due_at_s, tenant, queue, deliveries, unclaimed, lane, priority, limited) VALUES (?, ?, ?, ?, ?, ?, ?, ?,
    iif(? AND NOT EXISTS (SELECT 1 FROM heads WHERE address = ?), 1, NULL), ?, ?, ?);
