"""The workflow by which a function of the application receives notifications: each is an execution with one step, which calls the function.

Only engines of an `App` with such a function know this workflow, so only they take notifications by the channel ``app``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, Step, step
from perdure.core.operations import HOOK_WORKFLOW
from perdure.service.notifications.app_channel import ATTEMPTS, AppNotification
from perdure.workflow_function import Workflow, with_argument_type


def hook_workflow(function: Callable[..., Any] | Step[Any, Any, Any]) -> Workflow[[AppNotification], Any]:
    """Returns the workflow that calls a function with each notification, as a step: a step of the user's as it is, another one as often as other channels."""
    say = step(name="on_notification", retry=ATTEMPTS)
    call: Step[Any, Any, Any] = function if isinstance(function, Step) else say(with_argument_type(function, AppNotification))

    async def hand_over(ctx: Context, notification: AppNotification) -> Any:
        return await ctx.step(call, notification)

    return Workflow(CodeWorkflow(hand_over, HOOK_WORKFLOW), lambda: ())
