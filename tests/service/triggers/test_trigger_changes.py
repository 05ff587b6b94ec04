"""Claims about triggers and the versions of their definition: what each publication, rollback and deletion makes of them, in one commit."""

import json
from typing import Any

import msgspec
import pytest

from perdure.core.errors import AlreadyExists, BadValue, NotFound, StaleRecord, TriggerOwned
from perdure.core.operations import SCHEDULE_WORKFLOW
from perdure.core.paths import Key
from perdure.service import catalog, catalog_sync
from perdure.service.catalog_sync import SyncDocument
from perdure.service.queries import INTERNAL_WORKFLOWS
from perdure.service.store_access import StoreAccess
from perdure.service.triggers import trigger_directory as directory
from perdure.service.triggers.schedule_states import CLOCK_ID, SCHEDULE_STATES
from perdure.service.triggers.trigger_directory import TriggerDetails, TriggerFields, TriggerFilter
from perdure.service.triggers.trigger_input import TriggerFacts
from perdure.service.triggers.trigger_records import TRIGGERS, WEBHOOK_PATHS, ManualConfig, ScheduleConfig, Verification, WebhookConfig
from perdure.service.triggers.trigger_starts import TriggeredStart, triggered_start
from tests.service.catalog_documents import ADA, BEN

T = "acme"
NIGHTLY = {"schedule": {"cron": "0 2 * * *"}, "name": "nightly"}
HOOK = {"webhook": {"path": "release", "verify": {"scheme": "github", "secret": "@secrets.HOOK"}}, "name": "push"}
SIGNED = Verification(scheme="github", secrets=("HOOK",))


def document(*triggers: Any, name: str = "invoice", n: int = 0) -> bytes:
    whole = {"perdure": 1, "name": name, "input": {"branch": {"default": "main"}}, "steps": [{"id": "note", "set": {"n": n}}], "vars": {"n": 0}}
    return json.dumps(whole | {"triggers": list(triggers)}).encode()


async def listed(access: StoreAccess) -> dict[str, TriggerDetails]:
    return {one.id: one for one in (await directory.list_triggers(access, T, TriggerFilter(), 100)).items}


async def is_looked_at(access: StoreAccess, trigger: str) -> bool:
    kept = await SCHEDULE_STATES.read(access.store, T, trigger)
    return kept is not None and kept.value.due_at_s is not None


async def test_a_version_declares_its_triggers_and_the_next_one_changes_them(access: StoreAccess) -> None:
    _ = await catalog.create_definition(access, T, document(NIGHTLY, HOOK), ADA)
    found = await listed(access)
    assert found.keys() == {"invoice:nightly", "invoice:push"}
    assert (found["invoice:push"].webhook_url, found["invoice:push"].owner, found["invoice:push"].workflow_id) == (
        "/webhooks/~acme/release",
        "definition",
        "invoice",
    )
    assert await is_looked_at(access, "invoice:nightly")
    later = {"schedule": {"cron": "0 3 * * *"}, "name": "nightly"}
    _ = await catalog.update_definition(access, T, "invoice", BEN, document(later, n=1))
    found = await listed(access)
    assert found.keys() == {"invoice:nightly"}
    assert isinstance(config := found["invoice:nightly"].config, ScheduleConfig) and config.cron == "0 3 * * *"
    assert found["invoice:nightly"].updated_by == "ben"
    assert await WEBHOOK_PATHS.read(access.store, T, "release") is None


async def test_a_schedule_wakes_the_clock_of_its_tenant(access: StoreAccess) -> None:
    _ = await catalog.create_definition(access, T, document(HOOK), ADA)
    assert await access.store.messages(Key(T, SCHEDULE_WORKFLOW, CLOCK_ID)) == []
    _ = await catalog.update_definition(access, T, "invoice", BEN, document(NIGHTLY))
    assert len(await access.store.messages(Key(T, SCHEDULE_WORKFLOW, CLOCK_ID))) == 2


