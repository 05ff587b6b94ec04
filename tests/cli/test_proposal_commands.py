"""What the commands of proposals do, on a database and on a server."""

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from perdure.cli import proposal_commands
from perdure.service.proposals.proposal_records import ProposalStatus
from tests.cli.shell import FLOWS, Shell
from tests.service.proposals.proposed_documents import document


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(f"sqlite:///{tmp_path / 'perdure.db'}")


def test_the_statuses_of_the_option_are_all() -> None:
    assert get_args(ProposalStatus) == proposal_commands.STATUSES


def test_a_proposal_is_made_looked_at_reviewed_and_applied(shell: Shell) -> None:
    shell.ok("workflow publish -", document(1).decode())
    made = json.loads(shell.ok("propose invoice --file - --note better --json", document(2).decode()))
    id = made["id"]
    assert (made["status"], made["slug"], made["note"], made["diff_text"]) == ("pending", "invoice", "better", "~ note: set.n: 1 -> 2")
    assert shell.ok("proposal ls -o ids") == f"{id}\n"
    shown = shell.ok(f"proposal show {id}")
    assert "~ note: set.n: 1 -> 2" in shown and "pending" in shown and "local" in shown
    assert shell.ok(f"proposal show {id} --document").encode() == document(2)
    refused = shell.run(f"proposal apply {id}")
    assert (refused.code, "the proposal is pending" in refused.err) == (10, True)
    assert shell.ok(f"proposal review {id} --approve --notes fine") == f"the proposal for invoice is approved; perdure proposal apply {id} publishes it\n"
    assert "invoice is at version 1.0.1" in shell.ok(f"proposal apply {id}")
    assert json.loads(shell.ok("proposal ls invoice --status applied --json"))[0]["applied_version"] == "1.0.1"
    assert shell.ok("proposal ls --open -o ids") == ""
    assert json.loads(shell.ok("workflow history invoice --json"))[0]["source_proposal_id"] == id


def test_a_new_definition_is_proposed_and_what_can_not_be_proposed_is_explained(shell: Shell) -> None:
    made = json.loads(shell.ok("propose --file - --json", document(1).decode()))
    assert (made["slug"], made["base_workflow_hash"], made["widens_rights"]) == ("invoice", None, ["allow"])
    named = json.loads(shell.ok("propose bill --new --file - --json", document(1).decode()))
    assert named["slug"] == "bill"
    assert "the proposal for bill is rejected" in shell.ok(f"proposal review {named['id']} --reject")
    unknown = shell.run("propose order --file -", document(1).decode())
    assert (unknown.code, "there is no definition 'order'" in unknown.err) == (10, True)
    invalid = shell.run("propose --file -", "perdure: 1\nname: a\nsteps: [{id: a, sett: 1}]\n")
    assert (invalid.code, "nothing was proposed" in invalid.err) == (10, True)
    shell.ok("workflow publish -", document(1, self_edit=False).decode())
    closed = shell.run("propose invoice --file -", document(2).decode())
    assert (closed.code, "does not allow proposals" in closed.err) == (10, True)
    assert shell.run("proposal show nothing").code == 10
    assert shell.run(f"proposal review {made['id']}").code == 20
    assert shell.run("proposal try").code == shell.run("proposal try x --file -", "x").code == 20
    unpaired = shell.run("proposal try x --mock a")
    assert (unpaired.code, "--mock" in unpaired.err and "key=value" in unpaired.err) == (10, True)
    assert shell.run("propose --base sha256:1 --file -", "x").code == 20


@pytest.mark.slow
def test_a_proposal_is_tried_on_what_executions_have_recorded(shell: Shell, tmp_path: Path) -> None:
    shell.ok("workflow publish -", document(1).decode())
    shell.ok("start invoice --id i1")
    with subprocess.Popen([sys.executable, "-m", "perdure.cli", "--db", shell.db, "worker", str(FLOWS)], cwd=tmp_path) as worker:
        try:
            assert shell.run("result i1 --timeout 60s").code == 0
        finally:
            worker.terminate()
    id = json.loads(shell.ok("propose invoice --file - --json", document(2).decode()))["id"]
    said = shell.ok(f"proposal try {id}")
    assert said.splitlines() == ["differs  invoice/i1", '  note: {"n": 1} -> {"n": 2}', "  result: 1 -> 2", "0 same, 1 differ, 0 unknown"]
    same = json.loads(shell.ok("proposal try --workflow invoice --file - --json", document(1).decode()))
    assert (same["same"], same["items"][0]["verdict"]) == (1, "same")
    more = document(1).decode().replace("output:", "  - {id: pay, tool: charge}\noutput:")
    assert "unknown from pay: it has no recorded result" in shell.ok("proposal try --workflow invoice --file -", more)
    assert "also run: pay" in shell.ok("proposal try --workflow invoice --file - --mock pay=12", more)
