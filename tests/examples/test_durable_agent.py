"""The agent that is killed in the middle of a tool: the second process asks the model only what it has not answered yet."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.prove
def test_an_agent_that_was_killed_in_a_tool_goes_on_and_repeats_no_request() -> None:
    said = subprocess.run([sys.executable, ROOT / "examples/durable_agent.py"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert said.stdout.splitlines() == [
        "killed in the tool `book`, after 2 model calls",
        "You have seat 61 in TGV 9576.",
        "3 model calls in all",
    ], said.stderr
