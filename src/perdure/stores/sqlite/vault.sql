-- The vault: the secrets of all tenants, encrypted.

-- name: read_vault
-- The secrets of a tenant (?1) of a name (?2); of all tenants or names where these are null.
SELECT tenant, name, version, sealed, set_at_s FROM vault WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR name = ?2) ORDER BY tenant, name;

-- name: keep_first_secret
-- Keeps the first version of a secret, if there is none yet.
INSERT INTO vault (tenant, name, version, sealed, set_at_s) VALUES (?, ?, 1, ?, ?) ON CONFLICT (tenant, name) DO NOTHING;

-- name: keep_next_secret
-- Replaces a secret by its next version, if it is still at the version before.
UPDATE vault SET version = ?, sealed = ?, set_at_s = ? WHERE tenant = ? AND name = ? AND version = ?;

-- name: drop_secret
-- Removes a secret.
DELETE FROM vault WHERE tenant = ? AND name = ?;
