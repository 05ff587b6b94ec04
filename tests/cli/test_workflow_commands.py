"""What the commands of the catalog do, on a database and on a server."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import Said, Shell
from tests.service.catalog_documents import document

Ran = Callable[..., Said]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(f"sqlite:///{tmp_path / 'perdure.db'}")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    found = tmp_path / "definitions"
    found.mkdir()
    for value, name in ((1, "invoice"), (2, "refund")):
        (found / f"{name}.yaml").write_bytes(document(value, name))
    return found


def test_a_definition_is_published_looked_at_tagged_rolled_back_and_deleted(shell: Shell, files: Path) -> None:
    file = files / "invoice.yaml"
    assert re.fullmatch(r"invoice is at version 1\.0\.0 \(sha256:[0-9a-f]{64}\)\n", shell.ok(f"workflow publish {file} --note first"))
    file.write_bytes(document(7))
    assert "version 1.0.1" in shell.ok(f"workflow publish {file} --part patch")
    assert shell.ok("workflow tag invoice production 1.0.0") == "invoice:production is version 1.0.0\n"
    (listed,) = json.loads(shell.ok("workflow ls --json"))
    assert (listed["slug"], listed["version"], listed["kind"], listed["version_tags"]["production"]["version"]) == ("invoice", "1.0.1", "definition", "1.0.0")
    assert shell.ok("workflow show invoice:production --document").encode() == document(1)
    shown = json.loads(shell.ok("workflow show invoice@1.0.0 --json"))
    assert (shown["definition"]["version"], shown["version"]["version"], shown["version"]["note"]) == ("1.0.1", "1.0.0", "first")
    assert "set" in shell.ok("workflow diff invoice@1.0.0 invoice")
    assert shell.ok("workflow rollback invoice 1.0.0") == "invoice is at version 1.1.0, with the content of 1.0.0\n"
    assert "already" in shell.ok("workflow rollback invoice 1.0.0")
    assert shell.ok("workflow disable invoice") == "invoice is disabled\n"
    refused = shell.run("start invoice")
    assert (refused.code, "is disabled" in refused.err) == (10, True)
    assert shell.ok("workflow enable invoice") == "invoice is enabled\n"
    assert "no tag production any more" in shell.ok("workflow untag invoice production")
    assert "invoice is deleted" in shell.ok("workflow delete invoice")
    events = json.loads(shell.ok("workflow history invoice --json"))
    assert [one["kind"] for one in events] == ["delete", "untag", "enable", "disable", "rollback", "tag", "update", "create"]
    assert {one["by"] for one in events} == {"local"}
    missing = shell.run("workflow show invoise")
    assert (missing.code, missing.err.startswith("perdure: there is no definition 'invoise'")) == (10, True)


def test_a_draft_is_kept_beside_the_current_version_until_it_is_published(shell: Shell, files: Path) -> None:
    shell.ok(f"workflow publish {files / 'invoice.yaml'}")
    assert shell.ok("workflow draft invoice -", "half: done\n") == "invoice has a draft\n"
    assert shell.ok("workflow draft invoice") == "half: done\n"
    assert [one["slug"] for one in json.loads(shell.ok("workflow ls --draft --json"))] == ["invoice"]
    assert shell.run("workflow draft invoice --publish").code == 10
    assert shell.ok("workflow draft invoice --discard") == "the draft of invoice is removed\n"
    shell.ok("workflow draft invoice -", document(3).decode())
    assert "version 1.1.0" in shell.ok("workflow draft invoice --publish")
    assert shell.run("workflow draft invoice --publish --discard").code == 20


def test_what_is_not_valid_is_not_published_and_calls_are_checked(shell: Shell, files: Path) -> None:
    (files / "invoice.yaml").write_text("perdure: 1\nname: invoice\nsteps: [{id: a, sett: 1}]\n")
    said = shell.run(f"workflow publish {files / 'invoice.yaml'}")
    assert (said.code, "nothing was published" in said.err) == (10, True)
    (files / "order.yaml").write_text("perdure: 1\nname: order\nsteps: [{id: a, call: 'refund@^2'}]\n")
    said = shell.run(f"workflow validate {files / 'order.yaml'} {files / 'refund.yaml'} --json")
    order, refund = json.loads(said.out)
    assert (said.code, order["valid"], [one["code"] for one in order["findings"]], refund["slug"]) == (0, True, ["unresolved_call"], "refund")
    assert "order is at version" in shell.ok(f"workflow publish {files / 'order.yaml'}")
    refused = shell.run("start order")
    assert (refused.code, "step a of order calls 'refund@^2'" in refused.err) == (10, True)


def test_a_folder_is_synced_and_what_no_file_has_is_deleted_on_request(shell: Shell, files: Path) -> None:
    dry = shell.ok(f"sync {files} --dry-run")
    assert dry.splitlines() == ["created  invoice  1.0.0", "created  refund  1.0.0", "dry run, nothing was changed: 2 created"]
    assert shell.ok(f"sync {files}").splitlines()[-1] == "2 created"
    assert shell.ok(f"sync {files}") == "2 unchanged\n"
    (files / "refund.yaml").unlink()
    assert shell.ok(f"sync {files}") == "1 unchanged\n"
    assert "deleted  refund" in shell.ok(f"sync {files} --dry-run --delete")
    assert shell.run(f"sync {files} --delete").code == 20
    assert shell.run(f"sync {files} --delete --expect 2").code == 10
    assert json.loads(shell.ok(f"sync {files} --delete --expect 1 --json"))["deleted"] == ["refund"]
    (files / "broken.yaml").write_text("perdure: 1\nname: broken\nsteps: []\n")
    (files / "invoice.yaml").write_bytes(document(5))
    said = shell.run(f"sync {files}")
    assert (said.code, said.err.splitlines()[0].startswith("broken.yaml: "), "nothing was changed" in said.err) == (10, True, True)
    assert json.loads(shell.ok("workflow show invoice --json"))["definition"]["version"] == "1.0.0"


def test_a_start_by_reference_pins_the_version_and_says_what_it_waits_for(shell: Shell, files: Path) -> None:
    shell.ok(f"sync {files}")
    shell.ok("workflow tag invoice production")
    for number, reference in enumerate(("invoice", "invoice@^1", "invoice:production")):
        said = shell.run(f"start {reference} --id i{number}")
        assert (said.code, said.out) == (0, f"invoice/i{number}\n"), said.err
        assert "no running engine runs definitions of the catalog, so it waits" in said.err
    listed = json.loads(shell.ok("ls --workflow invoice -o json"))
    assert {(one["attributes"]["definition_version"], one["hosted"]) for one in listed} == {("1.0.0", True)}
    assert "invoice@1.0.0" in shell.ok("ls")
    said = shell.run("start invoice@^7")
    assert (said.code, "invoice has no version ^7" in said.err) == (44, True)


def test_a_name_is_a_tag_of_the_catalog_only_if_it_is_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.cli.targets import is_reference

    monkeypatch.chdir(tmp_path)
    (tmp_path / "billing.py").write_text("")
    names = ("invoice", "invoice@^1", "invoice:production", "billing:production", "json:loads", "flows.py:greet", "invoice.yaml", "a.b:c")
    assert [name for name in names if is_reference(name)] == ["invoice@^1", "invoice:production"]
    sys.path.remove(str(tmp_path))
