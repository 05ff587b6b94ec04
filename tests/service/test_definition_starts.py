"""Claims about starts of definitions: exactly the version that a reference names runs, in an engine that never saw its document."""

from typing import Any

import msgspec
import pytest

from perdure import Definition
from perdure.code.declarations import Step
from perdure.core import values
from perdure.core.errors import BadDefinition, BadValue, DefinitionDisabled, NotFound
from perdure.core.paths import Key
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.service import catalog, definition_views, queries
from perdure.service.catalog_changes import DefinitionFields
from perdure.service.definition_starts import catalog_start, definition_host, inline_start
from perdure.service.execution_operations import StartRequest, start_execution
from perdure.service.store_access import StoreAccess
from perdure.sync_client import AsyncClient
from perdure.workflow_function import Workflow
from tests.runtime.cluster import Cluster
from tests.service.catalog_documents import ADA, document
from tests.service.cluster_client import virtually

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


def wanted(id: str = "1", workflow: str = "", **given: Any) -> StartRequest:
    return StartRequest(key=Key(T, workflow, id), input=values.encode(((), given), "the input"))


def host(slug: str) -> GraphWorkflow:
    """A workflow of an engine that knows tools, and no document."""
    return definition_host(slug, Definition.of(document(0, "common").decode(), tools=[double]).graph)


def served(slug: str) -> Workflow[..., Any]:
    return Workflow(host(slug), tuple)  # type: ignore[arg-type]  # as with a Definition


async def started(c: Cluster, request: StartRequest) -> Any:
    access = StoreAccess(c.store)
    _ = await start_execution(access, request)
    return values.decode(await access.result(request.key), Any, "the result")


@virtually
async def test_each_form_of_a_reference_starts_exactly_its_version_in_an_engine_that_never_saw_the_document(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await c.engine(served("invoice"))
    first = await catalog.create_definition(access, T, document(1), ADA)
    for value in (2, 3):
        _ = await catalog.update_definition(access, T, "invoice", ADA, document(value))
    _ = await catalog.move_tag(access, T, "invoice", "production", ADA, "1.1.0")
    references = {"invoice": 3, "invoice@1.0.0": 1, "invoice@^1": 3, "invoice@~1.1": 2, f"invoice@{first.hash}": 1, "invoice:production": 2}
    for number, (reference, value) in enumerate(references.items()):
        request = await catalog_start(access, wanted(str(number)), reference)
        assert await started(c, request) == value
        version = await catalog.read_version(access, T, reference)
        listed = await queries.execution_summary(access, Key(T, "invoice", str(number)))
        assert listed.attributes == {"definition_version": version.version, "definition_hash": version.hash}
        current = await definition_views.definition_of(c.store, listed.key)
        assert current is not None
        assert current.hash == version.hash


@virtually
async def test_an_engine_runs_a_definition_whose_slug_it_is_told_while_it_runs(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    engine = await c.engine(served("other"))
    _ = await catalog.create_definition(access, T, TAKES_AMOUNT, ADA)
    request = await catalog_start(access, wanted(cents=21), "invoice")
    _ = await start_execution(access, request)
    assert (await access.head(request.key)).status != "completed"
    engine.engine.register([host("other"), host("invoice")])
    assert values.decode(await access.result(request.key), Any, "the result") == 42


@virtually
async def test_an_execution_goes_on_by_its_version_when_the_definition_changes_or_is_deleted(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await catalog.create_definition(access, T, document(1), ADA)
    request = await catalog_start(access, wanted(), "invoice")
    _ = await start_execution(access, request)
    _ = await catalog.update_definition(access, T, "invoice", ADA, document(2))
    await catalog.delete_definition(access, T, "invoice", ADA)
    _ = await c.engine(served("invoice"))
    assert values.decode(await access.result(request.key), Any, "the result") == 1
    with pytest.raises(NotFound, match="was deleted"):
        await catalog_start(access, wanted(), "invoice@1.0.0")


async def test_a_disabled_definition_is_not_started(access: StoreAccess) -> None:
    _ = await catalog.create_definition(access, T, document(1), ADA, fields=DefinitionFields(enabled=False))
    for reference in ("invoice", "invoice@1.0.0", "invoice@^1"):
        with pytest.raises(DefinitionDisabled, match=r"'invoice' is disabled\. Enable it"):
            await catalog_start(access, wanted(), reference)
    _ = await catalog.update_definition(access, T, "invoice", ADA, fields=DefinitionFields(enabled=True))
    assert (await catalog_start(access, wanted(), "invoice")).key.workflow == "invoice"


async def test_input_that_the_version_does_not_take_is_refused_before_anything_starts(access: StoreAccess) -> None:
    _ = await catalog.create_definition(access, T, TAKES_AMOUNT, ADA)
    for given, why in (
        ({}, "the input lacks cents"),
        ({"cents": "many"}, "input cents"),
        ({"cents": 1, "cent": 1}, "there is no input 'cent', did you mean 'cents'"),
    ):
        with pytest.raises(BadValue, match=why):
            await catalog_start(access, wanted(**given), "invoice")
    with pytest.raises(BadValue, match="the input of invoice"):
        await catalog_start(access, msgspec.structs.replace(wanted(), input=values.encode(5, "the input")), "invoice")
    request = await catalog_start(access, wanted(cents=1), "invoice")
    assert request.deadline_s == 3600
    assert (await catalog_start(access, msgspec.structs.replace(wanted(cents=1), deadline_s=5.0), "invoice")).deadline_s == 5


async def test_what_an_execution_began_with_can_not_be_set_otherwise(access: StoreAccess) -> None:
    _ = await catalog.create_definition(access, T, document(1), ADA)
    given = msgspec.structs.replace(wanted(), attributes=(("customer", "c1"), ("definition_hash", "forged"), ("zone", "eu")))
    request = await catalog_start(access, given, "invoice")
    assert [name for name, _ in request.attributes] == ["customer", "definition_hash", "definition_version", "zone"]
    assert ("definition_hash", "forged") not in request.attributes


@virtually
async def test_a_document_that_comes_with_the_start_runs_and_is_not_in_the_catalog(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await c.engine(served("my-own"))
    request = await inline_start(wanted(), document(7, "My own"))
    assert await started(c, request) == 7
    listed = await queries.execution_summary(access, Key(T, "my-own", "1"))
    assert listed.attributes["definition_inline"] is True
    assert (await catalog.list_definitions(access, T)).items == []
    with pytest.raises(BadDefinition):
        await inline_start(wanted(), b"perdure: 1\nname: x\nsteps: []")


def test_a_host_has_the_capabilities_of_the_common_workflow_and_no_document() -> None:
    common = Definition.of(document(0, "common").decode(), tools=[Step(double, name="double")]).graph
    found = definition_host("invoice", common)
    assert (found.name, found.release, dict(found.family)) == ("invoice", None, {})
    assert found.capabilities == (common.capabilities or frozenset()) - {"definition:common"}
    assert "tool:double" in (found.capabilities or ())
