"""What seed 001 keeps of a workflow in a table, over HTTP: each column of its row, and what is unique in it."""

from pathlib import Path
from uuid import UUID

from tests.api.webhook_setup import hooks_in_process

RELEASE = {
    "id": "release",
    "slug": "release",
    "name": "Release",
    "description": "Builds and ships",
    "steps": [{"id": "gate", "type": "approval", "prompt": "Release?"}],
}


async def test_the_row_of_a_workflow_is_kept_with_its_document_and_its_slug_is_unique_for_its_owner(tmp_path: Path) -> None:
    async with hooks_in_process(tmp_path, engine=False) as service:
        ours, theirs = await service.key("admin"), await service.key("admin", tenant="other")
        assert (await service.by(ours, "POST", "/api/workflows", {"document": RELEASE, "fields": {"name": "Release", "tags": ["ops"]}})).status == 200
        row = (await service.by(ours, "GET", "/api/workflows/release")).json
        assert str(UUID(row["id"])) == row["id"]
        kept = {"slug": "release", "name": "Release", "description": "Builds and ships", "version": "1.0.0", "enabled": True, "tags": ["ops"]}
        assert kept.items() <= row.items() and row["createdAt"] == row["updatedAt"]
        assert (await service.by(ours, "GET", f"/api/workflows/{row['id']}")).json == row
        assert (await service.by(ours, "GET", "/api/workflow-versions/release")).json["dialect"] == "nested_steps"
        assert [one["slug"] for one in (await service.by(ours, "GET", "/api/workflows?tag=ops&enabled=true")).json["items"]] == ["release"]

        again = await service.by(ours, "POST", "/api/workflows", {"document": RELEASE})
        assert (again.status, again.json["code"]) == (409, "already_exists")
        assert (await service.by(theirs, "GET", "/api/workflows/release")).status == 404
        assert (await service.by(theirs, "POST", "/api/workflows", {"document": RELEASE})).json["id"] != row["id"]
