"""A client of a server behaves as one on the store: the same suite runs on both."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from perdure import App, AsyncClient, async_handle
from perdure.api.problems import status_of
from perdure.code.results import Vote
from perdure.core.errors import (
    AlreadyExists,
    Ambiguous,
    BadDefinition,
    BadValue,
    ExecutionFailed,
    HasEnded,
    InputDiffers,
    NotAwaited,
    NotFound,
    PatchRefused,
    PerdureError,
    ProposalRefused,
    RequestUnderWay,
    StaleProposal,
    StaleRecord,
    StoreError,
    StoreUnavailable,
    Timeout,
    UnknownWorkflow,
    WrongVerb,
)
from perdure.core.paths import Key
from perdure.operations import on_approvals, on_execution_changes, on_executions, wire_codec
from perdure.operations.on_executions import ResultSoFar
from perdure.operations.operation_table import BY_FUNCTION
from perdure.remote import http_access
from perdure.remote.http_access import HttpAccess
from perdure.service.history import EmittedValue
from perdure.service.proposals.proposal_trials import ValueDifference
from perdure.service.wire_types import NOTHING
from perdure.sync_client import Client
from tests.api.api_setup import WORKFLOWS, add, added, api_on_a_port, calc, greet, named, trip
from tests.service.proposals.proposed_documents import document as proposed_document


@asynccontextmanager
async def client_by(how: str, directory: Path) -> AsyncIterator[AsyncClient]:
    """A client on the store, or over HTTP, with an engine."""
    async with App(WORKFLOWS, tools=[add], db=f"sqlite:///{directory}/{how}.db") as app:
        if how == "store":
            yield app.client
            return
        async with api_on_a_port(app.client._access.on_store("a test")) as url, AsyncClient(url) as client:
            yield client


@pytest.fixture(params=["store", "http"])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AsyncClient]:
    async with client_by(request.param, tmp_path) as client:
        yield client


async def test_results_states_and_streams(client: AsyncClient) -> None:
    handle = await client.start(calc.with_(id="o/1 ü", attributes={"customer": "c1", "tag": ["a", "b"]}), 3, b=4)
    assert handle.created and await handle.result() == 7 and await client.run(calc, 1) == 2
    again = await client.start(calc.with_(id="o/1 ü"), 3, b=4)
    assert not again.created and await again.result() == 7
    status = await handle.status()
    attributes = {name: value for name, value in status.attributes.items() if name != "initiator"}  # which a server sets
    assert (status.key, status.status, attributes) == (Key("default", "calc", "o/1 ü"), "completed", {"customer": "c1", "tag": ["a", "b"]})
    assert [one.path for one in await handle.steps()] == ["set:seen", "emit", "add"]
    assert (await handle.query("seen"), await handle.query("none", 5), await handle.query()) == (3, 5, {"seen": 3})
    assert [one.value async for one in handle.stream()] == [{"a": 3}]
    events = [one async for one in handle.events(after=4)]
    assert [one.type for one in events] == ["step.completed", "execution.completed"]
    assert "calc" in str(await handle.tree())
    assert await handle.summary() == (await client.list(where={"tag": "b"}))[0]


async def test_errors_are_of_their_classes_with_their_attributes(client: AsyncClient) -> None:
    with pytest.raises(ExecutionFailed, match="ValueError: negative") as failed:
        await client.run(calc.with_(id="bad"), -1)
    assert failed.value.key == Key("default", "calc", "bad") and failed.value.error.message == "negative"
    with pytest.raises(NotFound) as missing:
        await client.get(Key("default", "calc", "none"))
    assert missing.value.key == Key("default", "calc", "none")
    with pytest.raises(HasEnded) as ended:
        await (await client.get("bad")).cancel()
    assert ended.value.status == "failed"
    await client.start(calc.with_(id="twice"), 1)
    await client.start(greet.with_(id="twice"))
    with pytest.raises(Ambiguous) as several:
        await client.get("twice")
    assert set(several.value.candidates) == {Key("default", "calc", "twice"), Key("default", "greet", "twice")}
    with pytest.raises(InputDiffers):
        await client.start(calc.with_(id="twice", strict=True), 2)
    with pytest.raises(Timeout, match=r"waits for the message named"):
        await (await client.get("twice", greet)).result(timeout=0.3)
    with pytest.raises(NotFound):
        await client.find("nothing of that name")
    with pytest.raises(BadValue):
        await client.dead_letters.groups(fingerprint="none")


@pytest.mark.parametrize("steps", [2, 1_000])
async def test_a_refused_definition_has_its_findings(client: AsyncClient, steps: int) -> None:
    document = "perdure: 1\nname: invoice\nsteps:\n" + "".join(f"  - {{id: s{number}, nosuch: 1}}\n" for number in range(steps))
    with pytest.raises(BadDefinition) as refused:
        await client.catalog.create(document)
    findings = refused.value.findings
    assert [one.line for one in findings if one.code == "unknown_field"] == list(range(4, 4 + min(steps, 100)))
    assert str(refused.value) == "\n".join(map(str, findings))


@pytest.mark.parametrize(
    "error",
    [
        UnknownWorkflow("nosuch", ["order"]),
        NotAwaited(["step", "sleep"]),
        Ambiguous("o1", [Key("default", "calc", "o1"), Key("default", "greet", "o1")], False),
        PatchRefused(Key("default", "calc", "o1"), ["ask has begun"]),
        BadValue("input", [1, [2]], "a number"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_an_error_arrives_with_the_attributes_that_it_was_raised_with(error: PerdureError) -> None:
    arrived = wire_codec.decode_error(wire_codec.encode_error(error))
    assert (type(arrived), str(arrived), vars(arrived)) == (type(error), str(error), vars(error))


async def test_a_proposal_is_made_tried_reviewed_and_applied(client: AsyncClient) -> None:
    made = await client.catalog.create(proposed_document(1))
    assert await (await client.start(client.definition("invoice"))).result() == 1
    with pytest.raises(StaleProposal) as stale:
        await client.proposals.create("invoice", proposed_document(2), base="sha256:0")
    assert (stale.value.slug, stale.value.base, stale.value.current) == ("invoice", "sha256:0", made.hash)
    one = await client.proposals.create("invoice", proposed_document(2), note="better")
    assert (one.base_workflow_hash, one.diff_text, one.received.encode()) == (made.hash, "~ note: set.n: 1 -> 2", proposed_document(2))
    report = await client.proposals.try_proposal(one.id, last=5)
    assert (report.differing, report.items[0].result) == (1, ValueDifference(1, 2))
    assert (await client.proposals.try_document("invoice", proposed_document(1))).same == 1
    with pytest.raises(ProposalRefused, match="the proposal is pending"):
        await client.proposals.apply(one.id)
    approved = await client.proposals.approve(one.id, "fine", revision=one.revision)
    with pytest.raises(StaleRecord):
        await client.proposals.apply(one.id, revision=one.revision)
    applied = await client.proposals.apply(one.id, revision=approved.revision)
    assert (applied.status, applied.applied_version, (await client.catalog.get("invoice")).version) == ("applied", "1.0.1", "1.0.1")
    new = await client.proposals.create_new("other", proposed_document(3))
    assert (await client.proposals.reject(new.id, "no")).status == "rejected"
    assert [found.id for found in await client.proposals.list()] == [new.id, one.id]
    assert [found.id for found in await client.proposals.list("invoice", status="applied", open=False, limit=5)] == [one.id]
    assert (await client.proposals.get(one.id)).review_notes == "fine"
    with pytest.raises(NotFound):
        await client.proposals.get("none")


async def test_an_execution_is_read_as_a_whole_and_as_it_was(client: AsyncClient) -> None:
    handle = await client.start(calc.with_(id="o1"), 3, b=4)
    await handle.result()
    record = await handle.record()
    assert (record.key, record.status, record.decoded_result()) == (handle.key, "completed", 7)
    assert record.decoded_input() == await handle.input() == ((3,), {"b": 4})
    events = await handle.history()
    began = next(one.id for one in events if one.type == "step.started")
    before = await handle.record(at=began)
    assert (before.status, before.version < record.version, before.decoded_result()) == ("running", True, None)
    steps = await handle.attempts()
    assert [(one.path, len(one.attempts)) for one in steps] == [("set:seen", 0), ("emit", 0), ("add", 1)]
    assert (steps[-1].decoded_input(), steps[-1].decoded_output(), steps[-1].attempts[0].state) == (((3, 4), {}), 7, "completed")
    assert (await handle.attempts(at=began))[-1].attempts[0].state == "performing"
    graph = await handle.graph()
    assert [(one.id, one.state) for one in graph.nodes][-1] == ("add", "completed") and graph.at == record.version
    assert (await handle.graph(at=began)).nodes[-1].state == "performing"
    for ask in (handle.definition(), handle.tokens()):
        with pytest.raises(BadValue, match="one of a definition"):
            await ask
    with pytest.raises(BadValue, match="one of its log, 1 to"):
        await handle.record(at=100)


async def test_attempts_are_read_over_pages(client: AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_handle, "PAGE_MAX", 1)
    handle = await client.start(calc.with_(id="o1"), 3)
    await handle.result()
    assert [(one.number, one.path) for one in await handle.attempts()] == [(1, "set:seen"), (2, "emit"), (3, "add")]


STEPS = [{"id": "ask", "approve": {"title": "Go?"}}, {"id": "done", "set": {"cents": "@input.cents"}}]
DOCUMENT = {"perdure": 1, "name": "Check", "order": "listed", "steps": STEPS}


async def test_definitions_are_published_run_and_rolled_back(client: AsyncClient) -> None:
    catalog = client.catalog
    assert (await catalog.validate(DOCUMENT)).slug == "check"
    created = await catalog.create(DOCUMENT, tags=["money"], note="first")
    assert (created.slug, created.version, created.tags) == ("check", "1.0.0", ("money",))
    with pytest.raises(AlreadyExists):
        await catalog.create(DOCUMENT)
    changed = {**DOCUMENT, "steps": STEPS[1:]}
    second = await catalog.update("check", changed, part="major", revision=created.revision)
    assert second.version == "2.0.0" and [one.kind for one in (await catalog.diff("check@1.0.0", "check")).changes]
    with pytest.raises(StaleRecord):
        await catalog.update("check", description="late", revision=created.revision)
    assert (await catalog.move_tag("check", "live", "1.0.0")).version_tags["live"].version == "1.0.0"
    assert (await catalog.resolve("check:live")).version == (await catalog.version("check:live")).version == "1.0.0"
    plan = await catalog.graph("check:live")
    assert ([one.id for one in plan.nodes], plan.version, {one.state for one in plan.nodes}) == (["ask", "done"], "1.0.0", {None})
    assert (await catalog.roll_back("check", "1.0.0")).definition.version == "2.1.0"
    assert not (await catalog.remove_tag("check", "live")).version_tags
    assert [one.version for one in await catalog.history("check", versions_only=True)] == ["2.1.0", "2.0.0", "1.0.0"]
    assert [one.slug for one in await catalog.list(kind="definition")] == ["check"] and "calc" in {one.slug for one in await catalog.list()}
    assert (await catalog.save_draft("check", "no definition")).has_draft and (await catalog.draft("check")).document == b"no definition"
    assert not (await catalog.discard_draft("check")).has_draft
    assert (await catalog.sync(DOCUMENT)).outcome == "unchanged"
    assert [one.outcome for one in (await catalog.sync_all({"check": DOCUMENT, "other": changed}, keep=True)).items] == ["unchanged", "created"]
    assert (await catalog.release("check")).owner == ""
    await catalog.delete("other")
    with pytest.raises(NotFound, match="was deleted"):
        await catalog.get("other")
    running = await client.start(client.definition("check"), cents=5)
    async with asyncio.timeout(20):
        while not await client.approvals():
            await asyncio.sleep(0.01)
    assert (await running.definition()).hash == created.hash and (await running.tokens()).approvals == 1
    assert [(one.id, one.state) for one in (await running.graph()).nodes] == [("ask", "waiting_approval"), ("done", "not_reached")]


async def test_a_document_is_started_without_the_catalog(client: AsyncClient) -> None:
    document = """
    perdure: 1
    name: Once
    steps: [{id: done, set: {cents: "@input.cents"}}]
    """
    once = client.document(document)
    first = await client.start(once.with_(id="1"), cents=5)
    assert (first.key, await first.result()) == (Key("default", "once", "1"), {"cents": 5})
    assert await client.run(client.document(document, workflow="mine").with_(id="2"), cents=6) == {"cents": 6}
    part = client.document("{perdure: 1, name: part, order: listed, steps: [{id: a, set: {n: 1}}, {id: b, fail: {message: no}}]}", until="a")
    assert await client.run(part.with_(id="3")) == {"n": 1}
    assert not (await client.start(once.with_(id="1", strict=True), cents=5)).created
    with pytest.raises(InputDiffers, match="another definition"):
        await client.start(client.document(document.replace("done", "other")).with_(id="1", strict=True), cents=5)
    assert (await client.get("2")).key.workflow == "mine" and (await first.record()).is_inline_execution
    with pytest.raises(BadDefinition):
        await client.start(client.document("perdure: 1\nname: x\nsteps: [{id: a, nothing: 1}]"))
    assert await client.catalog.list(kind="definition") == []


async def test_keys_sessions_and_the_audit(client: AsyncClient) -> None:
    admin = client.administration
    made = await admin.create_key("ci", ["operator"], queues=["mails"], expires="1d")
    assert [(one.id, one.roles, one.queues) for one in await admin.keys()] == [(made.key.id, ("operator",), ("mails",))]
    assert (await admin.rotate_key(made.key.id, overlap=0, revision=made.key.revision)).text != made.text
    with pytest.raises(StaleRecord):
        await admin.revoke_key(made.key.id, revision=made.key.revision)
    assert (await admin.key(made.key.id)).revision == 2
    assert (await admin.revoke_key(made.key.id)).revoked_at_s is not None
    with pytest.raises(NotFound):
        await admin.revoke_key("none")
    assert await admin.sessions() == []
    with pytest.raises(NotFound):
        await admin.revoke_session("none")
    entries = await admin.audit()
    assert [one.entry.operation for one in entries] == ["access.revoke_key", "access.rotate_key", "access.create_key"]
    assert [one.entry.operation for one in await admin.audit(operation="access.rotate_key")] == ["access.rotate_key"]
    assert {one.entry.subject for one in entries} == {(await client.whoami()).subject} == {"local"}
    assert "http" in {one.name for one in (await client.kinds()).items}


async def test_messages_control_and_repair(client: AsyncClient) -> None:
    greeting = await client.start(greet.with_(id="g"))
    await greeting.send(named, "Ada")
    assert await greeting.result() == "Hello Ada"
    paused = await client.start(greet.with_(id="p"))
    await paused.pause("lunch", wait=True)
    assert (await paused.status()).status == "paused"
    await paused.resume(wait=True)
    await paused.cancel("enough", wait=True)
    assert (await paused.status()).status == "cancelled"
    with pytest.raises(ExecutionFailed):
        await client.run(calc.with_(id="bad"), -1)
    (group,) = await client.dead_letters.groups()
    assert (group.count, group.dead_letters[0].key.id) == (1, "bad")
    fixed = await client.dead_letters.requeue("bad", edits={"1": 5})
    assert await fixed.result() == 6
    forked = await (await client.get("bad", calc)).fork(input={"a": 6}, id="forked")
    assert await forked.result() == 0 and forked.created, "the step keeps its result"
    result = await client.select(workflow="greet", status=["completed", "cancelled"]).cancel("all")
    assert {key.id for key in (*result.ended, *result.accepted)} == {"p", "g"} and not result.failed


async def test_plans_and_bulk_executions(client: AsyncClient) -> None:
    for number in range(3):
        await client.start(greet.with_(id=f"g{number}"))
    plan = await (await client.get("g1", greet)).plan("cancel")
    assert (plan.key, plan.stopped, plan.has_effect) == (Key("default", "greet", "g1"), ["listen:named"], True)
    selection = client.select(workflow=greet)
    assert (await selection.count("cancel")).total == 3
    sending = await selection.send(named, "Ada", id="all")
    assert (await sending.result()).done == 3 and sending.created
    assert [await (await client.get(f"g{number}", greet)).result() for number in range(3)] == ["Hello Ada"] * 3
    assert not (await selection.send(named, "Ada", id="all")).created
    progress = await (await client.select(workflow=greet, status="completed").begin("prune")).result()
    assert (progress.done, progress.failed) == (3, 0)
    with pytest.raises(BadValue, match="by conditions"):
        await client.select(keys=[plan.key]).begin("cancel")


async def test_approvals_queues_and_processes(client: AsyncClient) -> None:
    going = await client.start(trip.with_(id="t"), "Rome")
    while not (waiting := await client.approvals()):
        await asyncio.sleep(0.01)
    assert waiting[0].title == "go to Rome?" and (await client.approval("t")).key == waiting[0].key
    await client.approve("t", by="ada", comment="enjoy")
    assert await going.result() == "to Rome: True"
    assert (await client.limit("mails", concurrency=3)).limits.concurrency == 3
    assert [one.name for one in await client.queues()] == ["mails"]
    mails = await client.queue("mails")
    assert (mails.limits.concurrency, (await client.limit("mails", concurrency_per_key=1, revision=mails.revision)).limits.concurrency) == (3, 3)
    with pytest.raises(StaleRecord):
        await client.remove_limits("mails", revision=mails.revision)
    await client.remove_limits("mails")
    (engine,) = [one for one in await client.engines() if one.kind == "engine"]
    assert "calc@1" in engine.programs


async def test_exports_and_verification(client: AsyncClient) -> None:
    await client.run(calc.with_(id="e"), 1)
    raw = await client.upkeep.export("e", secret="")
    (imported,) = await client.upkeep.import_(raw, id="copy", unsigned=True, secret="")
    assert imported.key.id == "copy" and await client.upkeep.verify() == []


async def test_what_needs_the_database_says_so(tmp_path: Path) -> None:
    async with client_by("http", tmp_path) as client:
        with pytest.raises(WrongVerb, match="connection= needs the database, and this client has the server http://"):
            await client.start(calc.with_(connection=object()), 1)
        with pytest.raises(WrongVerb, match="check needs the database"):
            await client.check([calc])


async def test_a_start_is_not_doubled_and_no_wait_lost_when_the_server_restarts(tmp_path: Path) -> None:
    added.clear()
    async with App(WORKFLOWS, db=f"sqlite:///{tmp_path}/a.db") as app:
        access = app.client._access.on_store("a test")
        async with api_on_a_port(access) as url:
            port = int(url.rpartition(":")[2])
            client = AsyncClient(url)
            waiting = asyncio.create_task((await client.start(greet.with_(id="g"))).result())
            following = asyncio.create_task(_types(client))
            await asyncio.sleep(0.2)
        starting = [asyncio.create_task(client.start(calc, number)) for number in range(20)]
        await asyncio.sleep(0.3)
        async with api_on_a_port(access, port):
            handles = await asyncio.gather(*starting)
            assert [await one.result() for one in handles] == [number + 1 for number in range(20)] and sorted(added) == list(range(20))
            await (await client.get("g")).send(named, "Ada")
            assert await waiting == "Hello Ada"
            assert (await following)[-1] == "execution.completed"
            await client.aclose()


async def _types(client: AsyncClient) -> list[str]:
    return [one.type async for one in (await client.get("g")).events(follow=True)]


async def test_a_server_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.remote.http_access.RETRY_S", 0.0)
    async with AsyncClient("http://127.0.0.1:1") as client:
        with pytest.raises(StoreUnavailable, match=r"the server http://127\.0\.0\.1:1 can't be reached"):
            await client.list()


async def test_https_at_a_port_of_http_is_refused_at_once_with_what_to_look_at(tmp_path: Path) -> None:
    async with App(WORKFLOWS, db=f"sqlite:///{tmp_path}/a.db") as app, api_on_a_port(app.client._access.on_store("a test")) as url:
        client = AsyncClient(url.replace("http:", "https:"))
        with pytest.raises(StoreUnavailable, match="it may be one of http, and not https"):
            await asyncio.wait_for(client.list(), http_access.RETRY_S / 2)
        await client.aclose()


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:1", "socks5://127.0.0.1:1"])
async def test_a_server_of_this_machine_is_reached_without_the_proxy_of_the_environment(proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    async with App(WORKFLOWS, db=f"sqlite:///{tmp_path}/a.db") as app, api_on_a_port(app.client._access.on_store("a test")) as url, AsyncClient(url) as client:
        assert await client.list() == []


async def test_a_proxy_is_named_where_the_server_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.remote.http_access.RETRY_S", 0.0)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with AsyncClient("http://perdure.invalid") as client:
        with pytest.raises(StoreUnavailable, match=r"NO_PROXY=perdure\.invalid does without"):
            await client.list()


async def test_a_wait_for_a_server_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("perdure.remote.http_access.RETRY_S", 0.3)
    monkeypatch.setattr("perdure.remote.http_access.WARN_AFTER_S", 0.1)
    async with AsyncClient("http://127.0.0.1:1") as client:
        with pytest.raises(StoreUnavailable, match="Check that it runs, and the URL"):
            await client.list()
    assert [one.getMessage().partition(" Trying")[0][-4:] for one in caplog.records if one.name == "perdure.remote"] == ["URL."]


async def test_the_sync_client_speaks_to_a_server_as_well(tmp_path: Path) -> None:
    async with App(WORKFLOWS, db=f"sqlite:///{tmp_path}/a.db") as app, api_on_a_port(app.client._access.on_store("a test")) as url:

        def work() -> tuple[int, list[str]]:
            with Client(url) as client:
                result = client.run(calc, 4)
                return result, [one.key.workflow for one in client.list()]

        assert await asyncio.to_thread(work) == (5, ["calc"])


ONE = Key("default", "calc", "o1")


Requests = list[tuple[str, str]]


async def test_a_request_that_broke_is_repeated_and_has_a_key_if_it_has_another_effect_the_second_time() -> None:
    sent: Requests = []

    def broken(request: httpx2.Request) -> httpx2.Response:
        sent.append((request.url.path.rpartition("/")[2], request.headers.get("idempotency-key", "")))
        if len(sent) % 2:
            raise httpx2.ReadError("the connection broke")
        return httpx2.Response(200, content=wire_codec.encode(None))

    access = HttpAccess("http://server", transport=httpx2.MockTransport(broken))
    await access.call(on_execution_changes.cancel, ONE)
    assert sent == [("executions.cancel", "")] * 2
    sent.clear()
    await access.call(on_approvals.vote, ONE, Vote("ada", True))
    assert sent[0] == sent[1] and sent[0][0] == "approvals.vote" and len(sent[0][1]) == 32


@pytest.mark.parametrize("error", [StoreUnavailable("the store did not answer"), RequestUnderWay("k")], ids=lambda one: type(one).__name__)
async def test_a_server_that_is_stopping_or_still_busy_is_asked_again(error: PerdureError) -> None:
    sent: Requests = []

    def stopping(request: httpx2.Request) -> httpx2.Response:
        sent.append((request.url.path.rpartition("/")[2], request.headers.get("idempotency-key", "")))
        busy = httpx2.Response(status_of(type(error)), content=wire_codec.encode_error(error))
        return busy if len(sent) % 2 else httpx2.Response(200, content=wire_codec.encode(None))

    access = HttpAccess("http://server", transport=httpx2.MockTransport(stopping))
    await access.call(on_execution_changes.undo, ONE)
    assert sent[0] == sent[1] and sent[0][0] == "executions.undo" and sent[0][1]


async def test_a_wait_for_a_result_warns_of_what_the_execution_lacks(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(http_access, "WARN_AFTER_S", 0.0)
    waits = [
        ResultSoFar(False, why="a step runs; no engine is mentioned in its name alone"),
        ResultSoFar(False, why="it is paused", missing="it is paused; resume it"),
        ResultSoFar(True, NOTHING),
    ]
    answers = iter(waits)
    access = HttpAccess("http://server", transport=httpx2.MockTransport(lambda _: httpx2.Response(200, content=wire_codec.encode(next(answers)))))
    assert await access.result(ONE) == NOTHING
    assert [one.getMessage() for one in caplog.records if one.name == "perdure.remote"] == [f"waiting for the result of {ONE}: it is paused; resume it"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (httpx2.Response(301, headers={"location": "https://host/"}), "redirects to https://host/"),
        (httpx2.Response(200, text="<html></html>"), "is no server of Perdure"),
        (httpx2.Response(502, text="bad gateway"), "answered 502: bad gateway"),
    ],
    ids=["redirect", "page", "gateway"],
)
async def test_what_is_no_server_of_perdure_is_said_to_be_none(answer: httpx2.Response, said: str) -> None:
    access = HttpAccess("http://host", transport=httpx2.MockTransport(lambda _: httpx2.Response(answer.status_code, headers=answer.headers, text=answer.text)))
    with pytest.raises(StoreError, match=said):
        await access.call(on_executions.summary, ONE)
    with pytest.raises(StoreError, match=said):
        _ = [one async for one in access.stream(on_executions.events, ONE)]


class BreakingStream(httpx2.AsyncByteStream):
    """The frames of values, split in the middle. After `sent` of them the connection breaks."""

    def __init__(self, found: list[EmittedValue], sent: int) -> None:
        self.found, self.sent = found, sent

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for one in self.found[: self.sent]:
            frame = wire_codec.frame_of(one)
            yield frame[:3]
            yield frame[3:] + wire_codec.HEARTBEAT
        if len(self.found) > self.sent:
            raise httpx2.ReadError("the connection broke")


async def test_a_stream_that_breaks_loses_none_of_several_things_of_one_number() -> None:
    values = [EmittedValue(number, f"{number}{letter}") for number, letter in ((1, "a"), (2, "a"), (2, "b"), (2, "c"), (3, "a"))]
    sent_by_connection = iter((2, 2, 9))

    def answer(request: httpx2.Request) -> httpx2.Response:
        after = wire_codec.decode_arguments(BY_FUNCTION[on_executions.stream], request.content)["after"]
        return httpx2.Response(200, stream=BreakingStream([one for one in values if one.number > after], next(sent_by_connection)))

    access = HttpAccess("http://server", transport=httpx2.MockTransport(answer))
    assert [one.value async for one in access.stream(on_executions.stream, ONE)] == ["1a", "2a", "2b", "2c", "3a"]
    assert next(sent_by_connection, None) is None


async def test_time_spent_waiting_at_a_server_does_not_count_as_time_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_access, "RETRY_S", 0.5)
    steps = iter(("break after a while", "refuse", "answer") * 2)

    async def answer(request: httpx2.Request) -> httpx2.Response:
        match next(steps):
            case "break after a while":
                await asyncio.sleep(0.6)
                raise httpx2.ReadError("the connection broke")
            case "refuse":
                raise httpx2.ConnectError("All connection attempts failed")
        if request.headers["accept"] == wire_codec.FRAMES:
            return httpx2.Response(200, stream=BreakingStream([EmittedValue(1, "a")], 9))
        return httpx2.Response(200, content=wire_codec.encode(ResultSoFar(True, b"x")))

    access = HttpAccess("http://server", transport=httpx2.MockTransport(answer))
    assert await access.result(ONE) == b"x"
    assert [one.value async for one in access.stream(on_executions.stream, ONE)] == ["a"]


async def test_a_server_that_can_not_be_reached_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_access, "RETRY_S", 0.3)

    def answer(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ReadError("the connection broke")

    access = HttpAccess("http://server", transport=httpx2.MockTransport(answer))
    async with asyncio.timeout(10):
        with pytest.raises(StoreUnavailable, match="can't be reached"):
            await access.result(ONE)
        with pytest.raises(StoreUnavailable, match="can't be reached"):
            _ = [one async for one in access.stream(on_executions.stream, ONE)]


@asynccontextmanager
async def first_silent(url: str) -> AsyncIterator[str]:
    """The URL of a relay to a server: its first connection is accepted, and brings nothing ever, as that of a machine which is gone."""
    connections = list[asyncio.StreamWriter]()
    _, _, place = url.partition("://")
    host, _, port = place.partition(":")

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(65_536):
            writer.write(part)
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        if len(connections) > 1:
            there_reader, there = await asyncio.open_connection(host, int(port))
            connections.append(there)
            _ = await asyncio.gather(pipe(reader, there), pipe(there_reader, writer))

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for one in connections:
            one.close()


@pytest.mark.parametrize("what", ["a result", "a stream"])
async def test_a_server_whose_machine_is_gone_is_asked_anew_by_who_waits(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_access, "SILENCE_S", 0.3)
    monkeypatch.setattr(http_access, "ANSWER_S", 0.3)
    monkeypatch.setattr(http_access, "WARN_AFTER_S", 0.1)
    async with App(WORKFLOWS, tools=[add], db=f"sqlite:///{tmp_path}/a.db") as app:
        handle = await app.client.start(calc.with_(id="c"), 3, b=4)
        async with api_on_a_port(app.client._access.on_store("a test")) as url, first_silent(url) as relayed, asyncio.timeout(20):
            access = HttpAccess(relayed)
            if what == "a result":
                assert await access.result(handle.key) == await app.client._access.result(handle.key)
            else:
                assert [one async for one in access.stream(on_executions.events, handle.key, follow=True)]
            await access.aclose()
