-- Records.

-- name: this_record
-- A part: the record of a key.
tenant = $1 AND kind = $2 AND key = $3;

-- name: put_record
-- Puts a record in place.
INSERT INTO perdure.records VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (tenant, kind, key)
    DO UPDATE SET version = excluded.version, value = excluded.value, changed_at_s = excluded.changed_at_s, expires_at_s = excluded.expires_at_s;

-- name: remove_record
-- Removes a record.
DELETE FROM perdure.records WHERE {this_record};

-- name: remove_record_attributes
-- Removes the attributes of a record.
DELETE FROM perdure.record_attributes WHERE {this_record};

-- name: insert_record_attributes
-- Adds attributes to a record.
INSERT INTO perdure.record_attributes SELECT $1, $2, $3, * FROM unnest($4::text[], $5::bytea[]);

-- name: drop_expired_records
-- Removes some expired records; returns their keys. (`IN` would let the planner repeat the query, which skips what is removed by then and finds more.)
DELETE FROM perdure.records WHERE ctid = ANY(ARRAY(SELECT ctid FROM perdure.records WHERE expires_at_s <= $1
    ORDER BY expires_at_s, tenant, kind, key LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING tenant, kind, key;

-- name: read_record
-- A record that has not expired.
SELECT {record_columns} FROM perdure.records AS at WHERE {this_record} AND (expires_at_s IS NULL OR expires_at_s > $4);

-- name: records_by_key
-- The beginning of a list of records in order of key.
SELECT {record_columns} FROM perdure.records AS at;

-- name: records_by_value
-- The beginning of a list of records in order of an attribute.
SELECT {record_columns} FROM perdure.record_attributes AS line JOIN perdure.records AS at USING (tenant, kind, key);

-- name: other_value
-- The beginning of a condition about the values of an attribute, whose name follows.
SELECT 1 FROM perdure.record_attributes AS other WHERE other.tenant = at.tenant AND other.kind = at.kind AND other.key = at.key AND other.name =;

-- name: record_columns
-- The columns of a record, for `record_of`.
at.tenant, at.kind, at.key, at.version, at.value, at.changed_at_s, at.expires_at_s,
    (SELECT string_agg(encode(convert_to(name, 'UTF8'), 'hex') || '=' || encode(its.value, 'hex'), ',') FROM perdure.record_attributes AS its
    WHERE its.tenant = at.tenant AND its.kind = at.kind AND its.key = at.key);
