"""`perdure costs` and `perdure memories`: what the answers of models have cost, and what agents remember."""

import json
from pathlib import Path
from typing import Any

import pytest

from perdure.agent import Agent
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatRequest, ModelUsage, ToolCall
from tests.cli.shell import run_aside


def succeeded(*words: str) -> str:
    said = run_aside(*words)
    assert said.code == 0, said.err
    return said.out


async def dear(request: ChatRequest) -> ChatAnswer:
    return ChatAnswer(text="done", usage=ModelUsage(1_200, 30, 1_000, 0, 0.25))


@pytest.mark.slow
def test_costs_are_a_table_or_data(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path}/it.db"
    teller: Agent[str] = Agent("teller", model="dear", deployment=Deployment(models={"dear": dear}))
    assert teller.with_(db=db, id="1").run("Go") == "done"

    def costs(*options: str) -> Any:
        return succeeded("--db", db, "costs", *options)

    table = costs("--within", "1h")
    assert "teller" in table and "1,200 in (1,000 cached), 30 out" in table and "0.2500" in table
    (one,) = json.loads(costs("-o", "json", "--workflow", "teller"))
    assert (one["model"], one["answers"], one["cost_usd"], one["unpriced"]) == ("dear", 1, 0.25, 0)
    assert costs("--workflow", "other").strip() in ("", "[]")


@pytest.mark.slow
def test_memories_are_listed_and_removed(tmp_path: Path) -> None:
    async def keeping(request: ChatRequest) -> ChatAnswer:
        if len(request.messages) == 1:
            return ChatAnswer(calls=(ToolCall("1", "remember", {"name": "Ada", "text": "likes tea"}),))
        return ChatAnswer(text="kept")

    db = f"sqlite:///{tmp_path}/it.db"
    clerk: Agent[str] = Agent("clerk", model="m", tools=["remember"], deployment=Deployment(models={"m": keeping}))
    assert clerk.with_(db=db, id="1").run("Keep it") == "kept"

    def told(*words: str) -> str:
        return succeeded("--db", db, "memories", "clerk", *words)

    assert "likes tea" in told() and "clerk/1" in told()
    assert told("--forget", "Ada") == "clerk has forgotten Ada\n" and told("-o", "ids") == ""
