"""The commands for secrets: values come by standard input, are never shown, and what a definition lacks is said with an exit code."""

import json
from pathlib import Path

import pytest

from perdure.stores.encryption import new_key
from tests.cli.shell import Shell

pytestmark = pytest.mark.usefixtures("clean_secrets")

pytest.importorskip("cryptography", reason="encryption needs the package cryptography: pip install 'perdure[crypto]'")

CANARY = "canary-of-the-commands"
OLD, NEW = f"old:{new_key()}", f"new:{new_key()}"

DEFINITION = """
perdure: 1
name: it
steps:
  - {id: a, tool: send, with: {token: "Bearer @{secrets.TOKEN}"}}
  - {id: b, tool: send, with: {token: "@secrets.OTHER"}, needs: [a]}
"""


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PERDURE_SECRETS_KEY_FILE", "PERDURE_SECRETS_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PERDURE_SECRETS_KEY", OLD)


def test_a_secret_is_set_listed_and_removed_and_its_value_is_never_shown(shell: Shell) -> None:
    assert shell.run("secret ls").out == "" and json.loads(shell.run("secret ls --json").out) == []
    said = [
        shell.run("secret set TOKEN", stdin=f"{CANARY}\n"),
        shell.run("secret set TOKEN --json", stdin="canary-2"),
        shell.run("secret set A", stdin="canary-3"),
    ]
    assert [one.code for one in said] == [0, 0, 0] and said[0].out == "TOKEN is set\n" and json.loads(said[1].out) == {"name": "TOKEN", "version": 2}
    listed = shell.run("secret ls --json")
    assert [(one["name"], one["place"], one["version"], one["key_id"]) for one in json.loads(listed.out)] == [
        ("A", "store", 1, "old"),
        ("TOKEN", "store", 2, "old"),
    ]
    assert shell.run("secret ls -o ids").out == "A\nTOKEN\n" and shell.run("--tenant acme secret ls -o ids").out == ""
    assert not any("canary" in one.out + one.err for one in (*said, listed, shell.run("secret ls"), shell.run("doctor")))
    assert shell.run("secret rm TOKEN A").out == "TOKEN is removed\nA is removed\n"
    gone = shell.run("secret rm TOKEN")
    assert (gone.code, gone.err) == (10, "perdure: there is no secret TOKEN\nperdure secret ls lists the secrets\n")
    assert not [file for file in shell.directory.iterdir() if file.is_file() and b"canary" in file.read_bytes()]


@pytest.mark.parametrize(
    ("command", "stdin", "code", "why"),
    [
        ("secret set ../TOKEN", CANARY, 10, "the name of a secret"),
        ("secret set TOKEN", "", 10, "0 bytes"),
        (f"secret set TOKEN {CANARY}", "", 20, "unexpected extra argument"),
        ("secret set TOKEN --key-file nowhere", CANARY, 10, "the key file"),
        ("secret check nowhere.yaml", "", 10, "there is no such file"),
        ("secret", "", 0, ""),
    ],
)
def test_what_is_wrong_is_said_with_an_exit_code(shell: Shell, command: str, stdin: str, code: int, why: str) -> None:
    said = shell.run(command, stdin=stdin)
    assert (said.code == code and why in said.err.lower().replace(CANARY, "")) or why in said.err


def test_without_a_key_nothing_is_kept_and_without_the_right_one_nothing_is_rotated(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shell.run("secret set TOKEN", stdin=CANARY).code == 0
    monkeypatch.setenv("PERDURE_SECRETS_KEY", NEW)
    said = shell.run("secret rotate")
    assert said.code == 10 and "1 secret can't be read, and stay as they are" in said.err and "'old'" in said.err
    monkeypatch.delenv("PERDURE_SECRETS_KEY")
    said = shell.run("secret set TOKEN", stdin=CANARY)
    assert said.code == 10 and "perdure db key new" in said.err and CANARY not in said.err
    assert shell.run("secret ls -o ids").out == "TOKEN\n" and shell.run("secret rm TOKEN").code == 0


def test_secrets_come_under_the_next_key_also_from_a_file(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.run("secret set TOKEN", stdin=CANARY)
    shell.run("--tenant acme secret set TOKEN", stdin=CANARY)
    monkeypatch.delenv("PERDURE_SECRETS_KEY")
    (tmp_path / "keys").write_text(f"{NEW}\n{OLD}\n")
    assert shell.run("secret rotate --key-file keys").out == "2 secrets encrypted with the newest key\n"
    assert json.loads(shell.run("secret rotate --key-file keys --json").out) == {"done": 0, "refused": []}
    assert {one["key_id"] for one in json.loads(shell.run("secret ls --json").out)} == {"new"}


def test_what_is_too_short_to_be_hidden_is_warned_of(shell: Shell) -> None:
    said = shell.run("secret set PIN", stdin="123\n")
    assert said.code == 0 and "fewer than 4 characters" in said.err


def test_what_a_definition_reads_is_said_with_where_it_would_come_from(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "it.yaml").write_text(DEFINITION)
    shell.run("secret set TOKEN", stdin=CANARY)
    said = shell.run("secret check it.yaml --json")
    assert said.code == 11 and "perdure secret set OTHER sets it" in said.err
    needed = [{"name": "OTHER", "steps": ["b"], "place": None, "trouble": ""}, {"name": "TOKEN", "steps": ["a"], "place": "store", "trouble": ""}]
    assert json.loads(said.out) == needed
    monkeypatch.setenv("PERDURE_SECRET_OTHER", "canary-2")
    said = shell.run("secret check it.yaml")
    assert said.code == 0 and [line.split() for line in said.out.splitlines()[1:]] == [["OTHER", "environment", "b"], ["TOKEN", "store", "a"]]
    monkeypatch.setenv("PERDURE_SECRETS_KEY", NEW)
    sealed = shell.run("secret check it.yaml --json")
    assert sealed.code == 11 and "'old'" in json.loads(sealed.out)[1]["trouble"] and "canary" not in sealed.out + sealed.err


@pytest.mark.slow
def test_a_definition_is_run_with_what_is_set_and_its_result_is_hidden(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "it.yaml").write_text(DEFINITION)
    (tmp_path / "sends.py").write_text("def send(token):\n    return [len(token), token]\n")
    shell.run("secret set TOKEN", stdin=CANARY)
    failed = shell.run("run it.yaml --tools sends.py --id x")
    assert failed.code == 40 and "the secret OTHER is not set in this process" in failed.err
    monkeypatch.setenv("PERDURE_SECRET_OTHER", "canary-of-the-environment")
    assert shell.run("retry x").code == 0
    said = shell.run("run it.yaml --tools sends.py --id x -o json")
    assert (said.code, json.loads(said.out)) == (0, [25, "***"])
    assert "canary" not in shell.run("show x --json").out + shell.run("logs x").out + shell.run("events x").out
