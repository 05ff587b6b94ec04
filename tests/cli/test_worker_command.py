"""Claims about `perdure worker` with --listen, --exec and --each: what does not fit together is refused, and what fits lends."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from perdure.core import values
from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import wait_for_end
from perdure.stores.sqlite.store import SqliteStore
from tests.cli.shell import Shell
from tests.tasks.worker_setup import perdure, program, tasks

PROGRAM = """
import json, os
with open(os.environ["PERDURE_TASK_FILE"]) as file:
    task = json.load(file)
print("doing it")
with open(os.environ["PERDURE_RESULT_FILE"], "w") as file:
    json.dump(task["input"]["n"] + 1, file)
"""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("", 20, "Missing argument 'TARGET...'"),
        ("--listen 127.0.0.1:0", 20, "--listen needs queues: name them with --queue"),
        ("--queue q --listen 127.0.0.1:0 --each true", 20, "--listen and --each exclude each other; start a process for each"),
        ("--queue q --each true --token-file x", 20, "--token-file needs --listen"),
        ("--queue q --listen 127.0.0.1:0 --concurrency 2", 20, "--listen excludes --concurrency: the programs themselves decide how many tasks they lease"),
        ("--queue q --listen 127.0.0.1:0 --env A", 20, "--env needs --exec or --each"),
        ("--queue q --concurrency 0", 20, "0 is not in the range"),
        ("--queue q --listen nowhere", 10, "HOST:PORT"),
        ("--queue q --listen 0.0.0.0:0", 10, "PERDURE_WORKER_TOKEN"),
        ("--queue q --listen 127.0.0.1:0 --token-file nowhere", 10, "a file that can be read"),
        ("--queue q --exec there-is-no-such-program", 10, "a command that can be found"),
        ("--queue q --each true --env PERDURE_DB", 10, "--env"),
    ],
)
def test_what_does_not_fit_together_is_refused(tmp_path: Path, arguments: str, code: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_WORKER_TOKEN", raising=False)
    answered = Shell(f"sqlite:///{tmp_path}/here.db").run(f"worker {arguments}")
    assert (answered.code, answered.out) == (code, "") and said in answered.err


@pytest.mark.slow
async def test_a_process_that_only_serves_tasks_needs_no_workflow_and_stops_in_good_order(tmp_path: Path) -> None:
    definition = tasks({"id": "a", "task": "do", "with": {"n": 20}})
    (tmp_path / "do.py").write_text(PROGRAM)
    url = f"sqlite:///{tmp_path}/here.db"
    command = perdure("worker", "--queue", "thumbnails", "--each", f"'{sys.executable}' -I -S do.py", "--concurrency", "3")
    store = SqliteStore(tmp_path / "here.db")
    engine = Engine(store, [definition.code])
    async with program(*command, cwd=tmp_path, env={**os.environ, "PERDURE_DB": url}) as broker:
        first = await broker.until("are offered")
        assert first.startswith("tasks of thumbnails are offered to ") and first.endswith(f"do.py, 3 at a time, from {url}; Ctrl-C stops it")
        running = asyncio.create_task(engine.run())
        await engine.ready()
        key = Key("default", "album", "e")
        assert await engine.start(key, definition.code.codec.encode_args((), {}, "input"))
        assert values.decode(await wait_for_end(engine, key), int, "a result") == 21
        engine.stop()
        await running
        assert await broker.end() == 0
        assert any("doing it" in line for line in broker.said)
    await store.close()


@pytest.mark.slow
async def test_concurrency_limits_how_many_steps_of_its_queues_a_worker_performs(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(
        "import time\n\nfrom perdure import Context, step, workflow\n\nbusy = [0, 0]\n\n\n"
        '@step(queue="q")\ndef work(number: int) -> int:\n'
        "    busy[0] += 1\n    busy[1] = max(busy)\n    time.sleep(0.05)\n    busy[0] -= 1\n    return busy[1]\n\n\n"
        "@workflow\nasync def flow(ctx: Context) -> int:\n    return max(await ctx.map(work, range(8)))\n"
    )
    environment = {**os.environ, "PERDURE_DB": f"sqlite:///{tmp_path}/here.db"}
    async with program(*perdure("worker", "flow.py", "--queue", "q", "--concurrency", "2"), cwd=tmp_path, env=environment) as worker:
        assert "serves q" in await worker.until("Ctrl-C stops it")
        answered = await asyncio.to_thread(Shell(environment["PERDURE_DB"]).run, "start flow --wait")
        assert answered.out == "2\n"
        assert await worker.end() == 0
    assert Shell(environment["PERDURE_DB"]).run(f"worker {tmp_path}/flow.py --concurrency 2").err.startswith("perdure: --concurrency needs queues")
