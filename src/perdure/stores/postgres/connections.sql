-- Connections: what they ask a server for when they are opened, and notifications.

-- name: server_facts
-- The process of this connection at the server, and what a store has to know about the server and its role there.
SELECT pg_backend_pid(), current_setting('server_version_num')::int, current_setting('server_version'), current_setting('server_encoding'),
    pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', current_setting('synchronous_commit'), current_setting('max_connections')::int,
    coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false), current_user::text;

-- name: set_for_session
-- Changes settings of the session.
SELECT set_config(name, value, false) FROM unnest($1::text[], $2::text[]) AS given(name, value);

-- name: notify_now
-- Does as `notify` does for several channels, in a transaction of its own. It need not be durable, so the lock that all notifications of the server share
-- is not held until the disk has it.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('perdure' || right(channel, 5), $2),
    nextval(('perdure.' || right(channel, 4) || '_count')::regclass) FROM unnest($1::text[]) AS channel;

-- name: probe
-- Notifies a channel of the caller's own.
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, '');

-- name: answers
-- Asks for nothing, to see whether the server answers.
SELECT 1;

-- name: notification_counts
-- How often each channel was notified so far, and the numbers before which all transactions have ended, and up to which they have begun.
SELECT pg_sequence_last_value('perdure.wake_count'), pg_sequence_last_value('perdure.news_count'),
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
