"""The agents of the OpenAI Agents SDK that are killed in the middle of a tool: the second process asks the model only what it has not answered yet."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.prove
def test_agents_that_were_killed_in_a_tool_go_on_with_their_context_and_repeat_no_request() -> None:
    pytest.importorskip("agents", reason="the SDK is not installed")
    said = subprocess.run([sys.executable, ROOT / "examples/openai_agent.py"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert said.stdout.splitlines() == [
        "killed in the tool `book`, after 3 model calls",
        "traveller: You have seat 61 in TGV 9576. 89 euros spent.",
        "4 model calls in all",
    ], said.stderr
