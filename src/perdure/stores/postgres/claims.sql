-- Claims. `migrations/0004_claims.sql` has the function that carries them out.

-- name: claim
-- A claim, in one round trip.
SELECT * FROM perdure.claim_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);
