-- works with engines from schema 1 on
--
-- The tables of a store in Postgres.
--
-- An address is JSON: three texts for an execution and two for a queue. It may be longer than an index entry can be, so its hash is indexed.

CREATE TABLE perdure.meta (epoch bigint NOT NULL);
INSERT INTO perdure.meta SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM perdure.meta);

-- An update of a head that is held writes no index, so that it needs no index entries and leaves nothing behind that vacuum must remove (a HOT update): each
-- column of an index is one that such an update does not change, or is null while the head is held. The time at which a held execution is due is indexed
-- by the second, so that a timeout that moves with each step seldom changes it. Pages are filled to three quarters, which leaves room for such updates.
CREATE TABLE perdure.heads (
    number bigserial PRIMARY KEY,
    address bytea NOT NULL,
    month int NOT NULL,
    tenant text NOT NULL,
    workflow text NOT NULL,
    id text NOT NULL,
    program text NOT NULL,
    root bytea NOT NULL,
    version bigint NOT NULL,
    holder text,
    wake_at_s float8,
    mail_at_s float8,
    status text NOT NULL,
    created_at_s float8 NOT NULL,
    ended_at_s float8,
    queue text NOT NULL DEFAULT '',
    lane text NOT NULL DEFAULT '',
    priority bigint NOT NULL DEFAULT 0,
    limited bigint NOT NULL DEFAULT 0,
    attributed boolean NOT NULL DEFAULT false,
    ready_at_s float8 GENERATED ALWAYS AS (least(wake_at_s, mail_at_s)) STORED,
    free_at_s float8 GENERATED ALWAYS AS (CASE WHEN holder IS NULL THEN least(wake_at_s, mail_at_s) END) STORED,
    free_program text GENERATED ALWAYS AS (CASE WHEN holder IS NULL AND (wake_at_s IS NOT NULL OR mail_at_s IS NOT NULL) THEN program END) STORED,
    free_begun boolean GENERATED ALWAYS AS (CASE WHEN holder IS NULL THEN version > 0 END) STORED,
    held_due_s float8 GENERATED ALWAYS AS (CASE WHEN holder IS NOT NULL THEN floor(least(wake_at_s, mail_at_s)) END) STORED
) WITH (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05);
CREATE UNIQUE INDEX heads_address ON perdure.heads (sha256(address));
CREATE INDEX heads_by_time ON perdure.heads (created_at_s, number);
CREATE INDEX heads_held ON perdure.heads (holder, number) WHERE holder IS NOT NULL;
CREATE INDEX heads_in_lines ON perdure.heads (tenant, workflow, status, number);
CREATE INDEX heads_by_id ON perdure.heads (tenant, id COLLATE "C");
CREATE INDEX heads_of_roots ON perdure.heads (sha256(root)) WHERE root <> address;

CREATE TABLE perdure.mail (
    number bigserial PRIMARY KEY,
    address bytea NOT NULL,
    key bytea NOT NULL,
    body bytea NOT NULL,
    due_at_s float8 NOT NULL,
    tenant text,
    queue text,
    holder text,
    deliveries int NOT NULL DEFAULT 0,
    lane text NOT NULL DEFAULT '',
    priority bigint NOT NULL DEFAULT 0,
    limited bigint NOT NULL DEFAULT 0,
    begun boolean NOT NULL GENERATED ALWAYS AS (deliveries > 0) STORED
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.05);
CREATE UNIQUE INDEX mail_key ON perdure.mail (sha256(address), sha256(key));
CREATE INDEX mail_leased ON perdure.mail (holder, number) WHERE holder IS NOT NULL;

CREATE TABLE perdure.holders (name text PRIMARY KEY, until_s float8 NOT NULL, about bytea NOT NULL)
    WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- The blobs that a sweep may remove, and the times at which blobs were removed.
CREATE TABLE perdure.blob_marks (sha256 text PRIMARY KEY, sweep text NOT NULL);
CREATE TABLE perdure.removed_blobs (sha256 text PRIMARY KEY, at_s float8 NOT NULL);

-- The programs that need capabilities, of all executions so far.
CREATE TABLE perdure.programs (name text PRIMARY KEY);

-- Queues with limits: those of one tenant, or (with an empty tenant) of all that have none of their own. What is under limits has their number as `limited`,
-- which puts it into the indexes of queues and out of those where other claims would have to skip it; without limits, `limited` is 0. A turn is the time
-- at which something was handed over; a lane stores its last one.
CREATE TABLE perdure.queues (
    number bigserial PRIMARY KEY,
    name text NOT NULL,
    tenant text NOT NULL DEFAULT '',
    concurrency bigint,
    per_lane bigint,
    interval_s float8 NOT NULL,
    burst bigint NOT NULL,
    declared text NOT NULL,
    turn float8 NOT NULL DEFAULT 0,
    free_at_s float8 NOT NULL DEFAULT 0,
    free_for_work_at_s float8 NOT NULL DEFAULT 0,
    UNIQUE (name, tenant)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);
CREATE TABLE perdure.lanes (queue bigint, work boolean, lane text, turn float8 NOT NULL, PRIMARY KEY (queue, work, lane))
    WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);
CREATE INDEX lanes_by_turn ON perdure.lanes (queue, work, turn);

