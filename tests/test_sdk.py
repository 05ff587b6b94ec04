"""Claims about what users import: `run` and `arun`, ids, errors, signals from the keyboard, and what an import costs."""

import ast
import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import (
    AsyncClient,
    Context,
    DeadlineExceeded,
    ExecutionCancelled,
    ExecutionFailed,
    Fatal,
    NeedsAttention,
    Retry,
    StepFailed,
    WrongVerb,
    step,
    workflow,
)
from perdure.code.durations import duration_seconds
from perdure.core import events as e
from perdure.core import limits, log_format, messages
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import BadName, BadValue, TooLarge, Unencodable
from perdure.core.operations import CallOperation
from perdure.core.paths import Key
from perdure.runtime.local_engine import local_engine
from perdure.stores.configured_store import open_store
from perdure.stores.protocol import Commit, Committed, Head, Post
from perdure.workflow_function import Workflow

SECONDS_MAX = 20.0
"""How long a process may take that has next to nothing to do."""

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


@workflow
async def greet(ctx: Context, name: str, mark: str = "") -> str:
    return await ctx.step(greeting, name) + mark


@step(retry=Retry(max=1))
def divide(number: int) -> float:
    return number / 0


@workflow
async def dividing(ctx: Context, number: int) -> float:
    return await ctx.step(divide, number)


@workflow
async def raising(ctx: Context) -> None:
    raise LookupError("no such order")


@workflow(deadline="0.2s")
async def late(ctx: Context) -> None:
    await ctx.sleep("1h")


@workflow
async def sleepy(ctx: Context) -> None:
    await ctx.sleep("1h")


@workflow
async def family(ctx: Context, name: str) -> list[str]:
    return [await ctx.call(greet, name), await ctx.call(cousin, name)]


@workflow
async def cousin(ctx: Context, name: str) -> str:
    return "cousin of " + await ctx.call(greet, name, "!")


def stored(url: str) -> list[Head]:
    """All heads of a store."""

    async def read() -> list[Head]:
        store = open_store(url)
        try:
            return await store.heads()
        finally:
            await store.close()

    return asyncio.run(read())


def remembered(url: str, key: Key) -> list[e.Event]:
    """The log of an execution."""

    async def read() -> list[e.Event]:
        store = open_store(url)
        try:
            found = await store.read(key)
        finally:
            await store.close()
        return [] if found is None else log_format.decode_rows(found.payloads)

    return asyncio.run(read())


# Running.


def test_a_workflow_runs_and_returns_its_result() -> None:
    assert greet.run("Ada") == "Hello Ada"
    assert greet.run(name="Ada", mark="!") == "Hello Ada!"
    assert calls == ["Ada", "Ada"]


@pytest.mark.slow
def test_with_one_id_a_step_is_executed_once_in_the_store_of_the_environment(url: str) -> None:
    assert [greet.with_(id="k").run("Ada") for _ in range(3)] == ["Hello Ada"] * 3
    assert calls == ["Ada"]
    assert [head.key for head in stored(url)] == [greet.key("k")]


@pytest.mark.slow
def test_with_one_id_a_step_is_executed_once_in_a_store_that_is_given(url: str, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path}/other.db"
    assert [greet.with_(id="k", db=other).run("Ada") for _ in range(3)] == ["Hello Ada"] * 3
    assert calls == ["Ada"]
    assert len(stored(other)) == 1 and stored(url) == []
    assert greet.with_(id="k").run("Ada") == "Hello Ada" and calls == ["Ada", "Ada"]


def test_one_id_of_another_workflow_is_another_execution() -> None:
    assert greet.with_(id="k").run("Ada") == "Hello Ada"
    assert cousin.with_(id="k").run("Ada") == "cousin of Hello Ada!"


def test_the_same_id_with_another_input_returns_the_first_result() -> None:
    assert greet.with_(id="k").run("Ada") == "Hello Ada"
    assert greet.with_(id="k").run("Grace", "?") == "Hello Ada"
    assert calls == ["Ada"]


