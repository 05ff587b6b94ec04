-- Records: small versioned documents, and the attributes by which they are found.

-- name: record_columns
-- A part: the columns of a record; the last has its attributes.
tenant, kind, key, version, value, changed_at_s, expires_at_s,
    (SELECT group_concat(hex(name) || '=' || hex(record_attributes.value)) FROM record_attributes
    WHERE record_attributes.tenant = records.tenant AND record_attributes.kind = records.kind AND record_attributes.key = records.key)

-- name: this_record
-- A part: the record of a key.
tenant = ? AND kind = ? AND key = ?

-- name: record_version
-- The version of a record that has not expired.
SELECT version FROM records WHERE {this_record} AND (expires_at_s IS NULL OR expires_at_s > ?);

-- name: read_record
-- A record that has not expired.
SELECT {record_columns} FROM records WHERE {this_record} AND (expires_at_s IS NULL OR expires_at_s > ?);

-- name: read_stored_record
-- A record, also if it has expired.
SELECT {record_columns} FROM records WHERE {this_record};

-- name: read_records
-- The records of some keys.
SELECT {record_columns} FROM records WHERE tenant = ? AND kind = ? AND key IN (SELECT value FROM json_each(?));

-- name: put_record
-- Puts a record in place.
INSERT INTO records (tenant, kind, key, version, value, changed_at_s, expires_at_s) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (tenant, kind, key) DO UPDATE SET version = excluded.version, value = excluded.value, changed_at_s = excluded.changed_at_s,
    expires_at_s = excluded.expires_at_s;

-- name: remove_record
-- Removes a record.
DELETE FROM records WHERE {this_record};

-- name: expired_records
-- Records that have expired.
SELECT tenant, kind, key FROM records WHERE expires_at_s <= ? ORDER BY expires_at_s, tenant, kind, key LIMIT ?;

-- name: insert_record_attribute
-- Adds a value of an attribute.
INSERT INTO record_attributes (tenant, kind, key, name, value) VALUES (?, ?, ?, ?, ?);

-- name: remove_record_attributes
-- Removes the attributes of a record.
DELETE FROM record_attributes WHERE {this_record};

-- name: count_record_matches
-- How many values of an attribute are in a range, up to a maximum.
SELECT count(*) FROM (SELECT 1 FROM record_attributes AS at INDEXED BY record_attributes_by_value
    WHERE tenant = ? AND kind = ? AND name = ? AND value >= ? AND value < ? LIMIT ?);
