"""The loop on which workflows run: its order, what it refuses, and how it ends."""

import asyncio
import contextlib
import gc
import hashlib
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from perdure.code import deterministic_loop
from perdure.code.deterministic_loop import DeterministicLoop
from perdure.core.errors import Evicted, NotDeterministic

Program = Coroutine[Any, Any, Any]


def complete(program: Program) -> Any:
    """What `program` returns, on a loop of its own on which nothing else may go wrong or remain."""
    loop = DeterministicLoop()
    task = loop.create_task(program)
    loop.drive()
    assert (loop.errors, loop.pending) == ([], [])
    return task.result()


def parked(*programs: Program) -> DeterministicLoop:
    """A loop on which the programs have run until none could go on."""
    loop = DeterministicLoop()
    for program in programs:
        _ = loop.create_task(program)
    loop.drive()
    return loop


def here() -> DeterministicLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, DeterministicLoop)
    return loop


async def forever() -> None:
    await here().create_future()


@pytest.fixture(autouse=True)
def _unending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coroutines that were given up here are told from those of other tests."""
    monkeypatch.setattr(deterministic_loop, "_unending", [])


@pytest.fixture(autouse=True)
def silence(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Whatever happens on such a loop, nothing is printed; what Python can't raise, pytest does."""
    yield
    gc.collect()
    assert capfd.readouterr() == ("", "")


# Driving.


def test_callbacks_run_in_the_order_in_which_they_became_ready() -> None:
    loop, seen = DeterministicLoop(), list[int]()
    loop.call_soon(lambda: loop.call_soon(seen.append, 3))
    loop.call_soon(seen.append, 1)
    loop.call_soon(seen.append, 2)
    assert (loop.drive(), seen) == (4, [1, 2, 3])


def test_a_cancelled_callback_does_not_run() -> None:
    loop, seen = DeterministicLoop(), list[int]()
    handle = loop.call_soon(seen.append, 1)
    handle.cancel()
    assert handle.cancelled() and "cancelled" in repr(handle)
    assert (loop.drive(), seen) == (0, [])


def test_a_stop_leaves_the_rest_unrun() -> None:
    seen: list[str] = []

    async def diverge() -> None:
        here().stopped = True
        seen.append("to the end of its step")
        await asyncio.sleep(0)
        seen.append("and no further")

    loop = parked(diverge(), diverge())
    assert (loop.drive(), seen, len(loop.pending)) == (0, ["to the end of its step"], 2)
    loop.close()
    assert seen == ["to the end of its step"]


def test_a_drive_in_the_midst_of_a_drive_is_refused() -> None:
    async def main() -> None:
        assert here().driving and here().is_running()
        for move in (here().drive, here().close):
            with pytest.raises(RuntimeError, match="driven already"):
                move()

    complete(main())


def test_outside_of_a_drive_no_loop_runs() -> None:
    parked(forever())
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()


def test_a_callback_of_a_real_loop_drives_it() -> None:
    async def add(left: asyncio.Future[int], right: asyncio.Future[int]) -> int:
        return await left + await right

    async def main() -> None:
        outer, hooks = asyncio.get_running_loop(), sys.get_asyncgen_hooks()
        loop, driven = DeterministicLoop(), asyncio.Event()
        left, right = loop.create_future(), loop.create_future()
        task = loop.create_task(add(left, right))

        def turn(future: asyncio.Future[int], value: int) -> None:
            loop.drive()
            future.set_result(value)
            loop.drive()
            assert asyncio.get_running_loop() is outer and sys.get_asyncgen_hooks() == hooks

        for arguments in ((left, 1), (right, 2)):
            outer.call_soon(turn, *arguments)
        outer.call_soon(driven.set)
        await driven.wait()
        assert task.result() == 3

    asyncio.run(main())


def test_a_task_of_a_real_loop_drives_it_up_to_python_3_13() -> None:
    async def main() -> None:
        me, loop = asyncio.current_task(), DeterministicLoop()
        task = loop.create_task(asyncio.sleep(0, "slept"))
        if sys.version_info >= (3, 14):
            with pytest.raises(RuntimeError, match="let a callback"):
                loop.drive()
            asyncio.get_running_loop().call_soon(loop.drive)
            await asyncio.sleep(0)
        else:
            loop.drive()
        assert (asyncio.current_task(), task.result()) == (me, "slept")

    asyncio.run(main())


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_raised_by_a_task_is_its_failure_and_what_was_ready_runs(kind: type[BaseException]) -> None:
    async def interrupted() -> None:
        raise kind

    loop, seen = DeterministicLoop(), list[int]()
    task = loop.create_task(interrupted())
    loop.call_soon(seen.append, 1)
    assert (loop.drive(), seen, loop.driving) == (2, [1], False)
    assert isinstance(task.exception(), kind)


