"""A page of a list of executions reads the same of Postgres, however many executions there are."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import asyncpg  # type: ignore[import-untyped]  # it has no types
import msgspec
import pytest

from perdure.core.attribute_filter import AttributeOrder, filter_alternatives
from perdure.core.attributes import checked_attributes, index_attributes
from perdure.core.paths import Key
from perdure.stores.postgres import head_lists
from perdure.stores.postgres.head_lists import read_heads
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Head, HeadFilter, head_position
from tests.stores.postgres_rows import cost
from tests.stores.servers import DatabaseServer, postgres

PAGE = 50
SMALL, LARGE = 20_000, 1_000_000
BLOCKS_MAX = 60 * PAGE
"""How many blocks a page may read: its heads with their attributes, and the first of each of some hundred lines."""

FEW_BLOCKS_MAX = 40_000
"""How many blocks a page may read whose conditions were looked up: up to 10,000 heads, each with an entry of an index."""

HEADS = """
INSERT INTO perdure.heads (address, month, tenant, workflow, id, program, root, version, status, created_at_s, ended_at_s)
SELECT convert_to(format('["%s","%s","%s"]', tenant, workflow, id), 'UTF8'), 600, tenant, workflow, id, workflow, convert_to(root, 'UTF8'), 3, status, n,
    CASE WHEN status IN ('completed', 'failed') THEN n END
FROM (SELECT n, tenant, workflow, 'id ' || n AS id, format('["%s","%s","id %s"]', tenant, workflow, n / 7 * 7) AS root, status
    FROM (SELECT n, CASE WHEN n % 1000 = 5 THEN 'small' ELSE 'large' END AS tenant, 'flow ' || n / 7 % 20 AS workflow,
        CASE WHEN n % 5000 = 17 THEN 'failed' WHEN n % 10 = 3 THEN 'waiting' ELSE 'completed' END AS status
        FROM generate_series(1, $1::bigint) AS n) AS placed) AS named
"""
ATTRIBUTES = """
INSERT INTO perdure.attributes (number, name, value, tenant, ended) SELECT number, its.name, its.value, tenant, ended_at_s IS NOT NULL FROM perdure.heads
    CROSS JOIN unnest($1::text[], $2::bytea[]) AS its(name, value) WHERE number % $3 = $4
"""

LARGE_TENANT = HeadFilter(tenant="large", limit=PAGE)
FILTERS: dict[str, HeadFilter] = {
    "all": LARGE_TENANT,
    "a small tenant's": HeadFilter(tenant="small", limit=PAGE),
    "nobody's": HeadFilter(tenant="nobody", limit=PAGE),
    "a workflow's": HeadFilter(tenant="large", workflow="flow 7", limit=PAGE),
    "what has failed": HeadFilter(tenant="large", statuses=frozenset(("failed",)), limit=PAGE),
    "what has failed of a workflow": HeadFilter(tenant="large", workflow="flow 5", statuses=frozenset(("failed",)), limit=PAGE),
    "what nothing is": HeadFilter(tenant="large", statuses=frozenset(("paused",)), limit=PAGE),
    "what goes on": HeadFilter(tenant="large", ended=False, statuses=frozenset(("waiting", "running", "pending")), limit=PAGE),
    "an id": HeadFilter(tenant="large", id_prefix="id 19999", limit=PAGE),
    "a family": HeadFilter(root=Key("large", "flow 1", "id 707"), limit=PAGE),
    "one by its key": HeadFilter(keys=(Key("large", "flow 1", "id 707"),), limit=1),
    "many by their keys": HeadFilter(keys=tuple(Key("large", "flow 1", f"id {number}") for number in range(700, 750)), limit=PAGE),
    "without a tenant": HeadFilter(limit=PAGE),
    "in order of an attribute": HeadFilter(tenant="large", order=AttributeOrder("due"), limit=PAGE),
    "in order of an attribute, the greatest first": HeadFilter(tenant="large", order=AttributeOrder("due", descending=True), limit=PAGE),
    "what many are, in order of an attribute": HeadFilter(
        tenant="large", where=filter_alternatives({"kind": "common"})[0], order=AttributeOrder("due"), limit=PAGE
    ),
}
LOOKED_UP: dict[str, HeadFilter] = {
    "by an attribute that many have": HeadFilter(tenant="large", where=filter_alternatives({"kind": "common"})[0], limit=PAGE),
    "by an attribute that few have": HeadFilter(tenant="large", where=filter_alternatives({"kind": "rare"})[0], limit=PAGE),
    "by an attribute that few have, in order of another": HeadFilter(
        tenant="large", where=filter_alternatives({"kind": "rare"})[0], order=AttributeOrder("due"), limit=PAGE
    ),
    "by one of two": HeadFilter(tenant="large", any_of=filter_alternatives([{"kind": "rare"}, {"kind": "never"}]), limit=PAGE),
    "what began lately": HeadFilter(tenant="large", workflow="flow 5", created_from_s=SMALL - 5_000, statuses=frozenset(("failed",)), limit=PAGE),
}
EMPTY = {"nobody's", "what nothing is"}
"""The lists that have nothing in them."""


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with postgres(autovacuum="off", shared_buffers="128MB") as server:
        yield server


@asynccontextmanager
async def filled(server: DatabaseServer, count: int, *, analysed: bool) -> AsyncIterator[asyncpg.Connection]:
    """A database with so many executions."""
    connection = await asyncpg.connect(server.url)
    await connection.execute("DROP SCHEMA IF EXISTS perdure CASCADE")
    store = PostgresStore(server.url)
    await store.renew("one", 60)
    await store.close()
    await connection.execute(HEADS, count)
    for kind, due, every, at in (("common", 5, 2, 0), ("rare", 9, 2000, 1), ("rare", 7, 2000, 1001)):
        indexed = index_attributes(checked_attributes({"kind": kind, "due": due}))
        await connection.execute(ATTRIBUTES, [name for name, _ in indexed], [value for _, value in indexed], every, at)
    await connection.execute("VACUUM ANALYZE" if analysed else "VACUUM")
    try:
        yield connection
    finally:
        await connection.close()


class CountedReads:
    """Executes the statements of a list, and adds up what they read."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.blocks, self.scans = 0, set[str]()
        self._connection = connection

    async def fetch(self, sql: str, *arguments: object) -> list[object]:
        found = await cost(self._connection, sql, *arguments)
        self.blocks += found.blocks
        self.scans |= found.scans.keys() & {"heads", "attributes"}
        return list(await self._connection.fetch(sql, *arguments))


