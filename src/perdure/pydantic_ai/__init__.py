"""Agents of pydantic-ai in workflows: `PerdureDurability` turns each model request and each tool call of an agent into a step.

    agent = Agent("openai:gpt-5.2", name="shopper", capabilities=[PerdureDurability()])

    @workflow
    async def shop(ctx: Context, wish: str) -> str:
        return (await agent.run(wish)).output

`durability` has the capability, `operation_backend` runs what pydantic-ai calls a durable operation as a step, and `tool_approvals` asks people about tools.
"""

from perdure.core.errors import MissingExtra

try:
    from pydantic_ai.durable_exec import BaseDurabilityCapability as _Base
except ImportError as missing:
    raise MissingExtra("perdure.pydantic_ai", "pydantic-ai-slim 2.68 or later", "agents") from missing

from perdure.agent_steps import AgentStepOptions
from perdure.code.context import current_context
from perdure.pydantic_ai.durability import PerdureDurability

__all__ = ["AgentStepOptions", "PerdureDurability", "current_context"]

del _Base
