-- Blobs: values that are too large for a log, and what a sweep marks and removes of them.

-- name: remove_all_marks
-- Takes all marks away, of whichever sweep.
DELETE FROM perdure.blob_marks;

-- name: mark_blobs
-- Marks every blob, and every record of a removed one, in the name of a sweep.
INSERT INTO perdure.blob_marks SELECT sha256, $1 FROM (SELECT sha256 FROM perdure.blobs UNION SELECT sha256 FROM perdure.removed_blobs) AS known;

-- name: unmark_blobs
-- Takes the marks of some blobs away.
DELETE FROM perdure.blob_marks WHERE sha256 = ANY($1::text[]);

-- name: marked_totals
-- How many blobs a sweep has marked, and their size.
SELECT count(DISTINCT sha256), coalesce(sum(length(bytes)), 0)::bigint FROM perdure.blob_marks JOIN perdure.blobs USING (sha256) WHERE sweep = $1;

-- name: marked_blobs
-- The next blobs that a sweep has marked, of some or of all, and their sizes.
SELECT sha256, (SELECT sum(length(bytes)) FROM perdure.blobs WHERE blobs.sha256 = blob_marks.sha256)::bigint FROM perdure.blob_marks
    WHERE sweep = $1 AND ($2::text[] IS NULL OR sha256 = ANY($2)) AND EXISTS (SELECT FROM perdure.blobs WHERE blobs.sha256 = blob_marks.sha256) LIMIT $3;

-- name: remove_blobs
-- Removes some blobs.
DELETE FROM perdure.blobs WHERE sha256 = ANY($1::text[]);

-- name: record_removals
-- Records when some blobs were removed.
INSERT INTO perdure.removed_blobs SELECT name, $2 FROM unnest($1::text[]) AS name ON CONFLICT DO NOTHING;

-- name: record_removal_elsewhere
-- Records when a blob was removed elsewhere, unless it is here.
INSERT INTO perdure.removed_blobs SELECT $1::text, $2::float8 WHERE NOT EXISTS (SELECT 1 FROM perdure.blobs WHERE sha256 = $1) ON CONFLICT DO NOTHING;

-- name: forget_marked_removals
-- Forgets when blobs were removed, of which a sweep has found no use.
DELETE FROM perdure.removed_blobs WHERE sha256 IN (SELECT sha256 FROM perdure.blob_marks WHERE sweep = $1);

-- name: remove_marks
-- Takes the marks of a sweep away.
DELETE FROM perdure.blob_marks WHERE sweep = $1;

-- name: unclaimed_messages
-- The messages to executions that are not there.
SELECT {message_columns} FROM perdure.mail WHERE queue IS NULL
    AND NOT EXISTS (SELECT 1 FROM perdure.heads WHERE sha256(heads.address) = sha256(mail.address)) ORDER BY number;

-- name: forget_removal
-- Forgets when a blob was removed.
DELETE FROM perdure.removed_blobs WHERE sha256 = $1;

-- name: read_blob
-- A blob.
SELECT bytes FROM perdure.blobs WHERE sha256 = $1 LIMIT 1;

-- name: removed_at
-- When a blob was removed.
SELECT at_s FROM perdure.removed_blobs WHERE sha256 = $1;
