"""Claims about commands that read and plan: on a server they say what they say on the database that it has."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from perdure import App
from perdure.cli.command_list import root
from perdure.service.execution_bundles import decode_bundle
from tests.api.api_setup import WORKFLOWS, add, api_on_a_port

ORDER = """\
perdure: 1
name: order
order: listed
steps:
  - {id: sum, tool: add, with: {a: "@input.cents", b: 1}}
  - {id: ask, approve: {title: "Pay?"}}
  - {id: note, set: {paid: "@sum"}}
"""


class Served(NamedTuple):
    """The URLs of a database, and of a server that has it."""

    db: str
    url: str

    async def on_server(self, line: str, code: int = 0) -> str:
        """The output of a command on the server."""
        return await _output(line, "--server", self.url, code)

    async def on_both(self, line: str, code: int = 0) -> str:
        """The output of a command on the server, which is that on the database."""
        found = await self.on_server(line, code)
        assert found == await _output(line, "--db", self.db, code)
        return found


async def _output(line: str, option: str, url: str, code: int) -> str:
    said = await asyncio.to_thread(CliRunner().invoke, root, [*line.split(), option, url], prog_name="perdure")
    assert said.exit_code == code, said.output
    return said.output


@pytest.fixture
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server with an execution of code that failed, and one of a definition that waits for an approval."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order.yaml").write_text(ORDER)
    db = f"sqlite:///{tmp_path}/app.db"
    async with App(WORKFLOWS, tools=[add], db=db) as app, api_on_a_port(app.client.access) as url:
        failed = await app.client.start(WORKFLOWS[0].with_(id="bad"), -1)
        _ = await app.client.catalog.create(ORDER)
        _ = await app.client.start(app.client.definition("order").with_(id="o1"), cents=5)
        async with asyncio.timeout(20):
            while (await failed.summary()).status != "failed" or not await app.client.approvals():
                await asyncio.sleep(0.01)
        yield Served(db, url)


async def test_an_execution_is_shown_now_and_as_it_was(served: Served) -> None:
    assert "sum" in await served.on_server("show o1") and "ask" in await served.on_both("show o1 --tokens")
    shown: Any = json.loads(await served.on_both("show o1 --json --at 2"))
    assert [(one["path"], one["state"]) for one in shown["steps"]] == [("sum", "performing")]
    steps: Any = json.loads(await served.on_both("steps bad --json"))
    assert [(one["path"], len(one["attempts"]), one["output"]) for one in steps][-1] == ("add", 1, 0)
    assert steps[-1]["input"] == {"args": [-1, 1], "kwargs": {}}
    assert (await served.on_both("steps bad -o ids")).split() == ["set:seen", "emit", "add"]
    assert (await served.on_both("steps bad")).splitlines()[0].split() == ["STEP", "STATE", "ATTEMPTS", "STARTED", "TOOK", "NOTE"]
    assert "one of its log, 1 to" in await served.on_both("steps bad --at 99", 10)


async def test_graphs_are_drawn_of_executions_and_of_versions(served: Served) -> None:
    assert "? ask   approve Pay?  (waiting for approval)" in await served.on_both("graph o1")
    assert "○ ask" in await served.on_both("graph o1 --at 2") and "(performing)" in await served.on_both("graph o1 --at 2")
    plan = await served.on_both("graph --definition order@^1")
    assert plan == await _output("graph order.yaml", "--db", served.db, 0) and "○ sum" in plan
    assert json.loads(await served.on_both("graph --definition order --json"))["nodes"][0]["state"] is None
    for form, begin in (("mermaid", "flowchart TD"), ("svg", "<svg ")):
        assert (await served.on_both(f"graph bad --format {form}")).startswith(begin)
    assert "there is no definition 'none'" in await served.on_both("graph --definition none", 10)
    assert "not several" in await served.on_both("graph o1 --definition order", 20)
    assert "has not begun" in await served.on_both("graph --definition order --at 1", 20)


async def test_a_dry_run_says_what_would_happen(served: Served) -> None:
    cancelled = await served.on_both("cancel o1 --dry-run")
    assert [line.split() for line in cancelled.splitlines()] == [["order/o1", "would", "be", "asked", "to", "cancel"], ["stops", "ask"]]
    assert "stops" in await served.on_both("cancel --all --workflow order --dry-run")
    assert "has ended (failed)" in await served.on_both("cancel bad --dry-run", 10)
    retried = (await served.on_both("retry bad --from add --dry-run")).splitlines()
    assert [line.split() for line in retried[1:]] == [["keeps", "set:seen,", "emit"], ["repeats", "add"]]
    assert "would be run again as a new execution" in await served.on_both("rerun bad --dry-run")
    assert json.loads(await served.on_both("fork bad --dry-run --json"))["reused"] == ["add"]
    assert "is given      note" in await served.on_both("preset o1 note 5 --dry-run")
    assert "asked to pause" in await served.on_both("pause o1 --dry-run") and (await served.on_both("show o1 --tokens")).split()[3] == "0"


async def test_a_dry_run_of_a_patch_says_what_an_engine_would_refuse(served: Served, tmp_path: Path) -> None:
    (tmp_path / "later.yaml").write_text(ORDER.replace('"@sum"', "5"))
    assert "note" in await served.on_both("patch o1 later.yaml --dry-run")
    (tmp_path / "earlier.yaml").write_text(ORDER.replace("b: 1", "b: 2"))
    assert "was not patched" in await served.on_both("patch o1 earlier.yaml --dry-run", 10)
    assert "note" in await served.on_server("patch o1 --set note.set.paid=7 --no-wait")


async def test_executions_are_exported_verified_and_pruned_by_the_server(served: Served, tmp_path: Path) -> None:
    assert "calc/bad" in await served.on_server("export bad -o bad.perdure")
    (exported,) = decode_bundle((tmp_path / "bad.perdure").read_bytes(), b"").bundle.executions
    assert exported.key.id == "bad"
    assert await served.on_server("verify") == "all executions: their records agree\n"
    assert await served.on_both("verify bad") == "1 execution: its records agree\n"
    assert (await served.on_server("prune --older-than 0s --workflow calc --status failed")).startswith("1 execution was removed")


async def test_an_engine_knows_its_built_in_workflows_and_lists_only_those_of_users(served: Served) -> None:
    listed = await served.on_both("ls --all -o json")
    assert "perdure.approval" in listed, "o1 waits for an approval"
    for where in (("--db", served.db), ("--server", served.url)):
        assert "no running engine" not in await _output("ls --all", *where, 0)
    (approval,) = (one["id"] for one in json.loads(listed) if one["workflow"] == "perdure.approval")
    assert "no running engine" not in await _output("show perdure.approval/" + approval.replace(" ", "%20"), "--db", served.db, 0)
    assert "no running engine" not in await _output("doctor", "--db", served.db, 0)
    assert "perdure." not in await served.on_server("engines") and "perdure." not in await served.on_server("workflow ls")


async def test_you_are_the_same_person_on_a_server_of_this_machine(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_USER", "ada")
    assert json.loads(await served.on_both("people show --json"))["name"] == "ada"


async def test_a_value_without_a_name_is_refused_as_the_input_of_a_definition(served: Served) -> None:
    for given in ("5", "5 6", "5 -i cents=5"):
        said = await served.on_both(f"start order {given}", 10)
        assert "takes its input by name, and 5 has none" in said and "perdure start order -i NAME=VALUE" in said
