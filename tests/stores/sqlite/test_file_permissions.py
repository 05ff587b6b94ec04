"""Claims about permissions: what is newly made is its owner's alone, and what was there keeps its permissions, whatever the process masks."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from perdure.cli.command_list import root
from perdure.stores.sqlite.backup import back_up
from perdure.stores.sqlite.file_permissions import make_database_file
from perdure.stores.sqlite.store import SqliteStore
from tests.stores.sqlite.test_read_only_store import fill


@pytest.fixture(params=[0o022, 0o002, 0o077])
def mask(request: pytest.FixtureRequest) -> Iterator[int]:
    """What this process takes from the permissions of all that it makes."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(directory: Path) -> dict[str, str]:
    """The permissions of all that is in a directory, in octal; names of processes stand as PROCESS."""
    found = {path.relative_to(directory).as_posix(): f"{path.stat().st_mode & 0o777:o}" for path in directory.rglob("*")}
    return {"processes/PROCESS" if name.count("/") and not name.endswith("waiting") else name: mode for name, mode in found.items()}


@pytest.mark.slow
async def test_a_new_database_and_all_beside_it_are_their_owner_s_alone(tmp_path: Path, mask: int) -> None:
    file = tmp_path / "deep" / "er" / "p.db"
    store = SqliteStore(file)
    await fill(store)
    store.on_wake(lambda: None)
    await store.renew("one", 60)
    assert {f"{one.stat().st_mode & 0o777:o}" for one in (tmp_path / "deep", file.parent)} == {"700"}
    found = modes(file.parent)
    assert {"p.db", "p.db-wal", "p.db-shm", "p.db.processes"} <= set(found)
    assert {name: mode for name, mode in found.items() if mode != ("700" if name == "p.db.processes" else "600")} == {}
    back_up(file, tmp_path / "copy.db")
    assert modes(tmp_path)["copy.db"] == "600"
    await store.close()


@pytest.mark.slow
async def test_what_is_beside_a_database_of_a_group_is_the_group_s_too(tmp_path: Path, mask: int) -> None:
    file = tmp_path / "group" / "p.db"
    result = CliRunner().invoke(root, ["--db", f"sqlite:///{file}", "db", "init", "--mode", "660"])
    assert (result.exit_code, result.output) == (0, f"{file} has Perdure's tables\n")
    store = SqliteStore(file)
    await fill(store)
    store.on_wake(lambda: None)
    await store.renew("one", 60)
    found = modes(file.parent)
    assert f"{file.parent.stat().st_mode & 0o777:o}" == "770"
    assert {name: mode for name, mode in found.items() if mode != ("770" if name == "p.db.processes" else "660")} == {}
    await store.close()


@pytest.mark.slow
async def test_what_was_there_keeps_its_permissions(tmp_path: Path) -> None:
    directory, file = tmp_path / "open", tmp_path / "open" / "p.db"
    directory.mkdir(mode=0o755)
    file.touch(0o644)
    file.chmod(0o644)
    store = SqliteStore(file)
    await fill(store)
    assert (directory.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o755, 0o644)
    await store.close()


def test_making_a_file_that_is_there_does_nothing(tmp_path: Path) -> None:
    file = tmp_path / "p.db"
    file.write_bytes(b"content")
    make_database_file(file)
    assert file.read_bytes() == b"content" and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(("mode", "said"), [("640", "--mode 640 is not one of"), ("abc", "is not one of")])
def test_permissions_with_which_nobody_could_write_are_refused(tmp_path: Path, mode: str, said: str) -> None:
    result = CliRunner().invoke(root, ["--db", f"sqlite:///{tmp_path / 'p.db'}", "db", "init", "--mode", mode])
    assert result.exit_code == 20 and said in result.output and list(tmp_path.iterdir()) == []


def test_a_mode_is_for_a_new_file(tmp_path: Path) -> None:
    (tmp_path / "p.db").touch()
    result = CliRunner().invoke(root, ["--db", f"sqlite:///{tmp_path / 'p.db'}", "db", "init", "--mode", "660"])
    assert result.exit_code != 0 and "exists already" in result.output
