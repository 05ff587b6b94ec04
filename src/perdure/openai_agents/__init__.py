"""Agents of the OpenAI Agents SDK in workflows: `PerdureRunner` takes the place of `Runner`, and turns each model request and each tool call into a step.

    runner = PerdureRunner()

    @workflow
    async def shop(ctx: Context, wish: str) -> str:
        return (await runner.run(agent, wish)).final_output

`runner` has the runner, and `agent_run` what one run knows. `durable_agents` makes the copies of agents that request by steps: those of models
(`model_steps`), tools (`tool_steps`, with the context of the run in `run_context`) and MCP servers (`mcp_steps`); `session_steps` does it for sessions.
"""

from perdure.core.errors import MissingExtra

try:
    from agents.run import RunOptions as _Options
except ImportError as missing:
    raise MissingExtra("perdure.openai_agents", "openai-agents 0.24 or later", "openai-agents") from missing

from perdure.agent_steps import AgentStepOptions
from perdure.code.context import current_context
from perdure.openai_agents.mcp_steps import DurableMCPServer
from perdure.openai_agents.runner import PerdureRunner

__all__ = ["AgentStepOptions", "DurableMCPServer", "PerdureRunner", "current_context"]

del _Options
