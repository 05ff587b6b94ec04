"""What the commands of triggers do on a database."""

import asyncio
import json
from pathlib import Path
from typing import get_args

import pytest

from perdure import Schedule
from perdure.cli import trigger_commands
from perdure.code.declarations import CodeWorkflow
from perdure.runtime.holder import encode_process_info, process_info_here
from perdure.service.triggers.code_schedules import declare_schedules
from perdure.service.triggers.trigger_records import Overlap, TriggerKind
from perdure.stores.configured_store import open_store
from tests.cli.shell import Shell

GREET = "perdure: 1\nname: greet\ninput: {day: {default: ''}}\nvars: {b: 0}\nsteps: [{id: a, set: {b: 1}}]\n"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(f"sqlite:///{tmp_path / 'perdure.db'}")
    _ = made.ok("workflow publish -", GREET)
    return made


def test_the_choices_of_the_options_are_all() -> None:
    assert get_args(TriggerKind) == trigger_commands.KINDS and get_args(Overlap) == trigger_commands.OVERLAPS


def test_a_schedule_is_made_looked_at_switched_and_removed(shell: Shell) -> None:
    command = "trigger create nightly --workflow greet --cron '30 1 * * *' --timezone Europe/London --overlap skip -i day=@trigger.about.tick --json"
    made = json.loads(shell.ok(command))
    id = made["id"]
    assert (made["name"], made["workflow_id"], made["config"]["cron"], made["input"]) == ("nightly", "greet", "30 1 * * *", {"day": "@trigger.about.tick"})
    assert shell.ok("trigger ls -o ids") == f"{id}\n"
    assert "30 1 * * * Europe/London" in shell.ok("trigger ls")
    assert shell.ok(f"trigger pause {id} --reason holidays") == f"{id} is paused\n"
    shown = shell.ok(f"trigger show {id}")
    assert "holidays" in shown and "paused" in shown and "greet" in shown
    assert shell.ok(f"trigger resume {id}") == f"{id} is resumed\n"
    assert json.loads(shell.ok(f"trigger disable {id} --json"))["enabled"] is False
    assert shell.ok(f"trigger enable {id}") == f"{id} is enabled\n"
    assert len(json.loads(shell.ok(f"trigger preview {id} --count 3 --json"))) == 3
    assert "T01:30:00" in shell.ok(f"trigger preview {id}")
    assert shell.ok(f"trigger run {id}").startswith("greet/manual:")
    assert shell.ok(f"trigger rm {id}") == f"deleted {id}\n"
    assert shell.run(f"trigger show {id}").code == 10


def test_a_backfill_is_counted_first(shell: Shell) -> None:
    id = json.loads(shell.ok("trigger create daily --workflow greet --cron @daily --json"))["id"]
    days = "--from 2026-01-01T00:00:00Z --until 2026-01-04T00:00:00Z"
    assert shell.ok(f"trigger backfill {id} {days}") == "3 times, of which 0 have run. Nothing was started; --expect 3 starts the others\n"
    assert shell.run(f"trigger backfill {id} {days} --expect 2").code != 0
    assert shell.ok(f"trigger backfill {id} {days} --expect 3") == "3 executions were started; 0 of 3 times had run before\n"
    assert json.loads(shell.ok(f"trigger backfill {id} {days} --expect 3 --json"))["existing"] == 3


def test_any_trigger_is_made_of_a_config_and_what_is_missing_is_explained(shell: Shell) -> None:
    config = json.dumps({"type": "schedule", "everySeconds": 90, "startsAt": "2027-01-01T00:00:00Z"})
    made = json.loads(shell.ok("trigger create often --workflow greet --config - --json", config))
    assert made["config"]["every_s"] == 90
    shell.ok("trigger create hand --workflow greet --config -", '{"type": "manual"}')
    assert shell.run("trigger create x --workflow greet").code == 20
    assert shell.run("trigger create x --workflow greet --config -", "{").code == 20
    mapped = json.loads(shell.ok("trigger create mapped --workflow greet --config - --map day=$.day --json", '{"type": "manual"}'))
    assert mapped["variable_mapping"] == {"day": "$.day"}
    for wrong in ("--map day", "--map day=$.a --map day=$.b"):
        said = shell.run(f"trigger create x --workflow greet --config - {wrong}", config)
        assert said.code == 10 and "--map" in said.err
    both = shell.run("trigger create x --workflow greet --config - --cron @daily --timezone UTC", config)
    assert both.code == 20 and "--config holds the whole config; leave --cron, --timezone out" in both.err
    unzoned = shell.run("trigger create x --workflow greet --once 2027-01-01T00:00:00")
    assert unzoned.code != 0 and "a time with its zone" in unzoned.err
    nowhere = shell.run("trigger create x --workflow nothing --cron @daily")
    assert nowhere.code == 10 and "there is no workflow nothing" in nowhere.err


async def test_schedules_of_code_that_no_engine_declares_are_deleted_after_a_question(shell: Shell) -> None:
    store = open_store(shell.db)
    try:
        await declare_schedules(store, "default", [CodeWorkflow(_nothing, "nightly", schedule=Schedule("@daily"))])
        _ = await store.renew("an engine without it", 600.0, encode_process_info(process_info_here("engine", ["nightly@"])))
        said = [await asyncio.to_thread(shell.run, command, "n\n") for command in ("trigger ls", "trigger prune", "trigger ls -o ids")]
        assert "undeclared" in said[0].out and "no engine declares the schedule of nightly" in said[1].out and said[2].out == "code:nightly\n"
        said = [await asyncio.to_thread(shell.run, "trigger prune --yes") for _ in range(2)]
        assert "deleted code:nightly" in said[0].out and said[1].out == ""
    finally:
        await store.close()


async def _nothing(ctx: object) -> None:
    """A workflow."""
