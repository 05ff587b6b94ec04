"""The guide to encryption shows what runs, and what it says of the environment and of the command line is so."""

import os
import re
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from perdure import Client
from perdure.core.errors import SealedPayload
from perdure.stores.configured_store import configured_codec
from perdure.stores.encryption import Encrypted, new_key
from perdure.stores.sqlite.rekey import key_uses

pytest.importorskip("cryptography", reason="encryption needs the package cryptography: pip install 'perdure[crypto]'")

GUIDE = (Path(__file__).parents[2] / "docs/guides/encryption.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
SHELL = re.findall(r"^```sh\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
async def test_its_snippets_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAYROLL_KEY", b64encode(os.urandom(32)).decode())
    names: dict[str, Any] = {}
    for snippet in SNIPPETS:
        exec(compile(snippet, "encryption.md", "exec"), names)
    said = re.search(r"print\(error\)  # (.*)", GUIDE)
    assert said is not None and capsys.readouterr().out == f"{said[1]}\n"
    names["client"].close()
    await names["store"].close()
    assert [use.key_id for use in key_uses(tmp_path / "payroll.db")] == ["2026-11"]
    names["reversing"].start(names["reversing"].workflow("nowhere").with_(id="1"), "word")
    names["reversing"].close()
    assert b"word" not in (tmp_path / "reversed.db").read_bytes()


def test_its_settings_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in re.findall(r"^export (\w+)=(\S+)", SHELL[0].replace("$(perdure db key new)", new_key()), re.MULTILINE):
        monkeypatch.setenv(name, value.strip('"'))
    assert repr(configured_codec()) == "Encrypted(keys 2026-11; Compressed(256, 'zlib'))"
    for setting in set(re.findall(r"PERDURE_\w+", GUIDE)):
        assert setting in (configured_codec.__doc__ or ""), setting


@pytest.mark.slow
def test_its_change_of_keys_is_what_the_commands_do(tmp_path: Path) -> None:
    first, second, url = f"2026-11:{new_key()}", f"2027-02:{new_key()}", f"sqlite:///{tmp_path}/perdure.db"
    with Client(url, codec=Encrypted({"2026-11": os.urandom(32)})):
        pass

    def said(command: str, keys: str) -> str:
        environment = {**os.environ, "PERDURE_DB": url, "PERDURE_ENCRYPTION_KEYS": keys}
        return subprocess.run([sys.executable, "-m", "perdure.cli", *command.split()], env=environment, capture_output=True, text=True, check=True).stdout

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERDURE_ENCRYPTION_KEYS", first)
        with Client(url) as client:
            client.start(client.workflow("nowhere").with_(id="1"), "x" * 100)
    assert said("db rekey", f"{second},{first}") == "1 payload encrypted under the key 2027-02\n"
    assert said("db keys -o ids", "") == "2027-02\n"
    with pytest.raises(SealedPayload), Client(url) as client:
        client.start(client.workflow("nowhere").with_(id="1", strict=True), "x" * 100)