async def too_much(connection: asyncpg.Connection) -> list[str]:
    """The lists whose first or second page reads too much, and those that find nothing although there is something."""
    wrong = []
    for filters, blocks_max in ((FILTERS, BLOCKS_MAX), (LOOKED_UP, FEW_BLOCKS_MAX)):
        for name, which in filters.items():
            page: list[Head] = []
            for number in (1, 2):
                reads = CountedReads(connection)
                wanted = msgspec.structs.replace(which, after=head_position(page[-1], which.order) if page else None)
                page = await read_heads(reads.fetch, wanted)
                if reads.scans or reads.blocks > blocks_max:
                    wrong.append(f"page {number} of {name}: {reads.blocks} blocks, scans of {reads.scans or 'nothing'}")
                if not page:
                    if number == 1 and name not in EMPTY:
                        wrong.append(f"{name}: nothing is found, so nothing is known of it")
                    break
    return wrong


@pytest.mark.real
@pytest.mark.parametrize("analysed", [True, False], ids=["analysed", "never analysed"])
async def test_a_page_reads_an_index(analysed: bool, server: DatabaseServer) -> None:
    async with filled(server, SMALL, analysed=analysed) as connection:
        assert await too_much(connection) == []


@pytest.mark.prove
@pytest.mark.parametrize("analysed", [True, False], ids=["analysed", "never analysed"])
async def test_a_page_reads_no_more_among_a_million_executions(analysed: bool, server: DatabaseServer) -> None:
    async with filled(server, LARGE, analysed=analysed) as connection:
        assert await too_much(connection) == []


@pytest.mark.real
@pytest.mark.parametrize("descending", [False, True], ids=["the least first", "the greatest first"])
async def test_a_list_in_order_of_an_attribute_is_the_same_whether_its_condition_is_looked_up(
    descending: bool, server: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    which = msgspec.structs.replace(
        LOOKED_UP["by an attribute that few have, in order of another"], order=AttributeOrder("due", descending=descending), limit=10_000
    )
    async with filled(server, SMALL, analysed=True) as connection:
        looked_up = await read_heads(CountedReads(connection).fetch, which)
        middle = msgspec.structs.replace(which, after=head_position(looked_up[7], which.order))
        behind = await read_heads(CountedReads(connection).fetch, middle)
        monkeypatch.setattr(head_lists, "FEW_IN_ORDER", 0)
        assert len(looked_up) == SMALL // 1_000 and looked_up == await read_heads(CountedReads(connection).fetch, which)
        assert looked_up != await read_heads(CountedReads(connection).fetch, msgspec.structs.replace(which, order=AttributeOrder("due", not descending)))
        assert behind == looked_up[8:] == await read_heads(CountedReads(connection).fetch, middle)
