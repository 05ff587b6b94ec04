"""The commands that copy, move and compare databases."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.shell import Shell


@pytest.mark.slow
def test_a_database_is_copied_and_moved_and_what_waits_in_it_goes_on_there(shell: Shell, tmp_path: Path) -> None:
    source, target = shell.db, f"sqlite:///{tmp_path}/copy.db"
    said = shell.run(f"db copy {source} {target} --json")
    assert said.code == 0, said
    done = json.loads(said.out)
    assert done["to"] == target and done["executions"] > 0 and done["rows"] >= done["executions"]
    assert (done["resumed"], done["switched"], done["differences"]) == (False, False, [])
    listed = [shell.run(f"ls --db {url} -o jsonl").out for url in (source, target)]
    assert {json.loads(line)["id"] for line in listed[0].splitlines()} == {json.loads(line)["id"] for line in listed[1].splitlines()}
    assert shell.run(f"verify --db {target}").code == 0
    again = shell.run(f"db copy {source} {target}")
    assert "copied 0 executions" in again.out and "refuses work until you move to it" in again.out
    assert "is a copy of" in shell.run(f"doctor --db {target}").out
    moved = shell.run(f"db copy {source} {target} --switch")
    assert moved.code == 0 and "nothing could change" in moved.out and f"{target} is in use, in a new epoch" in moved.out, moved
    compared = shell.run(f"db compare {source} {target} --json")
    assert compared.code == 0 and json.loads(compared.out)["differences"] == []
    assert "was moved to" in shell.run(f"doctor --db {source}").out
    refused = shell.run(f"db copy {source} {target} --switch")
    assert refused.code == 0, "a move that is complete is complete"
    assert "TO is in use" in shell.run(f"db copy {source} {target} --undo").err


@pytest.mark.slow
def test_a_move_is_taken_back_and_a_copy_is_made_independent(shell: Shell, tmp_path: Path) -> None:
    source, target, other = shell.db, f"sqlite:///{tmp_path}/copy.db", f"sqlite:///{tmp_path}/other.db"
    assert shell.run(f"db copy {source} {target}").code == 0
    assert "is a copy that refuses work" in shell.run(f"db copy {source} {target} --undo").out
    done = shell.run(f"db copy {source} {other} --independent")
    assert done.code == 0 and "goes on as well" in done.out
    assert "is not empty" in shell.run(f"db copy {source} {other}").err
    compared = shell.run(f"db compare {source} {other}")
    assert compared.code == 0 and compared.out.endswith("both have the same\n")


@pytest.mark.slow
def test_a_difference_is_named_and_has_an_exit_code(shell: Shell, tmp_path: Path) -> None:
    source, target = shell.db, f"sqlite:///{tmp_path}/copy.db"
    assert shell.run(f"db copy {source} {target} --independent").code == 0
    with closing(sqlite3.connect(tmp_path / "copy.db")) as database, database:
        database.execute("UPDATE heads SET status = 'lost' WHERE number = 1")
    said = shell.run(f"db compare {source} {target}")
    assert said.code == 11 and "in A and lost in B" in said.out and "both have" not in said.out
    assert json.loads(shell.run(f"db compare {source} {target} --json").out)["differences"][0]["kind"] == "execution"


@pytest.mark.slow
def test_a_copy_needs_a_database_and_another_one(shell: Shell, tmp_path: Path) -> None:
    source = shell.db
    assert "same database" in shell.run(f"db copy {source} {source}").err
    for command in (f"db copy sqlite:///{tmp_path}/none.db {source}", f"db compare {source} sqlite:///{tmp_path}/none.db"):
        said = shell.run(command)
        assert said.code == 10 and "there is no file" in said.err and not (tmp_path / "none.db").exists()
