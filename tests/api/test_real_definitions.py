"""The definitions of tale over HTTP: synced to the catalog, versioned, run by each version, and rolled back."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from perdure import App
from perdure.api.api_app import ApiApp
from perdure.service.callers import LOCAL
from tests.api.api_setup import Api

REAL = sorted((Path(__file__).parents[4] / "shared/data/tale").glob("*.json"))

pytestmark = [pytest.mark.real, pytest.mark.skipif(not REAL, reason="the definitions are not at hand")]

CUSTOMERS: dict[str, Any] = {"result": {"data": [{"id": 1, "first_name": "A", "last_name": "B"}], "pagination": {"hasNextPage": False, "nextPageInfo": None}}}
ANSWERS: dict[str, Any] = {
    "find_unprocessed": {"_id": "c1", "subject": "s", "fileId": "f1", "title": "t", "mimeType": "text/plain", "userId": "u", "itemType": "file", "itemId": "i"}
    | {"itemName": "n", "storagePrefix": "p", "metadata": {"resolved_at": "2020-01-01"}},
    "get_user_token": {"token": "fresh", "needsRefresh": False},
    "read_file": {"content": "x", "mimeType": "text/plain"},
    "list_customers": CUSTOMERS,
    "query": {"items": []},
}
"""What the world answers to the operations of actions."""

LAST_ASKED = {"shopify-customers-sync": "create"}
"""What a run asks for last; the others note what they have processed."""


async def test_real_definitions_are_synced_versioned_run_and_rolled_back(tmp_path: Path) -> None:
    asked = Counter[str]()
    last = list[str]()

    def act(**given: Any) -> Any:
        last.append(given.get("operation", ""))
        asked[last[-1]] += 1
        return ANSWERS.get(last[-1])

    documents: list[Any] = [json.loads(file.read_text()) for file in REAL]
    types = {step["config"]["type"] for one in documents for step in one["steps"] if "type" in step["config"]} - {"set_variables"}
    async with App(tools=dict.fromkeys(types, act), db=f"sqlite:///{tmp_path}/real.db") as app:
        api = Api(ApiApp(app.client.access, lambda request: api.authenticate(request)))
        api.caller = LOCAL
        before = (await api("POST", "/api/workflows/sync-all", {"documents": [{"document": one} for one in documents]})).json
        assert (before["applied"], {one["outcome"] for one in before["items"]}) == (False, {"created"})
        assert (await api("GET", "/api/workflows")).json["items"] == []
        synced = (await api("POST", "/api/workflows/sync-all", {"documents": [{"document": one} for one in documents], "delete": True, "expect": 0})).json
        slugs = [one["slug"] for one in synced["items"]]
        assert synced["applied"] and len(set(slugs)) == len(REAL) == 4

        for slug, document in zip(slugs, documents, strict=True):
            place = f"/api/workflows/{slug}"
            first = (await api("GET", place)).json
            assert first["version"] == document["version"]
            changed = {**document, "version": "2.0.0", "description": "changed"}
            assert (await api("PUT", place, {"document": changed}, if_match=f'"{first["revision"]}"')).status == 200
            for reference, version in ((f"{slug}@^1", first["version"]), (slug, "2.0.0")):
                last.clear()
                started = await api("POST", f"/api/workflow-versions/{reference}/executions", {})
                assert started.status == 201, started
                run = started.json
                at = f"/api/executions/{run['workflow']}/{run['id']}"
                result = await api("GET", f"{at}/result?waitSeconds=20")
                assert result.status == 200, result
                assert (await api("GET", at)).json["workflowVersion"] == version
                assert last[-1] == LAST_ASKED.get(slug, "record_processed"), last
            back = await api("POST", f"{place}/rollback", {"target": first["version"]})
            assert back.status == 200, back
            now = (await api("GET", place)).json
            assert now["version"] not in (first["version"], "2.0.0") and now["hash"] == first["hash"]
            again = (await api("POST", f"/api/workflow-versions/{slug}/executions", {})).json
            assert (await api("GET", f"/api/executions/{again['workflow']}/{again['id']}/result?waitSeconds=20")).status == 200
            assert len((await api("GET", f"{place}/history")).json["items"]) == 3
        assert (asked["create"], asked["upload_document"]) == (3, 3)
