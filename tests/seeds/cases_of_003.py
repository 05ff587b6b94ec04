"""What comes of the inline workflow of seed 003, with one step of each of its types."""

from typing import Any

from tests.definitions.graph.semantics.table import Skip, Voted
from tests.seeds.cases import ExampleCase
from tests.seeds.example import Example
from tests.seeds.examples_003 import INLINE

EXAMPLES = [Example("003_inline", INLINE, False, "asks, decides and replies, two messages at a time")]
GIVEN = {"text": "help", "messages": [1, 2, 3]}
REPLIES = "each_message/~0/reply each_message/~1/reply"


def says(answer: str) -> dict[str, Any]:
    """A model that answers so to what the seed asks."""

    def model(config: dict[str, Any], input: Any = None) -> dict[str, Any]:
        assert config == {"model": "gpt-4o", "temperature": 0.2, "prompt": "Is this urgent? help (@all)"}
        return {"text": answer}

    return {"llm": model}


CASES = [
    ExampleCase(
        "not urgent: two messages at a time, and then it counts",
        "003_inline",
        GIVEN,
        does=says("no"),
        ran=f"ask decide {REPLIES} count",
        result={"pageSize": 51},
    ),
    ExampleCase(
        "urgent, and approved",
        "003_inline",
        GIVEN,
        does=says("yes"),
        script=(Skip("30s"), Voted("sign", by="m1")),
        ran=f"ask decide sign {REPLIES} count",
        result={"pageSize": 51},
    ),
    ExampleCase("urgent, and rejected: null ends it", "003_inline", GIVEN, does=says("yes"), script=(Voted("sign", False, by="m1"),), ran="ask decide sign"),
    ExampleCase("no messages: done at once", "003_inline", {"text": "help", "messages": []}, does=says("no"), ran="ask decide count"),
    ExampleCase(
        "nobody signs in the time that all of it has",
        "003_inline",
        GIVEN,
        does=says("yes"),
        took=60,
        failed="the execution did not end within 60 s of its start",
    ),
]
