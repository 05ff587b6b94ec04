"""Claims about starts of definitions: exactly the version that a reference names runs, in an engine that never saw its document."""

import asyncio
from typing import Any

import msgspec
import pytest

from perdure import Context, step, workflow
from perdure.core import values
from perdure.core.errors import BadDefinition, BadValue, DefinitionDisabled, InputDiffers, NotFound
from perdure.core.paths import Key
from perdure.operations import on_catalog, on_executions
from perdure.service import catalog, definition_views, queries, retention
from perdure.service.catalog_changes import DefinitionFields
from perdure.service.definition_starts import catalog_start, inline_start
from perdure.service.execution_operations import StartRequest, start_execution
from perdure.service.store_access import StoreAccess
from perdure.service.verification import verify_executions
from perdure.stores.protocol import HeadFilter
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster
from tests.service.catalog_documents import ADA, document
from tests.service.cluster_client import virtually
from tests.service.hosts import host

T = "acme"
TAKES_AMOUNT = b"""
perdure: 1
name: invoice
input: {cents: {type: integer}}
limits: {deadline: 1h}
steps: [{id: double, tool: double, with: {n: "@input.cents"}}]
output: "@double"
"""


def double(n: int) -> int:
    return 2 * n


def triple(n: int) -> int:
    return 3 * n


@step(idempotent=True)
async def slowly(n: int) -> int:
    await asyncio.sleep(60)
    return 2 * n


@workflow
async def greet(ctx: Context, name: str) -> str:
    return f"hello {name}"


def wanted(id: str = "1", workflow: str = "", **given: Any) -> StartRequest:
    return StartRequest(key=Key(T, workflow, id), input=values.encode(((), given), "the input"))


async def begin(access: StoreAccess, reference: str, id: str = "1", **given: Any) -> Key:
    """Starts a version."""
    key, created = await start_execution(access, *await catalog_start(access, wanted(id, **given), reference))
    assert created
    return key


async def why(access: StoreAccess, key: Key) -> str:
    return (await queries.execution_status(access, key)).why


async def result_of(access: StoreAccess, key: Key) -> Any:
    return values.decode(await access.result(key), Any, "the result")


