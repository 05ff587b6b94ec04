"""Targets: files and modules, and the workflows and steps that are found in them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest

from perdure.cli import targets
from perdure.cli.targets import NoTarget

FLOWS = str(Path(__file__).parent / "flows.py")
ONE = """
from perdure import Context, step, workflow
@step
def add(a: int, b: int) -> int: return a + b
@workflow(name="the sum")
async def total(ctx: Context) -> int: return await ctx.step(add, 1, 2)
"""


@pytest.fixture(autouse=True)
def same_modules_afterwards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("a.py", True),
        ("a/b.py:c", True),
        ("C:/x/b.py", True),
        ("mod:flow", True),
        ("pkg.mod:flow", True),
        ("order", False),
        ("order.v2", False),
        ("a b:c", False),
        (":x", False),
        ("3:x", False),
        ("naïve/café ☕", False),
        ("modülé:flow", True),
    ],
)
def test_a_target_is_told_from_the_name_of_a_workflow(text: str, is_one: bool) -> None:
    assert targets.is_target(text) is is_one


def test_the_only_workflow_of_a_file_needs_no_name(place: Path) -> None:
    (place / "one_flow.py").write_text(ONE)
    assert targets.load_workflow("one_flow.py").code.name == "the sum"
    assert targets.load_workflow(str(place / "one_flow.py")).code.name == "the sum"


@pytest.mark.parametrize("text", ["one_flow.py:total", "one_flow.py:the sum", "one_flow:total", "one_flow:the sum", "one_flow"])
def test_a_workflow_is_named_by_its_variable_or_its_own_name(place: Path, text: str) -> None:
    (place / "one_flow.py").write_text(ONE)
    assert targets.load_workflow(text).code.name == "the sum"


def test_a_file_is_not_run_as_main(place: Path) -> None:
    (place / "one_flow.py").write_text(f"{ONE}\nif __name__ == '__main__': raise SystemExit(3)")
    assert targets.load_workflow("one_flow.py").code.name == "the sum"


def test_a_file_may_import_its_neighbours_and_its_own_workflow_comes_first(place: Path) -> None:
    (place / "neighbour_flow.py").write_text(ONE)
    (place / "own_flow.py").write_text("from neighbour_flow import total\n" + ONE.replace("the sum", "mine").replace("total", "own"))
    assert targets.load_workflow("own_flow.py").code.name == "mine"
    (place / "no_own_flow.py").write_text("from neighbour_flow import total")
    assert targets.load_workflow("no_own_flow.py").code.name == "the sum"


def test_a_file_called_like_a_module_in_use_disturbs_nobody(place: Path) -> None:
    json = sys.modules["json"]
    (place / "json.py").write_text(ONE)
    assert targets.load_workflow("json.py").code.name == "the sum"
    assert sys.modules["json"] is json


def test_the_same_file_is_imported_once(place: Path) -> None:
    (place / "one_flow.py").write_text(ONE)
    assert targets.load_workflow("one_flow.py") is targets.load_workflow("./one_flow.py:total")


@pytest.mark.parametrize(
    ("source", "text", "said"),
    [
        (None, "gone_flow.py", "not a file that is there"),
        (None, "gone_module:x", "no gone_module in"),
        (None, "gone.deeper:x", "no gone in"),
        ("", "bad_flow.py", "decorate"),
        (ONE, "bad_flow.py:other", "workflows there: the sum"),
        (ONE + ONE.replace("the sum", "second").replace("total", "more"), "bad_flow.py", "bad_flow.py:the sum, bad_flow.py:second"),
        ("def", "bad_flow.py", "line 1"),
        ("1 / 0", "bad_flow.py", "ZeroDivisionError: division by zero .*line 1"),
        ("import no_such_thing", "bad_flow.py", "ModuleNotFoundError: No module named 'no_such_thing'"),
        ("import no_such_thing", "bad_flow:x", "ModuleNotFoundError: No module named 'no_such_thing'"),
        ("from . import x", "bad_flow.py", "ImportError: .* A file of a package is named as a module"),
        ("import no_such_thing", "bad_flow.py", "Install it in the environment of this command"),
        (ONE, "bad_flow.py:totl", "there is no totl, did you mean total"),
        (ONE, "bad_flow.total", "did you mean bad_flow:total"),
        ("raise SystemExit(3)", "bad_flow.py", "SystemExit: 3"),
    ],
)
def test_what_is_not_there_or_cannot_be_imported_is_said_in_a_line(place: Path, source: str | None, text: str, said: str) -> None:
    if source is not None:
        (place / "bad_flow.py").write_text(source)
    with pytest.raises(NoTarget, match=said):
        targets.load_workflow(text)
    assert "bad_flow" not in sys.modules or source == ONE or "second" in str(source) or source == ""


@pytest.mark.parametrize(
    ("source", "text", "said"),
    [
        ("async def plain(ctx): ...", "near_flow.py:plain", "plain is a function without a decorator: write @workflow above it"),
        ("plain = 3", "near_flow.py:plain", "plain is of the type int"),
        (f"if __name__ == '__main__':\n{indent(ONE, '    ')}", "near_flow.py", "above `if __name__"),
    ],
)
def test_what_is_there_and_is_no_workflow_is_told_how_to_become_one(place: Path, source: str, text: str, said: str) -> None:
    (place / "near_flow.py").write_text(source)
    with pytest.raises(NoTarget, match=said):
        targets.load_workflow(text)


def test_all_workflows_and_steps_are_found_once(place: Path) -> None:
    (place / "one_flow.py").write_text(ONE)
    (place / "two_flow.py").write_text("from one_flow import add, total")
    found = targets.load_code(["one_flow.py", "two_flow.py", FLOWS])
    assert [one.code.name for one in found.workflows] == ["the sum", "greet", "order", "branches", "asked", "late", "thinks", "naïve/café ☕"]
    assert [step.name for step in found.steps] == ["add", "greeting", "charge", "refuse", "think"]


def test_of_a_named_workflow_the_steps_beside_it_come_too(place: Path) -> None:
    found = targets.load_code([f"{FLOWS}:greet"])
    assert [one.code.name for one in found.workflows] == ["greet"]
    assert len(found.steps) == 4


def test_two_that_have_one_name_are_refused(place: Path) -> None:
    (place / "one_flow.py").write_text(ONE)
    (place / "two_flow.py").write_text(ONE)
    with pytest.raises(NoTarget, match="a workflow called the sum"):
        targets.load_code(["one_flow.py", "two_flow.py"])


def test_code_without_any_is_refused(place: Path) -> None:
    (place / "no_flow.py").write_text("")
    with pytest.raises(NoTarget, match="decorate"):
        targets.load_code(["no_flow.py"])