def test_run_inside_a_running_event_loop_says_to_use_arun(url: str) -> None:
    async def inside() -> None:
        with pytest.raises(WrongVerb, match=r"greet\.run\(\) was called inside a running event loop. Use `await greet\.arun\(\.\.\.\)`"):
            greet.run("Ada")

    asyncio.run(inside())
    assert stored(url) == []


def test_run_and_arun_inside_a_workflow_say_to_call_a_child(url: str) -> None:
    @workflow
    async def outer(ctx: Context, verb: str) -> str:
        try:
            getattr(greet, verb)("Ada")
        except WrongVerb as refused:
            return str(refused)
        return "not refused"

    for verb in ("run", "arun"):
        assert outer.run(verb).startswith(f"greet.{verb}() was called inside a workflow. Run it as a child: `await ctx.call(greet, ...)`")


@pytest.mark.parametrize("duration", [1e300, 10**400, "400000d", 1001 * 365.25 * 86_400])
def test_a_sleep_of_more_than_a_thousand_years_is_refused_and_one_of_a_century_is_not(duration: Any) -> None:
    with pytest.raises(BadValue, match=r"at most 1,000 years|finite"):
        duration_seconds(duration, "sleep")
    assert duration_seconds("36500d") == 36_500 * 86_400


async def test_arun_runs_inside_a_running_event_loop(url: str) -> None:
    assert await greet.with_(id="k").arun("Ada") == "Hello Ada"
    assert await greet.with_(id="k").arun("Ada") == "Hello Ada"
    assert calls == ["Ada"]


async def test_aruns_in_stores_of_their_own_run_side_by_side() -> None:
    together = asyncio.Barrier(5)

    @step
    async def meet() -> str:
        _ = await together.wait()
        return "met"

    @workflow
    async def meeting(ctx: Context) -> str:
        return await ctx.step(meet)

    async with asyncio.timeout(SECONDS_MAX):  # one that had to end before the next could begin would wait for ever
        assert await asyncio.gather(*(meeting.with_(id="k", db="memory:").arun() for _ in range(5))) == ["met"] * 5


def test_a_workflow_is_run_by_its_verbs_and_not_by_calling_it() -> None:
    with pytest.raises(WrongVerb, match=r"greet was called. Use greet\.run"):
        greet("Ada")


def test_a_step_called_directly_is_a_plain_call(url: str) -> None:
    assert greeting("Ada") == "Hello Ada"
    assert stored(url) == []


@pytest.mark.slow
def test_a_sync_step_runs_in_a_thread_and_does_not_hold_up_its_siblings() -> None:
    barrier = threading.Barrier(3, timeout=10)
    threads = set[int]()

    @step
    def meet(number: int) -> int:
        threads.add(threading.get_ident())
        barrier.wait()
        return number

    @workflow
    async def meeting(ctx: Context) -> list[int]:
        return await ctx.map(lambda c, number: c.step(meet, number), [1, 2, 3])

    assert meeting.run() == [1, 2, 3]
    assert len(threads) == 3 and threading.get_ident() not in threads


# Children.


@pytest.mark.slow
def test_children_of_the_same_module_run_in_the_same_process(url: str) -> None:
    assert family.with_(id="k").run("Ada") == ["Hello Ada", "cousin of Hello Ada!"]
    assert {head.status for head in stored(url)} == {"completed"} and len(stored(url)) == 4


