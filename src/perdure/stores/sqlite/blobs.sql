-- Blobs, the marks of a collection, and when blobs were removed.

-- name: read_blob
-- The payload of a blob.
SELECT bytes FROM blobs WHERE sha256 = ?;

-- name: has_blob
-- Whether a blob is there.
SELECT 1 FROM blobs WHERE sha256 = ?;

-- name: blob_names
-- The names of all blobs.
SELECT sha256 FROM blobs;

-- name: blobs
-- All blobs.
SELECT sha256, bytes FROM blobs;

-- name: keep_blob
-- Keeps a blob, unless it is there.
INSERT INTO blobs (sha256, bytes) VALUES (?, ?) ON CONFLICT (sha256) DO NOTHING;

-- name: replace_blob
-- Keeps a blob, in place of one that is there with another payload.
INSERT INTO blobs (sha256, bytes) VALUES (?, ?) ON CONFLICT (sha256) DO UPDATE SET bytes = excluded.bytes WHERE bytes <> excluded.bytes;

-- name: remove_blob
-- Removes a blob.
DELETE FROM blobs WHERE sha256 = ?;

-- name: remove_blobs
-- Removes some blobs.
DELETE FROM blobs WHERE sha256 IN (SELECT value FROM json_each(?));

-- name: mark_blobs
-- Marks all blobs, and all records of removed ones, for a sweep.
INSERT INTO blob_marks SELECT sha256, ?1 FROM blobs UNION SELECT sha256, ?1 FROM removed_blobs;

-- name: unmark_blob
-- Removes the mark of a blob.
DELETE FROM blob_marks WHERE sha256 = ?;

-- name: unmark_blobs
-- Removes the marks of some blobs.
DELETE FROM blob_marks WHERE sha256 IN (SELECT value FROM json_each(?));

-- name: unmark_sweep
-- Removes the marks of a sweep.
DELETE FROM blob_marks WHERE sweep = ?;

-- name: unmark_all
-- Removes all marks.
DELETE FROM blob_marks;

-- name: marked
-- A part: the blobs that a sweep has marked.
FROM blob_marks JOIN blobs ON blobs.sha256 = blob_marks.sha256 WHERE sweep = ?1

-- name: marked_totals
-- How many blobs a sweep has marked, and their size.
SELECT count(*), coalesce(sum(length(bytes)), 0) {marked};

-- name: marked_blobs
-- Some blobs that a sweep has marked, with their sizes.
SELECT blobs.sha256, length(bytes) {marked} LIMIT ?2;

-- name: marked_among
-- Of some blobs (?3), those that a sweep has marked, with their sizes.
SELECT blobs.sha256, length(bytes) {marked} AND blobs.sha256 IN (SELECT value FROM json_each(?3)) LIMIT ?2;

-- name: removed_at
-- When a blob was removed, if that is recorded.
SELECT at_s FROM removed_blobs WHERE sha256 = ?;

-- name: note_removals
-- Records when some blobs were removed.
INSERT INTO removed_blobs SELECT value, ? FROM json_each(?) WHERE true ON CONFLICT (sha256) DO NOTHING;

-- name: note_removal_elsewhere
-- Records when a blob was removed elsewhere, unless it is here.
INSERT INTO removed_blobs SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE sha256 = ?1) ON CONFLICT (sha256) DO NOTHING;

-- name: replace_removal
-- Records when a blob was removed, in place of an earlier record.
INSERT INTO removed_blobs VALUES (?, ?) ON CONFLICT (sha256) DO UPDATE SET at_s = excluded.at_s;

-- name: forget_removal
-- Forgets that a blob was removed.
DELETE FROM removed_blobs WHERE sha256 = ?;

-- name: forget_marked_removals
-- Forgets the removals that a sweep has marked.
DELETE FROM removed_blobs WHERE sha256 IN (SELECT sha256 FROM blob_marks WHERE sweep = ?);
