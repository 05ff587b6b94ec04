-- The mark of a store that is being moved. Its table, function and triggers exist only while there is a mark, so no number of the schema has them.

-- name: has_move
-- Whether there is a mark.
SELECT to_regclass('perdure.store_move') IS NOT NULL;

-- name: create_move
-- Creates the table of the mark, and of the message with which changes are refused.
CREATE TABLE perdure.store_move (stage text NOT NULL, other text NOT NULL, run text NOT NULL, refusal text NOT NULL);

-- name: read_move
-- The mark.
SELECT stage, other, run FROM perdure.store_move;

-- name: put_move
-- Sets the mark.
INSERT INTO perdure.store_move VALUES ($1, $2, $3, $4);

-- name: drop_move
-- Removes the mark.
DROP TABLE IF EXISTS perdure.store_move;

-- name: allow_restoring
-- Lets this transaction restore what a change feed has shipped in spite of a mark.
SELECT set_config('perdure.restoring', 'on', true);

-- name: create_refusal
-- Creates the function of the triggers, which refuses as SQLSTATE PRD01. It runs as the owner of the tables, since others have no rights on the mark.
CREATE OR REPLACE FUNCTION perdure.refuse_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(current_setting('perdure.restoring', true), '') <> 'on' THEN
        RAISE EXCEPTION '%', (SELECT refusal FROM perdure.store_move) USING ERRCODE = 'PRD01';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;

-- name: refuse_changes
-- Has a table refuse changes.
CREATE TRIGGER refuse_change BEFORE {changes} ON perdure.{table} FOR EACH ROW EXECUTE FUNCTION perdure.refuse_change();

-- name: accept_changes
-- Has all tables accept changes again, and removes the function.
DROP FUNCTION IF EXISTS perdure.refuse_change() CASCADE;
