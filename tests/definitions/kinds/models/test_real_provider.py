"""A short conversation with a real provider, where the environment names one that speaks OpenAI's Chat Completions:

export PERDURE_TEST_MODEL_URL=http://localhost:11434/v1 PERDURE_TEST_MODEL=llama3.2  # and PERDURE_TEST_MODEL_KEY, if it needs one
pytest tests/definitions/kinds/models/test_real_provider.py
"""

import os
from pathlib import Path
from typing import Any

import pytest

from perdure import Client
from perdure.agent import Agent, AgentTask
from perdure.definitions.kinds.deployment import Deployment

URL, MODEL = os.environ.get("PERDURE_TEST_MODEL_URL", ""), os.environ.get("PERDURE_TEST_MODEL", "")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (URL and MODEL), reason="set PERDURE_TEST_MODEL_URL and PERDURE_TEST_MODEL to ask a real provider")]


def deployment() -> Deployment:
    """The provider of the environment."""
    key = os.environ.get("PERDURE_TEST_MODEL_KEY", "")
    source: dict[str, Any] = {"provider": "openai-chat", "model": MODEL, "base_url": URL}
    return Deployment(models={"real": {**source, "key": "REAL_KEY"} if key else source}, secret=lambda name: key or None)


def test_it_answers_and_its_answer_is_streamed(tmp_path: Path) -> None:
    agent: Agent[str] = Agent("greeter", model="real", stream=True, deployment=deployment())
    db = f"sqlite:///{tmp_path}/it.db"
    answer = agent.with_(id="1", db=db).run(AgentTask(prompt="Say hello to Ada in one short sentence."))
    with Client(db) as client:
        (text,) = {one.path: one for one in client.get("1", agent).live_text()}.values()
    assert answer and text.is_complete


def test_it_uses_a_tool(tmp_path: Path) -> None:
    used = []

    def secret_number(name: str) -> int:
        """The secret number of a person, by name."""
        used.append(name)
        return 4711

    agent: Agent[str] = Agent("finder", model="real", tools=[secret_number], deployment=deployment())
    answer = agent.with_(id="1", db=f"sqlite:///{tmp_path}/it.db").run(
        AgentTask(prompt="What is the secret number of Ada? Use the tool, then answer with the number.")
    )
    assert used and "4711" in answer.replace(",", "")
