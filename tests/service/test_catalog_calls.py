"""Claims about calls of definitions of the catalog: what each names is pinned when an execution starts, and nothing that is published later changes it."""

import asyncio
from typing import Any

import pytest

from perdure import Context, workflow
from perdure.core import values
from perdure.core.errors import BadDefinition, BadValue
from perdure.core.paths import Key
from perdure.service import catalog, catalog_calls, queries
from perdure.service.catalog_calls import CallingDefinition, find_calls
from perdure.service.catalog_changes import DefinitionFields
from perdure.service.definition_starts import catalog_start, inline_start
from perdure.service.execution_operations import StartRequest, start_execution
from perdure.service.store_access import StoreAccess
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster
from tests.service.catalog_documents import ADA, document
from tests.service.cluster_client import virtually
from tests.service.hosts import host

T = "default"


def caller(target: str, name: str = "order", after: str = "") -> bytes:
    """A definition whose result is that of the call of `target`, which begins `after` a sleep."""
    first = f"  - {{id: rest, sleep: {after}}}\n" if after else ""
    return f"perdure: 1\nname: {name}\nsteps:\n{first}  - {{id: ask, call: '{target}'}}\noutput: '@ask'\n".encode()


async def publish(access: StoreAccess, *documents: bytes) -> None:
    for one in documents:
        read, slug = await catalog.read_with_slug(one, "")
        try:
            _ = await catalog.create_definition(access, T, one, ADA)
        except Exception:
            _ = await catalog.update_definition(access, T, slug, ADA, one)
        assert read.hash


async def begin(access: StoreAccess, reference: str, id: str = "1") -> Key:
    request = StartRequest(key=Key(T, "", id), input=values.encode(((), {}), "the input"))
    key, _ = await start_execution(access, *await catalog_start(access, request, reference))
    return key


async def result_of(access: StoreAccess, key: Key) -> Any:
    return values.decode(await access.result(key), Any, "the result")


def minus(n: int) -> int:
    return n - 1


@workflow
async def stamp(ctx: Context) -> str:
    return "stamped"


