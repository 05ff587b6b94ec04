"""The channel ``app``: a notification is handed to a function of the application, by an execution of its own that only engines with such a function take."""

from typing import Any

import msgspec

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, Retry
from perdure.core.errors import BadValue, NotFound
from perdure.core.operations import HOOK_WORKFLOW
from perdure.service.manual_runs import expect_code
from perdure.service.notifications.notification_channels import NotificationRefused
from perdure.service.people.person_records import NotificationKind
from perdure.service.store_access import StoreAccess

ATTEMPTS = Retry(max=12, wait=5.0, factor=3.0, max_wait="2h", fatal=(NotificationRefused,))
"""About fourteen hours, with two hours between the last attempts."""


class NoticedEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event that somebody is notified of: its id, its kind, the title and text, the execution, and the address of a page.

    For the function of an application, `people` are the assignees of an approval, with those who stand in for them and without those who have unsubscribed;
    groups begin with ``group:``.
    """

    id: str
    kind: NotificationKind
    title: str
    text: str
    workflow: str
    execution: str
    at_s: float
    link: str = ""
    people: tuple[str, ...] = ()


class AppNotification(msgspec.Struct, frozen=True, omit_defaults=True):
    """A notification: its `id`, which is the same in each attempt, the name of the `rule`, the title and text that this has filled in, and the events."""

    id: str
    rule: str
    title: str
    text: str
    events: tuple[NoticedEvent, ...] = ()


async def _hook(ctx: Context, notification: AppNotification) -> Any:
    """Stands for the workflow that the engines of an application have."""
    raise AssertionError("no engine is given this workflow")


class _HookWorkflow:
    """The workflow as `Context.call` takes it."""

    code = CodeWorkflow(_hook, HOOK_WORKFLOW)

    def signature(self, notification: AppNotification) -> Any:
        """See `HasCode.signature`."""


APP_HOOK = _HookWorkflow()
"""The workflow that hands a notification to the application, by its name: its code is in the engines of the application."""


async def expect_hook(access: StoreAccess) -> None:
    """Checks that the application takes notifications.

    Raises:
        BadValue: no living engine has a function for them.
    """
    try:
        await expect_code(access, HOOK_WORKFLOW)
    except NotFound:
        raise BadValue("/channel", "app", "taken by a living engine: register a function with @app.on_notification, and run the App") from None
