-- The triggers that write the change feed. They exist only while there is a feed, so that nothing is paid without one.
--
-- An empty line ends a statement. An entry is removed and inserted again, which moves it to the end. Things that the scan has not reached yet get no
-- entry: the scan will give them one. (INSERT OR REPLACE would not do: within a trigger, the statement that fired it decides on conflicts.)
-- The number of an execution is its name as text.

-- feed_blob_kept: a blob is kept
CREATE TRIGGER feed_blob_kept AFTER INSERT ON blobs
WHEN (SELECT done OR NEW.sha256 <= name FROM feed_scans WHERE table_name = 'blobs') BEGIN
    DELETE FROM feed WHERE kind = 'blob' AND name = NEW.sha256 AND key = '' AND version = 0;
    INSERT INTO feed (kind, name) VALUES ('blob', NEW.sha256);
END

-- feed_blob_changed: a blob is encrypted with another key
CREATE TRIGGER feed_blob_changed AFTER UPDATE OF bytes ON blobs
WHEN (SELECT done OR NEW.sha256 <= name FROM feed_scans WHERE table_name = 'blobs') BEGIN
    DELETE FROM feed WHERE kind = 'blob' AND name = NEW.sha256 AND key = '' AND version = 0;
    INSERT INTO feed (kind, name) VALUES ('blob', NEW.sha256);
END

-- feed_blob_removed: a blob is removed
CREATE TRIGGER feed_blob_removed AFTER DELETE ON blobs
WHEN (SELECT done OR OLD.sha256 <= name FROM feed_scans WHERE table_name = 'blobs') BEGIN
    DELETE FROM feed WHERE kind = 'blob' AND name = OLD.sha256 AND key = '' AND version = 0;
    INSERT INTO feed (kind, name) VALUES ('blob', OLD.sha256);
END

-- feed_removal_noted: when a blob was removed is recorded
CREATE TRIGGER feed_removal_noted AFTER INSERT ON removed_blobs
WHEN (SELECT done OR NEW.sha256 <= name FROM feed_scans WHERE table_name = 'removed_blobs') BEGIN
    DELETE FROM feed WHERE kind = 'blob' AND name = NEW.sha256 AND key = '' AND version = 0;
    INSERT INTO feed (kind, name) VALUES ('blob', NEW.sha256);
END

-- feed_removal_forgotten: that a blob was removed is forgotten
CREATE TRIGGER feed_removal_forgotten AFTER DELETE ON removed_blobs
WHEN (SELECT done OR OLD.sha256 <= name FROM feed_scans WHERE table_name = 'removed_blobs') BEGIN
    DELETE FROM feed WHERE kind = 'blob' AND name = OLD.sha256 AND key = '' AND version = 0;
    INSERT INTO feed (kind, name) VALUES ('blob', OLD.sha256);
END

-- feed_row_written: a row is appended to a log; its head, whose version follows, comes behind it
CREATE TRIGGER feed_row_written AFTER INSERT ON log
WHEN (SELECT done OR NEW.execution <= number FROM feed_scans WHERE table_name = 'heads') BEGIN
    DELETE FROM feed WHERE kind = 'row' AND name = CAST(NEW.execution AS TEXT) AND key = '' AND version = NEW.version;
    INSERT INTO feed (kind, name, version) VALUES ('row', CAST(NEW.execution AS TEXT), NEW.version);
    DELETE FROM feed WHERE kind = 'head' AND name = CAST(NEW.execution AS TEXT) AND key = '' AND version = 0;
    INSERT INTO feed (kind, name) VALUES ('head', CAST(NEW.execution AS TEXT));
END

-- feed_row_changed: a row is encrypted with another key
CREATE TRIGGER feed_row_changed AFTER UPDATE OF row ON log
WHEN (SELECT done OR NEW.execution <= number FROM feed_scans WHERE table_name = 'heads') BEGIN
    DELETE FROM feed WHERE kind = 'row' AND name = CAST(NEW.execution AS TEXT) AND key = '' AND version = NEW.version;
    INSERT INTO feed (kind, name, version) VALUES ('row', CAST(NEW.execution AS TEXT), NEW.version);
    DELETE FROM feed WHERE kind = 'head' AND name = CAST(NEW.execution AS TEXT) AND key = '' AND version = 0;
    INSERT INTO feed (kind, name) VALUES ('head', CAST(NEW.execution AS TEXT));
END

-- feed_row_removed: a row is compacted away, which the first version of its head tells
CREATE TRIGGER feed_row_removed AFTER DELETE ON log BEGIN
    DELETE FROM feed WHERE kind = 'row' AND name = CAST(OLD.execution AS TEXT) AND key = '' AND version = OLD.version;
END

-- feed_head_created: an execution is created
CREATE TRIGGER feed_head_created AFTER INSERT ON heads
WHEN (SELECT done OR NEW.number <= number FROM feed_scans WHERE table_name = 'heads') BEGIN
    INSERT INTO feed (kind, name) VALUES ('head', CAST(NEW.number AS TEXT));
END

-- feed_head_changed: anything changes in a head but its version, whose change comes with a row, and mail_at_s, which follows from the messages
CREATE TRIGGER feed_head_changed AFTER UPDATE OF program, root, holder, wake_at_s, status, created_at_s, ended_at_s, queue, lane, priority ON heads
WHEN (SELECT done OR NEW.number <= number FROM feed_scans WHERE table_name = 'heads') BEGIN
    DELETE FROM feed WHERE kind = 'head' AND name = CAST(NEW.number AS TEXT) AND key = '' AND version = 0;
    INSERT INTO feed (kind, name) VALUES ('head', CAST(NEW.number AS TEXT));
END