def test_a_callback_that_raises_is_kept_as_an_error_and_the_next_one_runs() -> None:
    loop, seen = DeterministicLoop(), list[int]()
    loop.call_soon(lambda: 1 // 0)
    loop.call_soon(seen.append, 1)
    assert (loop.drive(), seen) == (2, [1])
    (error,) = (context["exception"] for context in loop.errors)
    assert isinstance(error, ZeroDivisionError)
    assert error.__traceback__ is not None and error.__traceback__.tb_frame.f_code.co_name == "<lambda>"


def test_a_task_whose_exception_nobody_retrieves_is_kept_as_unretrieved() -> None:
    async def fail() -> None:
        raise ValueError

    loop = parked(fail())
    gc.collect()
    (task,) = loop.unretrieved
    assert isinstance(task.exception(), ValueError)
    assert loop.unretrieved == [] and loop.errors == [], "now it was looked at"


# The same in every process.


async def storm() -> list[str]:
    """All sets of tasks that asyncio makes, with failures among them, and litter to move addresses about."""
    seen: list[str] = []
    litter: list[object] = []

    async def part(name: str, turns: int, *, fails: bool = False) -> str:
        litter.append([object() for _ in range(hash(name) % 97)])
        try:
            for _ in range(turns):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            seen.append(f"{name} cancelled")
            raise
        if fails:
            raise ValueError(name)
        seen.append(name)
        return name

    for width in (3, 9, 40):
        try:
            async with asyncio.TaskGroup() as group:
                for n in range(width):
                    group.create_task(part(f"group {n}", 3 + n % 5 * 4, fails=n % 4 == 2))
        except* ValueError as failed:
            seen.append(f"failed {failed.exceptions}")
        seen += map(repr, await asyncio.gather(*(part(f"gather {n}", n % 3, fails=n % 4 == 1) for n in range(width)), return_exceptions=True))
        tasks = [asyncio.create_task(part(f"wait {n}", n % 4)) for n in range(width)]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        seen += [task.get_name() for task in (*done, *pending)]
        seen += [await first for first in asyncio.as_completed(tasks)]
    return seen


def fingerprint() -> str:
    return hashlib.sha256("\n".join(complete(storm())).encode()).hexdigest()[:16]


FINGERPRINT = "3002ee44ea99e768"


@pytest.mark.slow
def test_a_hundred_runs_have_one_order() -> None:
    first = complete(storm())
    assert any("cancelled" in line for line in first) and any("failed" in line for line in first)
    litter = []
    for n in range(100):
        litter.append([object() for _ in range(n * 7)])
        assert complete(storm()) == first


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["0", "1", "4711", "random"])
def test_every_process_and_every_python_has_that_order(seed: str) -> None:
    environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    answer = subprocess.run([sys.executable, "-W", "error", __file__], env=environment, capture_output=True, text=True, check=True)
    assert answer.stdout == FINGERPRINT


def test_siblings_are_cancelled_in_an_order_that_the_loops_before_do_not_change() -> None:
    others = [parked(*(forever() for _ in range(n))) for n in range(30)]
    assert fingerprint() == FINGERPRINT
    for other in others:
        other.close()


def test_names_of_tasks_count_from_one_in_every_loop() -> None:
    async def main() -> list[str]:
        mine = asyncio.current_task()
        assert mine is not None
        return [mine.get_name(), asyncio.create_task(asyncio.sleep(0)).get_name(), asyncio.create_task(asyncio.sleep(0), name="pay").get_name()]

    assert complete(main()) == complete(main()) == ["Task-1", "Task-2", "pay"]


def test_tasks_and_futures_are_equal_to_themselves_only() -> None:
    loop = parked(forever(), forever())
    one, two = loop.pending
    assert (hash(one), hash(two), one == two, one == one) == (1, 2, False, True)
    assert [hash(loop.create_future()) for _ in range(2)] == [3, 4]
    loop.close()


# What works.


