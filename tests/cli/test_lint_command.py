"""`perdure lint`: what it prints, which files it looks into, and how it ends."""

import json
from pathlib import Path

import pytest

from tests.cli.shell import Shell, agrees, steady, transcript

BAD = """
import random
from perdure import Context, step, workflow

@step
def charge(order: str) -> str: ...

@workflow
async def order(ctx: Context, order_id: str) -> str:
    await ctx.step(charge, random.choice(order_id))
    await ctx.step(charge, order_id)
    return helper()

def helper() -> str:
    return open("receipt").read()
"""
WARNED = """
from perdure import Context, workflow

@workflow
async def greet(ctx: Context) -> None:
    print("hello")
"""
GOOD = """
from perdure import Context, workflow

@workflow
async def greet(ctx: Context) -> None:
    ctx.log.info("hello")
"""

COMMANDS = {
    "lint": "lint",
    "lint_file": "lint shop/bad.py",
    "lint_json": "lint shop/bad.py --json",
    "lint_jsonl": "lint shop -o jsonl",
    "lint_good": "lint shop/good.py",
    "lint_warned": "lint shop/warned.py",
    "lint_strict": "lint shop/warned.py --strict",
    "lint_select": "lint shop --select pd105",
    "lint_select_group": "lint shop --select PD1 --ignore PD105,PD117",
    "lint_ignore": "lint shop/bad.py --ignore PD1 --ignore PD3",
    "lint_broken": "lint broken.py --select PD105",
    "lint_explain": "lint --explain PD302",
    "lint_explain_json": "lint --explain PD302 -o jsonl",
    "lint_list": "lint --list",
    "lint_no_path": "lint nowhere.py",
    "lint_no_code": "lint --select PD9",
    "lint_no_codes": "lint --select PD1,",
    "lint_nothing_to_look_into": "lint empty",
}


@pytest.fixture
def sh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell in a directory with some workflows, and without any database."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "shop/bad.py": BAD,
        "shop/deep/warned.py": WARNED,
        "shop/warned.py": WARNED,
        "shop/good.py": GOOD,
        "shop/notes.txt": BAD,
        "broken.py": "x = 1\n  y = 2\n",
        "empty/.keep": "",
        ".hidden/bad.py": BAD,
        ".venv/bad.py": BAD,
        "environment/pyvenv.cfg": "",
        "environment/bad.py": BAD,
        "node_modules/bad.py": BAD,
        "shop/__pycache__/bad.py": BAD,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Shell(f"sqlite:///{tmp_path}/none/perdure.db")


@pytest.mark.parametrize("name", COMMANDS)
def test_lint_says_what_its_transcript_says(name: str, sh: Shell, tmp_path: Path) -> None:
    agrees(name, steady(transcript(COMMANDS[name], sh.run(COMMANDS[name])), tmp_path))
    assert not (tmp_path / "none").exists()


def test_standard_input_is_a_file_too(sh: Shell) -> None:
    said = sh.run("lint -", stdin=BAD)
    assert said.code == 11
    assert said.out.startswith("-:10:28: PD105 `random.choice()` draws a number")
    assert said.out.endswith("\n1 file: 2 errors, 1 warning\n")
    assert sh.run("lint - shop/good.py", stdin="").out == "2 files: nothing found\n"


def test_a_file_is_looked_into_once_and_whatever_it_is_called_if_it_is_named(sh: Shell, tmp_path: Path) -> None:
    (tmp_path / "shop/link.py").symlink_to(tmp_path / "shop/bad.py")
    assert sh.run("lint shop shop/bad.py ./shop/../shop/bad.py shop/link.py --select PD105").out.count("PD105") == 1
    assert sh.run("lint shop/notes.txt --select PD105").out.count("PD105") == 1
    assert sh.run("lint .hidden environment node_modules --select PD105").out.count("PD105") == 3


def test_an_ignore_of_a_kind_that_is_not_selected_is_no_unused_one(sh: Shell, tmp_path: Path) -> None:
    (tmp_path / "ignored.py").write_text(WARNED.replace('print("hello")', 'print("hello")  # perdure: ignore[PD117]'))
    assert sh.run("lint ignored.py --select PD0,PD3 --strict").code == 0


def test_what_can_not_be_read_is_a_finding(sh: Shell, tmp_path: Path) -> None:
    (tmp_path / "gone.py").symlink_to(tmp_path / "nothing.py")
    (tmp_path / "bytes.py").write_bytes(b"\xff\x00")
    said = sh.run("lint . --select PD000 --json")
    assert said.code == 11
    assert {one["path"] for one in json.loads(said.out)} == {"broken.py", "bytes.py", "gone.py"}


def test_a_name_with_escapes_in_it_moves_no_cursor(sh: Shell, tmp_path: Path) -> None:
    (tmp_path / "a\x1b[31m.py").write_text("def f(:\n")
    assert "\x1b" not in sh.run("lint .").out
