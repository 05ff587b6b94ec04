"""A kind of steps that a package brings: what the weather is somewhere, as it always is there."""

from typing import Any

from perdure import Capabilities, Deployment, Kind, Limit

WRONG = Kind("another_name", lambda config, input: None)


def kind(deployment: Deployment) -> Kind:
    """Made for a deployment, of which it takes note."""

    async def run(config: dict[str, Any], input: dict[str, Any]) -> dict[str, Any]:
        return {"city": input["city"], "sky": "rain", "unit": config.get("unit", "C"), "bash": deployment.allowed.bash}

    return Kind(
        "weather",
        run,
        title="Weather",
        summary="What the weather is in a city.",
        icon="cloud",
        version="2",
        config={"type": "object", "properties": {"unit": {"enum": ["C", "F"]}}, "additionalProperties": False},
        input={"type": "object", "required": ["city"]},
        output={"type": "object"},
        limits=(Limit("cities", "1", None, "a second one is not looked at"),),
        idempotency="yes: looking changes nothing",
        capabilities=Capabilities(max_fanout=2),
    )
