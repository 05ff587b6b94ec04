"""Claims about `App`: an engine in a program, its two faces, where it may be used, and what becomes of work when it ends."""

import asyncio
import gc
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    App,
    BadDefinition,
    Client,
    Compressed,
    Context,
    ExecutionFailed,
    NotFound,
    Queue,
    Resource,
    Retry,
    Signal,
    SyncContext,
    Timeout,
    WrongVerb,
    step,
    workflow,
)
from perdure.core.errors import BadValue, StoreDamaged
from perdure.core.operations import SCHEDULE_WORKFLOW
from perdure.core.paths import Key
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import ChangeAnswer, Commit, Post
from perdure.stores.sqlite.store import SqliteStore
from perdure.workflow_function import by_their_own_name_first

done: list[str] = []
begun = threading.Event()
go_on = Signal("go on", str)
pool_opened: list[str] = []


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done.clear()
    begun.clear()
    pool_opened.clear()
    monkeypatch.chdir(tmp_path)


@step
async def greeting(name: str) -> str:
    done.append(name)
    return f"Hello {name}"


@step
def threaded_greeting(name: str) -> str:
    return f"Hello {name} from {threading.current_thread().name}"


@workflow
async def greet(ctx: Context, name: str) -> str:
    return await ctx.step(greeting, name)


@workflow
async def instant(ctx: Context, number: int) -> int:
    return number + 1


@workflow
def plain(ctx: SyncContext, name: str) -> str:
    return ctx.step(threaded_greeting, name)


@workflow
async def listening(ctx: Context) -> str:
    return await ctx.listen(go_on)


@workflow
async def parent(ctx: Context, name: str) -> str:
    return await ctx.call(greet, name) + "!"


@workflow
async def failing(ctx: Context) -> None:
    raise ValueError("no such luck")


@step
async def slow() -> str:
    begun.set()
    await asyncio.sleep(0.3)
    done.append("slow")
    return "slow"


@workflow
async def slowly(ctx: Context) -> str:
    return await ctx.step(slow)


@step
async def endless() -> str:
    begun.set()
    await asyncio.sleep(3600)
    return "never"


@workflow
async def endlessly(ctx: Context) -> str:
    return await ctx.step(endless)


mails = Queue("mails", concurrency=2)


@step(queue=mails)
async def mail(to: str) -> str:
    return f"mailed {to}"


@workflow
async def mailing(ctx: Context, to: str) -> str:
    return await ctx.step(mail, to)


def make_pool() -> str:
    pool_opened.append("pool")
    return "pool"


pool = Resource("pool", make_pool)

DB = "sqlite:///app.db"
FLOW = """
perdure: 1
name: flow
input: {name: {type: string}}
steps:
  - id: first
    tool: shout
    with: {text: "@input.name"}
"""
OUTER = """
perdure: 1
name: aouter
steps:
  - id: inner
    call: flow
    with: {name: ada}
"""


def shout(text: str) -> str:
    return text.upper()


async def until_begun() -> None:
    assert await asyncio.to_thread(begun.wait, 10)


# The two faces.


async def test_it_starts_runs_and_finds_executions_on_the_loop_that_runs() -> None:
    async with App([greet], db=DB) as app:
        assert await app.run(greet, "Ada") == "Hello Ada"
        handle = await app.start(greet.with_(id="k"), "Eve")
        assert handle.created and await handle.result() == "Hello Eve"
        assert await (await app.handle("k", greet)).result() == "Hello Eve"
        assert await app.run(greet.with_(id="k"), "someone else") == "Hello Eve"
        assert await app.run("greet", "by name") == "Hello by name"
        assert await app.run(app.workflow("greet").with_(id="n"), "x") == "Hello x"
        assert [one.key.id for one in await app.client.list(id_prefix="k")] == ["k"]
        with pytest.raises(NotFound):
            await app.handle("nothing")
    assert done == ["Ada", "Eve", "by name", "x"]


def test_with_a_plain_with_it_has_a_thread_of_its_own_and_the_same_verbs() -> None:
    with App([greet, plain], db=DB) as shop:
        assert shop.run(greet, "Ada") == "Hello Ada"
        handle = shop.start(greet.with_(id="k"), "Eve")
        assert handle.result() == "Hello Eve"
        assert shop.handle("k", greet).status().status == "completed"
        assert shop.run(plain, "Bob").startswith("Hello Bob from perdure-step-")
        assert len(shop.client.list()) == 3
        shop.client.close()
        assert shop.run(shop.workflow("greet"), "after a client was closed") == "Hello after a client was closed"


