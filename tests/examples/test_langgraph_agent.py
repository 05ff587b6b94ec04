"""The example of an agent of LangGraph: killed in a tool, it asks no model twice and pays once."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.prove
def test_an_agent_that_is_killed_in_a_tool_goes_on() -> None:
    pytest.importorskip("langgraph.graph", reason="langgraph is not installed")
    done = subprocess.run([sys.executable, "examples/langgraph_agent.py"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.stdout.splitlines(), done.returncode) == (
        ["killed in the tool `book`, after 1 model call", "You have seat 61 in TGV 9576.", "2 model calls in all, 1 payment"],
        0,
    ), done.stderr
