-- From version 9 of the tables to version 10: tenants may have limits of their own in queues.
--
-- In version 9, limits had no number and were for all tenants; the executions that they applied to were marked with 1, and tasks with nothing.
-- Never change this file: it must do in every later version of Perdure what it does in the first.

DROP INDEX heads_in_line;
DROP INDEX heads_due_in_queue;
DROP INDEX heads_by_queue;
DROP INDEX mail_free;
DROP INDEX mail_free_of_tenants;
DROP INDEX mail_in_line;
DROP INDEX lanes_by_turn;

ALTER TABLE queues RENAME TO queues_9;
CREATE TABLE queues (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    concurrency INTEGER,
    per_lane INTEGER,
    interval_s REAL NOT NULL,
    burst INTEGER NOT NULL,
    declared TEXT NOT NULL,
    turn REAL NOT NULL,
    free_at_s REAL NOT NULL,
    free_for_work_at_s REAL NOT NULL,
    UNIQUE (name, tenant)
) STRICT;
INSERT INTO queues (name, tenant, concurrency, per_lane, interval_s, burst, declared, turn, free_at_s, free_for_work_at_s)
    SELECT name, '', concurrency, per_lane, interval_s, burst, declared, turn, free_at_s, free_for_work_at_s FROM queues_9 ORDER BY name;
DROP TABLE queues_9;

ALTER TABLE lanes RENAME TO lanes_9;
CREATE TABLE lanes (queue INTEGER NOT NULL, lane TEXT NOT NULL, work INTEGER NOT NULL, turn REAL NOT NULL, PRIMARY KEY (queue, lane, work)) STRICT;
INSERT INTO lanes (queue, lane, work, turn) SELECT queues.number, lane, work, lanes_9.turn FROM lanes_9 JOIN queues ON queues.name = lanes_9.queue;
DROP TABLE lanes_9;
CREATE INDEX lanes_by_turn ON lanes (queue, turn);

UPDATE heads SET limited = (SELECT number FROM queues WHERE name = heads.queue) WHERE limited = 1;
CREATE INDEX heads_in_line ON heads (limited, lane, begun, priority, ready_at_s) WHERE limited > 0 AND holder IS NULL AND ready_at_s IS NOT NULL;
CREATE INDEX heads_due_in_queue ON heads (limited, ready_at_s) WHERE limited > 0 AND holder IS NULL AND ready_at_s IS NOT NULL;
CREATE INDEX heads_held_in_queue ON heads (limited, holder, ready_at_s) WHERE limited > 0 AND holder IS NOT NULL;
CREATE INDEX heads_by_queue ON heads (queue, holder, ready_at_s, limited) WHERE queue <> '';

ALTER TABLE mail ADD COLUMN limited INTEGER NOT NULL DEFAULT 0;
UPDATE mail SET limited = (SELECT number FROM queues WHERE name = mail.queue) WHERE queue IN (SELECT name FROM queues);
CREATE INDEX mail_free ON mail (queue, due_at_s) WHERE limited = 0 AND queue IS NOT NULL AND holder IS NULL;
CREATE INDEX mail_free_of_tenants ON mail (queue, tenant, due_at_s) WHERE limited = 0 AND queue IS NOT NULL AND holder IS NULL;
CREATE INDEX mail_by_queue ON mail (queue, limited, holder) WHERE queue IS NOT NULL;
CREATE INDEX mail_in_line ON mail (limited, lane, begun, priority, due_at_s) WHERE limited > 0 AND holder IS NULL;
CREATE INDEX mail_due_in_queue ON mail (limited, due_at_s) WHERE limited > 0 AND holder IS NULL;
CREATE INDEX mail_held_in_queue ON mail (limited, holder) WHERE limited > 0 AND holder IS NOT NULL;