async def locked(seen: list[str]) -> None:
    lock = asyncio.Lock()

    async def one(name: str) -> None:
        async with lock:
            seen.append(f"{name} in")
            await asyncio.sleep(0)
            seen.append(f"{name} out")

    await asyncio.gather(one("a"), one("b"))


async def queued(seen: list[str]) -> None:
    queue = asyncio.Queue[str](maxsize=1)

    async def consume() -> None:
        while (item := await queue.get()) != "end":
            seen.append(item)

    async with asyncio.TaskGroup() as group:
        group.create_task(consume())
        for item in ("a", "b", "end"):
            await queue.put(item)


async def counted(seen: list[str]) -> None:
    semaphore, inside = asyncio.Semaphore(2), 0

    async def one() -> None:
        nonlocal inside
        async with semaphore:
            inside += 1
            seen.append(str(inside))
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(one() for _ in range(4)))


async def notified(seen: list[str]) -> None:
    condition, event = asyncio.Condition(), asyncio.Event()

    async def wait(name: str) -> None:
        await event.wait()
        async with condition:
            await condition.wait()
            seen.append(name)

    waiting = asyncio.gather(wait("a"), wait("b"))
    event.set()
    for _ in range(5):
        await asyncio.sleep(0)
    async with condition:
        condition.notify_all()
    await waiting


async def shielded(seen: list[str]) -> None:
    async def inner() -> None:
        await asyncio.sleep(0)
        seen.append("the inner goes on")

    task = asyncio.create_task(inner())
    waiting = asyncio.ensure_future(asyncio.shield(task))
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    await task


async def unlimited(seen: list[str]) -> None:
    async with asyncio.timeout(None):
        seen.append(await asyncio.wait_for(asyncio.sleep(0, "no limit"), None))
    try:
        await asyncio.wait_for(here().create_future(), 0)
    except TimeoutError:
        seen.append("no time")


async def cancelled(seen: list[str]) -> None:
    async def child() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0)
            seen.append("cleaned up")

    task = asyncio.create_task(child())
    await asyncio.sleep(0)
    task.cancel("enough")
    try:
        await task
    except asyncio.CancelledError as error:
        seen.append(str(error))


WORKS: list[tuple[Callable[[list[str]], Program], list[str]]] = [
    (locked, ["a in", "a out", "b in", "b out"]),
    (queued, ["a", "b"]),
    (counted, ["1", "2", "1", "2"]),
    (notified, ["a", "b"]),
    (shielded, ["the inner goes on"]),
    (unlimited, ["no limit", "no time"]),
    (cancelled, ["cleaned up", "enough"]),
]


@pytest.mark.parametrize(("program", "expected"), WORKS, ids=lambda part: getattr(part, "__name__", None))
def test_asyncio_works_where_it_needs_no_clock(program: Callable[[list[str]], Program], expected: list[str]) -> None:
    seen: list[str] = []
    complete(program(seen))
    assert seen == expected


def test_every_task_has_its_own_copy_of_the_context() -> None:
    variable = ContextVar("variable", default="outer")

    async def child(value: str) -> str:
        before = variable.get()
        variable.set(value)
        await asyncio.sleep(0)
        return f"{before} {variable.get()}"

    async def main() -> list[str]:
        variable.set("main")
        return [*await asyncio.gather(child("a"), child("b")), variable.get()]

    assert complete(main()) == ["main a", "main b", "main"]
    assert variable.get() == "outer"


def test_await_chains_may_be_deep() -> None:
    async def deep(depth: int) -> int:
        return await deep(depth - 1) + 1 if depth else await asyncio.sleep(0, 0)

    assert complete(deep(300)) == 300


def test_a_fan_in_of_a_thousand_costs_callbacks_in_proportion() -> None:
    def callbacks(width: int) -> int:
        loop = DeterministicLoop()
        futures = [loop.create_future() for _ in range(width)]

        async def branch(future: asyncio.Future[int]) -> int:
            return await future

        async def main() -> int:
            return sum(await asyncio.gather(*map(branch, futures)))

        task, ran = loop.create_task(main()), loop.drive()
        for future in futures:
            future.set_result(1)
            ran += loop.drive()
        assert task.result() == width
        return ran

    assert callbacks(1000) == 3 * 1000 + 2