async def test_a_workflow_without_steps_returns_its_result_at_once() -> None:
    async with App([instant], db=DB) as app:
        assert [await app.run(instant, number) for number in range(20)] == list(range(1, 21))
        handles = [await app.start(instant, number) for number in range(20)]
        assert [await one.result() for one in handles] == list(range(1, 21))


async def test_starts_and_ends_go_through_the_engine_and_not_through_notifications(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    reads: list[Any] = []
    heads = store.heads

    async def watched(which: Any) -> Any:
        if which.workflow != SCHEDULE_WORKFLOW:  # whose clocks an App looks for when it opens
            reads.append(which)
        return await heads(which)

    monkeypatch.setattr(store, "heads", watched)
    async with App([greet, slowly], db=store) as app:
        assert await app.run(greet, "Ada") == "Hello Ada"
        assert await (await app.start(slowly)).result() == "slow"
    assert reads == [], "no head is looked at for an execution that this engine begins and ends"


async def test_many_run_at_once() -> None:
    async with App([greet], db=DB) as app:
        assert await asyncio.gather(*(app.run(greet, str(n)) for n in range(100))) == [f"Hello {n}" for n in range(100)]


async def test_it_knows_what_its_workflows_name_and_what_is_beside_them() -> None:
    async with App([parent], db=DB) as app:
        assert await app.run(parent, "Ada") == "Hello Ada!"


async def test_all_else_is_reachable_by_its_client_on_the_same_store() -> None:
    async with App([listening], db=DB) as app:
        handle = await app.start(listening.with_(id="k"))
        await handle.send(go_on, "sent")
        assert await handle.result() == "sent"
        assert (await app.client.engines())[0].kind == "engine"


async def test_a_failure_and_a_pause_are_as_with_a_client() -> None:
    async with App([failing, listening], db=DB) as app:
        with pytest.raises(ExecutionFailed, match="no such luck"):
            await app.run(failing)
        handle = await app.start(listening)
        await handle.pause(wait=True)
        with pytest.raises(Timeout, match="paused; resume it"):
            await handle.result(timeout=0.2)
        await handle.resume(wait=True)
        await handle.send(go_on, "resumed")
        assert await handle.result() == "resumed"


async def test_a_retried_execution_has_the_result_of_its_retry() -> None:
    tries: list[int] = []

    @step(name="flaky")
    async def flaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("first")
        return "second"

    @workflow(name="retried")
    async def once(ctx: Context) -> str:
        return await ctx.step(flaky.with_(retry=Retry(max=1)))

    async with App([once], db=DB) as app:
        handle = await app.start(once)
        with pytest.raises(ExecutionFailed):
            await handle.result()
        await handle.retry(wait=True)
        assert await handle.result() == "second"


# What it binds.


async def test_it_performs_the_tasks_of_its_queues_with_the_steps_that_its_workflows_name() -> None:
    async with App([mailing], queues=[mails], db=DB) as app:
        assert await app.run(mailing, "ada") == "mailed ada"
        assert [(one.name, one.limits.concurrency) for one in await app.client.queues()] == [("mails", 2)]


async def test_it_performs_no_more_tasks_of_a_queue_at_a_time_than_the_queue_allows_each_process() -> None:
    at_work, most = [0], [0]

    @step(queue="renders")
    async def render(number: int) -> int:
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        await asyncio.sleep(0.01)
        at_work[0] -= 1
        return number

    @workflow(name="rendering")
    async def rendering(ctx: Context) -> list[int]:
        return await ctx.map(render, range(12))

    async with App([rendering], steps=[render], queues=[Queue("renders", worker_concurrency=3)], db=DB) as app:
        assert await app.run(rendering) == list(range(12)) and most == [3]


async def test_without_the_queue_its_tasks_wait_for_another_process() -> None:
    async with App([mailing], db=DB) as app, App([], steps=[mail], queues=["mails"], db=DB) as other:
        assert await app.run(mailing, "ada") == "mailed ada"
        assert other.queues == ("mails",)


async def test_its_resources_are_open_before_anything_runs() -> None:
    async with App([greet], resources=[pool], db=DB):
        assert pool_opened == ["pool"]


async def test_definitions_come_from_a_directory_and_call_each_other_whatever_their_order(tmp_path: Path) -> None:
    flows = tmp_path / "flows"
    flows.mkdir()
    (flows / "b.yaml").write_text(FLOW)
    (flows / "a.yaml").write_text(OUTER)
    (flows / "notes.txt").write_text("no definition")
    for where in ("flows/", flows, "flows/*.yaml", ["flows/a.yaml", "flows/b.yaml"]):
        app = App([greet], definitions=where, tools=[shout], db=DB)
        async with app:
            assert "ADA" in json.dumps(await app.run("flow", name="ada"))
            assert "ADA" in json.dumps(await app.run("aouter"))
            assert await app.run(greet, "Ada") == "Hello Ada"


async def test_what_is_no_definition_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    app = App(definitions="nowhere/*.yaml", db=DB)
    with pytest.raises(BadValue, match="some file matches"):
        await app.__aenter__()
    (tmp_path / "bad.yaml").write_text("steps: 3")
    with pytest.raises(BadDefinition):
        await App(definitions="bad.yaml", db=DB).__aenter__()
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadValue, match="a directory with definitions"):
        await App(definitions="empty", db=DB).__aenter__()
    assert not (tmp_path / "app.db").exists(), "nothing is opened for an App that can't run"


