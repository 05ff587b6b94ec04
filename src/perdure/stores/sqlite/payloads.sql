-- Payloads of all kinds, where all are read or replaced: a rekey, and the check of a backup.
--
-- Slots: {table} is the table of a kind of payload, {column} its column, {bytes} how much of each is read.

-- name: payload_headers
-- The beginning of each payload.
SELECT substr({column}, 1, {bytes}) FROM {table};

-- name: payload_count
-- How many payloads there are, and the last rowid.
SELECT count(*), coalesce(max(rowid), 0) FROM {table};

-- name: payloads
-- All payloads with their rowids.
SELECT rowid, {column} FROM {table};

-- name: replace_payload
-- Replaces a payload, if it is still the same.
UPDATE {table} SET {column} = ? WHERE rowid = ? AND {column} = ?;

-- name: row_payloads
-- Rows of logs, with the addresses of their executions, their versions, and the versions before them.
SELECT log.rowid, log.row, heads.address, log.version,
    coalesce((SELECT max(before.version) FROM log AS before WHERE before.execution = log.execution AND before.version < log.version), 0)
    FROM log JOIN heads ON heads.number = log.execution WHERE log.rowid > ? AND log.rowid <= ? ORDER BY log.rowid;

-- name: message_payloads
-- Messages, with their addresses and keys.
SELECT number, body, address, key FROM mail WHERE number > ? AND number <= ? ORDER BY number;

-- name: blob_payloads
-- Blobs, with their names.
SELECT rowid, bytes, sha256 FROM blobs WHERE rowid > ? AND rowid <= ? ORDER BY rowid;

-- name: record_payloads
-- Values of records, with their keys and versions.
SELECT number, value, json_array(tenant, kind, key), version FROM records WHERE number > ? AND number <= ? ORDER BY number;

-- name: remove_renamed_blob
-- Removes a blob whose name has changed.
DELETE FROM blobs WHERE rowid = ? AND sha256 = ?;
