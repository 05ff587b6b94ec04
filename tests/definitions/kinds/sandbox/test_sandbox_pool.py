"""The pool: what runs in it answers, what overruns is killed, and neither leaves anything behind."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import BadValue, MissingExtra, OutOfMemory, OutOfTime, OutputTooLarge, SandboxFailed, SandboxLost, SourceFailed, Unencodable
from perdure.definitions.kinds.sandbox import sandbox_pool, sandbox_process
from perdure.definitions.kinds.sandbox.sandbox_pool import SandboxLimits, run_job
from perdure.runtime.step_runner import failure_of_exception
from perdure.testing.virtual_time import VirtualLoop
from tests.open_descriptors import open_descriptors

pytestmark = pytest.mark.slow

CALM = SandboxLimits(wall_s=20.0)
SHORT = SandboxLimits(wall_s=0.1)
ENDLESS = "export default () => { while (true) {} }"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


@pytest.fixture(scope="module", autouse=True)
def sandboxes() -> Iterator[None]:
    yield
    sandbox_pool.close_pool()


async def js(source: str, given: Any = None, limits: SandboxLimits = CALM) -> Any:
    """What a source returns."""
    return (await run_job("js", {"source": source, "input": given}, limits))["value"]


async def jq(program: str, *rows: Any, limits: SandboxLimits = CALM) -> Any:
    """What a program gives for rows."""
    return await run_job("jq", {"program": program, "rows": list(rows)}, limits)


def is_running(pid: int) -> bool:
    """Whether a process is there, and no zombie; one whose first thread has ended may have others still, and its files."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1 or Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"  # noqa: PTH208  # as above
    except (FileNotFoundError, ProcessLookupError):  # it may end between the opening and the reading
        return False


async def until(holds: Callable[[], bool]) -> None:
    """Wait until it holds, for ten seconds at most."""
    end_s = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end_s
        await asyncio.sleep(0.005)


@pytest.fixture
def alone() -> None:
    """No sandbox is there before."""
    sandbox_pool.close_pool()


async def test_jq_gives_all_outputs_row_by_row() -> None:
    assert await jq(".a, .a + 1", {"a": 1}, {"a": 5}) == [1, 2, 5, 6]
    assert await jq("empty", 1, 2) == []
    assert await jq(".") == []
    assert await jq("if . > 1 then {x: .} else empty end", 1, 2, 3) == [{"x": 2}, {"x": 3}]


@pytest.mark.parametrize("program", ["env", "$ENV", "env | tojson | fromjson", "[$ENV, env] | add"])
async def test_jq_sees_no_environment(program: str, monkeypatch: pytest.MonkeyPatch, alone: None) -> None:
    monkeypatch.setenv("CANARY", "canary")
    assert await jq(program, 1) == [{}]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("input", "break"),
        ('import "x" as $x {search: "HERE"}; $x', "there are no modules and no files"),
        ('include "y" {search: "HERE"}; y', "there are no modules and no files"),
        ('"x" | modulemeta', "no modules"),
        (".[", "syntax error"),
        ("$x", "$x is not defined"),
        ('error("no")', "has failed: no"),
        ("1 / 0", "divisor is zero"),
        (".a.b", "Cannot index"),
        (".\0", "NUL"),
    ],
)
async def test_jq_reads_nothing_and_says_what_is_wrong(program: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('"canary"')
    (tmp_path / "y.jq").write_text("def y: 1;")
    with pytest.raises(SourceFailed) as caught:
        await jq(program.replace("HERE", str(tmp_path)), {"a": 1})
    assert said in str(caught.value) and "canary" not in str(caught.value)
    assert await jq("[inputs], $__loc__.line, input_filename", 7) == [[], 1, None]


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("def f: f; f", OutOfTime),
        ("last(repeat(1))", OutOfTime),
        ("[range(1e9)]", OutOfMemory),
        ('"a" * 1e9 | length', OutOfMemory),
        ("def f: 1 + f; f", OutOfMemory),
        ("repeat(1)", OutputTooLarge),
        ("[range(1000)]", OutputTooLarge),
        ('[limit(100; repeat("x" * 1000))]', OutputTooLarge),
    ],
)
async def test_jq_is_bounded(program: str, error: type[Exception]) -> None:
    if error is OutOfMemory and sys.platform != "linux":
        pytest.skip("memory is bounded on Linux")
    wall_s = 0.1 if error is OutOfTime else 20.0
    with pytest.raises(error):
        await jq(program, 1, limits=SandboxLimits(wall_s, 16_000_000, 2000 if error is OutputTooLarge else 100_000_000))
    assert await jq(".", 1) == [1]