def test_the_owner_sees_each_task_with_its_parent_before_it_runs() -> None:
    seen: list[tuple[int | None, int]] = []

    async def child(turns: int) -> None:
        assert seen[-1][1] >= 2
        if turns:
            await asyncio.gather(child(0), child(0))

    loop = DeterministicLoop(on_task=lambda parent, task: seen.append((parent.number if parent else None, task.number)))

    async def main() -> None:
        assert loop.current is not None and loop.current.number == 1
        async with asyncio.TaskGroup() as group:
            group.create_task(child(1))
            group.create_task(child(1))

    task = loop.create_task(main())
    loop.drive()
    assert (task.result(), loop.current) == (None, None)
    assert seen == [(None, 1), (1, 2), (1, 3), (2, 4), (2, 5), (3, 6), (3, 7)]


def test_a_task_knows_its_label_from_its_first_step_on() -> None:
    labels: list[str | None] = []

    async def child() -> None:
        task = here().current
        assert task is not None
        labels.append(task.label)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(child(), name="in a group")
            group.create_task(child())
        await asyncio.create_task(child(), name="alone")
        await here().create_task(child(), name="on the loop")

    complete(main())
    assert labels == ["in a group", None, "alone", "on the loop"]


def test_a_task_that_nobody_keeps_is_not_lost() -> None:
    seen: list[str] = []

    async def orphan() -> None:
        try:
            await forever()
        finally:
            seen.append("ended")

    loop = parked(orphan())
    gc.collect()
    assert (len(loop.pending), seen) == (1, [])
    loop.close()
    assert seen == ["ended"]


def test_asyncio_keeps_nothing_of_a_loop() -> None:
    before = len(getattr(asyncio.tasks, "_scheduled_tasks", ()) or getattr(asyncio.tasks, "_all_tasks", ()))
    loop = parked(*(forever() for _ in range(10)))
    after = len(getattr(asyncio.tasks, "_scheduled_tasks", ()) or getattr(asyncio.tasks, "_all_tasks", ()))
    assert (after - before, asyncio.all_tasks(loop)) == (0, set())
    loop.close()


# What is refused.

REFUSED: list[tuple[str, str, Callable[[], Any]]] = [
    ("asyncio.sleep()", "ctx.sleep(...)", lambda: asyncio.sleep(1)),
    ("asyncio.timeout()", "the verb's timeout= or ctx.race(...", lambda: asyncio.timeout(1)),
    ("asyncio.wait_for()", "the verb's timeout= or ctx.race(...", lambda: asyncio.wait_for(here().create_future(), 1)),
    ("asyncio.wait()", "the verb's timeout= or ctx.race(...", lambda: asyncio.wait([here().create_future()], timeout=1)),
    ("asyncio.to_thread()", "ctx.step(fn, ...)", lambda: asyncio.to_thread(len, "")),
    ("asyncio.open_connection()", "ctx.step(fn, ...)", lambda: asyncio.open_connection("localhost", 1)),
    ("asyncio.start_server()", "ctx.step(fn, ...)", lambda: asyncio.start_server(print, "localhost", 1)),
    ("asyncio.create_subprocess_exec()", "ctx.step(fn, ...)", lambda: asyncio.create_subprocess_exec("true")),
    ("asyncio.create_subprocess_shell()", "ctx.step(fn, ...)", lambda: asyncio.create_subprocess_shell("true")),
    ("loop.time()", "ctx.now()", lambda: here().time()),
    ("loop.call_later()", "ctx.sleep(...)", lambda: here().call_later(1, print)),
    ("loop.call_at()", "ctx.sleep(...)", lambda: here().call_at(1, print)),
    ("loop.run_in_executor()", "ctx.step(fn, ...)", lambda: here().run_in_executor(None, print)),
    ("loop.getaddrinfo()", "ctx.step(fn, ...)", lambda: here().getaddrinfo("localhost", 1)),
    ("loop.call_soon_threadsafe()", "ctx.listen(signal)", lambda: here().call_soon_threadsafe(print)),
    ("loop.add_signal_handler()", "ctx.listen(signal)", lambda: here().add_signal_handler(1, print)),
    ("loop.run_forever()", "await, ctx.join(...) or ctx.call(...)", lambda: here().run_forever()),
    ("loop.run_until_complete()", "await, ctx.join(...) or ctx.call(...)", lambda: here().run_until_complete(here().create_future())),
    ("loop.set_task_factory()", "the loop with its own settings", lambda: here().set_task_factory(None)),
    ("eager_start=True", "asyncio.create_task(...) as it is", lambda: here().create_task(forever(), eager_start=True)),
    ("asyncio.as_completed() on coroutines", "ctx.as_completed(...)", lambda: next(iter(asyncio.as_completed([forever()])))),
]


