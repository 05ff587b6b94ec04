"""docs/guides/workers.md shows workers that work: each is run, in a directory of its own."""

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure import Definition
from perdure.core import values
from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import wait_for_end
from perdure.runtime.task_broker import TaskBroker
from perdure.stores.sqlite.store import SqliteStore
from perdure.tasks.child_command import child_environment, split_command
from perdure.tasks.http_endpoint import LEASE_END_ERRORS
from perdure.tasks.program_per_task import ProgramPerTask
from tests.docs.pages import Block, blocks
from tests.tasks.worker_setup import WorkerSetup, node, over_http, program

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guides/workers.md").read_text(encoding="utf-8")
SHOWN = blocks(GUIDE)


def block(language: str, word: str) -> Block:
    """The block of a language that has a word in it."""
    (found,) = [one for one in SHOWN if one.language == language and word in one.text]
    return found


@asynccontextmanager
async def album(directory: Path, make: Any = over_http) -> AsyncIterator[WorkerSetup]:
    """The definition of the guide, on an engine, with a broker of its tasks."""
    definition = Definition.of(block("yaml", "name: album").text)
    store = SqliteStore(directory / "here.db", synchronous="OFF")
    engine, member = Engine(store, [definition.code]), make(TaskBroker(store, ["thumbnails"]))
    running = [asyncio.create_task(engine.run()), asyncio.create_task(member.run())]
    await engine.ready()
    await member.ready()
    try:
        it = WorkerSetup(store, engine, member)
        await it.start(definition, photo="cat.jpg")
        yield it
    finally:
        engine.stop()
        member.stop()
        await asyncio.gather(*running)
        await store.close()


async def result(it: WorkerSetup) -> Any:
    """What the execution comes to."""
    async with asyncio.timeout(30.0):
        return values.decode(await wait_for_end(it.engine, Key("default", "album", "e")), Any, "a result")


@pytest.mark.slow
async def test_the_worker_in_javascript_works_and_its_length_is_what_is_said(tmp_path: Path) -> None:
    text = block("javascript", "worker.mjs").text
    (tmp_path / "worker.mjs").write_text(text)
    assert len(text.splitlines()) <= 35
    async with album(tmp_path) as it, program(node(), "worker.mjs", it.member.address, cwd=tmp_path):
        assert await result(it) == json.loads(block("text", "cat.jpg.200.png").text)


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("curl") and shutil.which("bash")), reason="the worker in bash takes curl and jq")
async def test_the_worker_in_bash_works(tmp_path: Path) -> None:
    (tmp_path / "worker.sh").write_text(block("bash", "worker.sh").text)
    async with album(tmp_path) as it, program("bash", "worker.sh", it.member.address, cwd=tmp_path):
        assert await result(it) == {"file": "cat.jpg.200.png"}


@pytest.mark.slow
async def test_the_program_for_each_task_works(tmp_path: Path) -> None:
    (tmp_path / "thumb.py").write_text(block("python", "thumb.py").text)
    command = [sys.executable, "-I", "-S", str(tmp_path / "thumb.py")]
    async with album(tmp_path, lambda broker: ProgramPerTask(broker, command, child_environment(), 2)) as it:
        assert await result(it) == {"file": "cat.jpg.png"}


def test_the_commands_of_the_guide_are_commands() -> None:
    from click.testing import CliRunner

    from perdure.cli.command_list import root

    lines = [line.removesuffix("&").strip() for one in SHOWN if one.language == "sh" for line in one.text.splitlines() if line.startswith("perdure worker")]
    assert len(lines) == 3
    known = {option for parameter in root.commands["worker"].params for option in parameter.opts}
    for line in lines:
        assert {word for word in split_command(line.replace("perdure", "true", 1), "--exec") if word.startswith("--")} <= known
    assert CliRunner().invoke(root, ["worker", "--help"]).exit_code == 0


def test_the_guide_has_every_error_of_a_lease_and_the_limits_that_there_are() -> None:
    for type, _ in LEASE_END_ERRORS.values():
        assert f"`{type}`" in GUIDE
    for said in ("to 100", "to 30", "to 3600", "64 KiB", "16 MiB"):
        assert said in GUIDE
