"""Claims about sync workflows as users meet them: run and arun, what is no workflow, and greenlet, which only they need."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Context, ExecutionFailed, Retry, StepFailed, SyncContext, WrongVerb, step, workflow
from perdure.core.errors import BadValue
from perdure.stores.configured_store import open_store

calls: list[str] = []


@pytest.fixture(autouse=True)
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new store, which is the default."""
    calls.clear()
    found = f"sqlite:///{tmp_path}/perdure.db"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERDURE_DB", found)
    return found


@step
def greeting(name: str) -> str:
    calls.append(name)
    return f"Hello {name}"


@step
async def shout(text: str) -> str:
    return text.upper()


@workflow
def greet(ctx: SyncContext, name: str, mark: str = "") -> str:
    """Greet somebody."""
    return ctx.step(greeting, name) + mark


@workflow(version=2, name="other greeting")
def loud(ctx: SyncContext, name: str) -> str:
    return ctx.step(shout, ctx.call(greet, name))


@step(retry=Retry(max=1))
def divide(number: int) -> float:
    return number / 0


@workflow
def dividing(ctx: SyncContext, number: int) -> float:
    try:
        return ctx.step(divide, number)
    except StepFailed as failed:
        raise LookupError("no quotient") from failed


def test_a_sync_workflow_runs_and_returns_its_result() -> None:
    assert greet.run("Ada") == "Hello Ada"
    assert greet.run(name="Ada", mark="!") == "Hello Ada!"
    assert calls == ["Ada", "Ada"]


@pytest.mark.slow
def test_with_one_id_a_step_is_executed_once() -> None:
    assert [greet.with_(id="k").run("Ada") for _ in range(3)] == ["Hello Ada"] * 3
    assert calls == ["Ada"]


def test_it_calls_others_of_its_module_and_both_sorts_of_steps() -> None:
    assert loud.run("Ada") == "HELLO ADA"
    assert (loud.code.name, loud.code.version) == ("other greeting", 2)


async def test_arun_runs_it_in_a_running_event_loop_and_run_says_to_use_that() -> None:
    assert await greet.arun("Ada") == "Hello Ada"
    with pytest.raises(WrongVerb, match=r"greet\.arun"):
        greet.run("Ada")


def test_its_failure_shows_the_lines_of_the_function() -> None:
    with pytest.raises(ExecutionFailed, match="LookupError: no quotient") as failed:
        dividing.run(1)
    trace = failed.value.error.traceback
    assert "return ctx.step(divide, number)" in trace and 'raise LookupError("no quotient") from failed' in trace


def test_arguments_that_it_does_not_take_are_refused_before_it_starts() -> None:
    with pytest.raises(BadValue, match="what it takes"):
        greet.run()  # type: ignore[call-arg]  # wrong on purpose


async def of_sync(ctx: SyncContext) -> None: ...


async def of_sync_in_text(ctx: "SyncContext") -> None: ...


def of_async(ctx: Context) -> None: ...


def of_async_in_text(ctx: "Context") -> None: ...


def of_number(number: int) -> None: ...


def generating(ctx: SyncContext) -> Any:
    yield ctx


@pytest.mark.parametrize("fn", [of_sync, of_sync_in_text, of_async, of_async_in_text, of_number, generating, len, type("Object", (), {})])
def test_what_is_neither_an_async_function_of_a_context_nor_a_plain_one_of_a_sync_context_is_no_workflow(fn: Callable[..., Any]) -> None:
    with pytest.raises(BadValue, match=r"is not an async function whose first parameter is the context, or a plain one whose first parameter is a SyncContext"):
        workflow(fn)


def test_a_function_without_hints_is_a_sync_workflow() -> None:
    def unhinted(ctx, name):  # type: ignore[no-untyped-def]  # that is the point
        return ctx.step(greeting, name)

    assert workflow(unhinted).run("Ada") == "Hello Ada"


def test_without_greenlet_nothing_is_started_and_the_error_says_what_to_install(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "greenlet", None)
    with pytest.raises(WrongVerb, match=r'a sync workflow needs greenlet, which is not installed. Install it: pip install "perdure\[sync\]"'):
        greet.with_(id="k").run("Ada")
    monkeypatch.undo()

    async def heads() -> int:
        store = open_store(url)
        try:
            return len(await store.heads())
        finally:
            await store.close()

    assert asyncio.run(heads()) == 0


@pytest.mark.slow
def test_async_workflows_import_no_greenlet() -> None:
    script = """
import sys
from perdure import Context, SyncContext, step, workflow

@workflow
def unused(ctx: SyncContext) -> None: ...

@workflow
async def used(ctx: Context) -> str:
    return await ctx.step(lambda: "ran")

print(used.run(), "greenlet" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("ran False\n", "")