-- feed_head_removed: an execution is removed; its key may be used again
CREATE TRIGGER feed_head_removed AFTER DELETE ON heads
WHEN (SELECT done OR OLD.number <= number FROM feed_scans WHERE table_name = 'heads') BEGIN
    DELETE FROM feed WHERE kind = 'head' AND name = CAST(OLD.number AS TEXT) AND key = '' AND version = 0;
    DELETE FROM feed WHERE kind = 'removed' AND name = OLD.address AND key = '' AND version = 0;
    INSERT INTO feed (kind, name) VALUES ('removed', OLD.address);
END

-- feed_attribute_set: an attribute is part of its head
CREATE TRIGGER feed_attribute_set AFTER INSERT ON attributes
WHEN (SELECT done OR NEW.number <= number FROM feed_scans WHERE table_name = 'heads') BEGIN
    DELETE FROM feed WHERE kind = 'head' AND name = CAST(NEW.number AS TEXT) AND key = '' AND version = 0;
    INSERT INTO feed (kind, name) VALUES ('head', CAST(NEW.number AS TEXT));
END

-- feed_attribute_removed: as above
CREATE TRIGGER feed_attribute_removed AFTER DELETE ON attributes
WHEN (SELECT done OR OLD.number <= number FROM feed_scans WHERE table_name = 'heads') BEGIN
    DELETE FROM feed WHERE kind = 'head' AND name = CAST(OLD.number AS TEXT) AND key = '' AND version = 0;
    INSERT INTO feed (kind, name) VALUES ('head', CAST(OLD.number AS TEXT));
END

-- feed_message_sent: a message is queued
CREATE TRIGGER feed_message_sent AFTER INSERT ON mail
WHEN (SELECT done OR NEW.number <= number FROM feed_scans WHERE table_name = 'mail') BEGIN
    DELETE FROM feed WHERE kind = 'message' AND name = NEW.address AND key = NEW.key AND version = 0;
    INSERT INTO feed (kind, name, key) VALUES ('message', NEW.address, NEW.key);
END

-- feed_message_changed: a message is postponed, handed over, or encrypted with another key
CREATE TRIGGER feed_message_changed AFTER UPDATE OF body, due_at_s, deliveries ON mail
WHEN (SELECT done OR NEW.number <= number FROM feed_scans WHERE table_name = 'mail') BEGIN
    DELETE FROM feed WHERE kind = 'message' AND name = NEW.address AND key = NEW.key AND version = 0;
    INSERT INTO feed (kind, name, key) VALUES ('message', NEW.address, NEW.key);
END

-- feed_message_handled: a message is acknowledged
CREATE TRIGGER feed_message_handled AFTER DELETE ON mail
WHEN (SELECT done OR OLD.number <= number FROM feed_scans WHERE table_name = 'mail') BEGIN
    DELETE FROM feed WHERE kind = 'message' AND name = OLD.address AND key = OLD.key AND version = 0;
    INSERT INTO feed (kind, name, key) VALUES ('message', OLD.address, OLD.key);
END

-- feed_limits_set: a queue gets limits
CREATE TRIGGER feed_limits_set AFTER INSERT ON queues BEGIN
    DELETE FROM feed WHERE kind = 'limits' AND name = NEW.name AND key = NEW.tenant AND version = 0;
    INSERT INTO feed (kind, name, key) VALUES ('limits', NEW.name, NEW.tenant);
END

-- feed_limits_changed: the limits of a queue change
CREATE TRIGGER feed_limits_changed AFTER UPDATE OF concurrency, per_lane, interval_s, burst, declared ON queues BEGIN
    DELETE FROM feed WHERE kind = 'limits' AND name = NEW.name AND key = NEW.tenant AND version = 0;
    INSERT INTO feed (kind, name, key) VALUES ('limits', NEW.name, NEW.tenant);
END

-- feed_limits_removed: a queue has no limits any more
CREATE TRIGGER feed_limits_removed AFTER DELETE ON queues BEGIN
    DELETE FROM feed WHERE kind = 'limits' AND name = OLD.name AND key = OLD.tenant AND version = 0;
    INSERT INTO feed (kind, name, key) VALUES ('limits', OLD.name, OLD.tenant);
END

-- feed_record_created: a record is created
CREATE TRIGGER feed_record_created AFTER INSERT ON records
WHEN (SELECT done OR NEW.number <= number FROM feed_scans WHERE table_name = 'records') BEGIN
    DELETE FROM feed WHERE kind = 'record' AND name = json_array(NEW.tenant, NEW.kind, NEW.key) AND key = '' AND version = 0;
    INSERT INTO feed (kind, name) VALUES ('record', json_array(NEW.tenant, NEW.kind, NEW.key));
END

-- feed_record_changed: a record changes, its attributes with it, or is encrypted with another key
CREATE TRIGGER feed_record_changed AFTER UPDATE ON records
WHEN (SELECT done OR NEW.number <= number FROM feed_scans WHERE table_name = 'records') BEGIN
    DELETE FROM feed WHERE kind = 'record' AND name = json_array(NEW.tenant, NEW.kind, NEW.key) AND key = '' AND version = 0;
    INSERT INTO feed (kind, name) VALUES ('record', json_array(NEW.tenant, NEW.kind, NEW.key));
END

-- feed_record_removed: a record is removed, or swept since it has expired
CREATE TRIGGER feed_record_removed AFTER DELETE ON records
WHEN (SELECT done OR OLD.number <= number FROM feed_scans WHERE table_name = 'records') BEGIN
    DELETE FROM feed WHERE kind = 'record' AND name = json_array(OLD.tenant, OLD.kind, OLD.key) AND key = '' AND version = 0;
    INSERT INTO feed (kind, name) VALUES ('record', json_array(OLD.tenant, OLD.kind, OLD.key));
END
