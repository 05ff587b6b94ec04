"""Claims about secrets: who leases a task is given those that it reads, and nothing that comes back has any."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import Definition, ExecutionFailed
from perdure.core import values
from perdure.core.errors import ErrorInfo
from perdure.core.paths import QueueAddress
from perdure.runtime.task_broker import HeartbeatReply, LeaseRequest, TaskLease, TaskWorker
from perdure.tasks.child_command import child_environment
from perdure.tasks.program_per_task import ProgramPerTask
from perdure.testing.virtual_time import run
from tests.runtime.cluster import Cluster, ClusterProcess, cluster
from tests.tasks.worker_setup import place, tasks

ADA = TaskWorker("", "ada")
CANARY = "canary-of-the-test"
WITH = {"token": "@secrets.TOKEN", "head": {"a/b~c": "Bearer @{secrets.TOKEN}"}, "plain": "x"}
SENT = {"token": CANARY, "head": {"a/b~c": f"Bearer {CANARY}"}, "plain": "x"}


def document() -> Definition:
    return Definition.of({"perdure": 1, "name": "sending", "steps": [{"id": "a", "task": "send", "with": WITH, "retry": {"max": 2, "wait": "1s"}}]})


async def begun(c: Cluster, definition: Definition, **options: Any) -> tuple[ClusterProcess, ClusterProcess]:
    engine, process = await c.engine(definition), await c.broker(queues=["send"], **options)
    assert await c.start(engine, definition)
    return engine, process


async def one(process: ClusterProcess) -> TaskLease:
    task_leases = await process.broker.lease(ADA, LeaseRequest(["send"], wait_s=30.0, lease_s=None))
    assert isinstance(task_leases, list)
    return task_leases[0]


def test_who_leases_a_task_is_given_its_secrets_and_no_log_or_message_has_them() -> None:
    async def world() -> None:
        async with cluster() as c:
            definition = document()
            engine, process = await begun(c, definition, secrets={"TOKEN": CANARY}.get)
            task_lease = await one(process)
            assert task_lease.input.named == SENT and CANARY not in repr(task_lease.queued)
            assert isinstance(await process.broker.heartbeat(ADA, task_lease.id, values.encode({"said": f"with {CANARY}"}, "progress")), HeartbeatReply)
            assert await process.broker.fail(ADA, task_lease.id, ErrorInfo("Odd", f"sent {CANARY} in vain")) is None
            task_lease = await one(process)
            assert task_lease.input.progress == {"said": "with ***"} and task_lease.input.named == SENT
            for _ in range(2):
                assert await process.broker.complete(ADA, task_lease.id, values.encode({"sent": [CANARY]}, "a result")) is None
            assert await c.result(engine, definition) == {"sent": ["***"]}
            found = await c.store.read(definition.key("e"))
            assert found is not None and CANARY not in repr(found)

    run(world, handles_max=100_000)


def test_a_task_whose_secret_nothing_finds_fails_for_good_and_is_never_leased() -> None:
    async def world() -> None:
        async with cluster() as c:
            definition = document()
            engine, process = await begun(c, definition)
            asking = asyncio.create_task(process.broker.lease(ADA, LeaseRequest(["send"], wait_s=5.0, lease_s=None)))
            with pytest.raises(ExecutionFailed, match="the secret TOKEN is not set in this process"):
                await c.result(engine, definition)
            assert await asking == [] and await c.messages(QueueAddress("default", "send")) == 0

    run(world, handles_max=100_000)


@pytest.mark.slow
async def test_what_a_program_says_of_its_secrets_is_hidden(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "perdure.tasks")
    program = tmp_path / "do.py"
    program.write_text(
        "import json, os, sys\ntoken = json.load(open(os.environ['PERDURE_TASK_FILE']))['input']['token']\nprint('using', token)\nsys.exit(f'no: {token}')\n"
    )
    definition = tasks({"id": "a", "task": "do", "with": {"token": "@secrets.TOKEN"}, "retry": {"max": 1}})

    def each(broker: Any) -> ProgramPerTask:
        return ProgramPerTask(broker, [sys.executable, "-I", "-S", str(program)], child_environment(), 1)

    async with place(tmp_path, definition, each, secrets={"TOKEN": CANARY}.get) as it:
        await it.start(definition)
        with pytest.raises(ExecutionFailed, match=r"exit code 1: using \*\*\*\nno: \*\*\*"):
            await it.result()
    assert "using ***" in caplog.text and CANARY not in caplog.text
