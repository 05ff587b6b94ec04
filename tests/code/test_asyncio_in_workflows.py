"""Claims about asyncio in workflows: what works works as documented, and what can't says exactly what to do instead."""

import asyncio
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Context, StepFailed, step, workflow
from perdure.core import limits, messages
from tests.code.decision_driver import Hand
from tests.code.engines import every_cut, resident, settle, virtually, world

SRC = Path(perdure.__file__).parents[1]


@step
async def double(n: int) -> int:
    return n * 2


@step
async def fails() -> None:
    raise perdure.Fatal("no")


@pytest.mark.slow
@virtually
async def test_gather_takes_verbs_as_they_are_and_keeps_their_order() -> None:
    @workflow
    async def gathering(ctx: Context) -> list[Any]:
        found = await asyncio.gather(ctx.step(double, 1), ctx.sleep(10), ctx.step(double, 3), ctx.listen("m"))
        returned, error = await asyncio.gather(ctx.step(double, 4), ctx.step(fails), return_exceptions=True)
        return [*found, returned, type(error).__name__]

    async def say(w: Any, key: Any) -> None:
        await w.send(key, "m", "heard", once="k")

    assert await every_cut(gathering, say=say) == [2, None, 6, "heard", 8, "StepFailed"]


@virtually
async def test_gather_that_fails_raises_the_first_failure_and_it_can_be_caught() -> None:
    @workflow
    async def gathering(ctx: Context) -> str:
        try:
            await asyncio.gather(ctx.sleep(100), ctx.step(fails))
        except StepFailed as error:
            return error.kind
        return ""

    async with world(gathering) as w:
        key = await w.start(gathering)
        assert await w.result(key) == "fatal"


@virtually
async def test_a_task_group_cancels_its_other_tasks_when_one_fails() -> None:
    @workflow
    async def grouping(ctx: Context) -> list[Any]:
        seen: list[Any] = []

        async def worker(n: int) -> None:
            try:
                await ctx.sleep(n)
            except asyncio.CancelledError:
                seen.append(f"cancelled {n}")
                raise

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(worker(n)) for n in (1000, 2000)]
                tasks.append(group.create_task(ctx.step(fails)))
        except* StepFailed as failed:
            seen.append(len(failed.exceptions))
        async with asyncio.TaskGroup() as group:
            doubling = [group.create_task(ctx.step(double, n)) for n in range(3)]
        return [*seen, [task.result() for task in doubling]]

    async with world(grouping) as w:
        assert await w.run(grouping) == ["cancelled 1000", "cancelled 2000", 1, [0, 2, 4]]


@virtually
async def test_except_exception_does_not_catch_a_cancellation_or_an_eviction() -> None:
    caught: list[str] = []

    @workflow
    async def catching(ctx: Context) -> None:
        while True:
            try:
                await ctx.sleep("10h")
            except Exception as error:
                caught.append(repr(error))

    async with world(catching) as w:
        key = await w.start(catching)
        await settle()
        await w.crash()
        await settle(2)
        await w.tell(key, messages.CancelMessage())
        await settle(2)
        assert (await w.fold(key)).status == "cancelled" and caught == []


@pytest.mark.slow
@virtually
async def test_events_locks_queues_and_semaphores_work_between_the_tasks_of_a_workflow() -> None:
    @workflow
    async def coordinating(ctx: Context) -> list[Any]:
        queue: asyncio.Queue[Any] = asyncio.Queue(1)
        gate, lock, seen = asyncio.Event(), asyncio.Lock(), list[Any]()

        async def producer(c: Context) -> None:
            for number in range(3):
                await queue.put(await c.step(double, number))
            gate.set()

        async def consumer(c: Context) -> None:
            for _ in range(3):
                async with lock:
                    seen.append(await queue.get())
                    await c.sleep(1)
            await gate.wait()

        await ctx.join(producer, consumer)
        return seen

    assert await every_cut(coordinating) == [0, 2, 4]


@virtually
async def test_asyncio_wait_on_tasks_and_create_task_work() -> None:
    @workflow
    async def waiting(ctx: Context) -> list[Any]:
        slow, fast = asyncio.create_task(ctx.sleep(100)), asyncio.create_task(ctx.step(double, 1))
        done, pending = await asyncio.wait([slow, fast], return_when=asyncio.FIRST_COMPLETED)
        assert done == {fast} and pending == {slow}
        slow.cancel()
        return [task.result() for task in done]

    async with world(waiting) as w:
        assert await w.run(waiting) == [2]


