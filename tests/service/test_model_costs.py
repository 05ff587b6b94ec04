"""What model calls have cost is known by workflow, step, model and tenant."""

import time
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, Definition
from perdure.agent import Agent
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatRequest, ModelUsage
from perdure.service.model_costs import read_model_costs
from perdure.testing import World

LEADS = """
perdure: 1
name: leads
order: listed
steps:
  - {id: sort, llm: {model: cheap, prompt: Sort it}}
  - {id: each_one, each: {in: [1, 2], as: one}, llm: {model: cheap, prompt: One of them}}
  - {id: route, agent: {model: dear, prompt: Route it}}
  - {id: free, agent: {model: unknown, prompt: Do it}}
"""


def costing(cost_usd: float | None) -> Any:
    async def model(request: ChatRequest) -> ChatAnswer:
        return ChatAnswer(text="done", usage=ModelUsage(100, 10, 40, 0, cost_usd))

    return model


WHERE = Deployment(models={"cheap": costing(0.001), "dear": costing(0.25), "unknown": costing(None), "both": ["cheap", "dear"]})


def rows(world: World, **more: Any) -> list[tuple[Any, ...]]:
    found = world.call(read_model_costs(world.access, more.pop("tenant", "default"), 3_600, **more))
    assert not found.is_partial and found.cost_usd == pytest.approx(sum(one.cost_usd for one in found.costs))
    return [(one.workflow, one.step, one.model, one.answers, one.input_tokens, one.cost_usd, one.unpriced) for one in found.costs]


def test_costs_are_summed_by_workflow_step_and_model(world: World) -> None:
    world.run(Definition.of(LEADS, deployment=WHERE))
    teller: Agent[str] = Agent("teller", model="both", deployment=WHERE)
    world.run(teller, "Go")
    world.run(teller, "Go")
    assert rows(world) == [
        ("leads", "route", "dear", 1, 100, 0.25, 0),
        ("leads", "each_one", "cheap", 2, 200, 0.002, 0),
        ("teller", "model", "cheap", 2, 200, 0.002, 0),
        ("leads", "sort", "cheap", 1, 100, 0.001, 0),
        ("leads", "free", "unknown", 1, 100, 0.0, 1),
    ]
    assert [row[0] for row in rows(world, workflow="teller")] == ["teller"] and rows(world, tenant="other") == []
    world.skip("2d")
    assert rows(world) == []


def test_a_replay_costs_nothing(world: World) -> None:
    teller: Agent[str] = Agent("teller", model="dear", deployment=WHERE)
    run = world.start(teller, "Go")
    assert run.result() == "done"
    world.check(replay=True)
    world.restart()
    assert world.get(run.id, teller).result() == "done" and [row[3] for row in rows(world)] == [1]


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every")
def test_an_answer_that_was_lost_with_its_process_was_paid_for_too(world: World) -> None:
    teller: Agent[str] = Agent("teller", model="dear", deployment=WHERE)
    assert world.run(teller, "Go") == "done"
    (row,) = rows(world)
    assert row[3] in (1, 2) and row[5] == pytest.approx(0.25 * row[3])


@pytest.mark.slow
def test_a_client_tells_costs_of_a_tenant(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path}/it.db"
    teller: Agent[str] = Agent("teller", model="dear", deployment=WHERE)
    teller.with_(db=db, id="1").run("Go")
    teller.with_(db=db, id="1", tenant="acme").run("Go")
    with Client(db) as client:
        mine, all_of_acme = client.model_costs("1d"), client.model_costs("1d", tenant="acme", workflow="teller")
        assert [one.cost_usd for one in (*mine.costs, *all_of_acme.costs)] == [0.25, 0.25] and mine.until_s <= time.time() + 60