def test_making_one_touches_nothing(tmp_path: Path) -> None:
    _ = App([greet], definitions="nowhere/", db=DB)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_workflow_is_refused_when_it_is_made() -> None:
    async def undecorated(ctx: Context) -> None: ...

    with pytest.raises(BadValue, match="decorate it with @workflow"):
        App([undecorated])  # type: ignore[list-item]  # the mistake that is refused
    other = workflow(name="greet")(instant.code.fn)
    with pytest.raises(BadValue, match="another name"):
        App([greet, other])
    with pytest.raises(BadValue, match="a store"):
        App([greet], db=3)  # type: ignore[arg-type]  # the mistake that is refused
    with pytest.raises(BadValue, match="grace"):
        App([greet], grace="soon")


async def test_a_codec_encodes_what_it_keeps() -> None:
    async with App([greet], db=DB, codec=Compressed()) as app:
        assert await app.run(greet.with_(id="k"), "A" * 5000) == f"Hello {'A' * 5000}"
    assert b"A" * 4000 not in Path("app.db").read_bytes()  # noqa: ASYNC240  # a small file, in a test


async def test_with_engine_false_it_only_starts_work(caplog: pytest.LogCaptureFixture) -> None:
    async with App([greet], db=DB, engine=False) as starter:
        handle = await starter.start(greet.with_(id="k"), "Ada")
        with pytest.raises(Timeout, match="no engine is running"):
            await handle.result(timeout=0.2)
        assert done == []
        async with App([greet], db=DB):
            assert await handle.result() == "Hello Ada"


async def test_what_no_engine_knows_waits_and_says_so() -> None:
    async with App([greet], db=DB) as app:
        with pytest.raises(Timeout, match="no running engine knows elsewhere@1"):
            await (await app.start(workflow(name="elsewhere")(instant.code.fn), 1)).result(timeout=0.2)
        assert (await (await app.start("unheard of")).status()).why == "no running engine knows unheard of; it has not started"


# Where it may be used.


async def test_opening_it_twice_is_refused_and_harms_nothing() -> None:
    app = App([greet], db=DB)
    async with app:
        with pytest.raises(WrongVerb, match="opened twice"):
            async with app:
                pass
        with pytest.raises(WrongVerb, match="opened twice"), app:
            pass
        assert await app.run(greet, "Ada") == "Hello Ada"


async def test_two_threads_can_not_open_it_both() -> None:
    app, results = App([greet], db=DB), list[str]()
    together = threading.Barrier(4)

    def open_it() -> None:
        together.wait()
        try:
            with app as shop:
                time.sleep(0.3)
                results.append(shop.run(greet, "Ada"))
        except WrongVerb:
            results.append("refused")

    await asyncio.gather(*(asyncio.to_thread(open_it) for _ in range(4)))
    assert sorted(results) == ["Hello Ada", "refused", "refused", "refused"]


async def test_unopened_and_closed_it_says_to_open_it_and_it_can_be_opened_again() -> None:
    app = App([greet], db=DB)
    for verb in (lambda: app.run(greet, "x"), lambda: app.start(greet, "x"), lambda: app.handle("x"), lambda: app.client):
        with pytest.raises(WrongVerb, match="before the App was opened"):
            verb()
    for _ in range(2):
        async with app:
            assert await app.run(greet, "Ada") == "Hello Ada"
        with pytest.raises(WrongVerb, match="after the App was closed"):
            _ = app.run(greet, "Ada")
    with app as shop:
        assert shop.run(greet, "Ada") == "Hello Ada"
    with pytest.raises(WrongVerb, match="after the App was closed"):
        shop.run(greet, "Ada")