@virtually
async def test_each_form_of_a_reference_starts_exactly_its_version_in_an_engine_that_never_saw_the_document(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await c.engine(*host())
    first = await catalog.create_definition(access, T, document(1), ADA)
    for value in (2, 3):
        _ = await catalog.update_definition(access, T, "invoice", ADA, document(value))
    _ = await catalog.move_tag(access, T, "invoice", "production", ADA, "1.1.0")
    references = {"invoice": 3, "invoice@1.0.0": 1, "invoice@^1": 3, "invoice@~1.1": 2, f"invoice@{first.hash}": 1, "invoice:production": 2}
    for number, (reference, value) in enumerate(references.items()):
        key = await begin(access, reference, str(number))
        assert await result_of(access, key) == value
        version = await catalog.read_version(access, T, reference)
        listed = await queries.execution_summary(access, Key(T, "invoice", str(number)))
        assert listed.attributes == {"definition_version": version.version, "definition_hash": version.hash}
        assert listed.hosted
        current = await definition_views.definition_of(c.store, listed.key)
        assert current is not None
        assert current.hash == version.hash


@virtually
async def test_an_engine_runs_definitions_of_every_slug_and_code_beside_them(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await c.engine(*host(double), greet)
    for name in ("invoice", "refund"):
        _ = await catalog.create_definition(access, T, TAKES_AMOUNT.replace(b"invoice", name.encode()), ADA)
    keys = [await begin(access, name, cents=21) for name in ("invoice", "refund")]
    assert [await result_of(access, key) for key in keys] == [42, 42]
    assert await (await client.start(greet, "Ada")).result() == "hello Ada"


@virtually
async def test_an_execution_waits_for_an_engine_that_has_its_tools_and_says_which_are_missing(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await catalog.create_definition(access, T, TAKES_AMOUNT, ADA)
    key = await begin(access, "invoice", cents=21)
    assert "no engine is running" in await why(access, key)
    others = await c.engine(*host(triple))
    await asyncio.sleep(1)
    assert await why(access, key) == "no engine here has tool double, which invoice needs; it has not started"
    assert (await access.head(key)).program == "perdure.definition@1\ntool:double"
    _ = await c.engine(*host(double))
    assert await result_of(access, key) == 42
    other = TAKES_AMOUNT.replace(b"double", b"triple")
    _ = await catalog.update_definition(access, T, "invoice", ADA, other)
    key = await begin(access, "invoice", "2", cents=21)
    assert await result_of(access, key) == 63
    await others.kill()


@virtually
async def test_only_engines_that_run_definitions_of_the_catalog_are_counted_on(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await catalog.create_definition(access, T, document(1), ADA)
    key = await begin(access, "invoice")
    _ = await c.engine(greet)
    await asyncio.sleep(1)
    assert (await why(access, key)).startswith("no running engine runs definitions of the catalog")


@virtually
async def test_an_execution_goes_on_elsewhere_when_its_engine_is_killed_within_a_step(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await catalog.create_definition(access, T, TAKES_AMOUNT.replace(b"double", b"slowly"), ADA)
    first = await c.engine(*host(slowly))
    key = await begin(access, "invoice", cents=21)
    await asyncio.sleep(5)
    await first.kill()
    _ = await c.engine(*host(slowly))
    assert await result_of(access, key) == 42
    tries = [one.attempt for one in await (await client.get(key)).steps() if one.target == "slowly"]
    assert tries == [2]
    assert [one.findings async for one in verify_executions(c.store, [key])] == [[]]


@virtually
async def test_an_execution_is_cancelled_before_it_is_due_to_begin(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await catalog.create_definition(access, T, document(1), ADA)
    _ = await c.engine(*host())
    found = await catalog_start(access, msgspec.structs.replace(wanted(), delay_s=3600.0), "invoice")
    key, _ = await start_execution(access, *found)
    await (await client.get(key)).cancel("not wanted")
    assert (await access.head(key)).status == "cancelled"


@virtually
async def test_a_rerun_and_a_fork_go_on_by_the_same_version(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await catalog.create_definition(access, T, document(1), ADA)
    key = await begin(access, "invoice")
    _ = await c.engine(*host())
    assert await result_of(access, key) == 1
    _ = await catalog.update_definition(access, T, "invoice", ADA, document(2))
    handle = await client.get(key)
    for again in (await handle.rerun(), await handle.fork()):
        assert again.key.workflow == "invoice"
        assert await again.result() == 1
        assert (await access.head(again.key)).program == "perdure.definition@1"


@virtually
async def test_an_execution_goes_on_by_its_version_when_the_definition_changes_or_is_deleted(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await catalog.create_definition(access, T, document(1), ADA)
    key = await begin(access, "invoice")
    _ = await catalog.update_definition(access, T, "invoice", ADA, document(2))
    await catalog.delete_definition(access, T, "invoice", ADA)
    _ = await c.engine(*host())
    assert await result_of(access, key) == 1
    with pytest.raises(NotFound, match="was deleted"):
        await catalog_start(access, wanted(), "invoice@1.0.0")


async def test_a_disabled_definition_is_not_started(access: StoreAccess) -> None:
    _ = await catalog.create_definition(access, T, document(1), ADA, fields=DefinitionFields(enabled=False))
    for reference in ("invoice", "invoice@1.0.0", "invoice@^1"):
        with pytest.raises(DefinitionDisabled, match=r"'invoice' is disabled\. Enable it"):
            await catalog_start(access, wanted(), reference)
    _ = await catalog.update_definition(access, T, "invoice", ADA, fields=DefinitionFields(enabled=True))
    assert (await catalog_start(access, wanted(), "invoice")).request.key.workflow == "invoice"


async def test_input_that_the_version_does_not_take_is_refused_before_anything_starts(access: StoreAccess) -> None:
    _ = await catalog.create_definition(access, T, TAKES_AMOUNT, ADA)
    for given, why in (
        ({}, "the input lacks cents"),
        ({"cents": "many"}, "input cents"),
        ({"cents": 1, "cent": 1}, "there is no input 'cent', did you mean 'cents'"),
    ):
        with pytest.raises(BadValue, match=why):
            await catalog_start(access, wanted(**given), "invoice")
    with pytest.raises(BadValue, match=r"takes its input by name, and 5 has none.* -i cents=VALUE"):
        _ = await catalog_start(access, msgspec.structs.replace(wanted(), input=values.encode(((5,), {}), "the input")), "invoice")
    with pytest.raises(BadValue, match="the input of invoice"):
        await catalog_start(access, msgspec.structs.replace(wanted(), input=values.encode(5, "the input")), "invoice")
    assert (await catalog_start(access, wanted(cents=1), "invoice")).request.deadline_s == 3600
    assert (await catalog_start(access, msgspec.structs.replace(wanted(cents=1), deadline_s=5.0), "invoice")).request.deadline_s == 5


async def test_what_an_execution_began_with_can_not_be_set_otherwise(access: StoreAccess) -> None:
    _ = await catalog.create_definition(access, T, document(1), ADA)
    given = msgspec.structs.replace(wanted(), attributes=(("customer", "c1"), ("definition_hash", "forged"), ("zone", "eu")))
    request, _ = await catalog_start(access, given, "invoice")
    assert [name for name, _ in request.attributes] == ["customer", "definition_hash", "definition_version", "zone"]
    assert ("definition_hash", "forged") not in request.attributes


@virtually
async def test_a_document_that_comes_with_the_start_runs_and_is_not_in_the_catalog(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await c.engine(*host())
    key, _ = await start_execution(access, *await inline_start(access, wanted(), document(7, "My own")))
    assert await result_of(access, key) == 7
    listed = await queries.execution_summary(access, Key(T, "my-own", "1"))
    assert listed.attributes["definition_inline"] is True
    assert (await catalog.list_definitions(access, T)).items == []
    with pytest.raises(BadDefinition):
        await inline_start(access, wanted(), b"perdure: 1\nname: x\nsteps: []")


@virtually
async def test_a_document_runs_up_to_a_step(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await c.engine(*host())
    given = b"{perdure: 1, name: part, order: listed, steps: [{id: a, set: {n: 1}}, {id: b, fail: {message: too far}}]}"
    key, _ = await start_execution(access, *await inline_start(access, wanted(), given, until="a"))
    assert await result_of(access, key) == {"n": 1}
    with pytest.raises(BadValue, match="until"):
        await inline_start(access, wanted(), given, until="c")


NAPS = b"{perdure: 1, name: invoice, input: {cents: {type: integer}}, steps: [{id: nap, sleep: 1h}]}"
HAS_A_DEFAULT = b"{perdure: 1, name: invoice, input: {cents: {type: integer}, tax: {type: integer, default: 7}}, steps: [{id: note, set: {n: 1}}]}"
TAKES_MORE = b"{perdure: 1, name: invoice, input: {cents: {type: integer}, tax: {type: integer}}, steps: [{id: note, set: {n: 1}}]}"


@pytest.mark.parametrize("moment", ["before an engine", "while it runs", "after its end", "after its removal"])
def test_a_strict_start_of_another_version_is_an_error_and_by_the_same_reference_none(moment: str) -> None:
    @virtually
    async def world(c: Cluster, client: AsyncClient) -> None:
        access = StoreAccess(c.store)
        if moment != "before an engine":
            await c.engine(*host())

        async def is_new(reference: str) -> bool:
            return (await on_catalog.start(access, msgspec.structs.replace(wanted(cents=5), strict=True), reference)).created

        first = await catalog.create_definition(access, T, NAPS, ADA)
        assert await is_new("invoice")
        await asyncio.sleep(7200 if moment.startswith("after") else 1)
        if moment == "after its removal":
            assert len(await retention.prune_heads(c.store, await c.store.heads(HeadFilter(limit=5)))) == 1
        second = await catalog.update_definition(access, T, "invoice", ADA, HAS_A_DEFAULT, part="major")
        for other in ("invoice@2.0.0", "invoice@2", "invoice@>1 <3", f"invoice@{second.hash}"):
            with pytest.raises(InputDiffers, match=f"{T}/invoice/1 was started with another (definition|input). Use a new id"):
                await is_new(other)
        await catalog.update_definition(access, T, "invoice", ADA, TAKES_MORE, part="major")
        await catalog.move_tag(access, T, "invoice", "production", ADA)
        for same in ("invoice", "invoice:production", "invoice@1.0.0", "invoice@^1", "invoice@>=1", f"invoice@{first.hash}"):
            assert not await is_new(same), same

    world()


@virtually
async def test_a_strict_start_of_another_document_is_an_error(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)

    async def is_new(text: bytes, until: str = "") -> bool:
        return (await on_catalog.start_document(access, msgspec.structs.replace(wanted(), strict=True), text, until=until)).created

    assert [await is_new(document(1)), await is_new(document(1)), await is_new(b"# the same\n" + document(1))] == [True, False, False]
    for other in ((document(2),), (document(1), "note")):
        with pytest.raises(InputDiffers, match="another definition"):
            _ = await is_new(*other)
    _ = await catalog.create_definition(access, T, document(1), ADA)
    with pytest.raises(InputDiffers, match="another definition"):
        _ = await on_catalog.start(access, msgspec.structs.replace(wanted(), strict=True), "invoice@^1")


@virtually
async def test_before_its_first_step_it_shows_the_definition_with_which_it_began(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await c.engine(*host(double))
    _ = await catalog.create_definition(access, T, TAKES_AMOUNT, ADA)
    key = await begin(access, "invoice", cents=2)
    await asyncio.sleep(1)
    assert [type(one).__name__ for one in await c.events(key)][:2] == ["HostedEvent", "StartedEvent"]
    graph = await on_executions.graph(access, key, 1)
    assert [(one.id, one.state) for one in graph.nodes] == [("double", "not_reached")]
    tokens = await on_executions.tokens(access, key, 1)
    assert (tokens.number, tokens.counter, tokens.open, tokens.outputs) == (1, 0, [], {})
    assert await on_executions.definition(access, key, 1) == await on_executions.definition(access, key)
    assert (await on_executions.traces(access, key, 1)).items == [] == (await on_executions.passages(access, key, "double", 1)).items
    with pytest.raises(BadValue, match="a step that has begun by then"):
        _ = await on_executions.conditions(access, key, "double", 1)


@virtually
async def test_a_start_by_reference_names_no_other_workflow(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    created = await catalog.create_definition(access, T, document(), ADA)
    for reference in ("invoice@^1", f"{created.id}@1.0.0"):
        with pytest.raises(BadValue, match=r"/workflow: order is not invoice, which .* starts\. Leave workflow out"):
            _ = await on_catalog.start(access, wanted(workflow="order"), reference)
        assert (await on_catalog.start(access, wanted(reference, workflow="invoice"), reference)).key == Key(T, "invoice", reference)
