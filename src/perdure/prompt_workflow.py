"""The workflow by which an application receives the prompts of schedules: each is an execution with one step, the handler of the application.

Only engines of an `App` with a handler know this workflow, so only they work on prompts, and a schedule is refused where no living engine has one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, Step, step
from perdure.core.operations import PROMPT_WORKFLOW
from perdure.workflow_function import Workflow, with_argument_type


class Prompt(msgspec.Struct, frozen=True):
    """A prompt of a schedule: its text, the id and the name of the trigger, its `tick` in UTC, and how many executions the schedule has started, this one
    included (0: it was started by hand).
    """

    text: str
    trigger: str = ""
    name: str = ""
    tick: str = ""
    number: int = 0


def prompt_workflow(handler: Callable[..., Any] | Step[Any, Any, Any]) -> Workflow[[Prompt], Any]:
    """Returns the workflow that calls a handler with each prompt, as a step: a step of the user's as it is, another function with the usual retry policy."""
    handle: Step[Any, Any, Any] = handler if isinstance(handler, Step) else step(name="on_prompt")(with_argument_type(handler, Prompt))

    async def receive(ctx: Context, prompt: Prompt) -> Any:
        return await ctx.step(handle, prompt)

    return Workflow(CodeWorkflow(receive, PROMPT_WORKFLOW), lambda: ())
