"""`perdure stream --live-text`: what steps have written so far, each text below the name of its step."""

import asyncio
import json
from pathlib import Path

import pytest

from perdure import Client, Context, workflow
from perdure.cli.exit_codes import ExitCode
from perdure.code.step_environment import StepInfo
from perdure.core.paths import Key
from perdure.definitions.kinds.models.live_text_writer import LiveTextWriter
from perdure.stores.sqlite.store import SqliteStore
from tests.cli.shell import Shell


@workflow
async def talk(ctx: Context) -> None:
    await ctx.sleep("1h")


async def write(file: Path, texts: dict[str, str], complete: str) -> None:
    """Writes the texts of steps; that of one of them is complete."""
    store = SqliteStore(file)
    try:
        for step, text in texts.items():
            writer = LiveTextWriter(store, StepInfo(Key("default", "talk", "1"), ((step, 1),), 1))
            writer.write(text)
            await writer.flush(is_complete=step == complete)
    finally:
        await store.close()


@pytest.fixture
def talking(tmp_path: Path) -> Shell:
    shell = Shell(f"sqlite:///{tmp_path}/it.db")
    with Client(shell.db) as client:
        client.start(talk.with_(id="1"))
    asyncio.run(write(tmp_path / "it.db", {"a": "Hello", "b": "Good\nbye", "c": "Done", "d": "A line\n"}, complete="c"))
    return shell


def test_each_text_is_below_the_name_of_its_step_also_after_one_that_is_not_complete(talking: Shell) -> None:
    lines = talking.ok("stream 1 --live-text").splitlines()
    begin = {line: number for number, line in enumerate(lines) if line in ("a:", "b:", "c:", "d:")}
    assert sorted(begin) == ["a:", "b:", "c:", "d:"] and len(lines) == 9
    assert lines[begin["a:"] + 1] == "Hello" and lines[begin["b:"] + 1 : begin["b:"] + 3] == ["Good", "bye"]
    assert lines[begin["c:"] + 1] == "Done" and lines[begin["d:"] + 1] == "A line"
    assert {one["path"]: one["text"] for one in json.loads(talking.ok("stream 1 --live-text -o json"))}["b"] == "Good\nbye"


def test_live_text_has_no_place_to_begin_after(talking: Shell) -> None:
    said = talking.run("stream 1 --live-text --after 3")
    assert said.code == ExitCode.FLAGS and "leave --after out" in said.err and not said.out
