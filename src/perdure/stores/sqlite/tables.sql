-- The tables of the SQLite store, with their indexes. On SQLite before 3.37 they are created without STRICT.
--
-- The text of a statement is compared with that in the file when a store is opened, so a change of it, even of white space, costs a slower comparison.
-- An address is JSON, its parts from the narrowest to the widest: id, workflow and tenant of an execution, name and tenant of a queue. So no two addresses
-- are the same text, and the addresses of ids that begin alike are next to each other.
-- A claim is answered from indexes of what is free, by name (of a program or a queue) and the time waited for, and of what is held, by holder. An execution
-- that has no holder and that waits for no time has no place in them, and one that is its own root has none among the families.

-- meta: one row that every transaction reads: version of the tables, epoch, anchor of the store's time, origin of the file, count of writes
CREATE TABLE meta (
    version INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    membership INTEGER NOT NULL,
    time_s REAL NOT NULL,
    monotonic_s REAL NOT NULL,
    boot TEXT NOT NULL,
    restored INTEGER NOT NULL,
    file TEXT NOT NULL,
    writes INTEGER NOT NULL
) STRICT;

-- processes: the processes that have the store open, and where each listens for notifications
CREATE TABLE processes (
    name TEXT PRIMARY KEY,
    pid INTEGER NOT NULL,
    host TEXT NOT NULL,
    port INTEGER,
    token BLOB,
    wakes INTEGER NOT NULL,
    news INTEGER NOT NULL
) STRICT;

-- holders: all that may hold something, dead or alive; until_s is null for one that never renewed, released everything, or belongs to an earlier epoch
CREATE TABLE holders (name TEXT PRIMARY KEY, process TEXT, until_s REAL, about BLOB) STRICT;

-- heads: one row for each execution; its number counts creations, and stands for it in other tables; limited is the row of `queues` that limits it, or 0
CREATE TABLE heads (
    number INTEGER PRIMARY KEY,
    address TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    workflow TEXT NOT NULL,
    program TEXT NOT NULL,
    root TEXT,
    version INTEGER NOT NULL,
    holder TEXT,
    wake_at_s REAL,
    mail_at_s REAL,
    status TEXT NOT NULL,
    created_at_s REAL NOT NULL,
    ended_at_s REAL,
    ready_at_s REAL GENERATED ALWAYS AS (coalesce(min(wake_at_s, mail_at_s), wake_at_s, mail_at_s)) VIRTUAL,
    queue TEXT NOT NULL DEFAULT '',
    lane TEXT NOT NULL DEFAULT '',
    priority INTEGER NOT NULL DEFAULT 0,
    limited INTEGER NOT NULL DEFAULT 0,
    begun INTEGER GENERATED ALWAYS AS (version > 0) VIRTUAL
) STRICT;
CREATE INDEX heads_of_family ON heads (root, ready_at_s) WHERE root IS NOT NULL;
CREATE INDEX heads_by_workflow ON heads (tenant, workflow, status);
CREATE INDEX heads_by_status ON heads (status);
CREATE INDEX heads_by_time ON heads (created_at_s);
CREATE INDEX heads_free ON heads (program, ready_at_s) WHERE limited = 0 AND holder IS NULL AND ready_at_s IS NOT NULL;
CREATE INDEX heads_free_of_tenants ON heads (program, tenant, ready_at_s) WHERE limited = 0 AND holder IS NULL AND ready_at_s IS NOT NULL;
CREATE INDEX heads_held ON heads (holder, ready_at_s) WHERE holder IS NOT NULL;
CREATE INDEX heads_in_line ON heads (limited, lane, begun, priority, ready_at_s) WHERE limited > 0 AND holder IS NULL AND ready_at_s IS NOT NULL;
CREATE INDEX heads_due_in_queue ON heads (limited, ready_at_s) WHERE limited > 0 AND holder IS NULL AND ready_at_s IS NOT NULL;
CREATE INDEX heads_held_in_queue ON heads (limited, holder, ready_at_s) WHERE limited > 0 AND holder IS NOT NULL;
CREATE INDEX heads_by_queue ON heads (queue, holder, ready_at_s, limited) WHERE queue <> '';

-- programs: the programs that need capabilities, of all executions that there were
CREATE TABLE programs (name TEXT PRIMARY KEY) WITHOUT ROWID, STRICT;

-- attributes: the values by which executions are found, in a form that is compared as bytes; tenant and ended are those of the execution
CREATE TABLE attributes (number INTEGER NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL, tenant TEXT NOT NULL, ended INTEGER NOT NULL,
    PRIMARY KEY (number, name, value)) WITHOUT ROWID, STRICT;
CREATE INDEX attributes_by_value ON attributes (tenant, name, value, number);
CREATE INDEX attributes_of_living ON attributes (tenant, name, value, number) WHERE ended = 0;

-- log: the rows of the logs, each with one or more events
CREATE TABLE log (execution INTEGER NOT NULL, version INTEGER NOT NULL, row BLOB NOT NULL) STRICT;
CREATE UNIQUE INDEX log_of_execution ON log (execution, version);

