"""Claims about what agents keep in records on Postgres: memories, shared budgets and the costs of their answers."""

from collections.abc import Iterator

import pytest

from perdure import Client
from perdure.agent import Agent
from perdure.core.errors import ExecutionFailed
from perdure.definitions.kinds.agents.agent_task import Budget
from tests.definitions.kinds.agents.scripted_model import ModelScript, deployed
from tests.stores.servers import postgres

pytestmark = [pytest.mark.slow, pytest.mark.real]


@pytest.fixture
def url() -> Iterator[str]:
    with postgres() as server:
        yield server.url


def test_memories_budgets_and_costs(url: str) -> None:
    script = ModelScript([("remember", {"name": "tea", "text": "with milk"})], "kept")
    clerk: Agent[str] = Agent("clerk", model="m", tools=["remember", "recall"], budget=Budget(calls=5, shared="team"), deployment=deployed(m=script))
    assert clerk.with_(db=url, id="1").run("Keep it") == "kept"
    with Client(url) as client:
        assert [(one.name, one.text, one.execution) for one in client.agent_memories("clerk")] == [("tea", "with milk", "clerk/1")]
        (cost,) = client.model_costs().costs
        assert (cost.workflow, cost.model, cost.answers) == ("clerk", "m", 2)
        client.forget_memory("clerk", "tea")
        assert client.agent_memories("clerk") == []
    reader: Agent[str] = Agent(
        "clerk", model="m", tools=["recall"], budget=Budget(calls=1, shared="team"), deployment=deployed(m=ModelScript([("recall", {})], "never"))
    )
    with pytest.raises(ExecutionFailed, match="team"):
        reader.with_(db=url, id="2").run("What do you know?")
