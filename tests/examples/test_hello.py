"""The hello of the README: eight lines, and what they promise of an id."""

import asyncio
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import Key, Workflow
from perdure.core import events, log_format
from perdure.core.events import Event
from perdure.stores.configured_store import open_store

ROOT = Path(__file__).parents[2]
HELLO = ROOT / "examples/hello.py"


@pytest.mark.slow
def test_hello_says_hello(tmp_path: Path) -> None:
    said = subprocess.run([sys.executable, HELLO], cwd=ROOT, env=os.environ | {"PERDURE_DB": url(tmp_path)}, capture_output=True, text=True, check=True)
    assert (said.stdout, said.stderr) == ("Hello Ada\n", "")


@pytest.mark.slow
def test_hello_run_twice_with_one_id_executes_its_step_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_DB", url(tmp_path))
    greet = hello()
    assert greet.with_(id="k").run("Ada") == "Hello Ada"
    remembered = history(tmp_path, "k")
    assert greet.with_(id="k").run("Ada") == "Hello Ada"
    assert greet.with_(id="k").run("Grace") == "Hello Ada"
    assert history(tmp_path, "k") == remembered
    assert sum(isinstance(event, events.SettledEvent) for event in remembered) == 1
    assert greet.with_(id="another").run("Grace") == "Hello Grace"


def test_hello_is_the_snippet_of_the_readme() -> None:
    (snippet, *_) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert words(HELLO.read_text(encoding="utf-8")) == words(snippet)
    assert sum(bool(line.strip()) for line in snippet.splitlines()) == 8


def words(source: str) -> list[list[str]]:
    """Its lines without blank ones, whatever is between the words."""
    return [line.split() for line in source.splitlines() if line.strip()]


def url(directory: Path) -> str:
    return f"sqlite:///{directory}/perdure.db"


def hello() -> Workflow[[str], str]:
    """The workflow of the example, which runs once when it is imported."""
    spec = importlib.util.spec_from_file_location("hello", HELLO)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    greet: Workflow[[str], str] = module.greet
    return greet


def history(directory: Path, id: str) -> list[Event]:
    """What the execution remembers."""

    async def read() -> list[Event]:
        store = open_store(url(directory))
        try:
            found = await store.read(Key("default", "greet", id))
        finally:
            await store.close()
        return [] if found is None else log_format.decode_rows(found.payloads)

    return asyncio.run(read())
