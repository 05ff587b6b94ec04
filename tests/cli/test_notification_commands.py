"""What the commands of notifications do on a database."""

import json
from pathlib import Path
from typing import get_args

import pytest

from perdure import App
from perdure.cli import notification_commands
from perdure.service.notifications.notification_rules import Channel
from tests.cli.shell import Shell

RULE = """
kinds: [failure, dead_letter_surge]
channel: webhook
target: https://hooks.example.com/perdure
secret: HOOK
groupSeconds: 600
quietFrom: "22:00"
quietUntil: "07:00"
surgeAbove: 5
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("PERDURE_USER", "ada")
    return Shell(f"sqlite:///{tmp_path / 'perdure.db'}")


def test_the_choices_of_the_options_are_all() -> None:
    assert get_args(Channel) == notification_commands.CHANNELS


def test_a_rule_is_made_of_a_file_and_changed_by_options(shell: Shell) -> None:
    made = json.loads(shell.ok("notifications set hook --file - --json", RULE))
    assert (made["name"], made["rule"]["group_s"], made["rule"]["surge_above"]) == ("hook", 600.0, 5)
    changed = json.loads(shell.ok("notifications set hook --hourly-max 3 --group 1h --quiet '' --disabled --json"))
    before, after = made["rule"], changed["rule"]
    assert {name for name in {*before, *after} if before.get(name) != after.get(name)} == {"hourly_max", "group_s", "quiet_from", "quiet_until", "enabled"}
    assert (after["hourly_max"], after["group_s"], after["enabled"]) == (3, 3_600.0, False)
    shown = shell.ok("notifications show hook")
    assert "disabled" in shown and "webhook to https://hooks.example.com/perdure" in shown and "more than 5 dead letters" in shown


def test_rules_are_made_of_options_listed_and_removed(shell: Shell) -> None:
    shell.ok("notifications set mail --kind asked --kind reminder --channel smtp --body '@{event.text} @{event.link}'")
    assert shell.ok("notifications ls -o ids") == "mail\n"
    assert "asked, reminder" in shell.ok("notifications ls")
    assert shell.ok("notifications rm mail") == "removed mail\n"
    assert shell.run("notifications show mail").code == 10
    assert "perdure notifications set" in shell.run("notifications ls").err


@pytest.mark.parametrize("wrong", ["--kind asked", "--channel smtp", "--kind failure --channel smtp", "--file missing.yaml"])
def test_a_rule_that_lacks_something_is_refused(shell: Shell, wrong: str) -> None:
    assert shell.run(f"notifications set bad {wrong}").code != 0
    assert shell.run("notifications set bad --file -", "kinds: [nothing]\nchannel: smtp\n").code != 0
    assert shell.run("notifications set bad --file -", "kinds: [asked]\nchannel: smtp\nunknown: 1\n").code != 0


def test_a_sample_is_sent_by_a_living_engine_also_if_the_rule_is_disabled(shell: Shell, tmp_path: Path) -> None:
    shell.ok("notifications set mail --kind asked --channel smtp --disabled")
    with App(db=f"sqlite:///{tmp_path / 'perdure.db'}"):
        said = shell.run("notifications test mail --json")
        assert json.loads(said.out)["sent_to"] == "nobody: the address of ada is not known" and said.code != 0
        said = shell.run("notifications test mail")
        assert (said.code, said.out) == (40, "") and "perdure people set NAME --email ADDRESS" in said.err
        assert shell.ok("notifications test mail --no-wait").startswith("mail:trial:")
        assert shell.run("notifications test none").code == 10
