"""Images and files go to models in each protocol, from tasks and from tools, and are blobs beside the log if they are large."""

import base64
from pathlib import Path
from typing import Any

import pytest

from perdure import Client
from perdure.agent import Agent, AgentTask, Attachment
from perdure.core.values import Blob
from perdure.definitions.kinds.agents.attachments import parse_result
from perdure.definitions.kinds.deployment import Deployment
from perdure.fake_llm import Fake, models, serving_aside
from perdure.testing import World
from tests.definitions.kinds.agents.scripted_model import ModelScript, deployed

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
LARGE = PIXEL + bytes(200_000)


def photo() -> Attachment:
    """Takes a photo."""
    return Attachment("image/png", LARGE, "photo")


def untyped():  # type: ignore[no-untyped-def]  # as users write them
    """Takes two."""
    return [Attachment("image/png", PIXEL), "a note"]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["small", "medium", "large"])
def test_images_of_a_task_and_of_a_tool_reach_the_model_and_are_blobs(model: str, tmp_path: Path) -> None:
    fake = Fake([{"when": {"turn": 1}, "answer": {"calls": [{"name": "photo"}]}}, {"when": {"turn": 2}, "answer": "Two pixels"}])
    db = f"sqlite:///{tmp_path}/it.db"
    with serving_aside(fake) as url:
        agent: Agent[str] = Agent("seer", model=model, tools=[photo], deployment=Deployment(models=models(url)))
        task = AgentTask(prompt="What is on it?", attachments=(Attachment("image/png", PIXEL),))
        assert agent.with_(id="1", db=db).run(task) == "Two pixels"
    first, second = (str(one["request"]) for one in fake.requests)
    assert base64.b64encode(PIXEL).decode() in first and base64.b64encode(LARGE).decode() in second and "image/png, 200,070 bytes" in second
    with Client(db) as client:
        steps = {one.path: one for one in client.get("1", agent).attempts()}
    assert isinstance(steps["turn 1/call/photo"].output, Blob) and agent.with_(id="1", db=db).run(task) == "Two pixels"


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every")
def test_killed_anywhere_a_model_gets_the_same_images(world: World) -> None:
    script = ModelScript([("photo", {}), ("untyped", {})], "Three")
    agent: Agent[str] = Agent("seer", model="m", tools=[photo, untyped], deployment=deployed(m=script))
    assert world.run(agent, AgentTask(prompt="Look", attachments=(Attachment("application/pdf", b"%PDF", "bill.pdf"),))) == "Three"
    assert [[one.media_type for one in message.attachments] for message in script.last] == [["application/pdf"], [], ["image/png"], ["image/png"]]
    assert [message.text for message in script.last[2:]] == [
        "[attached: photo, image/png, 200,070 bytes]",
        '["[attached: image/png, 70 bytes]","a note"]',
    ]


@pytest.mark.parametrize(
    ("value", "told", "count"),
    [
        ([{"type": "text", "text": "a"}, {"type": "image", "data": base64.b64encode(PIXEL).decode(), "mimeType": "image/png"}], None, 1),
        ([{"type": "image", "data": "not base64!", "mimeType": "image/png"}], None, 0),
        ({"type": "image", "data": "bäse64==", "mimeType": "image/png"}, {"type": "image", "data": "bäse64==", "mimeType": "image/png"}, 0),
        ({"media_type": "image/png", "data": b"x", "more": 1}, {"media_type": "image/png", "data": b"x", "more": 1}, 0),
        ([], [], 0),
        ("text", "text", 0),
    ],
)
def test_only_what_is_an_attachment_is_one(value: Any, told: Any, count: int) -> None:
    found = parse_result(value)
    assert len(found.attachments) == count and (told is None or found.value == told)