@pytest.mark.slow
def test_children_of_another_module_run_in_the_same_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = "from perdure import Context, workflow\n"
    grandchild = "@workflow\nasync def grandchild(ctx: Context) -> str:\n    return 'grandchild'\n"
    child = "@workflow\nasync def child(ctx: Context) -> str:\n    return 'child of ' + await ctx.call({}grandchild)\n"
    (tmp_path / "deepest_of_sdk.py").write_text(header + grandchild)
    (tmp_path / "deeper_of_sdk.py").write_text(f"{header}from deepest_of_sdk import grandchild\n{child.format('')}")
    (tmp_path / "top_of_sdk.py").write_text(
        f"{header}from deeper_of_sdk import child\n@workflow\nasync def top(ctx: Context) -> str:\n    return 'top of ' + await ctx.call(child)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    top: Workflow[[], str] = __import__("top_of_sdk").top
    assert top.run() == "top of child of grandchild"


@pytest.mark.slow
def test_children_named_through_their_module_run_in_the_same_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = "from perdure import Context, workflow\n"
    (tmp_path / "named_of_sdk.py").write_text(header + "@workflow\nasync def child(ctx: Context) -> str:\n    return 'child'\n")
    body = "import named_of_sdk\n@workflow\nasync def naming(ctx: Context) -> str:\n    return await ctx.call(named_of_sdk.child)\n"
    (tmp_path / "naming_of_sdk.py").write_text(header + body)
    done = python(tmp_path, "from naming_of_sdk import naming; print(naming.run())")
    assert done == (0, "child\n", "")


@pytest.mark.slow
def test_children_named_in_a_function_run_in_the_same_process(tmp_path: Path) -> None:
    source = """
from perdure import Context, workflow

def main():
    @workflow
    async def child(ctx: Context) -> str:
        return "child"

    @workflow
    async def naming(ctx: Context) -> str:
        return await ctx.call(child)

    print(naming.run())

main()
"""
    assert python(tmp_path, source) == (0, "child\n", "")


@pytest.mark.slow
def test_a_namesake_in_another_module_does_not_take_the_place_of_what_is_run(tmp_path: Path) -> None:
    body = "from perdure import Context, workflow\n{}\n@workflow\nasync def main(ctx: Context) -> str:\n    return '{}'\n"
    (tmp_path / "other_of_sdk.py").write_text(body.format("", "other"))
    (tmp_path / "mine_of_sdk.py").write_text(body.format("import other_of_sdk\nfrom other_of_sdk import main as other", "mine"))
    assert python(tmp_path, "from mine_of_sdk import main, other; print(main.run(), other.run())") == (0, "mine other\n", "")


def python(directory: Path, source: str) -> tuple[int, str, str]:
    """Run a program in a process of its own; return its code, and what it said. One that hangs is an error."""
    ended = subprocess.run([sys.executable, "-c", source], cwd=directory, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    return ended.returncode, ended.stdout, ended.stderr


# How it ends otherwise.


def test_a_failing_step_fails_its_execution_with_the_users_traceback(url: str) -> None:
    with pytest.raises(ExecutionFailed) as failed:
        dividing.with_(id="k").run(1)
    said = str(failed.value)
    assert said.startswith("execution default/dividing/k failed: step_failed: step divide failed (exhausted, 1 attempt): ZeroDivisionError: division by zero")
    assert "return await ctx.step(divide, number)" in said
    assert failed.value.error.type == "step_failed"
    assert [head.status for head in stored(url)] == ["failed"]


def test_the_traceback_of_a_failed_step_names_the_users_line() -> None:
    @workflow
    async def looking(ctx: Context) -> str:
        try:
            await ctx.step(divide, 1)
        except StepFailed as error:
            return error.error.traceback
        return ""

    assert "return number / 0" in looking.run()


@pytest.mark.slow
def test_a_workflow_that_raises_fails_with_the_users_traceback_now_and_later() -> None:
    said = set()
    for _ in range(2):
        with pytest.raises(ExecutionFailed, match="LookupError: no such order") as failed:
            raising.with_(id="k").run()
        said.add(str(failed.value))
    (trace,) = said
    assert 'raise LookupError("no such order")' in trace and "test_sdk.py" in trace


@pytest.mark.slow
def test_a_deadline_that_passes_fails_the_execution(url: str) -> None:
    with pytest.raises(DeadlineExceeded, match=r"default/late/k failed: deadline_exceeded: the execution did not end within 0\.2 s of its start"):
        late.with_(id="k").run()
    assert [head.status for head in stored(url)] == ["failed"]


def test_a_cancelled_execution_says_so() -> None:
    async def cancelled() -> None:
        async with local_engine([sleepy.code]) as engine:
            await engine.start(sleepy.key("k"), sleepy.code.codec.encode_args((), {}, "input"))
            cancel = messages.encode_message(messages.CancelMessage("changed our mind"))
            await engine.store.commit([Post(messages=(OutgoingMessage(sleepy.key("k"), "cancel", cancel),))])

    asyncio.run(cancelled())
    with pytest.raises(ExecutionCancelled, match="execution default/sleepy/k was cancelled: changed our mind"):
        sleepy.with_(id="k").run()


def test_fatal_is_not_tried_again() -> None:
    @step
    def hopeless() -> None:
        calls.append("hopeless")
        raise Fatal("closed for good")

    @workflow
    async def trying(ctx: Context) -> None:
        await ctx.step(hopeless)

    with pytest.raises(ExecutionFailed, match="fatal: closed for good"):
        trying.run()
    assert calls == ["hopeless"]


# What is refused, with nothing stored.


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: greet.run(), "missing a required argument: 'name'"),  # type: ignore[call-arg]  # wrong on purpose
        (lambda: greet.run("Ada", "!", "?"), "too many positional arguments"),  # type: ignore[call-arg]  # wrong on purpose
        (lambda: greet.run("Ada", unknown=1), "unexpected keyword argument 'unknown'"),  # type: ignore[call-arg]  # wrong on purpose
        (lambda: greet.run("Ada", name="Ada"), "multiple values for argument 'name'"),  # type: ignore[misc]  # wrong on purpose
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_stored(wrong: Callable[[], Any], said: str, url: str, tmp_path: Path) -> None:
    with pytest.raises(BadValue, match=f"the arguments of greet: .*{said}"):
        wrong()
    assert list(tmp_path.iterdir()) == []


def test_input_without_an_encoding_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    with pytest.raises(Unencodable, match=r"the input of greet: a value of type tuple can't be stored: .*lock has no encoding"):
        greet.run(threading.Lock())  # type: ignore[arg-type]  # wrong on purpose
    assert list(tmp_path.iterdir()) == []


def test_oversized_input_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match=r"the input of greet: the value takes 16,777,\d\d\d bytes, the limit is 16,777,216"):
        greet.run("x" * limits.VALUE_BYTES_MAX)
    assert list(tmp_path.iterdir()) == []


