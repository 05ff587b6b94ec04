"""An agent that streams, in a process that its test kills: ``python -m tests.definitions.kinds.models.live_program URL DATABASE``."""

import sys

from perdure.agent import Agent
from perdure.definitions.kinds.deployment import Deployment
from perdure.fake_llm import models


def teller(url: str, model: str) -> Agent[str]:
    """The agent."""
    return Agent("teller", model=model, stream=True, deployment=Deployment(models={**models(url), "both": ["small", "large"]}))


if __name__ == "__main__":
    sys.stdout.write(teller(sys.argv[1], "large").with_(id="1", db=sys.argv[2]).run("Tell me"))
