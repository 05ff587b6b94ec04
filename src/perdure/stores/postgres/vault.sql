-- The vault: the secrets of all tenants, encrypted.

-- name: read_vault
-- The secrets of a tenant of a name; of all tenants or names where these are null.
SELECT tenant, name, version, sealed, set_at_s FROM perdure.vault WHERE ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR name = $2);

-- name: keep_first_secret
-- Keeps the first version of a secret, if there is none yet.
INSERT INTO perdure.vault VALUES ($1, $2, 1, $3, $4) ON CONFLICT DO NOTHING RETURNING version;

-- name: keep_next_secret
-- Replaces a secret by its next version, if it is still at the version before.
UPDATE perdure.vault SET version = $3, sealed = $4, set_at_s = $5 WHERE tenant = $1 AND name = $2 AND version = $3 - 1 RETURNING version;

-- name: drop_secret
-- Removes a secret.
DELETE FROM perdure.vault WHERE tenant = $1 AND name = $2 RETURNING version;
