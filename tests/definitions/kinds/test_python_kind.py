"""The kind python: what a source is given, what comes of it, and what its author is told."""

import asyncio
import json
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from perdure import BadDefinition, Definition, ExecutionFailed
from perdure.core import events, log_format, values
from perdure.core.errors import MissingExtra, SandboxFailed, SandboxLost, SourceFailed
from perdure.definitions.kinds.sandbox import monty_pool, python_kind
from perdure.definitions.kinds.sandbox.sandbox_pool import SandboxLimits
from perdure.testing import World

numbers = count()


@pytest.fixture(scope="module", autouse=True)
def sandboxes() -> Any:
    yield
    monty_pool.close_monty_pool()


def definition(source: str, **more: Any) -> Definition:
    """A definition with one step of this source."""
    return Definition.of({"perdure": 1, "name": f"it{next(numbers)}", "steps": [{"id": "a", "python": source, "with": {"x": 3}, **more}]})


def is_there(pid: int) -> bool:
    """Whether a process is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def failure(world: World, source: str, **more: Any) -> str:
    """How a step of this source fails."""
    with pytest.raises(ExecutionFailed) as failed:
        world.run(definition(source, **more))
    return failed.value.error.message


@pytest.mark.parametrize(
    "source",
    [
        "def main(input):\n    return input['x'] + 1",
        "def main(input: dict[str, int]) -> int:\n    return input['x'] + 1",
        "async def main(input):\n    return input['x'] + 1",
        "import asyncio\nasync def one(): return 1\nasync def main(input):\n    a, b = await asyncio.gather(one(), one())\n    return input['x'] + a",
        "ONE = 1\ndef add(n): return n + ONE\ndef main(input, more=None):\n    return add(input['x'])",
        "import re, math, json, datetime, itertools, collections, functools, hashlib, base64, decimal, dataclasses, typing\ndef main(input): return 4",
        "def main(*all): return all[0]['x'] + 1",
    ],
)
def test_main_is_called_with_the_input(world: World, source: str) -> None:
    assert world.run(definition(source)) == 4


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("None", None),
        ("(1, [2.5, True], {'a': 'é😀\\n\\0'})", [1, [2.5, True], {"a": "é😀\n\0"}]),
        ("2 ** 63 - 1", 2**63 - 1),
        ("{1: 'a'}", {"1": "a"}),
    ],
)
def test_what_it_returns_is_json(world: World, expression: str, result: Any) -> None:
    assert world.run(definition(f"def main(input):\n    return {expression}")) == result


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def main(input):\n    return input['y']", "at line 2, column 12: KeyError: y"),
        ("def f():\n    raise ValueError('no')\n\ndef main(input):\n    return f()", "at line 2, column 11: ValueError: no"),
        ("1 / 0\ndef main(input): return 1", "at line 1, column 1: ZeroDivisionError"),
        ("def main(input):\n    return float('nan')", "Out of range float values are not JSON compliant"),
        ("def main(input):\n    return {1}", "TypeError: Object of type set is not JSON serializable"),
        ("def main(input):\n    import socket", "No module named 'socket'"),
        ("def main(input):\n    assert input['x'] == 4", "AssertionError: assert 3 == 4"),
    ],
)
def test_its_author_is_told_what_failed_and_where(world: World, source: str, said: str) -> None:
    assert said in failure(world, source)


def test_a_source_that_fails_is_not_tried_again(world: World) -> None:
    run = world.start(definition("def main(input): return 1 / 0", on_error="go_on"))
    assert run.step("a").attempts == 1


def test_what_is_printed_is_in_the_log_and_at_the_end_of_an_error(world: World) -> None:
    run = world.start(definition("def main(input):\n    print('one', input)\n    print('two')"))
    found = world.machine.read(run.key)
    assert run.result() is None and found is not None
    said = [
        values.decode(one.body, Any, "")
        for one in log_format.decode_rows(found.payloads)
        if isinstance(one, events.ProgressedEvent) and isinstance(one.body, bytes)
    ]
    assert said == [{"console": "one {'x': 3}\ntwo\n"}]
    told = failure(world, "def main(input):\n    for n in range(500): print('line', n)\n    return 1 / 0")
    assert told.endswith("line 499") and "line 9\n" not in told


@pytest.mark.slow
def test_a_step_that_takes_longer_fails_once_and_says_so(world: World) -> None:
    told = failure(world, "def main(input):\n    while True: pass", timeout="0.2s")
    assert told.startswith("the Python did not end within 0.16 s. Have it do less, or give its step a longer timeout (60 s at most)")


def test_a_source_makes_over_what_another_step_gives(world: World) -> None:
    assert world.run(definition("def main(input): return input", transform={"python": "def main(input): return input['x'] * 2"})) == 6


@pytest.mark.parametrize("source", ["", "x = 1", "def main(): pass", "def main(a, b): pass", "def main(input:", "def main(input, *, more): pass"])
def test_a_source_without_main_is_refused_when_it_is_read(source: str) -> None:
    with pytest.raises(BadDefinition):
        definition(source)


def test_the_example_runs_as_it_says(world: World) -> None:
    assert world.run(Definition.of(python_kind.EXAMPLE)) == json.loads(python_kind.EXAMPLE.splitlines()[-1].removeprefix("# "))


async def test_a_hundred_at_once_all_answer() -> None:
    assert await asyncio.gather(*(python_kind.run_python("def main(input): return input * 2", n) for n in range(100))) == [n * 2 for n in range(100)]


async def test_who_is_cancelled_leaves_nothing_running() -> None:
    runs: list[python_kind.PythonRun] = []
    began = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Watched(python_kind.PythonRun):
        def _begun(self, process: int | None) -> None:
            super()._begun(process)
            runs.append(self)
            _ = loop.call_soon_threadsafe(began.set)

    with pytest.MonkeyPatch.context() as watched:
        watched.setattr(python_kind, "PythonRun", Watched)
        task = asyncio.create_task(python_kind.run_python("def main(input):\n    while True: pass"))
        await began.wait()
    busy = runs[0]._process
    assert busy is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while runs[0]._process is not None:
        await asyncio.sleep(0.005)
    while is_there(busy):
        await asyncio.sleep(0.005)
    assert await python_kind.run_python("def main(input): return 1") == 1


@pytest.mark.slow
async def test_a_process_that_is_killed_is_lost_and_one_that_aborts_has_failed() -> None:
    for number, error in ((signal.SIGKILL, SandboxLost), (signal.SIGABRT, SandboxFailed)):
        running = python_kind.PythonRun("def main(input):\n    while True: pass", None, SandboxLimits(20.0))
        working = asyncio.get_running_loop().run_in_executor(None, running.result)
        while running._process is None:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        os.kill(running._process, number)
        with pytest.raises(error, match=number.name):
            await working


KILLED = """
import asyncio, os, signal
from perdure.definitions.kinds.sandbox import python_kind
from perdure.definitions.kinds.sandbox.sandbox_pool import SandboxLimits