-- What is free: by time, by tenant and time, and by root and time. What is held: by when it is due. What waits in queues: by line.
CREATE INDEX heads_free ON perdure.heads (free_program, free_at_s, number) WHERE limited = 0 AND free_at_s IS NOT NULL;
CREATE INDEX heads_free_of_tenants ON perdure.heads (free_program, tenant, free_at_s, number) WHERE limited = 0 AND free_at_s IS NOT NULL;
CREATE INDEX heads_free_of_roots ON perdure.heads (sha256(root), free_at_s, number) WHERE limited = 0 AND free_at_s IS NOT NULL;
CREATE INDEX heads_held_due ON perdure.heads (holder, held_due_s, number) WHERE held_due_s IS NOT NULL;
CREATE INDEX heads_limited ON perdure.heads (limited, free_program, lane, free_begun, priority, free_at_s, number)
    WHERE limited > 0 AND free_at_s IS NOT NULL;
CREATE INDEX heads_limited_held ON perdure.heads (limited, lane, holder) WHERE limited > 0 AND holder IS NOT NULL;
CREATE INDEX heads_queue ON perdure.heads (queue, limited, holder, free_at_s) WHERE queue <> '';

CREATE INDEX mail_free ON perdure.mail (queue, due_at_s, number) WHERE limited = 0 AND holder IS NULL AND queue IS NOT NULL;
CREATE INDEX mail_free_of_tenants ON perdure.mail (queue, tenant, due_at_s, number) WHERE limited = 0 AND holder IS NULL AND queue IS NOT NULL;
CREATE INDEX mail_of_executions ON perdure.mail (due_at_s, number) WHERE queue IS NULL;
CREATE INDEX mail_limited ON perdure.mail (limited, lane, begun, priority, due_at_s, number) WHERE limited > 0 AND holder IS NULL;
CREATE INDEX mail_limited_held ON perdure.mail (limited, lane, holder) WHERE limited > 0 AND holder IS NOT NULL;

-- The values by which executions are found, in a form that is compared as bytes.
CREATE TABLE perdure.attributes (
    number bigint,
    name text,
    value bytea,
    tenant text NOT NULL,
    ended boolean NOT NULL,
    PRIMARY KEY (number, name, value)
);
CREATE INDEX attributes_value ON perdure.attributes (tenant, name, value, number);
CREATE INDEX attributes_living ON perdure.attributes (tenant, name, value, number) WHERE NOT ended;

-- When something of each tenant was handed over last, where a claim had to choose between tenants.
CREATE TABLE perdure.tenant_turns (tenant text, work boolean, turn float8 NOT NULL, PRIMARY KEY (tenant, work))
    WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);
CREATE INDEX tenant_turns_by_turn ON perdure.tenant_turns (turn);

-- Secrets, which the client encrypts.
CREATE TABLE perdure.vault (
    tenant text,
    name text,
    version bigint NOT NULL,
    sealed bytea NOT NULL,
    set_at_s float8 NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- Records: small versioned documents of tenants, with the values by which they are found. Texts are compared by their code points.
CREATE TABLE perdure.records (
    tenant text COLLATE "C",
    kind text COLLATE "C",
    key text COLLATE "C",
    version bigint NOT NULL,
    value bytea NOT NULL,
    changed_at_s float8 NOT NULL,
    expires_at_s float8,
    PRIMARY KEY (tenant, kind, key)
);
CREATE INDEX records_expiring ON perdure.records (expires_at_s) WHERE expires_at_s IS NOT NULL;
CREATE TABLE perdure.record_attributes (
    tenant text COLLATE "C",
    kind text COLLATE "C",
    key text COLLATE "C",
    name text COLLATE "C",
    value bytea,
    PRIMARY KEY (tenant, kind, key, name, value)
);
CREATE INDEX record_attributes_by_value ON perdure.record_attributes (tenant, kind, name, value, key);

-- The change feed. What has changed since it began is in `feed_changes`, in order of its last change, until `shipped` gives it its position: a place in `feed`.
-- Triggers write `feed_changes` (0002_feed_triggers.sql), and only `shipped` writes `feed`, so positions are in the order in which changes became visible.
CREATE TABLE perdure.feed_changes (
    kind text NOT NULL,
    name bytea NOT NULL,
    key bytea NOT NULL,
    version bigint NOT NULL,
    id bigserial UNIQUE
);
CREATE UNIQUE INDEX feed_changes_thing ON perdure.feed_changes (kind, sha256(name), sha256(key), version);
CREATE TABLE perdure.feed (
    position bigserial PRIMARY KEY,
    kind text NOT NULL,
    name bytea NOT NULL,
    key bytea NOT NULL DEFAULT '',
    version bigint NOT NULL DEFAULT 0,
    change bigint
);
CREATE UNIQUE INDEX feed_thing ON perdure.feed (kind, sha256(name), sha256(key), version);
-- While there is a feed: up to which name or number the things that were there before have their entries, for each table.
CREATE TABLE perdure.feed_scans (table_name text PRIMARY KEY, name text NOT NULL, number bigint NOT NULL, done boolean NOT NULL);

-- Log rows that were restored before a head that counts them.
CREATE TABLE perdure.restored_rows (address bytea NOT NULL, version bigint NOT NULL, row bytea NOT NULL);
CREATE UNIQUE INDEX restored_rows_of ON perdure.restored_rows (sha256(address), version);

-- How often was notified that something may be ready, and that there is news: for stores that poll, because no notification gets through to them.
CREATE SEQUENCE perdure.wake_count;
CREATE SEQUENCE perdure.news_count;
