-- Transactions of users: those of transactional steps, and those that users have open on their own connections.

-- name: lock_attempt
-- Locks an attempt of a step until the transaction ends.
SELECT pg_advisory_xact_lock($1);

-- name: changed_rows
-- How many rows of Perdure's tables this session has changed recently, which may include those of the transaction before.
(SELECT coalesce(sum(pg_stat_get_xact_tuples_inserted(oid) + pg_stat_get_xact_tuples_updated(oid)
    + pg_stat_get_xact_tuples_deleted(oid)), 0)::bigint FROM pg_class WHERE relnamespace = 'perdure'::regnamespace AND (relispartition OR relname IN {perdure_tables}));

-- name: state_before_step
-- The epoch, the number of the transaction and how many rows were changed before a step.
SELECT epoch, pg_current_xact_id()::text, {changed_rows} FROM perdure.meta;

-- name: state_after_step
-- The number of the transaction and how many rows were changed after a step.
SELECT pg_current_xact_id()::text, {changed_rows};

-- name: holds_execution
-- Locks the head of an execution that a holder holds.
SELECT 1 FROM perdure.heads WHERE sha256(address) = sha256($1) AND holder = $2 FOR KEY SHARE;

-- name: holds_task
-- Locks a task that a holder has leased.
SELECT 1 FROM perdure.mail WHERE sha256(address) = sha256($1) AND sha256(key) = sha256($2) AND holder = $3 FOR KEY SHARE;

-- name: is_answered
-- Whether an attempt is answered.
SELECT 1 FROM perdure.mail WHERE sha256(address) = sha256($1) AND sha256(key) = sha256($2);

-- name: check_constraints
-- Checks all constraints that were deferred.
SET CONSTRAINTS ALL IMMEDIATE;

-- name: begin_savepoint
-- Begins the savepoint of a call within the transaction of a user.
SAVEPOINT call_of_store;

-- name: end_savepoint
-- Ends it.
RELEASE SAVEPOINT call_of_store;

-- name: undo_savepoint
-- Rolls back to it.
ROLLBACK TO SAVEPOINT call_of_store;

-- name: database_identity
-- What identifies a database, whatever URL leads to it.
SELECT current_database()::text, system_identifier::text FROM pg_control_system();

-- name: user_connection_identity
-- The same for a connection of a user, with whether it may use Perdure's tables, and its role.
SELECT current_database()::text, system_identifier::text,
    has_schema_privilege(to_regnamespace('perdure'), 'USAGE'), current_user::text FROM pg_control_system();
