"""What the commands of people do on a database."""

import json
from pathlib import Path

import pytest

from perdure.cli import people_commands
from perdure.service.people.person_records import NOTIFICATION_KINDS
from tests.cli.shell import Shell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("PERDURE_USER", "ada")
    return Shell(f"sqlite:///{tmp_path / 'perdure.db'}")


def test_the_choices_of_the_options_are_all() -> None:
    assert people_commands.KINDS == NOTIFICATION_KINDS


def test_a_person_changes_their_own_record_option_by_option(shell: Shell) -> None:
    shell.ok("people set --email ada@example.com --unsubscribe reminder --unsubscribe failure")
    shell.ok("people set --out-from 2026-01-01T09:00:00Z --substitute bob --subscribe failure")
    shown = json.loads(shell.ok("people show --json"))
    assert (shown["name"], shown["email"], shown["substitute"], shown["unsubscribed"], shown["is_out"]) == ("ada", "ada@example.com", "bob", ["reminder"], True)
    assert "from 2026-01-01" in (said := shell.ok("people show ada")) and "bob stands in" in said and "out of office" in said
    back = json.loads(shell.ok("people set --back --json"))
    assert (back["substitute"], back["out_from_at_s"], back["email"], back["is_out"]) == ("", None, "ada@example.com", False)
    assert json.loads(shell.ok("people show carl --json"))["version"] == 0


@pytest.mark.parametrize(
    "wrong", ["--substitute bob", "--out-from yesterday --substitute bob", "--back --substitute bob", "--email nowhere", "--unsubscribe x"]
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(shell: Shell, wrong: str) -> None:
    shell.ok("people set --email ada@example.com")
    assert shell.run(f"people set {wrong}").code != 0
    assert json.loads(shell.ok("people show --json"))["version"] == 1