@pytest.mark.parametrize(("what", "instead", "ask"), REFUSED, ids=lambda part: part if isinstance(part, str) and "(" in part else "")
def test_what_a_log_could_not_repeat_is_refused_with_the_verb_to_use(what: str, instead: str, ask: Callable[[], Any]) -> None:
    async def main() -> None:
        await ask()

    with pytest.raises(NotDeterministic) as refused:
        complete(main())
    assert refused.value.what == what and instead in refused.value.instead
    assert str(refused.value) == f"a workflow cannot use {what}, because replay could not repeat it. Use {refused.value.instead}"


SUPPORTED = {"call_soon", "close", "create_future", "create_task", "get_debug", "get_task_factory", "is_closed", "is_running"}
SUPPORTED |= {"run_in_executor", "call_exception_handler", "default_exception_handler", "get_exception_handler"}


@pytest.mark.parametrize("method", [name for name in dir(asyncio.AbstractEventLoop) if not name.startswith("_")])
def test_every_method_of_a_loop_either_works_or_is_refused(method: str) -> None:
    if method in SUPPORTED:
        assert getattr(DeterministicLoop, method) is not getattr(asyncio.AbstractEventLoop, method)
    else:
        with pytest.raises(NotDeterministic, match=rf"loop\.{method}\(\)"):
            getattr(DeterministicLoop(), method)()


class CallingExecutor:
    """An executor without threads."""

    runs_at_once = True


def test_an_executor_without_threads_is_called_at_once() -> None:
    def fail() -> None:
        raise ValueError("wrong")

    async def main() -> tuple[int, str]:
        first = here().run_in_executor(CallingExecutor(), threading.get_ident)
        assert first.done()
        try:
            await here().run_in_executor(CallingExecutor(), fail)
        except ValueError as error:
            return await first, str(error)
        return 0, ""

    assert complete(main()) == (threading.get_ident(), "wrong")


def test_a_library_that_has_an_integration_is_refused_with_its_name() -> None:
    library = {"__name__": "pydantic_ai.agent", "asyncio": asyncio}
    exec("async def run(): asyncio.get_running_loop().time()", library)  # code that stands in a module of that name
    with pytest.raises(NotDeterministic) as refused:
        complete(library["run"]())  # type: ignore[operator]  # made by exec
    assert refused.value.instead.startswith("PerdureDurability from perdure.pydantic_ai for an agent in a workflow: ")
    integration = {"__name__": "perdure.pydantic_ai.durability", "run": library["run"]}
    exec("async def wrapped(): await run()", integration)
    with pytest.raises(NotDeterministic) as refused:
        complete(integration["wrapped"]())  # type: ignore[operator]  # made by exec
    assert refused.value.instead.startswith("ctx.sleep(...)")


def test_only_the_package_of_a_library_names_its_integration() -> None:
    for module, is_named in (("agents.run_internal.run_loop", True), ("agents.shop", False), ("agents", False), ("pydantic_ai_shop", False)):
        code: dict[str, Any] = {"__name__": module, "asyncio": asyncio}
        exec("async def run(): asyncio.get_running_loop().time()", code)  # code that stands in a module of that name
        with pytest.raises(NotDeterministic) as refused:
            complete(code["run"]())
        assert refused.value.instead.startswith("PerdureRunner from perdure.openai_agents for an agent in a workflow: ") == is_named


def test_other_threads_are_refused_too() -> None:
    loop, refused = DeterministicLoop(), list[str]()

    def elsewhere() -> None:
        try:
            loop.call_soon_threadsafe(print)
        except NotDeterministic as error:
            refused.append(error.what)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert refused == ["loop.call_soon_threadsafe()"]


def test_asyncio_itself_refuses_to_wait_for_coroutines() -> None:
    async def main() -> None:
        coroutine: Any = forever()
        try:
            await asyncio.wait([coroutine])
        finally:
            coroutine.close()

    with pytest.raises(TypeError, match="use tasks explicitly"):
        complete(main())


def test_a_future_of_another_loop_is_refused() -> None:
    async def main(foreign: asyncio.Future[None]) -> None:
        await foreign

    with pytest.raises(RuntimeError, match="attached to a different loop"):
        complete(main(DeterministicLoop().create_future()))


