"""Claims about workflows of code in the list of the catalog: what running engines declare stands beside the definitions."""

from perdure import Context, Signal, workflow
from perdure.service import catalog
from perdure.service.store_access import StoreAccess
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster, settle
from tests.service.catalog_documents import ADA, document
from tests.service.cluster_client import virtually
from tests.service.hosts import host

T = "default"


@workflow(version=3)
async def ship(ctx: Context, parcel: str, grams: int = 0) -> str:
    return parcel


@virtually
async def test_code_of_running_engines_is_listed_with_its_input_and_its_engines(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await catalog.create_definition(access, T, document(1), ADA)
    first, second = await c.engine(ship, *host()), await c.engine(ship)
    page = await catalog.list_definitions(access, T)
    assert [(one.kind, one.slug) for one in page.items] == [("definition", "invoice")]
    (code,) = page.code
    assert (code.kind, code.slug, code.version, code.engines) == ("code", "ship", 3, sorted((first.engine.holder, second.engine.holder)))
    assert code.input_schema is not None
    assert set(code.input_schema["properties"]) == {"parcel", "grams"}
    assert code.input_schema["required"] == ["parcel"]
    await second.stop()
    await first.stop()
    assert (await catalog.list_definitions(access, T)).code == []


sealed = Signal("sealed", int)


@workflow
async def seals(ctx: Context) -> None:
    await ctx.listen(sealed, timeout="1h")


@virtually
async def test_the_schemas_of_the_messages_of_code_are_told_by_its_engine_and_stand_beside_the_open_waits(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    engine = await c.engine(seals)
    (code,) = (await catalog.list_definitions(access, T)).code
    assert code.message_schemas == {"sealed": {"type": "integer"}}
    handle = await client.start(seals)
    await settle(1.0)
    (awaited,) = (await handle.record()).awaits
    assert (awaited.names, awaited.schemas) == (["sealed"], {"sealed": {"type": "integer"}})
    assert (await handle.record(1)).awaits[0].schemas == {}
    await engine.stop()
    assert (await handle.record()).awaits[0].schemas == {}, "nobody tells them"


@virtually
async def test_code_is_listed_where_the_list_is_not_of_definitions_alone(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await catalog.create_definition(access, T, document(1), ADA)
    _ = await catalog.create_definition(access, T, document(1, "zebra"), ADA)
    _ = await c.engine(ship, tenants=[T])
    first = await catalog.list_definitions(access, T, limit=1)
    assert (len(first.items), first.code) == (1, []), "the code comes with the last page"
    assert [one.slug for one in (await catalog.list_definitions(access, T, "SHI")).code] == ["ship"]
    only = await catalog.list_definitions(access, T, kind="code")
    assert (only.items, [one.slug for one in only.code]) == ([], ["ship"])
    for page in (
        await catalog.list_definitions(access, T, "inv"),
        await catalog.list_definitions(access, T, kind="definition"),
        await catalog.list_definitions(access, T, tag="money"),
        await catalog.list_definitions(access, T, enabled=True),
        await catalog.list_definitions(access, "other"),
    ):
        assert page.code == []


async def test_definitions_are_found_by_their_drafts(access: StoreAccess) -> None:
    for name in ("invoice", "refund"):
        _ = await catalog.create_definition(access, T, document(1, name), ADA)
    _ = await catalog.save_draft(access, T, "refund", b"half done", ADA)
    assert [one.slug for one in (await catalog.list_definitions(access, T, has_draft=True)).items] == ["refund"]
    assert [one.slug for one in (await catalog.list_definitions(access, T, has_draft=False)).items] == ["invoice"]
