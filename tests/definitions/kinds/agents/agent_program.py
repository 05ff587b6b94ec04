"""An agent in a process that its test kills: a model over HTTP, and tools that write down that they have run.

python -m tests.definitions.kinds.agents.agent_program URL DIRECTORY MODEL
"""

import sys
import time
from pathlib import Path

from perdure import step
from perdure.agent import Agent
from perdure.definitions.kinds.deployment import Deployment
from perdure.fake_llm import models

TURNS = 2
"""How often the model calls tools before it answers."""

TOOL_S = 0.3


def agent(url: str, directory: Path, model: str) -> Agent[str]:
    """The agent: its model is at the address, and its tools write to the directory."""

    @step
    def look(turn: int) -> str:
        """Looks something up."""
        with (directory / "looked.txt").open("a") as file:
            file.write(f"{turn}\n")
        time.sleep(TOOL_S)
        return f"found {turn}"

    @step(idempotent=False)
    def order(turn: int) -> str:
        """Orders something, once."""
        with (directory / "ordered.txt").open("a") as file:
            file.write(f"{turn}\n")
        time.sleep(TOOL_S)
        return f"ordered {turn}"

    known = {**models(url), "thinker": {"provider": "openai", "model": "gpt-5-mini", "base_url": f"{url}/v1"}}
    return Agent("buyer", model=model, instructions="Buy what is needed.", tools=[look, order], deployment=Deployment(models=known))


if __name__ == "__main__":
    url, directory, model = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    sys.stdout.write(agent(url, directory, model).with_(id="1", db=f"sqlite:///{directory}/it.db").run("Buy two things"))
