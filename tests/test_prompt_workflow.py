"""Claims about prompts of schedules: the handler of an App receives each once, and without a handler there is no such schedule."""

from pathlib import Path
from typing import Any

import pytest

from perdure import App, Context, Prompt, workflow
from perdure.core.errors import BadValue, NoPromptHandler
from perdure.service.triggers.trigger_records import ScheduleConfig


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


ASKS = ScheduleConfig(cron="@daily", target="orchestrator", prompt="What is new?")


@workflow
async def other(ctx: Context) -> None:
    """Something else."""


async def test_the_handler_of_an_app_receives_prompts_and_its_answer_is_the_result() -> None:
    received: list[Prompt] = []
    app = App([other], db="sqlite:///app.db")

    @app.on_prompt
    async def answer(prompt: Prompt) -> str:
        received.append(prompt)
        return f"nothing on {prompt.text}"

    async with app:
        made = await app.client.triggers.create("news", ASKS)
        started = await app.client.triggers.run(made.id)
        handle = await app.client.get(started.key)
        assert await handle.result() == "nothing on What is new?"
    assert [(one.text, one.trigger, one.name, one.number) for one in received] == [("What is new?", made.id, "news", 0)] and received[0].tick


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_handler_without_annotations_receives_a_prompt_and_no_dict(is_async: bool) -> None:
    received: list[Any] = []
    app = App([other], db="sqlite:///app.db")

    async def keep(prompt):  # type: ignore[no-untyped-def]  # the claim is about a function without annotations
        received.append(prompt)

    _ = app.on_prompt(keep if is_async else received.append)
    async with app:
        made = await app.client.triggers.create("news", ASKS)
        started = await app.client.triggers.run(made.id)
        await (await app.client.get(started.key)).result()
    assert [(type(one), one.text) for one in received] == [(Prompt, "What is new?")]


async def test_a_handler_that_says_what_it_takes_receives_that() -> None:
    received: list[dict[str, Any]] = []
    app = App([other], db="sqlite:///app.db")

    @app.on_prompt
    def keep(prompt: dict[str, Any]) -> None:
        received.append(prompt)

    async with app:
        made = await app.client.triggers.create("news", ASKS)
        started = await app.client.triggers.run(made.id)
        await (await app.client.get(started.key)).result()
    assert received[0]["text"] == "What is new?"


async def test_without_a_handler_such_a_schedule_is_refused() -> None:
    async with App([other], db="sqlite:///app.db") as app:
        with pytest.raises(NoPromptHandler, match=r"register one with @app\.on_prompt"):
            await app.client.triggers.create("news", ASKS)


def test_an_app_has_one_handler() -> None:
    app = App([other])
    app.on_prompt(lambda prompt: None)
    with pytest.raises(BadValue, match="registered once"):
        app.on_prompt(lambda prompt: None)