async def refused(ctx: Context, what: str) -> Any:
    """Things that a log could not repeat."""
    match what:
        case "asyncio.sleep(1)":
            await asyncio.sleep(1)
        case "asyncio.timeout(1)":
            async with asyncio.timeout(1):
                await ctx.sleep(2)
        case "asyncio.wait_for(…, 1)":
            sleeping = ctx.sleep(2)
            try:
                await asyncio.wait_for(sleeping, 1)
            finally:
                sleeping.close()
        case "asyncio.to_thread":
            await asyncio.to_thread(time.sleep, 0)
        case "run_in_executor":
            await asyncio.get_running_loop().run_in_executor(None, time.sleep, 0)
        case "loop.time()":
            asyncio.get_running_loop().time()
        case "call_later":
            asyncio.get_running_loop().call_later(1, print)
        case "open_connection":
            await asyncio.open_connection("127.0.0.1", 9)
        case "sock_connect":
            with socket.socket() as one:
                one.setblocking(False)
                await asyncio.get_running_loop().sock_connect(one, ("127.0.0.1", 9))
        case "subprocess":
            await asyncio.create_subprocess_exec("true")
        case "asyncio.run":
            asyncio.get_running_loop().run_until_complete(None)  # type: ignore[arg-type]  # refused before it looks
        case "as_completed":
            verbs = [ctx.sleep(1), ctx.sleep(2)]
            try:
                for next_one in asyncio.as_completed(verbs):
                    await next_one
            finally:
                for verb in verbs:
                    verb.close()
    return "allowed"


REFUSED = {
    "asyncio.sleep(1)": "ctx.sleep(",
    "asyncio.timeout(1)": "ctx.race(",
    "asyncio.wait_for(…, 1)": "ctx.race(",
    "asyncio.to_thread": "ctx.step(fn",
    "run_in_executor": "ctx.step(fn",
    "loop.time()": "ctx.now()",
    "call_later": "ctx.sleep(",
    "open_connection": "ctx.step(fn",
    "sock_connect": "ctx.step(fn",
    "subprocess": "ctx.step(fn",
    "asyncio.run": "await, ctx.join(",
    "as_completed": "as_completed",
}


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("what", REFUSED)
@resident
async def test_what_a_log_could_not_repeat_is_an_error_that_names_the_verb_to_use(what: str) -> None:
    flow = workflow(name="refused")(refused)
    async with world(flow) as w:
        error = await w.failure(flow, what)
        assert error.type == "not_deterministic", error
        assert REFUSED[what] in error.message, error.message


@virtually
async def test_asyncio_sleep_zero_and_timeout_none_are_harmless() -> None:
    @workflow
    async def harmless(ctx: Context) -> int:
        await asyncio.sleep(0)
        async with asyncio.timeout(None):
            return await ctx.step(double, 1)

    async with world(harmless) as w:
        assert await w.run(harmless) == 2


@virtually
async def test_a_verb_that_is_never_awaited_fails_the_execution_and_names_it() -> None:
    @workflow
    async def forgetful(ctx: Context) -> None:
        _ = ctx.step(double, 1)
        await ctx.step(double, 2)

    async with world(forgetful) as w:
        error = await w.failure(forgetful)
        assert error.type == "not_awaited"
        assert error.message.startswith("verbs were called and never awaited, so they did nothing: double. Write 'await'")
        assert await w.opened(w.key(forgetful)) == ["double#2"]


@virtually
async def test_a_tasks_failure_that_nobody_awaits_fails_the_execution() -> None:
    @workflow
    async def ignoring(ctx: Context) -> str:
        task = asyncio.create_task(ctx.step(fails))
        await ctx.sleep(10)
        return str(task.done())

    async with world(ignoring) as w:
        error = await w.failure(ignoring)
        assert error.type == "step_failed" and error.message.startswith("step fails failed")


@virtually
async def test_the_context_of_the_parent_in_a_branch_says_to_use_the_branchs_own() -> None:
    @workflow
    async def wrong(ctx: Context) -> str:
        async def branch(c: Context) -> None:
            await ctx.sleep(1)

        try:
            await ctx.join(branch)
        except perdure.JoinFailed as group:
            return str(group.exceptions[0])
        return ""

    async with world(wrong) as w:
        assert "branch is given" in await w.run(wrong)


