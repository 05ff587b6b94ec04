"""Two agents of the OpenAI Agents SDK: one hands over to the other, whose process is killed in the middle of a tool. They go on without asking a model again.

    python examples/openai_agent.py

This process is the model, with a script (`perdure.fake_llm`), which has each answer once. The agents run in a process of their own, which is killed with
SIGKILL while the tool `book` waits for the railway. A second process continues the same execution: what the tool `pay` noted in the context of the run is
there as well.
"""

import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from agents import Agent, OpenAIChatCompletionsModel, RunContextWrapper, function_tool
from openai import AsyncOpenAI

from perdure import Context, workflow
from perdure.fake_llm import Fake, ScriptRule, serving_aside
from perdure.fake_llm.fake_script import RequestPattern, ScriptedReply, ScriptedToolCall
from perdure.openai_agents import PerdureRunner

WAIT_S_MAX = 60.0
URL, DIRECTORY = sys.argv[1:3] if len(sys.argv) > 2 else ("http://127.0.0.1", ".")


@dataclass
class Trip:
    """The context of the run."""

    budget_euros: int
    spent_euros: int = 0


@function_tool
def pay(trip: RunContextWrapper[Trip], train: str) -> str:
    """Pay a ticket."""
    trip.context.spent_euros += 89
    return f"ticket for {train} paid, {trip.context.budget_euros - trip.context.spent_euros} euros are left"


@function_tool
def book(train: str) -> str:
    """Book a seat. The first time it takes longer than its process lives."""
    begun = Path(DIRECTORY, "begun")
    if not begun.exists():
        begun.touch()
        time.sleep(WAIT_S_MAX)
    return f"seat 61 in {train}"


model = OpenAIChatCompletionsModel("gpt-4o-mini", AsyncOpenAI(base_url=f"{URL}/v1", api_key="fake"))
traveller = Agent[Trip](name="traveller", instructions="Pay and book trains.", model=model, tools=[pay, book])
desk = Agent[Trip](name="desk", instructions="Find out who can help.", model=model, handoffs=[traveller])


@workflow
async def travel(ctx: Context, wish: str) -> str:
    """Runs the agents; returns their answer and what the context has."""
    trip = Trip(budget_euros=120)
    result = await PerdureRunner().run(desk, wish, context=trip)
    return f"{result.last_agent.name}: {result.final_output} {trip.spent_euros} euros spent."


def script() -> list[ScriptRule]:
    """What the model answers, each once."""
    return [
        ScriptRule(RequestPattern(system="Find out"), ScriptedReply(calls=(ScriptedToolCall("transfer_to_traveller", {}),))),
        ScriptRule(RequestPattern(tool_result="traveller"), ScriptedReply(calls=(ScriptedToolCall("pay", {"train": "TGV 9576"}),))),
        ScriptRule(RequestPattern(tool_result="31 euros are left"), ScriptedReply(calls=(ScriptedToolCall("book", {"train": "TGV 9576"}),))),
        ScriptRule(RequestPattern(tool_result="seat 61"), "You have seat 61 in TGV 9576."),
    ]


def main() -> None:
    """Plays the model, and kills the first process of the agents."""
    fake = Fake(script())
    with tempfile.TemporaryDirectory() as name, serving_aside(fake) as url:
        command = [sys.executable, __file__, url, name]
        with subprocess.Popen(command) as first:
            limit_s = time.monotonic() + WAIT_S_MAX
            while not Path(name, "begun").exists():
                if first.poll() is not None or time.monotonic() > limit_s:
                    raise RuntimeError("the agents did not come to the tool `book`; see their output above")
                time.sleep(0.01)
            first.send_signal(signal.SIGKILL)
        print(f"killed in the tool `book`, after {len(fake.requests)} model calls")
        second = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=WAIT_S_MAX)
        print(second.stdout.strip())
        print(f"{len(fake.requests)} model calls in all")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(travel.with_(id="trip", db=f"sqlite:///{DIRECTORY}/perdure.db").run("To Paris, please"))
    else:
        main()
