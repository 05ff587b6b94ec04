"""Many rows in the tables of a Postgres store at once, as its statements would write them, and what a statement reads of them."""

import json
from typing import Any

from asyncpg import Connection  # type: ignore[import-untyped]  # it has no types

PROGRAM = "order@1"

HEADS = """
INSERT INTO perdure.heads
    (address, month, tenant, workflow, id, program, root, version, holder, wake_at_s, mail_at_s, status, created_at_s, queue, lane, limited)
SELECT convert_to(json_build_array(tenant, 'order', id)::text, 'UTF8'), 600, tenant, 'order', id, $6,
    convert_to(json_build_array(tenant, 'order', id)::text, 'UTF8'), $7, $8,
    CASE WHEN n % 2 = 0 THEN $9::float8 + n END, $10::float8 + n * 1e-4, 'waiting', n, $11, 'lane ' || n % 3, $12
FROM (SELECT n, 'tenant ' || n % $5 AS tenant, $1 || n AS id FROM generate_series($2::bigint, $3::bigint) AS n ORDER BY $4 * n) AS numbered
"""
MESSAGES = """
INSERT INTO perdure.mail (address, key, body, due_at_s, tenant, queue, lane, limited)
SELECT convert_to(CASE WHEN $5 = '' THEN json_build_array(tenant, 'order', $1 || n) ELSE json_build_array(tenant, $5) END::text, 'UTF8'),
    convert_to('key ' || n, 'UTF8'), '\\x00', $4::float8 + n * 1e-4, CASE WHEN $5 = '' THEN NULL ELSE tenant END, nullif($5, ''), '', 0
FROM (SELECT n, 'tenant ' || n % $3 AS tenant FROM generate_series(1, $2::bigint) AS n) AS numbered
"""


async def add_heads(
    connection: Connection,
    name: str,
    count: int,
    *,
    tenants: int = 1,
    version: int = 3,
    holder: str | None = None,
    wake_at_s: float | None = None,
    message_at_s: float | None = None,
    queue: str = "",
    limited: int = 0,
) -> None:
    """Adds executions of `PROGRAM`, with ids that begin with `name`. Half of them wake at different times from `wake_at_s` on, if that is given."""
    await connection.execute(HEADS, name, 1, count, 1, tenants, PROGRAM, version, holder, wake_at_s, message_at_s, queue, limited)


async def add_messages(connection: Connection, name: str, count: int, due_at_s: float, *, tenants: int = 1, queue: str = "") -> None:
    """Adds a message to each of the executions that `add_heads` adds under this name or, if a `queue` is given, tasks to it."""
    await connection.execute(MESSAGES, name, count, tenants, due_at_s, queue)


READ = """
SELECT relname, coalesce(seq_scan, 0), seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_all_tables WHERE schemaname = 'perdure'
"""


class Cost:
    """What a statement has read: blocks of 8 KiB, sequential scans by table, and rows by table."""

    def __init__(self, plan: dict[str, Any], before: list[Any], after: list[Any]) -> None:
        self.plan = plan
        self.blocks = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        counts = {name: (0, 0) for name, *_ in after} | {name: (scans, rows) for name, scans, rows in map(tuple, before)}
        self.scans = {name: scans - counts[name][0] for name, scans, _ in map(tuple, after) if scans > counts[name][0]}
        self.rows = {name: rows - counts[name][1] for name, _, rows in map(tuple, after) if rows > counts[name][1]}

    def nodes(self, *kinds: str) -> list[dict[str, Any]]:
        """The nodes of these kinds in the plan of the statement itself."""
        return [node for node in _nodes(self.plan) if node["Node Type"] in kinds]


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for part in plan.get("Plans", ()) for node in _nodes(part))]


async def cost(connection: Connection, sql: str, *arguments: object) -> Cost:
    """Executes a statement, counts what it reads, in functions as well, and rolls it back."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        before = await connection.fetch(READ)  # the counts of a session may still hold those of its last transactions
        explained = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", *arguments)
        return Cost(json.loads(explained)[0]["Plan"], before, await connection.fetch(READ))
    finally:
        await transaction.rollback()
