"""The commands for keys: a fresh one, which are in use, and everything under the newest; no key is ever shown."""

import json
import re

import pytest

from perdure.stores.encryption import new_key, parse_keys
from tests.cli.shell import Shell

pytest.importorskip("cryptography", reason="encryption needs the package cryptography: pip install 'perdure[crypto]'")

OLD, NEW = new_key(), new_key()


def test_a_fresh_key_is_one_and_each_is_another(shell: Shell) -> None:
    first, second = (shell.run("db key new").out.strip() for _ in range(2))
    assert first != second and list(parse_keys(f"a:{first},b:{second}")) == ["a", "b"]


def seen(shell: Shell) -> list[str]:
    """What commands say, but for how long ago that was."""
    return [re.sub(r"[\d.]+ (ms|s|min) ago", "AGO", shell.run(command).out) for command in ("show ada", "logs waiting", "query waiting", "result ada")]


@pytest.mark.slow
def test_a_database_comes_under_a_key_and_under_the_next_and_all_commands_go_on(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    before = seen(shell)
    assert shell.run("db keys").out.splitlines()[0].split() == ["KEY", "LOG", "MESSAGES", "BLOBS", "RECORDS"]
    assert shell.run("db keys -o ids").out == ""
    for keys, id in ((f"old:{OLD}", "old"), (f"new:{NEW},old:{OLD}", "new")):
        monkeypatch.setenv("PERDURE_ENCRYPTION_KEYS", keys)
        said = shell.run("db rekey")
        assert said.code == 0 and said.out.endswith(f"payloads encrypted under the key {id}\n") and "log: " in said.err
        assert OLD not in said.out + said.err and NEW not in said.out + said.err
        assert [use["key_id"] for use in json.loads(shell.run("db keys -o json").out)] == [id]
        assert shell.run("db keys -o ids").out == f"{id}\n"
    assert shell.run("db rekey --vacuum").out == "0 payloads encrypted under the key new\n"
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEYS", f"new:{NEW}")
    monkeypatch.setenv("PERDURE_ENCRYPTION_REQUIRED", "1")
    assert seen(shell) == before
    assert shell.run("db check").code == 0 and shell.run("db backup copy.db").code == 0
    doctor = shell.run("doctor")
    assert doctor.code == 0 and NEW not in doctor.out
    assert shell.run("--db sqlite:///copy.db result ada").out == before[3]


def test_without_the_key_a_command_names_it(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEYS", f"old:{OLD}")
    shell.run("db rekey")
    monkeypatch.delenv("PERDURE_ENCRYPTION_KEYS")
    said = shell.run("result ada")
    assert said.code == 50 and "is encrypted with the key 'old', and this process has no keys" in said.err
    assert shell.run("ls").code == 0 and shell.run("db keys -o ids").out == "old\n"
    said = shell.run("db rekey")
    assert said.code == 10 and "PERDURE_ENCRYPTION_KEYS has no key to encrypt with" in said.err
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEYS", f"new:{NEW}")
    said = shell.run("db rekey")
    assert said.code == 50 and "payloads can't be read, and stay as they are" in said.err and "'old'" in said.err
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEYS", NEW)
    said = shell.run("ls")
    assert said.code == 10 and NEW not in said.err