async def test_a_sandbox_is_used_again_and_another_takes_the_place_of_one_that_overran(alone: None) -> None:
    assert await js("export default () => 1") == 1
    (first,) = sandbox_pool.process_ids()
    with pytest.raises(SourceFailed):
        await js("export default () => { throw new Error('x') }")
    assert await js("export default () => 2") == 2 and sandbox_pool.process_ids() == [first]
    with pytest.raises(OutOfTime):
        await js(ENDLESS, limits=SHORT)
    assert await js("export default () => 3") == 3 and first not in sandbox_pool.process_ids()


async def test_a_sandbox_is_replaced_after_so_many_jobs(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_pool, "JOBS_MAX", 3)
    seen = []
    for _ in range(6):
        assert await jq(".", 1) == [1]
        seen.append(sandbox_pool.process_ids())
    assert seen[0] == seen[1] != seen[3] and seen[2] == seen[5] == []


@LINUX
async def test_who_is_cancelled_leaves_no_process_and_no_descriptor(alone: None) -> None:
    assert await js("export default () => 1") == 1
    gc.collect()  # what earlier tests left
    before = open_descriptors()
    for wait_s in (0.0, 0.02, 0.1):
        running = asyncio.create_task(js(ENDLESS))
        await asyncio.sleep(wait_s)
        busy = sandbox_pool.process_ids()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        while any(map(is_running, busy)):
            await asyncio.sleep(0.005)
        assert await js("export default () => 1") == 1
    gc.collect()
    assert open_descriptors() <= before, "what an earlier test left may be closed meanwhile"