def test_the_wrong_face_says_which_one_is_right() -> None:
    app = App([greet], db=DB)
    with app, pytest.raises(WrongVerb, match=r"Use shop.run\(...\)"):
        _ = app.run(greet, "Ada")


async def test_on_another_loop_it_says_so_and_the_sync_face_works_from_any_thread() -> None:
    app = App([greet], db=DB)
    async with app:

        def elsewhere() -> str:
            with pytest.raises(WrongVerb, match="another event loop"):
                asyncio.run(_awaited(app))
            return "refused"

        assert await asyncio.to_thread(elsewhere) == "refused"
    with app as shop:
        assert await asyncio.gather(*(asyncio.to_thread(shop.run, greet, str(n)) for n in range(5))) == [f"Hello {n}" for n in range(5)]


async def _awaited(app: App) -> str:
    return await app.run(greet, "Ada")


async def test_in_a_workflow_it_says_to_call_a_child() -> None:
    app = App(db=DB)

    @workflow
    async def wrong(ctx: Context) -> str:
        return await app.run(greet, "Ada")

    @workflow
    async def opens(ctx: Context) -> None:
        with App(db="sqlite:///other.db"):
            pass

    app = App([wrong, opens, greet], db=DB)
    async with app:
        for one in (wrong, opens):
            with pytest.raises(ExecutionFailed, match=r"inside a workflow.*Run a child"):
                await app.run(one)


async def test_a_step_may_use_it() -> None:
    app = App(db=DB)

    @step
    async def nested() -> str:
        return await app.run(greet, "from a step")

    @workflow
    async def nesting(ctx: Context) -> str:
        return await ctx.step(nested)

    app = App([nesting, greet], db=DB)
    async with app:
        assert await app.run(nesting) == "Hello from a step"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_told_to_open_it_and_may_and_the_parent_goes_on() -> None:
    app = App([greet], db=DB)
    with app as shop:
        assert shop.run(greet, "parent") == "Hello parent"
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with pytest.raises(WrongVerb, match="forked"):
                    shop.run(greet, "child")
                with app as mine:
                    assert mine.run(greet, "child") == "Hello child"
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert shop.run(greet, "parent again") == "Hello parent again"


# Its end.


async def test_at_its_end_a_step_in_flight_may_end_within_the_grace() -> None:
    async with App([slowly], db=DB, grace="10s") as app:
        _ = await app.start(slowly.with_(id="k"))
        await until_begun()
    assert done == ["slow"]
    async with App([slowly], db=DB) as app:
        assert await (await app.handle("k", slowly)).result() == "slow"
    assert done == ["slow"]


async def test_after_the_grace_a_step_is_given_back_and_is_no_interruption() -> None:
    async with App([endlessly], db=DB, grace="0s") as app:
        handle = await app.start(endlessly.with_(id="k"))
        await until_begun()
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 5
    begun.clear()
    async with App([endlessly], db=DB, grace=0) as app:
        handle = await app.handle("k", endlessly)
        await until_begun()
        (found,) = await handle.steps()
        assert (found.state, found.interrupted if hasattr(found, "interrupted") else 0) == ("performing", 0)


async def test_a_cancelled_close_ends_the_grace() -> None:
    async def use() -> None:
        async with App([endlessly], db=DB, grace="1h") as app:
            _ = await app.start(endlessly)
            await until_begun()

    using = asyncio.create_task(use())
    await until_begun()
    await asyncio.sleep(0.1)
    using.cancel()
    _, left = await asyncio.wait((using,), timeout=10)
    assert not left and using.cancelled()


async def test_who_waits_when_it_is_closed_is_told() -> None:
    app = App([listening], db=DB)
    async with app:
        waiting = asyncio.create_task(app.run(listening))
        await asyncio.sleep(0.2)
    (error,) = await asyncio.gather(waiting, return_exceptions=True)
    assert "closed" in str(error)


class Breaking(SqliteStore):
    """A store that turns out to be damaged."""

    broken = False

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        if self.broken:
            raise StoreDamaged("the file is malformed")
        return await super().commit(changes)