def test_input_of_another_type_than_hinted_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match=r"the arguments of greet: .* is not what it takes: Expected `str`, got `int`"):
        greet.with_(id="k").run(7)  # type: ignore[arg-type]  # wrong on purpose
    assert calls == [] and list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "id", ["a/b", "a\\b", "..", " ", "a b", "%2F", "#?&", "Ünïcødé-数据-🎉", "\n\t", "\x00", "'; DROP TABLE log; --", "x" * limits.NAME_BYTES_MAX]
)
def test_an_id_may_be_any_text_up_to_a_kilobyte(id: str, url: str) -> None:
    assert greet.with_(id=id).run("Ada") == "Hello Ada"
    assert greet.with_(id=id).run("Grace") == "Hello Ada"
    assert calls == ["Ada"]
    assert [head.key.id for head in stored(url)] == [id]


@pytest.mark.slow
def test_ids_that_differ_only_in_how_unicode_composes_them_are_two() -> None:
    assert [greet.with_(id="é").run("Ada"), greet.with_(id="e\u0301").run("Grace")] == ["Hello Ada", "Hello Grace"]


@pytest.mark.parametrize("id", ["", "x" * (limits.NAME_BYTES_MAX + 1), "é" * (limits.NAME_BYTES_MAX // 2 + 1), "\ud800", 7, b"k"])
def test_an_id_that_is_empty_too_long_or_no_text_is_refused_before_anything_is_stored(id: Any, tmp_path: Path) -> None:
    with pytest.raises(BadName, match=r"^the id "):
        greet.with_(id=id).run("Ada")
    with pytest.raises(BadName, match=r"^the id "):
        greet.key(id)
    assert list(tmp_path.iterdir()) == []


def test_a_result_without_an_encoding_fails_the_execution_and_names_itself() -> None:
    @workflow
    async def odd(ctx: Context) -> Any:
        return threading.Lock()

    with pytest.raises(ExecutionFailed, match="unencodable: the result"):
        odd.run()


async def without_context(number: int) -> int:
    return number


async def without_context_in_text(number: "str") -> str:
    return number


async def without_parameters() -> int:
    return 1


@pytest.mark.parametrize("fn", [without_context, without_context_in_text, without_parameters])
def test_a_function_without_a_context_is_no_workflow(fn: Any) -> None:
    with pytest.raises(BadValue, match=r"@workflow: .* is not an async function whose first parameter is the context"):
        workflow(fn)


def test_any_first_parameter_that_may_be_a_context_is_accepted() -> None:
    @workflow
    async def unannotated(anything) -> int:  # type: ignore[no-untyped-def]  # as in code without type hints
        return 1

    @workflow
    async def rest(*given: Any) -> int:
        return len(given)

    assert unannotated.run() == 1 and rest.run() == 1


def test_a_sync_function_is_no_workflow() -> None:
    with pytest.raises(BadValue, match=r"@workflow: .* is not an async function whose first parameter is the context"):
        workflow(greeting.fn)  # type: ignore[arg-type]  # wrong on purpose


# The keyboard.

INTERRUPTED = """
import asyncio, sys, time
from perdure import Context, step, workflow

@step
def first() -> str:
    print("first", flush=True)
    return "first"

@step
async def waiting() -> str:
    print("waiting", flush=True)
    await asyncio.sleep(float(sys.argv[2]))
    return "last"

@step
def blocking() -> str:
    print("blocking", flush=True)
    time.sleep(float(sys.argv[2]))
    return "last"

@workflow
async def main(ctx: Context, kind: str) -> str:
    return await ctx.step(first) + " and " + await ctx.step(waiting if kind == "waiting" else blocking)

print(main.with_(id="k").run(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["waiting", "blocking"])
def test_an_interrupt_from_the_keyboard_ends_it_soon_and_the_next_run_goes_on(kind: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(INTERRUPTED)
    with subprocess.Popen([sys.executable, program, kind, "60"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert [process.stdout.readline() for _ in range(2)] == ["first\n", f"{kind}\n"]
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=10)
        finally:
            process.kill()
    assert process.returncode in (130, -signal.SIGINT), errors
    assert errors.rstrip().endswith("KeyboardInterrupt") and "never awaited" not in errors and "destroyed" not in errors
    ended = subprocess.run([sys.executable, program, kind, "0"], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert (ended.returncode, ended.stdout) == (0, f"{kind}\nfirst and last\n"), ended.stderr


# What an import costs.


def test_importing_perdure_brings_no_engine_no_store_and_no_database(tmp_path: Path) -> None:
    code, said, errors = python(tmp_path, "import sys, perdure; print(*sorted(sys.modules))")
    assert (code, errors) == (0, "")
    loaded = set(said.split())
    heavy = {"sqlite3", "perdure.runtime", "perdure.stores", "perdure.testing", "concurrent.futures.thread", "multiprocessing", "unittest", "pydantic", "attr"}
    assert not heavy & loaded
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_importing_perdure_is_quick(tmp_path: Path) -> None:
    measure = "import time; began = time.process_time(); import perdure; print(time.process_time() - began)"
    times_s = [float(python(tmp_path, measure)[1]) for _ in range(3)]
    assert min(times_s) < 0.5


@pytest.mark.parametrize("name", perdure.__all__)
def test_every_public_name_says_what_it_is(name: str) -> None:
    found = getattr(perdure, name)
    described = getattr(found, "__doc__", None)
    inherited = {base.__doc__ for base in type.mro(found)[1:]} if isinstance(found, type) else set()
    if name == "Attempt":  # an alias of a union has no place for a docstring
        return
    assert described and described not in inherited


def test_all_public_names_are_sorted_and_there() -> None:
    assert sorted(perdure.__all__) == perdure.__all__
    assert all(hasattr(perdure, name) for name in perdure.__all__)


def test_the_names_of_the_environment_are_left_alone() -> None:
    before = dict(os.environ)
    assert greet.run("Ada") == "Hello Ada"
    assert dict(os.environ) == before


@pytest.mark.slow
async def test_an_execution_that_was_parked_goes_on_when_it_is_run_again_and_its_code_matches(tmp_path: Path) -> None:
    ran: list[str] = []

    @step
    def first() -> str:
        ran.append("first")
        return "one"

    @step
    def other() -> str:
        ran.append("other")
        return "two"

    @workflow(name="changing")
    async def before(ctx: Context) -> str:
        done = await ctx.step(first)
        return done + str(await ctx.listen("go", timeout=1.0, default=" and on"))

    @workflow(name="changing")
    async def after(ctx: Context) -> str:
        return await ctx.step(other)

    db = f"sqlite:///{tmp_path}/p.db"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(before.with_(id="k", db=db).arun(), 0.5)
    for _ in range(2):
        with pytest.raises(NeedsAttention, match=r"renamed: first .* run it again with its id"):
            await asyncio.wait_for(after.with_(id="k", db=db).arun(), 30)
    assert await asyncio.wait_for(before.with_(id="k", db=db).arun(), 30) == "one and on"
    assert ran == ["first"]


@pytest.mark.slow
async def test_an_execution_whose_step_was_interrupted_too_often_stays_parked_when_it_is_run_again_until_a_person_retries_it(tmp_path: Path) -> None:
    ran: list[str] = []

    @step
    async def deadly() -> str:
        ran.append("deadly")
        return "it lives"

    @workflow
    async def poisoned(ctx: Context) -> str:
        return await ctx.step(deadly)

    db, key = f"sqlite:///{tmp_path}/p.db", Key("default", poisoned.code.name, "k")
    store, opened = open_store(db), (("deadly", 1),)
    execution: list[e.Event] = [
        e.StartedEvent(1, 1.0, b"\x92\x90\x80", 7),
        e.OpenedEvent(opened, CallOperation("deadly", deadly.codec.encode_args((), {}, "arguments")), "gone"),
        e.ParkedEvent("interrupted", 2.0, ("it kills its host",), opened),
    ]
    change = Commit(
        key=key,
        epoch=(await store.store_time()).epoch,
        holder="gone",
        version=0,
        program=f"{key.workflow}@1",
        root=key,
        creates=True,
        release=True,
        row=log_format.encode_row(execution),
        count=len(execution),
        status="needs_attention",
    )
    (answer,) = await store.commit([change])
    assert isinstance(answer, Committed)
    for _ in range(3):
        with pytest.raises(
            NeedsAttention, match=r"\(interrupted\): it kills its host. Correct the cause, then retry the execution; running it again does not unpark it"
        ):
            await asyncio.wait_for(poisoned.with_(id="k", db=db).arun(), 30)
    assert ran == []
    async with AsyncClient(store) as client:
        await (await client.get("k", poisoned)).retry()
    await store.close()
    assert await asyncio.wait_for(poisoned.with_(id="k", db=db).arun(), 30) == "it lives"


def test_every_public_name_is_there_and_is_what_type_checkers_take_it_for() -> None:
    tree = ast.parse(Path(perdure.__file__).read_text())
    seen = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("perdure.")
        for alias in node.names
    }
    assert seen == perdure._HOME and sorted(seen) == sorted(perdure.__all__)
    assert all(getattr(perdure, name) is getattr(import_module(module), name) for name, module in perdure._HOME.items())
    assert set(perdure.__all__) <= set(dir(perdure))
    with pytest.raises(AttributeError, match="'perdure' has no attribute 'nothing'"):
        _ = perdure.nothing


def test_windows_is_refused_with_the_reason() -> None:
    program = "import sys; sys.platform = 'win32'; import perdure"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "ImportError: Perdure does not run on Windows" in done.stderr