@virtually
async def test_each_form_of_a_reference_calls_exactly_its_version(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await c.engine(*host())
    await publish(access, document(1), document(2), document(3))
    first = await catalog.read_version(access, T, "invoice@1.0.0")
    _ = await catalog.move_tag(access, T, "invoice", "production", ADA, "1.1.0")
    for number, (target, value) in enumerate({"invoice": 3, "invoice@^1": 3, "invoice@~1.1": 2, f"invoice@{first.hash}": 1, "invoice:production": 2}.items()):
        await publish(access, caller(target))
        key = await begin(access, "order", str(number))
        assert await result_of(access, key) == value
    assert {one.hosted for one in await client.list(workflow="invoice")} == {True}


@virtually
async def test_what_is_published_after_the_start_changes_nothing_in_flight(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await c.engine(*host())
    await publish(access, document(1), caller("invoice@^1", "bill"), caller("bill", after="1h"))
    key = await begin(access, "order")
    await asyncio.sleep(60)
    await publish(access, document(2), caller("invoice:none", "bill"))
    await catalog.delete_definition(access, T, "invoice", ADA)
    assert await result_of(access, key) == 1
    found = {one.key.workflow: one.attributes["definition_version"] for one in await client.list()}
    assert found == {"order": "1.0.0", "bill": "1.0.0", "invoice": "1.0.0"}


@virtually
async def test_a_call_that_names_nothing_is_refused_when_it_would_start(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await c.engine(*host(), stamp)
    await publish(access, document(1), caller("invoice@^2", "bill"), caller("bill"))
    with pytest.raises(
        BadDefinition, match=r"step ask of bill calls 'invoice@\^2', which no running engine has as code: invoice has no version \^2\. There are: 1\.0\.0$"
    ):
        await begin(access, "order")
    await publish(access, caller("invoise"))
    with pytest.raises(
        BadDefinition,
        match=r"step ask of order calls 'invoise', which no running engine has as code: there is no definition 'invoise'\. Did you mean 'invoice'",
    ):
        await begin(access, "order")
    await publish(access, caller("invoice"))
    _ = await catalog.update_definition(access, T, "invoice", ADA, fields=DefinitionFields(enabled=False))
    with pytest.raises(BadDefinition, match=r"calls 'invoice', which no running engine has as code: the definition 'invoice' is disabled\. Enable it first$"):
        await begin(access, "order")
    assert await client.list() == []


@virtually
async def test_code_of_engines_is_called_by_its_name(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await c.engine(*host(), stamp)
    await publish(access, caller("stamp"), caller("stamp@7", "late"))
    assert await result_of(access, await begin(access, "order")) == "stamped"
    with pytest.raises(BadDefinition, match="calls 'stamp@7'"):
        await begin(access, "late")


async def test_without_an_engine_a_plain_name_may_be_code(access: StoreAccess) -> None:
    await publish(access, caller("stamp"))
    assert (await begin(access, "order")).workflow == "order"


@virtually
async def test_a_definition_that_calls_itself_calls_the_version_that_was_started(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await c.engine(*host(minus))
    down = b"""
perdure: 1
name: down
input: {n: {type: integer}}
steps:
  - {id: end, when: {ref: "@input.n", lte: 0}, return: bottom}
  - {id: less, tool: minus, with: {n: "@input.n"}}
  - {id: below, call: down, with: {n: "@less"}}
output: {of: "@input.n", below: "@below"}
order: listed
"""
    for one in (down, document(5, "down")):
        await publish(access, one)
    request = StartRequest(key=Key(T, "", "1"), input=values.encode(((), {"n": 2}), "the input"))
    key, _ = await start_execution(access, *await catalog_start(access, request, "down@1.0.0"))
    assert await result_of(access, key) == {"of": 2, "below": {"of": 1, "below": "bottom"}}
    alone, _ = await start_execution(access, *await inline_start(access, StartRequest(key=Key(T, "", "2"), input=request.input), down.replace(b"down", b"own")))
    assert (await result_of(access, alone))["of"] == 2
    assert (await queries.execution_summary(access, alone)).attributes["definition_inline"] is True


async def test_calls_in_a_circle_are_named_and_end_by_themselves(access: StoreAccess) -> None:
    await publish(access, caller("b", "a"), caller("c", "b"), caller("a", "c"))
    canonical = (await catalog.read_version(access, T, "a")).canonical
    found = await find_calls(access, T, CallingDefinition("a", "1.0.0", canonical))
    assert {one.target for one in found.calls} == {"a", "b", "c"}
    assert [one.message.partition(". ")[0] for one in found.circles] == ["a leads to calls in a circle: a → b → c → a"]
    checked = await catalog.check_document(access, T, caller("b", "a"))
    assert checked.valid
    assert [one.code for one in checked.findings] == ["circular_calls"]


async def test_validation_reports_calls_that_name_nothing(access: StoreAccess) -> None:
    await publish(access, document(1))
    checked = await catalog.check_document(access, T, caller("invoice@^9"))
    assert [(one.code, one.severity) for one in checked.findings] == [("unresolved_call", "warning")]
    assert (await catalog.check_document(access, T, caller("invoice@^1"))).findings == []


async def test_more_calls_than_one_execution_may_have_are_refused(access: StoreAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_calls, "DEFINITIONS_MAX", 1)
    await publish(access, document(1), caller("invoice", "bill"), caller("bill"))
    with pytest.raises(BadValue, match="at most 1 different calls"):
        await begin(access, "order")


@virtually
async def test_a_patch_pins_what_it_calls_anew_and_keeps_what_was_pinned(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    _ = await c.engine(*host())
    await publish(access, document(1), document(9, "credit"), caller("invoice", after="1h"))
    key = await begin(access, "order")
    await asyncio.sleep(60)
    await publish(access, document(2))
    handle = await client.get(key)
    ask = {"id": "ask", "call": "invoice"}
    with pytest.raises(BadDefinition, match="calls 'nowhere@\\^1'"):
        await handle.patch([{"op": "replace", "path": "/steps/1", "value": {**ask, "call": "nowhere@^1"}}])
    changed = {"perdure": 1, "name": "order", "steps": [{"id": "rest", "sleep": "1h"}, ask, {"id": "more", "call": "credit"}], "output": ["@ask", "@more"]}
    assert await handle.patch(
        [{"op": "replace", "path": "/steps", "value": changed["steps"]}, {"op": "replace", "path": "/output", "value": changed["output"]}]
    )
    assert await result_of(access, key) == [1, 9]
