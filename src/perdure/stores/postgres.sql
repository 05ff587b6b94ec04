-- The tables of a store in Postgres; this may be told twice.
--
-- An address is JSON, three texts for an execution and two for a queue; as it may be longer than an index can hold, its hash is what is looked for.

CREATE SCHEMA IF NOT EXISTS perdure;

CREATE TABLE IF NOT EXISTS meta (epoch bigint NOT NULL);
INSERT INTO meta SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM meta);

CREATE TABLE IF NOT EXISTS heads (
    number bigserial PRIMARY KEY,
    address bytea NOT NULL,
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
    ready_at_s float8 GENERATED ALWAYS AS (least(wake_at_s, mail_at_s)) STORED
);
CREATE UNIQUE INDEX IF NOT EXISTS heads_address ON heads (sha256(address));
CREATE INDEX IF NOT EXISTS heads_ready ON heads (program, ready_at_s);
CREATE INDEX IF NOT EXISTS heads_held ON heads (holder) WHERE holder IS NOT NULL;

CREATE TABLE IF NOT EXISTS log (execution bigint, version bigint, row bytea NOT NULL, PRIMARY KEY (execution, version));

CREATE TABLE IF NOT EXISTS mail (
    number bigserial PRIMARY KEY,
    address bytea NOT NULL,
    key bytea NOT NULL,
    body bytea NOT NULL,
    due_at_s float8 NOT NULL,
    queue text,
    holder text,
    deliveries int NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX IF NOT EXISTS mail_key ON mail (sha256(address), sha256(key));
CREATE INDEX IF NOT EXISTS mail_due ON mail (queue, due_at_s);
CREATE INDEX IF NOT EXISTS mail_leased ON mail (holder) WHERE holder IS NOT NULL;

CREATE TABLE IF NOT EXISTS holders (name text PRIMARY KEY, until_s float8 NOT NULL, about bytea NOT NULL);

CREATE TABLE IF NOT EXISTS blobs (sha256 text PRIMARY KEY, bytes bytea NOT NULL);
