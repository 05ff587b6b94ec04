"""Calls of function tools as steps.

The function of a tool is called without what the SDK does with its errors, so that a step which fails is attempted again. Only the last error is given to the
tool's `failure_error_function`, in the workflow, and the model is told what that returns.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from agents import (
    Agent,
    ApplyPatchTool,
    ComputerTool,
    CustomTool,
    FunctionTool,
    LocalShellTool,
    ShellTool,
    Tool,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    Usage,
    UserError,
)
from agents.agent_tool_state import consume_agent_tool_run_result, get_agent_tool_state_scope
from agents.tool import invoke_function_tool, set_function_tool_failure_error_function, with_function_tool_failure_error_handler
from agents.tool_context import ToolContext
from pydantic import TypeAdapter

from perdure.agent_steps import INTERRUPTED, AgentStepOptions, checked_options
from perdure.core.errors import ProgrammingError
from perdure.openai_agents.agent_run import AgentRun, current_run, run_step
from perdure.openai_agents.run_context import ContextCopy, apply_changes

_ANYTHING = TypeAdapter(Any)
_USAGE = TypeAdapter(Usage)
_STRUCTURED = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)

LOCAL_TOOLS = (ApplyPatchTool, ComputerTool, CustomTool, LocalShellTool)
"""Tools that act on this machine and are no function tools; a `ShellTool` may be one too."""


def durable_tool(tool: Tool, agent: Agent[Any]) -> Tool:
    """Returns a tool whose calls are steps; one that the provider runs as it is.

    Raises:
        UserError: the tool acts on this machine, and is no function tool.
    """
    if not isinstance(tool, FunctionTool):
        if isinstance(tool, LOCAL_TOOLS) or (isinstance(tool, ShellTool) and tool.executor is not None):
            raise UserError(
                f"Tool {tool.name} of agent {agent.name} would act on this machine from a workflow. Write it as a function_tool, whose calls are steps"
            )
        return tool
    if isinstance(tool.on_invoke_tool, _GuardedCall):
        return tool
    made = copy.copy(tool)
    made.timeout_seconds = None  # the step has it
    made.on_invoke_tool = _GuardedCall(_with_failures_handled(tool))
    return made


def _raising(tool: FunctionTool) -> FunctionTool:
    """Returns a tool that raises its errors."""
    return set_function_tool_failure_error_function(copy.copy(tool), None)


def _with_failures_handled(tool: FunctionTool) -> FunctionTool:
    """Returns a tool that is called durably, and that does with the last error what the original does with its own."""
    called = _DurableCall(tool)
    handling = with_function_tool_failure_error_handler(called, lambda tool, error, arguments: None)  # the log has the error
    made = copy.copy(tool)
    made.on_invoke_tool = handling if isinstance(tool.on_invoke_tool, type(handling)) else called
    return copy.copy(made)  # which gives its failures to itself


@dataclasses.dataclass(frozen=True, eq=False)
class _GuardedCall:
    """Calls a tool, and ends the run with the error that it raises."""

    tool: FunctionTool

    async def __call__(self, ctx: ToolContext[Any], arguments: str) -> Any:
        try:
            return await self.tool.on_invoke_tool(ctx, arguments)
        except Exception as error:
            await current_run().fail(error)


@dataclasses.dataclass(frozen=True, eq=False)
class _DurableCall:
    """Calls a tool in a step, or in the workflow if its options say so."""

    tool: FunctionTool

    async def __call__(self, ctx: ToolContext[Any], arguments: str) -> Any:
        settings = current_run().settings
        options = settings.tool_options.get(self.tool.name, {})
        if options is False:
            return await self._call_here(ctx, arguments)
        return await self._call_in_step(ctx, arguments, {**settings.tools, **options})

    async def _call_here(self, ctx: ToolContext[Any], arguments: str) -> Any:
        try:
            return await invoke_function_tool(function_tool=_raising(self.tool), context=ctx, arguments=arguments)
        except ProgrammingError as error:  # such as the use of a clock, of which the model should not be told
            await current_run().fail(error)

    async def _call_in_step(self, ctx: ToolContext[Any], arguments: str, options: AgentStepOptions) -> Any:
        run = current_run()

        async def perform() -> dict[str, Any]:
            return await self._perform(ctx, arguments, run)

        done: dict[str, Any] = await run_step(f"tool:{self.tool.name}", perform, options, raises=(Exception,), interrupted={"output": INTERRUPTED})
        if "refused" in done:
            await run.fail(UserError(done["refused"]))
        apply_changes(ctx.context, done.get("context", {}))
        if "usage" in done:
            ctx.usage.add(_USAGE.validate_python(done["usage"]))
        return done["output"]

    async def _perform(self, ctx: ToolContext[Any], arguments: str, run: AgentRun) -> dict[str, Any]:
        """Calls the tool with a context of its own; returns what the workflow has to know."""
        resource = run.settings.context
        given = ContextCopy(ctx.context if resource is None else None)
        own = copy.copy(ctx)
        own.context = given.context if resource is None else await resource
        own.usage, own.run_config = Usage(), run.plain_config
        output = await invoke_function_tool(function_tool=_raising(self.tool), context=own, arguments=arguments)
        asked = None if ctx.tool_call is None else consume_agent_tool_run_result(ctx.tool_call, scope_id=get_agent_tool_state_scope(ctx))
        if asked is not None and asked.interruptions:
            return {"refused": _asks_in_step(self.tool.name)}
        changed, lost = given.changes()
        if lost:
            return {"refused": f"Tool {self.tool.name} changed {', '.join(lost)} of the context of its run to what can't be recorded. Keep plain data there"}
        done: dict[str, Any] = {"output": recorded_output(output, self.tool)}
        if changed:
            done["context"] = changed
        if own.usage.requests:
            done["usage"] = _USAGE.dump_python(own.usage, mode="json")
        return done


def _asks_in_step(name: str) -> str:
    return (
        f"The agent of tool {name} asks for an approval, but it runs in the step of the tool, which can't wait for one. Write the tool as a function_tool that "
        f"calls PerdureRunner.run, and let the workflow run it: PerdureRunner(tool_options={{{name!r}: False}})"
    )


def recorded_output(output: Any, tool: FunctionTool) -> Any:
    """Returns the output of a tool as plain data of which the SDK makes the same answer to the model: other objects as their text, as the SDK does."""
    if tool.output_json_schema is not None and not isinstance(output, str):
        return _ANYTHING.dump_python(output, mode="json")
    if isinstance(output, _STRUCTURED):
        return output.model_dump(mode="json", exclude_none=True)
    if isinstance(output, list | tuple) and output and all(isinstance(one, _STRUCTURED) or _is_plain(one) for one in output):
        found = [recorded_output(one, tool) for one in output]
        return found if any(isinstance(one, _STRUCTURED) for one in output) or isinstance(output, list) else str(output)
    return output if _is_plain(output) else str(output)


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return type(value) is dict and all(type(name) is str and _is_plain(one) for name, one in value.items())
    return (type(value) is list and all(map(_is_plain, value))) or type(value) in (str, int, float, bool, type(None))


def checked_tool_options(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the options of single tools by name; False is for a tool that the workflow calls itself.

    Raises:
        BadValue: one is unknown, or its value is not accepted.
    """
    what = "PerdureRunner(tool_options)"
    return {name: options if options is False else checked_options(f"{what} of {name}", options) for name, options in (given or {}).items()}
