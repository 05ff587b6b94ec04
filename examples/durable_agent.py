"""An agent of pydantic-ai that is killed in the middle of a tool, and goes on without asking the model again.

    python examples/durable_agent.py

This process is the model, with a script (`perdure.fake_llm`). The agent runs in a process of its own, which is killed with SIGKILL while its tool `book` waits
for the railway; the second process finds what the first one recorded. The script has each answer once, so a repeated request would get none.
"""

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from perdure import Context, workflow
from perdure.fake_llm import Fake, ScriptRule, serving_aside
from perdure.fake_llm.fake_script import RequestPattern, ScriptedReply, ScriptedToolCall
from perdure.pydantic_ai import PerdureDurability

TRAINS = {"Paris": "TGV 9576", "Wien": "RJX 61"}
WAIT_S_MAX = 60.0


def travel_agent(url: str, directory: Path) -> Agent[None, str]:
    """The agent, with a model at `url`. Its tool `book` writes a file when it begins, and takes its time in the first process only."""
    model = OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="fake"))
    agent = Agent(model, name="traveller", instructions="Book trains.", capabilities=[PerdureDurability()])

    @agent.tool_plain
    def find(city: str) -> str:
        """Find the train to a city."""
        return TRAINS[city]

    @agent.tool_plain
    async def book(train: str) -> str:
        """Book a seat."""
        begun = directory / "begun"
        if not begun.exists():
            begun.touch()
            await asyncio.sleep(WAIT_S_MAX)
        return f"seat 61 in {train}"

    return agent


def work(url: str, directory: Path) -> str:
    """Begins the execution `trip`, or continues it; returns the answer."""
    agent = travel_agent(url, directory)

    @workflow
    async def travel(ctx: Context, wish: str) -> str:
        return (await agent.run(wish)).output

    return travel.with_(id="trip", db=f"sqlite:///{directory}/perdure.db").run("To Paris, please")


def script() -> list[ScriptRule]:
    """What the model answers, each once."""
    return [
        ScriptRule(RequestPattern(contains="To Paris"), ScriptedReply(calls=(ScriptedToolCall("find", {"city": "Paris"}),))),
        ScriptRule(RequestPattern(tool_result="TGV 9576"), ScriptedReply(calls=(ScriptedToolCall("book", {"train": "TGV 9576"}),))),
        ScriptRule(RequestPattern(tool_result="seat 61"), "You have seat 61 in TGV 9576."),
    ]


def main() -> None:
    """Plays the model, and kills the first process of the agent."""
    model = Fake(script())
    with tempfile.TemporaryDirectory() as name, serving_aside(model) as url:
        command = [sys.executable, __file__, url, name]
        with subprocess.Popen(command) as first:
            wait_for(Path(name) / "begun", first)
            first.send_signal(signal.SIGKILL)
        print(f"killed in the tool `book`, after {len(model.requests)} model calls")
        second = subprocess.run(command, capture_output=True, text=True, check=True, timeout=WAIT_S_MAX)
        print(second.stdout.strip())
        print(f"{len(model.requests)} model calls in all")


def wait_for(file: Path, process: "subprocess.Popen[bytes]") -> None:
    """Waits until a file exists.

    Raises:
        RuntimeError: the process has ended, or it takes too long.
    """
    limit_s = time.monotonic() + WAIT_S_MAX
    while not file.exists():
        if process.poll() is not None or time.monotonic() > limit_s:
            raise RuntimeError("the agent did not come to its tool `book`; see its output above")
        time.sleep(0.01)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(work(sys.argv[1], Path(sys.argv[2])))
    else:
        main()
