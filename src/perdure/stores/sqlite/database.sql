-- The database as a whole: the row of `meta`, which every transaction reads, and the tables themselves.

-- name: read_meta
-- What may have changed since the last transaction: epoch, members, version of the tables, and the anchor of the store's time.
SELECT epoch, membership, version, time_s, monotonic_s, boot FROM meta;

-- name: read_epoch
-- The epoch.
SELECT epoch FROM meta;

-- name: set_epoch
-- Begins an epoch.
UPDATE meta SET epoch = ?;

-- name: set_anchor
-- Sets the anchor of the store's time.
UPDATE meta SET time_s = ?, monotonic_s = ?, boot = ?;

-- name: membership_changed
-- Tells every process to read the holders and processes again, and the numbers of executions.
UPDATE meta SET membership = membership + 1;

-- name: count_transaction
-- Counts a transaction that has changed something.
UPDATE meta SET writes = writes + 1;

-- name: set_transaction_count
-- Sets the count of transactions.
UPDATE meta SET writes = ?;

-- name: transaction_count
-- The count of transactions.
SELECT writes FROM meta;

-- name: database_stamp
-- By which a write-ahead log is compared with its database: name of the file, count of transactions, and the page of `meta`.
SELECT file, writes, (SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = 'meta') FROM meta;

-- name: create_meta
-- Creates the row of `meta`.
INSERT INTO meta VALUES (?, 1, 0, 0, 0, '', 0, ?, 0);

-- name: set_tables_version
-- Sets the version of the tables.
UPDATE meta SET version = ?;

-- name: is_restored
-- Whether the database is a backup that was not yet opened.
SELECT restored FROM meta;

-- name: mark_as_backup
-- Makes a copy a backup, which no other database has the name of.
UPDATE meta SET restored = 1, file = ?;

-- name: set_file_name
-- Gives a database another name.
UPDATE meta SET file = ?;

-- name: begin_epoch_of_backup
-- Begins the epoch of a backup that is opened. Its store's time has no anchor.
UPDATE meta SET restored = 0, membership = membership + 1, time_s = 0, boot = '', epoch = max(epoch + 1, ?);

-- name: table_names
-- The names of all tables, indexes and triggers that are not SQLite's own.
SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\';

-- name: count_tables
-- How many tables, indexes and triggers there are.
SELECT count(*) FROM sqlite_master;

-- name: table_statements
-- The statements that have created the tables and indexes.
SELECT sql FROM sqlite_master;

-- name: table_columns
-- The columns of all tables.
SELECT of.name, its.name, its.type, its."notnull", its.dflt_value, its.pk, its.hidden
    FROM sqlite_master AS of JOIN pragma_table_xinfo(of.name) AS its WHERE of.type = 'table' AND substr(of.name, 1, 7) <> 'sqlite_';

-- name: index_columns
-- The columns of all indexes, and whether each index has a condition.
SELECT of.tbl_name, of.name, its.seqno, its.name, its."desc", instr(of.sql, ' WHERE ') > 0
    FROM sqlite_master AS of JOIN pragma_index_xinfo(of.name) AS its WHERE of.type = 'index' AND of.sql IS NOT NULL;
