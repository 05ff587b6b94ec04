"""An agent of LangGraph that is killed in the middle of a tool, and goes on without asking the model again or repeating what its tools have done.

    python examples/langgraph_agent.py

This process is the model, with a script (`perdure.fake_llm`). The graph runs in a process of its own, with its checkpoints in Perdure's database; its node
`tools` is a workflow with a step for each tool. That process is killed with SIGKILL while the tool `book` waits for the railway, and a second one invokes
the graph again.
"""

import json
import operator
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from openai import OpenAI

from perdure import App, Context, step, workflow
from perdure.fake_llm import Fake, ScriptRule, serving_aside
from perdure.fake_llm.fake_script import RequestPattern, ScriptedReply, ScriptedToolCall
from perdure.langgraph import Checkpointer, durable_node

WAIT_S_MAX = 60.0
DIRECTORY = Path(sys.argv[2] if len(sys.argv) > 2 else ".")
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "description": about, "parameters": {"type": "object", "properties": {"train": {"type": "string"}}}}}
    for name, about in (("pay", "Pay a ticket."), ("book", "Book a seat."))
]


class Trip(TypedDict):
    """The state of the graph: the messages of a chat, in OpenAI's shape."""

    messages: Annotated[list[dict[str, Any]], operator.add]


@step
def pay(train: str) -> str:
    """Pays, and leaves a line for each time it does."""
    with (DIRECTORY / "payments").open("a") as file:
        file.write(f"{train}\n")
    return f"ticket for {train} paid"


@step
def book(train: str) -> str:
    """Books a seat. The first time it takes longer than its process lives."""
    begun = DIRECTORY / "begun"
    if not begun.exists():
        begun.touch()
        time.sleep(WAIT_S_MAX)
    return f"seat 61 in {train}"


@workflow
async def use_tools(ctx: Context, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Calls the tools that the model wants, each in a step, and returns their messages."""
    answers = []
    for call in calls:
        tool = {"pay": pay, "book": book}[call["function"]["name"]]
        result = await ctx.step(tool, **json.loads(call["function"]["arguments"]))
        answers.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return {"messages": answers}


def travel(url: str) -> str:
    """Begins the trip, or continues it; returns the answer."""
    model = OpenAI(base_url=f"{url}/v1", api_key="fake")

    def ask(state: Trip) -> dict[str, Any]:
        answer = model.chat.completions.create(model="gpt-4o-mini", messages=state["messages"], tools=TOOLS)  # type: ignore[arg-type]  # plain data
        return {"messages": [answer.choices[0].message.model_dump(exclude_none=True)]}

    app = App([use_tools], db=f"sqlite:///{DIRECTORY}/trip.db")
    builder = StateGraph(Trip)
    builder.add_node("model", ask)
    builder.add_node("tools", durable_node(app, use_tools, lambda state: (state["messages"][-1]["tool_calls"],)))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].get("tool_calls") else END, ["tools", END])
    builder.add_edge("tools", "model")
    with app:
        graph = builder.compile(checkpointer=Checkpointer(app))
        where: RunnableConfig = {"configurable": {"thread_id": "trip"}}
        is_new = not graph.get_state(where).created_at
        ended = graph.invoke({"messages": [{"role": "user", "content": "To Paris, please"}]} if is_new else None, where, durability="sync")
    return str(ended["messages"][-1]["content"])


def script() -> list[ScriptRule]:
    """What the model answers, each once."""
    calls = (ScriptedToolCall("pay", {"train": "TGV 9576"}), ScriptedToolCall("book", {"train": "TGV 9576"}))
    return [
        ScriptRule(RequestPattern(contains="To Paris"), ScriptedReply(calls=calls)),
        ScriptRule(RequestPattern(tool_result="seat 61"), "You have seat 61 in TGV 9576."),
    ]


def main() -> None:
    """Plays the model, and kills the first process of the graph."""
    model = Fake(script())
    with tempfile.TemporaryDirectory() as name, serving_aside(model) as url:
        command = [sys.executable, __file__, url, name]
        with subprocess.Popen(command) as first:
            limit_s = time.monotonic() + WAIT_S_MAX
            while not (Path(name) / "begun").exists():
                if first.poll() is not None or time.monotonic() > limit_s:
                    raise RuntimeError("the graph did not come to its tool `book`; see its output above")
                time.sleep(0.01)
            first.send_signal(signal.SIGKILL)
        print(f"killed in the tool `book`, after {len(model.requests)} model call")
        second = subprocess.run(command, capture_output=True, text=True, check=True, timeout=WAIT_S_MAX)
        print(second.stdout.strip())
        payments = (Path(name) / "payments").read_text().splitlines()
        print(f"{len(model.requests)} model calls in all, {len(payments)} payment")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(travel(sys.argv[1]))
    else:
        main()
