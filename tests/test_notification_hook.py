"""Claims about the function of an application that receives notifications: once each, again until it succeeds, and only where there is one."""

from pathlib import Path

import pytest

from perdure import App, AppNotification, Context, workflow
from perdure.core.errors import BadValue
from perdure.service.notifications import notice_finder
from perdure.service.notifications.notification_rules import NotificationRule
from tests.service.notifications.test_notifications import looked, until

BY_APP = NotificationRule(kinds=("asked", "failure"), channel="app", title="[@{event.kind}] @{event.title}")


@pytest.fixture(autouse=True)
def _fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(notice_finder, "LOOK_S", 0.05)


@workflow
async def asks(ctx: Context, title: str, assignees: list[str]) -> bool:
    return (await ctx.approve(title, assignees=assignees)).approved


async def test_a_function_of_an_app_receives_notifications_with_the_people_who_want_them() -> None:
    received: list[AppNotification] = []
    app = App([asks], db="sqlite:///app.db", on_notification=received.append)
    async with app:
        people = app.client.people
        await people.save_person("eve", unsubscribed=["asked"])
        await people.save_notification_rule("here", BY_APP)
        await looked(app)
        _ = await app.start(app.workflow("asks").with_(id="a"), "Pay?", ["ada", "eve", "group:ops"])
        await until(lambda: received)
    (one,) = received
    assert isinstance(one, AppNotification)
    assert (one.rule, one.title, one.events[0].execution, one.events[0].people) == ("here", "[asked] Pay?", "a", ("ada", "group:ops"))


async def test_without_such_a_function_a_rule_for_it_is_refused() -> None:
    async with App([asks], db="sqlite:///app.db") as app:
        with pytest.raises(BadValue, match=r"register a function with @app\.on_notification"):
            await app.client.people.save_notification_rule("here", BY_APP)


def test_an_app_has_one_such_function() -> None:
    app = App([asks])
    app.on_notification(lambda notification: None)
    with pytest.raises(BadValue, match="registered once"):
        app.on_notification(lambda notification: None)