async def test_an_engine_that_fails_fails_the_waits_and_the_block_with_its_error(tmp_path: Path) -> None:
    store = Breaking(tmp_path / "broken.db")
    app = App([listening, greet], db=store)

    async def use() -> None:
        async with app:
            handle = await app.start(listening)
            waits = [asyncio.create_task(handle.result()), asyncio.create_task(app.run(listening))]
            await asyncio.sleep(0.2)
            store.broken = True
            with pytest.raises(StoreDamaged):
                await asyncio.wait_for(app.run(greet, "x"), 10)
            for one in await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), 10):
                assert isinstance(one, StoreDamaged), one
            with pytest.raises(StoreDamaged):
                await app.start(greet, "later")

    with pytest.raises(StoreDamaged, match="malformed"):
        await use()
    store.broken = False
    await store.close()


async def test_the_error_of_the_block_is_not_hidden_by_that_of_the_engine(tmp_path: Path) -> None:
    store = Breaking(tmp_path / "broken.db")

    async def use() -> None:
        async with App([greet], db=store) as app:
            store.broken = True
            with pytest.raises(StoreDamaged):
                await app.run(greet, "x")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await use()
    store.broken = False
    await store.close()


async def test_a_store_that_was_open_stays_open() -> None:
    store = MemoryStore()
    async with App([greet], db=store) as app:
        assert await app.run(greet.with_(id="k"), "Ada") == "Hello Ada"
    assert [head.key for head in await store.heads()] == [Key("default", "greet", "k")]


async def test_the_garbage_collector_of_a_host_is_left_alone_unless_that_is_wanted() -> None:
    gc.collect()
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    async with App([greet], db=DB):
        assert gc.get_threshold() == before
    async with App([greet], db=DB, tune_gc=True):
        assert gc.get_threshold()[0] == 50_000
        async with App([greet], db=DB, tune_gc=True):
            pass
        assert gc.get_threshold()[0] == 50_000
    assert gc.get_threshold() == before and gc.get_freeze_count() == frozen


# Several of them.


async def test_several_on_one_file_share_the_work_in_one_process() -> None:
    async with App([greet], db=DB) as one, App([instant], db=DB) as two, App([greet, instant], db=DB, engine=False) as starter:
        results = await asyncio.gather(
            *(app.run(greet, "Ada") for app in (one, two, starter)), *(app.run(instant, 1) for app in (one, two, starter)), return_exceptions=True
        )
        assert results == ["Hello Ada"] * 3 + [2] * 3


async def test_what_one_has_begun_another_takes_over() -> None:
    other = App([listening], db=DB)
    async with other:
        async with App([listening], db=DB, grace=0) as first:
            handle = await first.start(listening.with_(id="k"))
            assert (await handle.status()).status == "waiting"
        handle = await other.handle("k", listening)
        await handle.send(go_on, "elsewhere")
        assert await asyncio.wait_for(handle.result(), 10) == "elsewhere"


def test_a_client_elsewhere_gets_results_from_it() -> None:
    with App([greet], db=DB), Client(DB) as client:
        assert client.run(greet, "Ada") == "Hello Ada"


def test_no_warning_of_what_was_left_open(tmp_path: Path) -> None:
    import subprocess

    code = """
import asyncio
from perdure import App, Context, workflow

@workflow
async def instant(ctx: Context) -> int:
    return 1

app = App([instant], db="sqlite:///w.db")

async def main() -> None:
    async with app:
        assert await app.run(instant) == 1
    assert await instant.arun() == 1

asyncio.run(main())
asyncio.run(main())
with app as shop:
    assert shop.run(instant) == 1
assert instant.run() == 1
"""
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


logging.getLogger("perdure").setLevel(logging.WARNING)


def test_of_functions_with_one_name_the_one_that_is_bound_to_it_counts() -> None:
    names: dict[str, Any] = {"_": None, "_3": None}
    for number in (1, 2):
        exec(f"@step\ndef charge(): return {number}\n@workflow\nasync def receipt(ctx: Context): return await ctx.step(charge)", PRELUDE, names)
        names |= {"_": names["charge"], "_3": names["receipt"]} if number == 1 else {}
    found = by_their_own_name_first(names)
    assert found[:2] == [names["charge"], names["receipt"]] and set(map(id, found[2:])) == {id(names["_"]), id(names["_3"])}


PRELUDE: dict[str, Any] = {"step": step, "workflow": workflow, "Context": Context}
