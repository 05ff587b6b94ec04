"""The command that copies a database into another one."""

import json
from pathlib import Path

import pytest

from tests.cli.shell import Shell


@pytest.mark.slow
def test_a_database_is_copied_and_what_waits_in_it_goes_on_there(shell: Shell, tmp_path: Path) -> None:
    source, target = shell.db, f"sqlite:///{tmp_path}/copy.db"
    said = shell.run(f"db copy {source} {target} --json")
    assert said.code == 0, said
    done = json.loads(said.out)
    assert done["to"] == target and done["executions"] > 0 and done["rows"] >= done["executions"] and done["resumed"] is False
    listed = [shell.run(f"ls --db {url} -o jsonl").out for url in (source, target)]
    assert {json.loads(line)["id"] for line in listed[0].splitlines()} == {json.loads(line)["id"] for line in listed[1].splitlines()}
    assert shell.run(f"verify --db {target}").code == 0
    assert "in a new epoch" in shell.run(f"db copy {source} {target}").out


@pytest.mark.slow
def test_a_copy_needs_a_database_and_another_one(shell: Shell, tmp_path: Path) -> None:
    source = shell.db
    assert "same database" in shell.run(f"db copy {source} {source}").err
    said = shell.run(f"db copy sqlite:///{tmp_path}/none.db {source}")
    assert said.code != 0 and "there is no file" in said.err and not (tmp_path / "none.db").exists()
