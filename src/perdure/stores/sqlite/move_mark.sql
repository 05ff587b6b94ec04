-- The mark of a store that is being moved. Its table and triggers exist only while there is a mark, so no version of the tables has them.

-- name: has_move
-- Whether there is a mark.
SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'store_move';

-- name: create_move
-- Creates the table of the mark; restoring is 1 within a transaction that restores what a change feed has shipped.
CREATE TABLE IF NOT EXISTS store_move (stage TEXT NOT NULL, other TEXT NOT NULL, run TEXT NOT NULL, restoring INTEGER NOT NULL);

-- name: read_move
-- The mark.
SELECT stage, other, run FROM store_move;

-- name: put_move
-- Sets the mark.
INSERT INTO store_move VALUES (?, ?, ?, 0);

-- name: drop_move
-- Removes the mark.
DROP TABLE IF EXISTS store_move;

-- name: set_restoring
-- Begins or ends to restore.
UPDATE store_move SET restoring = ?;

-- name: refuse_change
-- Has a table refuse changes with a message.
CREATE TRIGGER refuse_{change}_{table} BEFORE {change} ON {table} WHEN NOT (SELECT restoring FROM store_move) AND {condition} BEGIN
    SELECT RAISE(ABORT, {message});
END;

-- name: accept_change
-- Has a table accept changes again.
DROP TRIGGER IF EXISTS refuse_{change}_{table};
