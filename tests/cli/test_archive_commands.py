"""Claims about archives at the command line: they are listed and pruned, which stays known; a pruning that is killed leaves a whole database."""

import asyncio
import os
import shutil
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import App, Context, step, workflow
from perdure.cli.exit_codes import ExitCode
from perdure.stores.sqlite.blobs import SqliteBlobRemoval
from perdure.sync_client import AsyncClient, Client
from tests.cli.shell import Shell
from tests.sampling import some
from tests.stores.sqlite.killed_process import in_a_child

TURNS = 300


@step
async def make(number: int) -> str:
    return f"{number}:".ljust(70_000 if number % 60 == 1 else 5, "x")


@workflow(archive=True)
async def audit(ctx: Context) -> None:
    async for turn in ctx.loop("audit", state=0, keep=1):
        turn.state += 1
        await turn.step(make, turn.state)
        if turn.state == TURNS:
            return


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with an execution that has archives."""
    file = tmp_path_factory.mktemp("made") / "perdure.db"
    with App([audit], db=f"sqlite:///{file}") as app:
        app.run(audit.with_(id="a"))
    return file


@pytest.fixture
def shell(made: Path, tmp_path: Path) -> Shell:
    """A shell on a copy of it."""
    shutil.copy(made, tmp_path / "perdure.db")
    return Shell(f"sqlite:///{tmp_path}/perdure.db")


@pytest.mark.slow
def test_archives_are_listed_and_pruned_and_that_they_were_is_said(shell: Shell, tmp_path: Path) -> None:
    listed = shell.run("archives a")
    assert listed.code == 0 and listed.out.split("\n")[0].split() == ["ARCHIVED", "ITERATIONS", "EVENTS", "SIZE"]
    archives = msgspec.json.decode(shell.run("archives a --json").out)
    assert len(archives) > 1 and len(listed.out.strip().split("\n")) == len(archives) + 1
    assert "forgotten; see perdure archives" in shell.run("show a").out
    assert "0 archives were removed: 0 bytes" in shell.run("prune --archives --older-than 1d").out
    planned = shell.run("prune --archives --older-than 0s --dry-run").out
    assert planned.startswith(f"{len(archives)} archives of 1 execution would be removed with ")
    assert msgspec.json.decode(shell.run("archives a --json").out) == archives
    pruned = msgspec.json.decode(shell.run(f"prune --archives --older-than 0s --json --archive {tmp_path}/kept").out)
    assert [one["name"] for one in pruned["archives"]] == [one["name"] for one in archives] and pruned["values"] > 2
    assert pruned["size_bytes"] > sum(one["size_bytes"] for one in archives) + 3 * 70_000
    assert len(list((tmp_path / "kept").iterdir())) == 1
    assert "archived and pruned at" in shell.run("archives a").out
    assert "forgotten; they were archived, and the archives have been pruned" in shell.run("show a").out
    said = shell.run("verify")
    assert said.code == 0 and "the archives were pruned at" in said.out
    assert "without its archives, which were pruned" in shell.run(f"export a -o {tmp_path}/a.perdure").out
    assert shell.run(f"import {tmp_path}/a.perdure --id b --unsigned").code == 0
    assert shell.run("db check").code == 0 and shell.run("db backup backup.db".replace("backup.db", f"{tmp_path}/backup.db")).code == 0
    assert "archived and pruned at" in Shell(f"sqlite:///{tmp_path}/backup.db").run("archives a").out


def test_pruning_executions_removes_the_values_that_only_they_had(shell: Shell) -> None:
    said = shell.run("prune --older-than 0s").out
    assert "1 execution was removed" in said and "large values without references were removed" in said and "are free now" in said
    assert shell.run("prune --older-than 0s").out.startswith("0 executions were removed")
    assert shell.run("verify").out == "1 execution: its records agree\n"


def test_archives_are_not_pruned_together_with_ids(shell: Shell) -> None:
    said = shell.run("prune --archives --older-than 0s --forget-ids")
    assert said.code == ExitCode.FLAGS and "without --forget-ids" in said.err
    assert shell.run("archives other").code != 0


@pytest.mark.slow
@pytest.mark.parametrize("calls", some([1, 2, 4], 1))
def test_a_pruning_that_is_killed_leaves_a_whole_database_and_is_done_by_the_next(shell: Shell, tmp_path: Path, calls: int) -> None:
    url = f"sqlite:///{tmp_path}/perdure.db"

    def pruned_in_part() -> None:
        remove, done = SqliteBlobRemoval.remove, 0

        async def mortal(self: SqliteBlobRemoval, sweep: str, noted: Any = None, limit: int = 1) -> Any:
            nonlocal done
            found, done = await remove(self, sweep, noted, 1), done + 1
            if done == calls:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        SqliteBlobRemoval.remove = mortal  # type: ignore[method-assign]  # in a process of its own

        async def prune() -> None:
            async with AsyncClient(url) as client:
                await client.upkeep.prune_archives(0)

        asyncio.run(prune())

    in_a_child(pruned_in_part, signal.SIGKILL)
    assert shell.run("db check").code == 0
    with closing(Client(url)) as client:
        assert [one.what for one in client.upkeep.verify() if one.level == "damage"] == []
        assert client.upkeep.export("a")
        client.upkeep.prune_archives(0)
        assert [one.pruned_at_s is None for one in client.upkeep.archives("a")] == [False]
        assert client.upkeep.prune_values().values == 0
        assert not [one for one in client.upkeep.verify() if one.kind in ("unreferenced", "blob")]
