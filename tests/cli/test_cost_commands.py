"""`perdure costs`: what the answers of models have cost, as a table and as data."""

import json
import sys
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

from perdure.agent import Agent
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatRequest, ModelUsage


async def dear(request: ChatRequest) -> ChatAnswer:
    return ChatAnswer(text="done", usage=ModelUsage(1_200, 30, 1_000, 0, 0.25))


@pytest.mark.slow
def test_costs_are_a_table_or_data(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path}/it.db"
    teller: Agent[str] = Agent("teller", model="dear", deployment=Deployment(models={"dear": dear}))
    assert teller.with_(db=db, id="1").run("Go") == "done"

    def costs(*options: str) -> Any:
        return run([sys.executable, "-m", "perdure.cli", "--db", db, "costs", *options], capture_output=True, text=True, check=True).stdout

    table = costs("--within", "1h")
    assert "teller" in table and "1,200 in (1,000 cached), 30 out" in table and "0.2500" in table
    (one,) = json.loads(costs("-o", "json", "--workflow", "teller"))
    assert (one["model"], one["answers"], one["cost_usd"], one["unpriced"]) == ("dear", 1, 0.25, 0)
    assert costs("--workflow", "other").strip() in ("", "[]")
