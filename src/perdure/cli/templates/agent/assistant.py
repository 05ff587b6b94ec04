"""An agent of pydantic-ai in a workflow: each request to the model and each call of a tool is a step, which is recorded once.

    python assistant.py "Two pots of tea, please"       # with a scripted model: no network, no key
    MODEL=openai:gpt-5.2 OPENAI_API_KEY=... python assistant.py "Two pots of tea, please"

The id of an execution follows from the wish: the same wish again continues the execution after a crash, or returns its result.
"""

import os
import sys

from perdure import Context, step_info, workflow
from perdure.pydantic_ai import PerdureDurability
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

PRICES = {"tea": 300, "coffee": 450}


def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands for a model: asks for the price of tea, orders it, and says what it has ordered."""
    answers = [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    match len(answers):
        case 0:
            return ModelResponse(parts=[ToolCallPart("price", {"item": "tea"})])
        case 1:
            return ModelResponse(parts=[ToolCallPart("order", {"item": "tea", "count": 2})])
        case _:
            return ModelResponse(parts=[TextPart(f"Done: {answers[-1]}, at {answers[0]} cents each.")])


agent = Agent(
    os.environ.get("MODEL") or FunctionModel(script),
    name="assistant",
    instructions="You sell tea and coffee. Look up the price, order what is wished for, and say what you have ordered.",
    capabilities=[PerdureDurability()],
    defer_model_check=True,  # the key of a model is needed when it is asked, and not by `perdure ls`
)


@agent.tool_plain
def price(item: str) -> int:
    """The price of an item, in cents."""
    return PRICES[item]


@agent.tool_plain
def order(item: str, count: int) -> str:
    """Order an item. Pass this key to the system that you order from: a repeated request then has no second effect."""
    print(f"ordering {count} x {item} under {step_info().key}", flush=True)
    return f"{count} x {item} ordered"


@workflow
async def assist(ctx: Context, wish: str) -> str:
    """Fulfils a wish."""
    return (await agent.run(wish)).output


if __name__ == "__main__":
    wish = " ".join(sys.argv[1:]) or "Two pots of tea, please"
    print(assist.with_(id=wish).run(wish))
