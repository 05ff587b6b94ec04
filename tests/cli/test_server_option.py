"""Claims about `--server`: a command that works in a database says so, and does nothing."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from perdure.cli.command_list import root
from perdure.cli.exit_codes import ExitCode
from tests.cli.shell import FLOWS

IN_A_DATABASE = [
    ["run", f"{FLOWS}:greet", "Ada"],
    ["worker", str(FLOWS)],
    ["dev", str(FLOWS), "--port", "0"],
    ["secret", "ls"],
    ["demo"],
    ["db", "path"],
    ["doctor"],
]


@pytest.mark.parametrize("by_variable", [False, True], ids=["option", "variable"])
@pytest.mark.parametrize("command", IN_A_DATABASE, ids=lambda one: one[0])
def test_a_command_that_works_in_a_database_refuses_a_server(command: list[str], by_variable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = "http://127.0.0.1:9"
    if by_variable:
        monkeypatch.setenv("PERDURE_SERVER", url)
    said = CliRunner().invoke(root, [*command, *([] if by_variable else ["--server", url])], prog_name="perdure")
    assert said.exit_code == ExitCode.INPUT
    assert f"needs the database itself, and was given the server {url}" in said.stderr and "name the database: --db URL" in said.stderr
    assert list(tmp_path.iterdir()) == []
