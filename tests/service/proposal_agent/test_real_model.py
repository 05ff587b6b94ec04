"""A proposal of a real model, where the environment names a provider that speaks OpenAI's Chat Completions (see `test_real_provider`)."""

import os
import time
from typing import Any

import pytest

from perdure import App, Deployment, step

URL, MODEL = os.environ.get("PERDURE_TEST_MODEL_URL", ""), os.environ.get("PERDURE_TEST_MODEL", "")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (URL and MODEL), reason="set PERDURE_TEST_MODEL_URL and PERDURE_TEST_MODEL to ask a real provider")]


@step(idempotent=True)
def send_mail(to: str, text: str) -> str:
    """Sends a mail."""
    return f"{text} to {to}"


def test_it_writes_a_definition_that_is_valid_and_does_what_was_asked_for() -> None:
    key = os.environ.get("PERDURE_TEST_MODEL_KEY", "")
    source: dict[str, Any] = {"provider": "openai-chat", "model": MODEL, "base_url": URL}
    deployment = Deployment(models={"real": {**source, "key": "REAL_KEY"} if key else source}, secret=lambda name: key or None)
    words = "Take an amount in cents and an address. Over 10,000 cents, ask a person first. Then send a mail with the amount to the address."
    with App(tools=[send_mail], db="memory:", deployment=deployment) as app:
        id = app.client.proposals.start_agent(words, max_turns=25).key.id
        while not (agent := app.client.proposals.get_agent(id)).ended:
            time.sleep(0.2)
        assert agent.proposal, [*(one.did for one in agent.steps), agent.why, agent.document]
        proposal = app.client.proposals.get(agent.proposal)
    assert "send_mail" in proposal.received and "approve" in proposal.received and "10000" in proposal.received