class TracedPythonRun(python_kind.PythonRun):
    def _begun(self, process):
        super()._begun(process)
        if process is not None:
            print(process, flush=True)

TracedPythonRun("def main(input):\\n    while True: pass", None, SandboxLimits(60.0)).result()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is not there")
async def test_a_busy_sandbox_ends_soon_after_its_engine_was_killed() -> None:
    engine = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, stdout=asyncio.subprocess.PIPE)
    assert engine.stdout is not None
    pid = int(await engine.stdout.readline())
    await asyncio.sleep(0.3)
    assert is_there(pid)
    engine.kill()
    await engine.wait()
    killed_s = time.monotonic()
    while is_there(pid):
        assert time.monotonic() - killed_s < 10, "it goes on without its engine"
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "source",
    [
        "import " + ".".join("a" * 160_000) + "\ndef main(input): return 1",
        "import " + " . \\\n ".join("a" * 3000) + "\ndef main(input): return 1",
        "from " + ".".join("a" * 8000) + " import b\ndef main(input): return 1",
        "(" * 100_000 + "\ndef main(input): return 1",
        "x = " + "-" * 200_000 + "1\ndef main(input): return 1",
    ],
)
async def test_a_source_that_takes_parsers_much_costs_the_engine_nothing(source: str) -> None:
    began_s, before_bytes = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with suppress(BadDefinition):
        definition(source)
    with pytest.raises(SourceFailed):
        await python_kind.run_python(source)
    assert time.process_time() - began_s < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_bytes < 100_000


@pytest.mark.slow
@pytest.mark.parametrize("lines", [10, 1000, 4500])
def test_a_source_of_any_size_runs(world: World, lines: int) -> None:
    source = "".join(f"def f{n}(x):\n    return x + {n}\n" for n in range(lines)) + f"async def main(input):\n    return f{lines - 1}(input['x'])\n"
    assert world.run(definition(source)) == lines + 2


def test_a_source_that_is_too_long_is_refused_when_it_is_read() -> None:
    with pytest.raises(BadDefinition, match=r"it has 300,0\d\d characters, and at most 262,144 are allowed"):
        definition("def main(input): return 1\n" + "#" * 300_000)
    with pytest.raises(BadDefinition, match="defines no main"):
        definition("x = 1\n" + "#" * 100_000)


async def test_it_is_a_function_that_can_be_called_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceFailed) as failed:
        await python_kind.run_python("def main(input):\n    print('hi')\n    raise TypeError('x')")
    error = failed.value
    assert (error.language, error.type, error.text, error.line, error.column, error.console) == ("Python", "TypeError", "x", 3, 11, "hi\n")
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    with pytest.raises(MissingExtra, match=r"perdure\[sandbox\]"):
        await python_kind.run_python("def main(input): return 1")


@pytest.mark.parametrize("padding", [0, 3, 900, 3990, 65_530, 65_536 + 4090])
def test_a_secret_that_it_prints_or_raises_is_not_kept_nor_a_piece_of_it(world: World, padding: int) -> None:
    canary = "QQ-canary-of-the-test-QQ"
    source = "def main(i):\n    said = '.' * i['padding'] + i['token']\n    for n in range(3): print(said)\n    raise ValueError(said)"
    step = {"id": "a", "python": source, "with": {"token": "@secrets.TOKEN", "padding": padding}}
    run = world.start(Definition.of({"perdure": 1, "name": "it", "steps": [step]}, secrets={"TOKEN": canary}))
    with pytest.raises(ExecutionFailed, match="source_failed"):
        run.result()
    found = world.machine.read(run.key)
    assert found is not None and "QQ-c" not in repr(log_format.decode_rows(found.payloads)) and "st-QQ" not in repr(log_format.decode_rows(found.payloads))
