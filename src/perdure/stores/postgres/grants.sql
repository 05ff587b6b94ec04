-- The rights of a role on the tables of the store. {role} is the role, {owner} the owner of the tables.

-- name: begin_grants
-- Begins to grant; as the owner, since only its own later tables can be granted in advance.
BEGIN;
SET LOCAL ROLE {owner};

-- name: end_grants
-- Ends it.
COMMIT;

-- name: revoke_rights
-- Takes all rights from a role.
REVOKE ALL ON ALL TABLES IN SCHEMA perdure FROM {role};
REVOKE ALL ON ALL SEQUENCES IN SCHEMA perdure FROM {role};
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA perdure FROM {role};
REVOKE ALL ON SCHEMA perdure FROM {role};
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA perdure REVOKE ALL ON TABLES FROM {role};
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA perdure REVOKE ALL ON SEQUENCES FROM {role};
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA perdure REVOKE ALL ON FUNCTIONS FROM {role};

-- name: grant_schema
-- Lets a role use what is in the schema.
GRANT USAGE ON SCHEMA perdure TO {role};

-- name: grant_tables
-- Grants {rights} on tables.
GRANT {rights} ON {tables} TO {role};

-- name: grant_later_tables
-- Grants {rights} on tables that are created later.
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA perdure GRANT {rights} ON TABLES TO {role};

-- name: grant_sequences
-- Grants {rights} on all sequences, which number rows.
GRANT {rights} ON ALL SEQUENCES IN SCHEMA perdure TO {role};

-- name: grant_later_sequences
-- The same for sequences that are created later.
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA perdure GRANT {rights} ON SEQUENCES TO {role};

-- name: grant_functions
-- Lets a role run all functions.
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA perdure TO {role};

-- name: grant_later_functions
-- The same for functions that are created later.
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA perdure GRANT EXECUTE ON FUNCTIONS TO {role};

-- name: grantable_tables
-- The tables of the schema $1, without partitions, which are used through their tables.
SELECT relname::text FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY relname;

-- name: role_of_name
-- Whether the role $1 has the rights of the role $2 anyway; no row if there is no such role.
SELECT pg_has_role(oid, $2::text, 'USAGE') FROM pg_roles WHERE rolname = $1::text;