async def test_a_rollback_brings_triggers_back_with_the_state_of_their_operators(access: StoreAccess) -> None:
    first = await catalog.create_definition(access, T, document(NIGHTLY, HOOK), ADA)
    _ = await directory.pause_trigger(access, T, "invoice:nightly", "eve", "a fair")
    _ = await directory.switch_trigger(access, T, "invoice:push", "eve", False)
    _ = await catalog.update_definition(access, T, "invoice", BEN, document(n=1))
    assert await listed(access) == {}
    with pytest.raises(NotFound, match="its definition no longer declares it"):
        await directory.read_trigger(access, T, "invoice:nightly")
    _ = await catalog.roll_back(access, T, "invoice", first.hash, BEN)
    found = await listed(access)
    assert found.keys() == {"invoice:nightly", "invoice:push"}
    assert (pause := found["invoice:nightly"].pause) is not None and (pause.by, pause.reason) == ("eve", "a fair")
    assert found["invoice:push"].enabled is False
    assert not await is_looked_at(access, "invoice:nightly"), "a paused schedule is never due"
    assert await WEBHOOK_PATHS.read(access.store, T, "release") is not None


async def test_a_deleted_definition_takes_its_triggers_along(access: StoreAccess) -> None:
    _ = await catalog.create_definition(access, T, document(NIGHTLY, HOOK), ADA)
    await catalog.delete_definition(access, T, "invoice", BEN)
    assert [one async for one in TRIGGERS.all(access.store, T)] == []
    assert not await is_looked_at(access, "invoice:nightly")
    assert await WEBHOOK_PATHS.read(access.store, T, "release") is None


async def test_a_path_is_that_of_one_trigger_and_a_refused_version_changes_nothing(access: StoreAccess) -> None:
    _ = await catalog.create_definition(access, T, document(HOOK), ADA)
    with pytest.raises(AlreadyExists, match="'release' is that of the trigger invoice:push"):
        await catalog.create_definition(access, T, document(HOOK, name="other"), ADA)
    with pytest.raises(NotFound):
        await catalog.read_definition(access, T, "other")
    with pytest.raises(AlreadyExists, match="the path 'release' is that of"):
        await catalog.update_definition(access, T, "invoice", BEN, document(HOOK, {**HOOK, "name": "again"}))
    assert (await listed(access)).keys() == {"invoice:push"}


async def test_a_path_passes_from_one_trigger_to_another_in_one_change(access: StoreAccess) -> None:
    _ = await catalog.create_definition(access, T, document(HOOK), ADA)
    _ = await catalog.update_definition(access, T, "invoice", BEN, document({**HOOK, "name": "renamed"}))
    assert (kept := await WEBHOOK_PATHS.read(access.store, T, "release")) is not None and kept.value.trigger == "invoice:renamed"
    both = [SyncDocument(document(n=2), "invoice"), SyncDocument(document(HOOK, name="other"), "other")]
    _ = await catalog_sync.sync_all(access, T, both, ADA, keep=True)
    assert (kept := await WEBHOOK_PATHS.read(access.store, T, "release")) is not None and kept.value.trigger == "other:push"


async def test_a_trigger_that_a_definition_declares_is_changed_there(access: StoreAccess) -> None:
    _ = await catalog.create_definition(access, T, document(NIGHTLY), ADA)
    with pytest.raises(TriggerOwned, match="declared by the definition invoice"):
        await directory.update_trigger(access, T, "invoice:nightly", "eve", TriggerFields(name="mine"))
    with pytest.raises(TriggerOwned):
        await directory.delete_trigger(access, T, "invoice:nightly")
    assert (await directory.update_trigger(access, T, "invoice:nightly", "eve", TriggerFields(enabled=False))).enabled is False