def test_a_refusal_can_be_caught_and_the_workflow_goes_on() -> None:
    async def main() -> str:
        with contextlib.suppress(NotDeterministic):
            await asyncio.sleep(1)
        return await asyncio.sleep(0, "went on")

    assert complete(main()) == "went on"


# Eviction.


def test_eviction_ends_tasks_where_they_stand_oldest_first() -> None:
    seen: list[str] = []

    async def one(name: str) -> None:
        try:
            await forever()
        except BaseException as error:
            seen.append(f"{name} {type(error).__name__}")
            raise

    loop = parked(*(one(str(n)) for n in range(12)))
    loop.close()
    loop.close()
    assert seen == [f"{n} Evicted" for n in range(12)]
    assert (loop.is_closed(), loop.driving, loop.pending, loop.errors) == (True, False, [], [])


def test_cleanup_sees_its_own_task_as_the_current_one() -> None:
    seen: list[bool] = []

    async def one() -> None:
        own = asyncio.current_task()
        try:
            await forever()
        finally:
            seen.append(asyncio.current_task() is own)

    loop = parked(one(), one())
    loop.close()
    assert seen == [True, True] and loop.current is None


def test_eviction_of_a_task_that_has_not_begun_runs_none_of_it() -> None:
    seen: list[str] = []

    async def one() -> None:
        seen.append("begun")

    loop = DeterministicLoop()
    _ = loop.create_task(one())
    loop.close()
    assert (seen, loop.pending) == ([], [])


def test_cleanup_runs_in_its_task_s_context() -> None:
    variable, seen = ContextVar("variable", default="outer"), list[str]()

    async def one() -> None:
        token = variable.set("inner")
        try:
            await forever()
        finally:
            seen.append(variable.get())
            variable.reset(token)
            seen.append(variable.get())

    parked(one()).close()
    assert seen == ["inner", "outer"]


async def awaits_again_and_again(seen: list[str]) -> None:
    try:
        await forever()
    finally:
        for n in range(50):
            try:
                await asyncio.sleep(0)
            finally:
                seen.append(str(n))


async def awaits_at_every_depth(seen: list[str], depth: int = 100) -> None:
    try:
        await (awaits_at_every_depth(seen, depth - 1) if depth else forever())
    finally:
        try:
            await asyncio.sleep(0)
        finally:
            await asyncio.sleep(0)


async def swallows(seen: list[str]) -> None:
    for _ in range(50):
        try:
            await asyncio.sleep(0) if here().is_closed() else await forever()
        except BaseException as error:
            seen.append(type(error).__name__)


async def returns(seen: list[str]) -> str:
    try:
        await forever()
    except BaseException as error:
        seen.append(type(error).__name__)
    return "as if nothing had happened"


async def raises(seen: list[str]) -> None:
    try:
        await forever()
    finally:
        raise SystemExit(len(seen))


async def starts_tasks(seen: list[str]) -> None:
    try:
        await forever()
    finally:
        started = asyncio.create_task(forever())
        seen.append("tried")
        try:
            await started
        finally:
            try:
                await asyncio.gather(forever(), asyncio.shield(forever()))
            finally:
                async with asyncio.TaskGroup() as group:
                    group.create_task(forever())
                    group.create_task(forever())


async def holds_locks(seen: list[str]) -> None:
    lock, event = asyncio.Lock(), asyncio.Event()

    async def next_one() -> None:
        async with lock:
            seen.append("never")

    async with asyncio.TaskGroup() as group, lock:
        group.create_task(next_one())
        group.create_task(next_one())
        try:
            await event.wait()
        finally:
            event.set()


async def is_in_a_context(seen: list[str]) -> None:
    @contextlib.asynccontextmanager
    async def context() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.sleep(0)

    async with context(), contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(context())
        await forever()


async def is_in_a_generator(seen: list[str]) -> None:
    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            await forever()
        finally:
            try:
                await asyncio.sleep(0)
            finally:
                await asyncio.sleep(0)

    async for number in numbers():
        seen.append(f"turn {number}")
        await asyncio.sleep(0)


async def has_suspended_generators(seen: list[str]) -> None:
    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            try:
                await asyncio.sleep(0)
            finally:
                seen.append("generator ended")
                await asyncio.sleep(0)

    kept = numbers()
    async for _ in kept:
        await forever()