-- mail: the messages that are queued for executions and for workers; limited is the row of `queues` that limits a task, or 0
CREATE TABLE mail (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    address TEXT NOT NULL,
    key TEXT NOT NULL,
    body BLOB NOT NULL,
    due_at_s REAL NOT NULL,
    tenant TEXT,
    queue TEXT,
    holder TEXT,
    deliveries INTEGER NOT NULL DEFAULT 0,
    unclaimed INTEGER,
    lane TEXT NOT NULL DEFAULT '',
    priority INTEGER NOT NULL DEFAULT 0,
    begun INTEGER GENERATED ALWAYS AS (deliveries > 0) VIRTUAL,
    limited INTEGER NOT NULL DEFAULT 0,
    UNIQUE (address, key)
) STRICT;
CREATE INDEX mail_free ON mail (queue, due_at_s) WHERE limited = 0 AND queue IS NOT NULL AND holder IS NULL;
CREATE INDEX mail_free_of_tenants ON mail (queue, tenant, due_at_s) WHERE limited = 0 AND queue IS NOT NULL AND holder IS NULL;
CREATE INDEX mail_leased ON mail (holder, queue) WHERE holder IS NOT NULL;
CREATE INDEX mail_by_queue ON mail (queue, limited, holder) WHERE queue IS NOT NULL;
CREATE INDEX mail_in_line ON mail (limited, lane, begun, priority, due_at_s) WHERE limited > 0 AND holder IS NULL;
CREATE INDEX mail_due_in_queue ON mail (limited, due_at_s) WHERE limited > 0 AND holder IS NULL;
CREATE INDEX mail_held_in_queue ON mail (limited, holder) WHERE limited > 0 AND holder IS NOT NULL;
CREATE INDEX mail_unclaimed ON mail (due_at_s) WHERE unclaimed IS NOT NULL;

-- blobs: values that are too large for a log, by their SHA-256
CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, bytes BLOB NOT NULL) STRICT;

-- blob_marks: the blobs that a collection may remove
CREATE TABLE blob_marks (sha256 TEXT PRIMARY KEY, sweep TEXT NOT NULL) WITHOUT ROWID, STRICT;

-- removed_blobs: when blobs were removed, where that is recorded
CREATE TABLE removed_blobs (sha256 TEXT PRIMARY KEY, at_s REAL NOT NULL) WITHOUT ROWID, STRICT;

-- feed: the things that have changed since the change feed began, each in the place of its last change; triggers.sql says what is written into it
CREATE TABLE feed (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    key TEXT NOT NULL DEFAULT '',
    version INTEGER NOT NULL DEFAULT 0,
    UNIQUE (kind, name, key, version)
) STRICT;

-- feed_scans: while there is a feed, up to which name or number the things that were there before have their entries, for each table
CREATE TABLE feed_scans (table_name TEXT PRIMARY KEY, name TEXT NOT NULL, number INTEGER NOT NULL, done INTEGER NOT NULL) WITHOUT ROWID, STRICT;

-- restored_rows: log rows that were restored before a head that counts them
CREATE TABLE restored_rows (address TEXT NOT NULL, version INTEGER NOT NULL, row BLOB NOT NULL, PRIMARY KEY (address, version)) STRICT;

-- queues: the queues that have limits, and the state of their fairness; tenant is empty where the limits are for all that have none of their own
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

-- lanes: the lanes of queues with limits, and whose turn it is; queue is the number of the row of `queues`
CREATE TABLE lanes (queue INTEGER NOT NULL, lane TEXT NOT NULL, work INTEGER NOT NULL, turn REAL NOT NULL, PRIMARY KEY (queue, lane, work)) STRICT;
CREATE INDEX lanes_by_turn ON lanes (queue, turn);

-- tenant_turns: when something of each tenant was handed over last, where a claim had to choose between tenants
CREATE TABLE tenant_turns (tenant TEXT NOT NULL, work INTEGER NOT NULL, turn REAL NOT NULL, PRIMARY KEY (tenant, work)) STRICT;
CREATE INDEX tenant_turns_by_turn ON tenant_turns (turn);

-- vault: the secrets of all tenants, encrypted
CREATE TABLE vault (tenant TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, sealed BLOB NOT NULL, set_at_s REAL NOT NULL,
    PRIMARY KEY (tenant, name)) WITHOUT ROWID, STRICT;

-- records: small versioned documents of tenants
CREATE TABLE records (
    number INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    value BLOB NOT NULL,
    changed_at_s REAL NOT NULL,
    expires_at_s REAL,
    UNIQUE (tenant, kind, key)
) STRICT;
CREATE INDEX records_expiring ON records (expires_at_s) WHERE expires_at_s IS NOT NULL;

-- record_attributes: the values by which records are found, in a form that is compared as bytes
CREATE TABLE record_attributes (tenant TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (tenant, kind, key, name, value)) WITHOUT ROWID, STRICT;
CREATE INDEX record_attributes_by_value ON record_attributes (tenant, kind, name, value, key);