@virtually
async def test_the_context_of_a_branch_that_has_ended_or_of_a_sibling_is_refused() -> None:
    @workflow
    async def wrong(ctx: Context) -> list[str]:
        leaked: list[Context] = []
        found: list[str] = []

        async def leaks(c: Context) -> None:
            leaked.append(c)
            await c.sleep(10)

        async def takes(c: Context) -> None:
            await c.sleep(1)
            try:
                await leaked[0].sleep(1)
            except perdure.WrongVerb as error:
                found.append(str(error))

        await ctx.join(leaks, takes)
        return found

    async with world(wrong) as w:
        (message,) = await w.run(wrong)
        assert "branch is given" in message


@resident
async def test_a_verb_from_outside_of_the_running_workflow_is_refused() -> None:
    leaked: list[Context] = []

    @workflow
    async def leaking(ctx: Context) -> None:
        leaked.append(ctx)
        await ctx.sleep(10)

    async with world(leaking) as w:
        key = await w.start(leaking)
        await settle(1)
        with pytest.raises(perdure.WrongVerb, match="outside its workflow"):
            _ = leaked[0].sleep(1)
        found: list[BaseException] = []

        def elsewhere() -> None:
            try:
                leaked[0].emit(1)
            except perdure.WrongVerb as error:
                found.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert len(found) == 1
        await w.result(key)


@pytest.mark.slow
def test_a_loop_that_opens_for_ever_without_waiting_is_an_error_and_no_hang() -> None:
    async def endless(ctx: Context) -> None:
        while True:
            ctx.emit(1)

    hand = Hand(endless).start()
    assert hand.execution.ended is not None and hand.execution.ended.status == "failed"


def test_a_loop_that_goes_on_for_ever_within_one_decision_is_an_error_and_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EVENTS_PER_DECISION_MAX", 1000)

    async def endless(ctx: Context) -> None:
        while True:
            await ctx.sleep(0)

    hand = Hand(endless).start()
    assert hand.execution.ended is not None and hand.execution.ended.status == "failed"


# one order everywhere

ORDER = """
from hashlib import sha256
import asyncio, sys
from perdure import Context, step
from perdure.core import log_format, values
from perdure.core import messages
from tests.code.decision_driver import Hand

@step
async def double(n: int) -> int:
    return n * 2

async def busy(ctx):
    async def worker(n):
        await ctx.step(double, n)
        await ctx.step("again", double, n)
    async with asyncio.TaskGroup() as group:
        for n in range(5):
            group.create_task(worker(n), name=f"w{n}")
    await asyncio.gather(*(ctx.step(double, n) for n in range(5)))
    won = await ctx.race(**{f"b{n}": lambda c, n=n: c.step(double, n) for n in range(5)})
    tasks = {asyncio.create_task(ctx.step(double, n)) for n in range(9)}
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    async for turn in ctx.loop("l", state=0, keep=2):
        both = await turn.join(lambda c: c.step(double, 1), lambda c: c.sleep(1))
        turn.state += both[0]
        if turn.number == 5:
            break
    try:
        async with asyncio.TaskGroup() as group:
            for n in range(4):
                group.create_task(ctx.sleep(100 + n))
            raise ValueError
    except* ValueError:
        pass
    return [won.name, len(done), turn.state, str(ctx.uuid()), ctx.random.random()]

hand = Hand(busy).start().run()
assert hand.rebuilt()[2] is None
print(hand.result, sha256(log_format.encode_row(hand.log)).hexdigest())
"""


def _ordered(python: str, hash_seed: str, paths: str) -> str:
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": hash_seed}
    found = subprocess.run([python, "-c", textwrap.dedent(ORDER)], env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


PATHS = os.pathsep.join([str(SRC), str(Path(__file__).parents[2])])


@pytest.mark.slow
def test_the_order_of_tasks_is_the_same_under_every_hash_seed() -> None:
    found = {_ordered(sys.executable, seed, PATHS) for seed in ("0", "1", "2")}
    assert len(found) == 1, found


def _pythons() -> list[Path]:
    return sorted(Path.home().glob(".pyenv/versions/3.1[1-9]*/bin/python"))


@pytest.mark.prove
@pytest.mark.parametrize("python", _pythons(), ids=lambda path: path.parts[-3])
def test_the_log_is_the_same_to_the_byte_on_every_python_of_this_machine(python: Path, tmp_path: Path) -> None:
    subprocess.run([python, "-m", "venv", tmp_path / "venv"], check=True)
    there = tmp_path / "venv/bin/python"
    subprocess.run([there, "-m", "pip", "install", "-q", "msgspec"], check=True)
    assert _ordered(str(there), "3", PATHS) == _ordered(sys.executable, "0", PATHS)
