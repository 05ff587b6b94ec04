"""Claims about ETag, If-None-Match and If-Match: a version is sent with what has one, and a change can be made on the condition that it is still the same."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.operations.operation_table import OPERATIONS
from tests.api.api_setup import Api, api_in_process

DOCUMENT: dict[str, Any] = {"perdure": 1, "name": "invoice", "steps": [{"id": "note", "set": {"n": 1}}], "vars": {"n": 0}}
OTHER = {**DOCUMENT, "steps": [{"id": "note", "set": {"n": 2}}]}
INVOICE = "/api/workflows/invoice"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with api_in_process(tmp_path) as api:
        await api("POST", "/api/workflows", {"document": DOCUMENT, "slug": "invoice"})
        yield api


async def test_what_has_a_version_has_it_as_its_tag_and_is_not_sent_twice(api: Api) -> None:
    first = await api("GET", INVOICE)
    assert first.headers["etag"] == f'"{first.json["revision"]}"' == '"1"'
    for tags in ('"1"', 'W/"1"', '"7", "1"', "*"):
        known = await api("GET", INVOICE, if_none_match=tags)
        assert (known.status, known.body, known.headers["etag"]) == (304, b"", '"1"')
    changed = await api("PUT", INVOICE, {"document": OTHER})
    assert changed.headers["etag"] == '"2"'
    again = await api("GET", INVOICE, if_none_match='"1"')
    assert (again.status, again.headers["etag"], again.json["revision"]) == (200, '"2"', 2)


async def test_a_deletion_reads_its_body_as_well(api: Api) -> None:
    stale = await api("DELETE", INVOICE, {"revision": 7})
    assert (stale.status, stale.json["code"]) == (409, "stale")
    assert (await api("DELETE", INVOICE, {"revision": 1, "note": "not needed"})).status == 204
    assert (await api("GET", f"{INVOICE}/history")).json["items"][0]["note"] == "not needed"


async def test_a_change_is_made_only_while_what_it_expects_is_there(api: Api) -> None:
    assert (await api("PUT", INVOICE, {"document": OTHER}, if_match='"1"')).status == 200
    stale = await api("PUT", INVOICE, {"document": DOCUMENT}, if_match='"1"')
    assert (stale.status, stale.json["code"]) == (412, "stale") and stale.json["next"]
    deleted = await api("DELETE", INVOICE, if_match='"1"')
    assert deleted.status == 412 and (await api("GET", INVOICE)).json["revision"] == 2
    for tags in ('"nonsense"', '"1", "2"', 'W/"2"'):
        assert (await api("DELETE", INVOICE, if_match=tags)).status == 412
    assert (await api("DELETE", INVOICE, if_match="2")).status == 400
    assert (await api("DELETE", INVOICE, if_match='"2"')).status == 204


async def test_of_two_editors_one_is_told(api: Api) -> None:
    answers = await asyncio.gather(*(api("PUT", INVOICE, {"document": one}, if_match='"1"') for one in (OTHER, {**OTHER, "description": "x"})))
    assert sorted(one.status for one in answers) == [200, 412]


async def test_a_change_that_was_refused_is_not_kept_under_its_idempotency_key(api: Api) -> None:
    path = f"{INVOICE}/rollback"
    await api("PUT", INVOICE, {"document": OTHER})
    assert (await api("POST", path, {"target": "1.0.0"}, if_match='"1"', idempotency_key="k1")).status == 412
    first = await api("POST", path, {"target": "1.0.0"}, if_match='"2"', idempotency_key="k1")
    again = await api("POST", path, {"target": "1.0.0"}, if_match='"2"', idempotency_key="k1")
    assert first.status == again.status == 200 and first.body == again.body and "idempotent-replayed" in again.headers


async def test_the_version_of_an_execution_is_the_number_of_its_last_event(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "greet", "id": "g"})
    place = "/api/executions/greet/g"
    async with asyncio.timeout(10):
        while (shown := await api("GET", place)).json["status"] != "waiting":
            await asyncio.sleep(0.01)
    tag = shown.headers["etag"]
    assert tag == f'"{shown.json["version"]}"' and (await api("GET", place, if_none_match=tag)).status == 304
    stale = await api("POST", f"{place}/cancel", {}, if_match='"1"')
    assert (stale.status, stale.json["code"]) == (412, "stale") and "version" in stale.json["detail"]
    assert (await api("GET", place)).json["status"] == "waiting"
    assert (await api("POST", f"{place}/cancel", {}, if_match=tag)).status == 204


async def test_a_draft_and_a_tag_have_the_version_of_their_definition(api: Api) -> None:
    saved = await api("PUT", f"{INVOICE}/draft", {"document": "# no definition: é"}, if_match='"1"')
    draft = await api("GET", f"{INVOICE}/draft")
    assert (saved.status, saved.headers["etag"], draft.headers["etag"], draft.json["revision"]) == (200, '"2"', '"2"', 2)
    assert (await api("GET", f"{INVOICE}/draft", if_none_match='"2"')).status == 304
    assert (await api("PUT", f"{INVOICE}/draft", {"document": {"perdure": 1}}, if_match='"1"')).status == 412
    assert (await api("DELETE", f"{INVOICE}/draft", if_match='"1"')).status == 412
    moved = await api("PUT", f"{INVOICE}/tags/live", {}, if_match='"2"')
    assert (moved.status, moved.headers["etag"]) == (200, '"3"')
    assert (await api("DELETE", f"{INVOICE}/tags/live", if_match='"2"')).status == 412
    assert (await api("GET", f"{INVOICE}/draft")).json["document"] == "# no definition: é"
    assert (await api("DELETE", f"{INVOICE}/draft", if_match='"3"')).status == 200


async def test_a_key_is_changed_only_while_it_is_what_was_read(api: Api) -> None:
    made = (await api("POST", "/api/keys", {"name": "ci", "roles": ["operator"]})).json["key"]
    place = f"/api/keys/{made['id']}"
    first = await api("GET", place)
    assert (first.headers["etag"], first.json["revision"], first.json) == ('"1"', 1, made)
    assert (await api("GET", place, if_none_match='"1"')).status == 304
    rotated = await api("POST", f"{place}/rotate", {}, if_match='"1"')
    assert (rotated.status, rotated.json["key"]["revision"]) == (200, 2)
    stale = await api("DELETE", place, if_match='"1"')
    assert (stale.status, stale.json["code"]) == (412, "stale") and (await api("GET", place)).json["revokedAt"] is None
    revoked = await api("DELETE", place, if_match='"2"')
    assert (revoked.headers["etag"], revoked.json["revision"], revoked.json["secrets"]) == ('"3"', 3, 0)
    assert (await api("DELETE", place)).headers["etag"] == '"3"', "it is revoked already"
    assert [one["revision"] for one in (await api("GET", "/api/keys")).json["items"]] == [3]
    assert (await api("GET", "/api/keys/none")).status == 404


async def test_the_limits_of_a_queue_are_changed_only_while_they_are_what_was_read(api: Api) -> None:
    empty = await api("GET", "/api/queues/mails")
    assert (empty.status, empty.json["limits"]["concurrency"], empty.json["work"]) == (200, None, 0)
    limited = await api("PATCH", "/api/queues/mails", {"concurrency": 3}, if_match=empty.headers["etag"])
    assert (limited.status, limited.json["limits"]["concurrency"]) == (200, 3) and limited.headers["etag"] != empty.headers["etag"]
    shown = await api("GET", "/api/queues/mails")
    assert (shown.headers["etag"], shown.json) == (limited.headers["etag"], limited.json)
    stale = await api("PATCH", "/api/queues/mails", {"concurrency": 5}, if_match=empty.headers["etag"])
    assert (stale.status, stale.json["code"]) == (412, "stale")
    assert (await api("DELETE", "/api/queues/mails", if_match=empty.headers["etag"])).status == 412
    assert (await api("GET", "/api/queues/mails")).json["limits"]["concurrency"] == 3
    own = await api("PATCH", "/api/queues/mails", {"concurrency": 1, "onlyTenant": "acme"})
    assert own.headers["etag"] == (await api("GET", "/api/queues/mails?onlyTenant=acme")).headers["etag"] != shown.headers["etag"]
    assert (await api("DELETE", "/api/queues/mails", if_match=shown.headers["etag"])).status == 204


async def test_a_condition_on_what_has_no_version_is_refused(api: Api) -> None:
    answer = await api("POST", "/api/workflows/validate", {"document": DOCUMENT}, if_match='"1"')
    assert (answer.status, answer.json["code"]) == (400, "bad_request")


async def test_the_document_says_where_there_are_versions(api: Api) -> None:
    document = (await api("GET", "/openapi.json")).json
    for one in OPERATIONS:
        described = document["paths"][one.path][one.method.lower()]["responses"]
        assert ("304" in described) == (one.method == "GET" and one.version_field is not None)
        assert ("412" in described) == one.expects_version
        parameters = [one.get("$ref", "").rpartition("/")[2] for one in document["paths"][one.path][one.method.lower()]["parameters"]]
        assert ("IfMatch" in parameters) == one.expects_version
        assert ("IfNoneMatch" in parameters) == ("304" in described)
        assert ("LastEventId" in parameters) == one.is_stream
        assert ("StartKey" in parameters) == one.is_start
        assert ("IdempotencyKey" in parameters) == (one.takes_idempotency_key and one.method == "POST")
        assert all(("ETag" in described[status].get("headers", {})) == (one.version_field is not None) for status in described if status < "300")


@pytest.mark.parametrize("tags", ["*", '"1"'])
async def test_if_none_match_on_a_change_is_refused_and_if_match_0_creates(api: Api, tags: str) -> None:
    draft = f"{INVOICE}/draft"
    for method, path, body in (("PUT", draft, {"document": "x"}), ("POST", "/api/workflows", {"document": OTHER}), ("DELETE", INVOICE, None)):
        refused = await api(method, path, body, if_none_match=tags)
        assert (refused.status, "If-None-Match has no meaning" in refused.json["detail"]) == (400, True)
    assert (await api("GET", draft)).status == 404
    assert [(await api("PUT", "/api/workflows/new/draft", {"document": "x"}, if_match='"0"')).status for _ in range(2)] == [200, 412]
