"""The workflow by which a function of the application receives notifications: each is an execution with one step, which calls the function.

Only engines of an `App` with such a function know this workflow, so only they take notifications by the channel ``app``.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, Step, step
from perdure.core.operations import HOOK_WORKFLOW
from perdure.service.notifications.app_channel import ATTEMPTS, AppNotification
from perdure.workflow_function import Workflow


def hook_workflow(function: Callable[..., Any] | Step[Any, Any, Any]) -> Workflow[[AppNotification], Any]:
    """Returns the workflow that calls a function with each notification, as a step: a step of the user's as it is, another one as often as other channels."""
    call: Step[Any, Any, Any] = function if isinstance(function, Step) else step(name="on_notification", retry=ATTEMPTS)(_typed(function))

    async def hand_over(ctx: Context, notification: AppNotification) -> Any:
        return await ctx.step(call, notification)

    return Workflow(CodeWorkflow(hand_over, HOOK_WORKFLOW), lambda: ())


def _typed(function: Callable[..., Any]) -> Callable[[AppNotification], Any]:
    """Returns a function that says what it takes, so that one without annotations, such as ``queue.put``, is given no dict."""
    if iscoroutinefunction(function):

        async def tell(notification: AppNotification) -> Any:
            return await function(notification)

        return tell

    def say(notification: AppNotification) -> Any:
        return function(notification)

    return say
