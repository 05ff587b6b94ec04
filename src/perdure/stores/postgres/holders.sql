-- Holders and their leases. `migrations/0004_claims.sql` has the function that renews them.

-- name: renew
-- Renews a lease, begins one, or ends it; returns the time, the epoch, and whether something became free.
SELECT * FROM perdure.renew_1($1, $2, $3, $4);

-- name: remove_all_holders
-- Ends all leases.
DELETE FROM perdure.holders;

-- name: leases
-- The holders whose leases last or that hold something: whether they live, how much they hold, and what they say about themselves. Only indexes are counted.
SELECT * FROM (SELECT name, until_s > coalesce($1::float8, extract(epoch FROM clock_timestamp())::float8) AS lives,
    (SELECT count(*) FROM perdure.heads WHERE holder = name) AS executions, (SELECT count(*) FROM perdure.mail WHERE holder = name) AS work, about
    FROM perdure.holders) AS leases WHERE lives OR executions > 0 OR work > 0;