STUBBORN = [
    awaits_again_and_again,
    awaits_at_every_depth,
    swallows,
    returns,
    raises,
    starts_tasks,
    holds_locks,
    is_in_a_context,
    is_in_a_generator,
    has_suspended_generators,
]


@pytest.mark.parametrize("program", STUBBORN, ids=lambda program: program.__name__)
@pytest.mark.parametrize("inside", ["no loop", "a real loop"])
def test_eviction_ends_stubborn_cleanup_without_a_word(program: Callable[[list[str]], Program], inside: str) -> None:
    seen: list[str] = []

    def evict() -> None:
        loop = parked(program(seen), forever(), program(seen))
        loop.close()
        assert (loop.pending, loop.errors) == ([], [])

    async def main() -> None:
        asyncio.get_running_loop().call_soon(evict)
        for _ in range(3):
            await asyncio.sleep(0)
        gc.collect()
        assert len(asyncio.all_tasks()) == 1

    evict() if inside == "no loop" else asyncio.run(main())
    assert deterministic_loop._unending == []
    assert "never" not in seen


def test_a_coroutine_that_refuses_to_end_is_given_up_without_a_word() -> None:
    released, seen = False, list[type]()

    async def stubborn() -> None:
        while not released:
            try:
                await asyncio.sleep(0) if here().is_closed() else await forever()
            except BaseException as error:
                seen.append(type(error))

    loop = parked(stubborn())
    loop.close()
    del loop
    gc.collect()
    assert len(deterministic_loop._unending) == 1 and set(seen) == {Evicted}
    released = True
    deterministic_loop._unending.clear()


def test_after_eviction_nothing_is_accepted() -> None:
    loop = parked(forever())
    loop.close()
    for ask in (lambda: loop.call_soon(print), lambda: loop.create_task(forever()), loop.create_future, loop.drive):
        with pytest.raises(Evicted, match="was evicted from memory"):
            ask()


def test_eviction_cancels_what_tasks_awaited() -> None:
    async def waits(future: asyncio.Future[None]) -> None:
        await future

    loop = DeterministicLoop()
    awaited, other = loop.create_future(), loop.create_future()
    _ = loop.create_task(waits(awaited))
    loop.drive()
    loop.close()
    assert (awaited.cancelled(), other.done()) == (True, False)


def test_what_a_workflow_held_is_freed_by_its_end_and_by_its_eviction_alone() -> None:
    class Held:
        pass

    async def branch(held: Held) -> None:
        await forever()

    async def holds(held: Held, *, ends: bool) -> Held:
        more = [held]
        if not ends:
            await asyncio.gather(branch(held), branch(held))
        await asyncio.sleep(0)
        return more[0]

    gc.disable()
    try:
        for ends in (True, False):
            held = Held()
            alive, loop = weakref.ref(held), parked(holds(held, ends=ends))
            seen = weakref.ref(loop)
            del held
            assert (alive() is None) == ends
            loop.close()
            assert alive() is None
            del loop
            if sys.version_info >= (3, 14):  # Futures refer to the tasks that await them there.
                gc.collect()
            assert seen() is None
    finally:
        gc.enable()


def test_an_async_generator_that_is_dropped_is_closed_on_this_loop() -> None:
    loops: list[object] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            loops.append(asyncio.get_running_loop())

    async def drops() -> None:
        async for _ in numbers():
            break

    async def main() -> None:
        outer, made = asyncio.get_running_loop(), list[DeterministicLoop]()
        outer.call_soon(lambda: made.append(parked(drops())))
        for _ in range(3):
            await asyncio.sleep(0)
        assert loops == made

    asyncio.run(main())
    assert len(loops) == 1


def test_an_async_generator_that_outlives_its_workflow_is_ended_on_the_loop_it_had() -> None:
    loops: list[object] = []
    kept: list[AsyncIterator[int]] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            loops.append(asyncio.get_running_loop())
            await asyncio.sleep(0)
            loops.append("and no further")

    async def keeps() -> None:
        kept.append(numbers())
        await anext(kept[0])

    async def main() -> None:
        loop = DeterministicLoop()
        asyncio.get_running_loop().call_soon(loop.drive)
        _ = loop.create_task(keeps())
        await asyncio.sleep(0)
        loop.close()
        kept.clear()
        assert (loops, loop.driving) == ([loop], False)

    asyncio.run(main())


if __name__ == "__main__":
    sys.stdout.write(fingerprint())
