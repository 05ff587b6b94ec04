-- works with engines from schema 1 on
--
-- The functions and triggers that record changes for the change feed. The triggers are enabled when it begins and disabled when it ends, so that nothing
-- is paid without one. (Dropping a trigger would wait for everybody who reads its table.)
--
-- A change of something that is recorded already takes the next number, which moves it behind all others. It has no position yet: `shipped` gives
-- positions to what is committed. So two transactions never wait for each other here, unless they change the same thing, for which they wait anyway.
-- The functions run as the owner of the tables, since a user whose transaction changes them needs no rights on the feed.

-- Records the change of a thing.
CREATE FUNCTION perdure.note_change(its_kind text, its_name bytea, its_key bytea DEFAULT '', its_version bigint DEFAULT 0) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO perdure.feed_changes VALUES (its_kind, its_name, its_key, its_version) ON CONFLICT (kind, sha256(name), sha256(key), version)
        DO UPDATE SET id = nextval('perdure.feed_changes_id_seq');
END $$;

-- A blob is kept, encrypted with another key or removed, or that it was removed is recorded or forgotten.
CREATE FUNCTION perdure.note_blob() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = perdure, pg_temp AS $$
BEGIN
    PERFORM perdure.note_change('blob', convert_to(CASE TG_OP WHEN 'DELETE' THEN OLD.sha256 ELSE NEW.sha256 END, 'UTF8'));
    RETURN NULL;
END $$;

-- A row is appended to a log or encrypted with another key; its head, whose version follows, comes behind it. The head tells of a row that is compacted away.
CREATE FUNCTION perdure.note_row() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = perdure, pg_temp AS $$
DECLARE
    its_name bytea := convert_to((CASE TG_OP WHEN 'DELETE' THEN OLD.execution ELSE NEW.execution END)::text, 'UTF8');
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM perdure.feed_changes WHERE kind = 'row' AND sha256(name) = sha256(its_name) AND sha256(key) = sha256('') AND version = OLD.version;
    ELSE
        PERFORM perdure.note_change('row', its_name, '', NEW.version);
        PERFORM perdure.note_change('head', its_name);
    END IF;
    RETURN NULL;
END $$;

-- An execution is created, changed, or removed; its key may then be used again.
CREATE FUNCTION perdure.note_head() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = perdure, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM perdure.feed_changes WHERE kind = 'head' AND sha256(name) = sha256(convert_to(OLD.number::text, 'UTF8')) AND sha256(key) = sha256('')
            AND version = 0;
        PERFORM perdure.note_change('removed', OLD.address);
    ELSE
        PERFORM perdure.note_change('head', convert_to(NEW.number::text, 'UTF8'));
    END IF;
    RETURN NULL;
END $$;

-- An attribute is part of its head.
CREATE FUNCTION perdure.note_attribute() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = perdure, pg_temp AS $$
BEGIN
    PERFORM perdure.note_change('head', convert_to((CASE TG_OP WHEN 'DELETE' THEN OLD.number ELSE NEW.number END)::text, 'UTF8'));
    RETURN NULL;
END $$;

-- A message is queued, postponed, handed over, encrypted with another key, or acknowledged.
CREATE FUNCTION perdure.note_message() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = perdure, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM perdure.note_change('message', OLD.address, OLD.key);
    ELSE
        PERFORM perdure.note_change('message', NEW.address, NEW.key);
    END IF;
    RETURN NULL;
END $$;

-- A queue gets limits, other limits, or has none any more.
CREATE FUNCTION perdure.note_limits() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = perdure, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM perdure.note_change('limits', convert_to(OLD.name, 'UTF8'), convert_to(OLD.tenant, 'UTF8'));
    ELSE
        PERFORM perdure.note_change('limits', convert_to(NEW.name, 'UTF8'), convert_to(NEW.tenant, 'UTF8'));
    END IF;
    RETURN NULL;
END $$;

-- A record is created, changed with its attributes, or removed.
CREATE FUNCTION perdure.note_record() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = perdure, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM perdure.note_change('record', convert_to(json_build_array(OLD.tenant, OLD.kind, OLD.key)::text, 'UTF8'));
    ELSE
        PERFORM perdure.note_change('record', convert_to(json_build_array(NEW.tenant, NEW.kind, NEW.key)::text, 'UTF8'));
    END IF;
    RETURN NULL;
END $$;

-- What changes in `blobs`.
CREATE TRIGGER note_feed_change AFTER INSERT OR DELETE OR UPDATE OF bytes ON perdure.blobs FOR EACH ROW EXECUTE FUNCTION perdure.note_blob();

-- What changes in `removed_blobs`.
CREATE TRIGGER note_feed_change AFTER INSERT OR DELETE OR UPDATE ON perdure.removed_blobs FOR EACH ROW EXECUTE FUNCTION perdure.note_blob();

-- What changes in `log`.
CREATE TRIGGER note_feed_change AFTER INSERT OR DELETE OR UPDATE OF row ON perdure.log FOR EACH ROW EXECUTE FUNCTION perdure.note_row();

-- What changes in `heads`, but for the version, whose change comes with a row, and mail_at_s, which follows from the messages.
CREATE TRIGGER note_feed_change AFTER INSERT OR DELETE OR
    UPDATE OF program, root, holder, wake_at_s, status, created_at_s, ended_at_s, queue, lane, priority ON perdure.heads
    FOR EACH ROW EXECUTE FUNCTION perdure.note_head();

-- What changes in `attributes`.
CREATE TRIGGER note_feed_change AFTER INSERT OR DELETE ON perdure.attributes FOR EACH ROW EXECUTE FUNCTION perdure.note_attribute();

-- What changes in `mail`.
CREATE TRIGGER note_feed_change AFTER INSERT OR DELETE OR UPDATE OF number, body, due_at_s, deliveries ON perdure.mail
    FOR EACH ROW EXECUTE FUNCTION perdure.note_message();

-- What changes in `queues`, but for its turns.
CREATE TRIGGER note_feed_change AFTER INSERT OR DELETE OR UPDATE OF concurrency, per_lane, interval_s, burst, declared ON perdure.queues
    FOR EACH ROW EXECUTE FUNCTION perdure.note_limits();

-- What changes in `records`.
CREATE TRIGGER note_feed_change AFTER INSERT OR DELETE OR UPDATE ON perdure.records FOR EACH ROW EXECUTE FUNCTION perdure.note_record();

-- Enables or disables the triggers. An engine may do it, which may not alter tables.
CREATE FUNCTION perdure.switch_feed_triggers_1(enabled boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    triggered regclass;
BEGIN
    FOR triggered IN SELECT tgrelid FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        WHERE tgname = 'note_feed_change' AND tgparentid = 0 AND relnamespace = 'perdure'::regnamespace ORDER BY relname
    LOOP
        EXECUTE format('ALTER TABLE %s %s TRIGGER note_feed_change', triggered, CASE WHEN enabled THEN 'ENABLE' ELSE 'DISABLE' END);
    END LOOP;
END $$;
SELECT perdure.switch_feed_triggers_1(false);