async def test_a_trigger_of_nobody_is_created_changed_and_deleted(access: StoreAccess) -> None:
    _ = await catalog.create_definition(access, T, document(), ADA)
    fields = TriggerFields(name="push", config=WebhookConfig(path="a", verify=SIGNED), workflow_id="invoice@^1", variable_mapping={"branch": "$.ref"})
    made = await directory.create_trigger(access, T, "ada", fields)
    assert (made.revision, made.workflow_id, made.webhook_url, made.created_by) == (1, "invoice@^1", "/webhooks/~acme/a", "ada")
    moved = await directory.update_trigger(access, T, made.id, "ben", TriggerFields(config=WebhookConfig(path="b", verify=SIGNED)), made.revision)
    assert (moved.webhook_url, moved.revision, moved.updated_by) == ("/webhooks/~acme/b", 2, "ben")
    with pytest.raises(StaleRecord):
        await directory.update_trigger(access, T, made.id, "ben", TriggerFields(name="late"), made.revision)
    await directory.delete_trigger(access, T, made.id)
    assert await listed(access) == {}
    assert await WEBHOOK_PATHS.read(access.store, T, "b") is None


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (TriggerFields(name="x", config=ManualConfig()), BadValue),
        (TriggerFields(name="x", config=ManualConfig(), workflow_id="nothing"), NotFound),
        (TriggerFields(name="x", config=ManualConfig(), workflow_id="@"), BadValue),
        (TriggerFields(name=" ", config=ManualConfig(), workflow_id="invoice"), BadValue),
        (TriggerFields(name="x", config=ScheduleConfig(cron="@daily", target="orchestrator", prompt="hi"), workflow_id="invoice"), BadValue),
        (TriggerFields(name="x", config=ManualConfig(), workflow_id="invoice", variable_mapping={"branch": "$.a"}, input={"branch": 1}), BadValue),
        (TriggerFields(name="x", workflow_id="invoice"), BadValue),
    ],
)
async def test_a_trigger_that_is_refused_leaves_nothing(access: StoreAccess, fields: TriggerFields, error: type[Exception]) -> None:
    _ = await catalog.create_definition(access, T, document(), ADA)
    with pytest.raises(error):
        await directory.create_trigger(access, T, "ada", fields)
    assert [one async for one in TRIGGERS.all(access.store, T)] == []


@pytest.mark.parametrize("workflow", INTERNAL_WORKFLOWS)
async def test_a_trigger_starts_no_execution_of_perdure_s_own(access: StoreAccess, workflow: str) -> None:
    _ = await catalog.create_definition(access, T, document(), ADA)
    made = await directory.create_trigger(access, T, "ada", TriggerFields(name="x", config=ManualConfig(), workflow_id="invoice"))
    with pytest.raises(BadValue, match="it is Perdure's own workflow"):
        await directory.create_trigger(access, T, "ada", TriggerFields(name="y", config=ManualConfig(), workflow_id=workflow))
    with pytest.raises(BadValue, match="it is Perdure's own workflow"):
        await directory.update_trigger(access, T, made.id, "ada", TriggerFields(workflow_id=workflow))
    before = (await directory.find_trigger(access, T, made.id)).value
    kept = msgspec.structs.replace(before, workflow=workflow, is_code=True)  # as versions before this one could keep it
    facts = TriggerFacts(id=kept.id, name=kept.name, kind=kept.kind, key="1", at_s=0.0, about={})
    with pytest.raises(BadValue, match="it is Perdure's own workflow"):
        await triggered_start(access, T, kept, TriggeredStart("1", {}, facts))


async def test_a_document_whose_triggers_cannot_be_set_up_is_not_valid(access: StoreAccess) -> None:
    checked = await catalog.check_document(access, T, document({"webhook": {"path": "a b"}, "name": "push"}))
    assert [(one.code, one.pointer) for one in checked.findings] == [("bad_trigger", "/triggers/0")]
    assert not checked.valid
    with pytest.raises(BadValue, match="/document/triggers/0"):
        await catalog.create_definition(access, T, document({"webhook": {"path": "a b"}, "name": "push"}), ADA)