@LINUX
async def test_a_sandbox_dies_with_its_group_and_alone_should_nobody_kill_it(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    _ = await jq(".", 1)
    (pid,) = sandbox_pool.process_ids()
    assert os.getpgid(pid) == os.getsid(pid) == pid != os.getpgid(0)
    monkeypatch.setattr(sandbox_pool, "GRACE_S", 10.0)
    with pytest.raises(OutOfTime):
        await jq("def f: f; f", 1, limits=SHORT)  # its own alarm ends it
    assert not is_running(pid)


@LINUX
async def test_a_sandbox_has_given_up_files_and_processes(alone: None) -> None:
    _ = await jq(".", 1)
    (pid,) = sandbox_pool.process_ids()
    limits = dict((line[:25].strip(), line[25:].split()[:2]) for line in Path(f"/proc/{pid}/limits").read_text().splitlines())  # noqa: ASYNC240, C402  # it is short
    for name in ("Max open files", "Max processes", "Max file size", "Max core file size"):
        assert limits[name] == ["0", "0"]
    assert Path(f"/proc/{pid}/environ").read_bytes() == b""  # noqa: ASYNC240  # it is short
    assert sorted(os.listdir(f"/proc/{pid}/fd"))[:3] == ["0", "1", "2"] and len(os.listdir(f"/proc/{pid}/fd")) <= 4  # noqa: PTH208  # it is short


async def test_a_sandbox_that_is_killed_by_others_is_lost_and_replaced(alone: None) -> None:
    assert await js("export default () => 1") == 1
    (idle,) = sandbox_pool.process_ids()
    os.kill(idle, signal.SIGKILL)
    await until(lambda: not is_running(idle))
    assert await js("export default () => 2") == 2
    running = asyncio.create_task(js(ENDLESS))
    await until(lambda: sandbox_pool.process_ids() not in ([], [idle]))
    await asyncio.sleep(0.1)
    for busy in sandbox_pool.process_ids():
        os.kill(busy, signal.SIGKILL)
    with pytest.raises(SandboxLost, match=r"was ended from outside \(signal 9, SIGKILL\).*attempted again"):
        await running
    assert await js("export default () => 3") == 3


async def test_what_is_no_answer_is_not_believed(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    lies = "import socket; it = socket.socket(fileno=0); it.sendall(bytes(4)); it.recv(9); it.sendall(bytes(%r)); it.recv(9)"
    for said in ([0, 0, 0, 2, 63, 120], [255] * 9, [0, 0, 0, 0, 0]):
        monkeypatch.setattr(sandbox_process, "_PROGRAM", lies % said)
        with pytest.raises(SandboxLost, match="returned an invalid answer"):
            await jq(".", 1)
        assert sandbox_pool.process_ids() == []


async def test_a_sandbox_that_can_not_begin_is_an_error_and_no_room_is_lost(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(sandbox_process, "_PROGRAM", "raise SystemExit(3)")
        for _ in range(sandbox_pool.PROCESSES_MAX + 1):
            with pytest.raises(SandboxLost, match="could not begin: the sandbox has ended: exit code 3"):
                await jq(".", 1)
    assert await asyncio.gather(*(jq(".", 1) for _ in range(20))) == [[1]] * 20


async def test_a_hundred_at_once_all_answer_in_a_few_processes(alone: None) -> None:
    source = "export default (n: number) => n * 2"
    assert await asyncio.gather(*(js(source, n) for n in range(100))) == [n * 2 for n in range(100)]
    assert len(sandbox_pool.process_ids()) <= sandbox_pool.PROCESSES_MAX


async def test_who_waits_too_long_is_told_so_and_who_gives_up_takes_no_place(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_pool, "PROCESSES_MAX", 1)
    first = asyncio.create_task(js(ENDLESS))
    await until(lambda: sandbox_pool.process_ids() != [])
    monkeypatch.setattr(sandbox_pool, "WAIT_S", 0.05)
    with pytest.raises(SandboxLost, match=r"all 1 sandboxes were busy for 0\.05 s"):
        await jq(".", 1)
    monkeypatch.setattr(sandbox_pool, "WAIT_S", 20.0)
    gives_up, waits = asyncio.create_task(jq(".", 1)), asyncio.create_task(jq(".", 2))
    await asyncio.sleep(0.01)
    gives_up.cancel()
    first.cancel()
    assert await waits == [2]
    _ = await asyncio.gather(first, gives_up, return_exceptions=True)
    assert first.cancelled() and gives_up.cancelled()
    assert await jq(".", 3) == [3]


def test_loops_one_after_another_and_in_threads_share_the_sandboxes() -> None:
    sandbox_pool.close_pool()
    assert asyncio.run(jq(".", 1)) == [1]
    (first,) = sandbox_pool.process_ids()
    assert asyncio.run(jq(".", 2)) == [2] and sandbox_pool.process_ids() == [first]
    answers: list[Any] = []
    work = [threading.Thread(target=lambda: answers.append(asyncio.run(many()))) for _ in range(4)]

    async def many() -> Any:
        return await asyncio.gather(*(jq(".", n) for n in range(25)))

    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert answers == [[[n] for n in range(25)]] * 4


@pytest.mark.skipif(sys.platform == "win32", reason="uvloop is not there")
def test_it_works_on_other_loops_and_in_virtual_time() -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(js("export default (s: string) => s + s", "x" * 300_000)) == "x" * 600_000
    loop = VirtualLoop()
    before_s = loop.now_s
    assert loop.run_until_complete(js("export default (s: string) => s + s", "x" * 300_000)) == "x" * 600_000
    with pytest.raises(OutOfTime):
        loop.run_until_complete(js(ENDLESS, limits=SHORT))
    assert loop.now_s == before_s
    loop.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_has_sandboxes_of_its_own() -> None:
    assert asyncio.run(jq(".", 1)) == [1]
    before = sandbox_pool.process_ids()
    child = os.fork()
    if child == 0:
        try:
            fine = asyncio.run(jq(".", 2)) == [2] and not set(before) & set(sandbox_pool.process_ids())
            sandbox_pool.close_pool()
            os._exit(0 if fine else 2)
        except BaseException:
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert asyncio.run(jq(".", 3)) == [3] and sandbox_pool.process_ids() == before


@LINUX
def test_no_sandbox_outlives_its_parent() -> None:
    program = """
import asyncio, os, signal
from perdure.definitions.kinds.sandbox import sandbox_pool
async def main():
    await asyncio.gather(*(sandbox_pool.run_job("jq", {"program": ".", "rows": [1]}, sandbox_pool.SandboxLimits(5.0)) for _ in range(2)))
    given = {"source": "export default () => { while (true) {} }", "input": None}
    endless = asyncio.create_task(sandbox_pool.run_job("js", given, sandbox_pool.SandboxLimits(0.2)))
    await asyncio.sleep(0.05)
    print(*sandbox_pool.process_ids(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL) if HOW else os._exit(0)
asyncio.run(main())
"""
    for how in ("True", "False"):
        done = subprocess.run([sys.executable, "-c", program.replace("HOW", how)], capture_output=True, text=True, check=False)
        pids = [int(pid) for pid in done.stdout.split()]
        assert len(pids) >= 2, done.stderr
        asyncio.run(until(lambda pids=pids: not any(map(is_running, pids))))  # type: ignore[misc]  # a default is as good as an argument


@pytest.mark.parametrize("given", [float("nan"), {"a": [None, float("inf")]}, {"a": object()}, {(1, 2): 3}])
async def test_what_is_no_json_is_not_given(given: Any) -> None:
    with pytest.raises(Unencodable, match="the input of a sandbox"):
        await js("export default (x) => x", given)


async def test_what_is_large_goes_through() -> None:
    rows = [{"id": number, "text": "é" * 100} for number in range(20_000)]
    assert await jq(".id", *rows) == list(range(20_000))
    assert await js("export default (rows) => rows", rows) == rows


async def test_other_work_is_refused_and_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadValue, match="one of js, jq"):
        await run_job("rego", {}, CALM)
    monkeypatch.setattr(sandbox_pool, "_is_installed", lambda module: module != "jq")
    with pytest.raises(MissingExtra, match=r"jq program in a sandbox needs jq.*perdure\[sandbox\]"):
        await jq(".", 1)


BROKEN = """
import sys; sys.path[:] = sys.argv[1:]
from perdure.definitions.kinds.sandbox import sandbox_worker
def works():
    found = sandbox_worker.__works()
    def broken(job):
        if b'exit' in bytes(job.given): import os; print('said at last', file=sys.stderr, flush=True); os._exit(7)
        if b'crash' in bytes(job.given): import os, signal; os.kill(os.getpid(), signal.SIGSEGV)
        raise TypeError('Unknown quickjs tag: -6')
    return {**found, 'jq': broken}
sandbox_worker.__works, sandbox_worker._works = sandbox_worker._works, works
sandbox_worker.main()
"""


@LINUX
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raise", r"TypeError: Unknown quickjs tag: -6\."),
        ("exit", r"failed: exit code 7\.[\s\S]*said at last"),
        ("crash", r"signal 11, SIGSEGV[\s\S]*Segmentation fault"),
    ],
)
async def test_a_sandbox_that_fails_by_itself_says_why_and_is_not_tried_again(alone: None, monkeypatch: pytest.MonkeyPatch, how: str, said: str) -> None:
    monkeypatch.setattr(sandbox_process, "_PROGRAM", BROKEN)
    with pytest.raises(SandboxFailed, match=said) as failed:
        await jq(".", how)
    assert failure_of_exception(jq, failed.value).kind == "fatal"
    assert await js("export default () => 1") == 1


async def test_what_a_sandbox_said_before_a_job_is_not_its_error(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sandbox_process, "_PROGRAM", BROKEN.replace("raise TypeError", "import os; os.write(2, b'of an earlier job' * 9000); return b'1'; raise TypeError")
    )
    assert await jq(".", "one") == 1
    with pytest.raises(SandboxFailed) as failed:
        await jq(".", "exit")
    assert "said at last" in str(failed.value) and "earlier" not in str(failed.value)


async def test_a_sandbox_that_can_not_begin_says_why(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_process, "_PROGRAM", "import a_module_that_is_missing")
    with pytest.raises(SandboxLost, match="ModuleNotFoundError: No module named 'a_module_that_is_missing'"):
        await jq(".", 1)
