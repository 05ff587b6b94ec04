"""An agent whose process is killed at each of its turns goes on with the next one, and what it has told the model stays as it was to the byte."""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.fake_llm import Fake, serving_aside
from tests.definitions.kinds.agents.agent_program import TURNS
from tests.docs.pages import ROOT

pytestmark = pytest.mark.slow

ANSWER_S = 0.4
"""How long the model takes, in which the process can be killed."""

LIMIT_S = 120.0


def calls(turn: int) -> list[dict[str, Any]]:
    return [{"name": "look", "args": {"turn": turn}}, {"name": "order", "args": {"turn": turn}}]


SCRIPT: list[dict[str, Any]] = [
    *(
        {"when": {"turn": turn}, "answer": {"thinking": f"I need {turn}.", "text": f"Turn {turn}.", "calls": calls(turn)}, "repeat": True, "delay": ANSWER_S}
        for turn in range(1, TURNS + 1)
    ),
    {"when": {"turn": TURNS + 1}, "answer": {"thinking": "That is all.", "text": "Bought."}, "repeat": True, "delay": ANSWER_S},
]


def begun(url: str, directory: Path, model: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.definitions.kinds.agents.agent_program", url, str(directory), model]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def killed_when(reached: Callable[[], bool], url: str, directory: Path, model: str) -> None:
    program, until = begun(url, directory, model), time.monotonic() + LIMIT_S
    while not reached():
        assert program.poll() is None and time.monotonic() < until, program.communicate()[0]
        time.sleep(0.005)
    program.kill()
    _ = program.communicate()


def lines(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


def conversation(request: dict[str, Any]) -> bytes:
    """The messages of a request as they were sent, in front of the end of their list."""
    return msgspec.json.encode(request.get("messages", request.get("input")))[:-1]


@pytest.mark.parametrize(
    ("model", "turns"),
    [
        pytest.param("small", [2], id="small, once"),
        *(pytest.param(model, range(1, TURNS + 2), id=model, marks=pytest.mark.prove) for model in ("small", "thinker", "large")),
    ],
)
def test_killed_while_the_model_answers_a_turn_it_repeats_that_request_and_no_tool(model: str, turns: Sequence[int], tmp_path: Path) -> None:
    fake = Fake(SCRIPT)
    with serving_aside(fake) as url:
        for killed, turn in enumerate(turns):
            killed_when(lambda count=turn + killed: len(fake.requests) >= count, url, tmp_path, model)  # type: ignore[misc]  # of this turn
        program = begun(url, tmp_path, model)
        said, _ = program.communicate(timeout=LIMIT_S)
    assert program.returncode == 0 and "Bought." in said, said
    assert lines(tmp_path / "looked.txt") == lines(tmp_path / "ordered.txt") == [str(turn) for turn in range(1, TURNS + 1)]
    requests = [one["request"] for one in fake.requests]
    assert [one["status"] for one in fake.requests] == [200] * (TURNS + 1 + len(turns)), "a signature that had changed would be refused"
    for killed, turn in enumerate(turns):
        first, again = fake.requests[turn + killed - 1 : turn + killed + 1]
        assert first["request"] == again["request"] and first["idempotency_key"] == again["idempotency_key"]
    expect_stable_beginnings(requests)


def expect_stable_beginnings(requests: list[dict[str, Any]]) -> None:
    for before, after in pairwise(requests):
        assert conversation(after).startswith(conversation(before))
        kept = [{name: value for name, value in one.items() if name not in ("messages", "input")} for one in (before, after)]
        assert kept[0] == kept[1], "the tools, the instructions and the settings are the same"


@pytest.mark.prove
@pytest.mark.parametrize("turns", [pytest.param([1], id="once"), pytest.param(range(1, TURNS + 1), id="each")])
def test_killed_while_tools_run_it_repeats_only_what_may_be_repeated(turns: Sequence[int], tmp_path: Path) -> None:
    fake = Fake(SCRIPT)
    ordered = tmp_path / "ordered.txt"
    with serving_aside(fake) as url:
        for turn in turns:
            killed_when(lambda turn=turn: len(lines(ordered)) >= turn, url, tmp_path, "small")  # type: ignore[misc]  # of this turn
        program = begun(url, tmp_path, "small")
        said, _ = program.communicate(timeout=LIMIT_S)
    assert program.returncode == 0 and "Bought." in said, said
    assert lines(ordered) == [str(turn) for turn in range(1, TURNS + 1)]
    assert set(lines(tmp_path / "looked.txt")) == set(lines(ordered))
    requests = [one["request"] for one in fake.requests]
    assert len(requests) == TURNS + 1, "an answer that was recorded is not requested again"
    told = [one["content"] for one in requests[-1]["messages"] if one["role"] == "tool"]
    assert ["not known whether it happened" in one for one in told] == [is_it for turn in range(1, TURNS + 1) for is_it in (False, turn in turns)]
    expect_stable_beginnings(requests)
