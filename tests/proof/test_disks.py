"""Claims about worlds on any store: its calls take no time of the world, and what outlives a process is what it had been told was done."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure.core.envelopes import OutgoingMessage
from perdure.core.paths import Key
from perdure.stores.protocol import Committed, Post
from perdure.testing.immediate_calls import SideLoop, run_immediately
from perdure.testing.virtual_time import run
from tests.proof.disks import Disk, MemoryDisk, SqliteDisk

TO = Key("acme", "order", "1")


@pytest.fixture
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = MemoryDisk() if request.param == "memory" else SqliteDisk(tmp_path)
    yield made
    made.close()


on_each = pytest.mark.parametrize("disk", ["memory", "sqlite"], indirect=True)


def post(key: str) -> Post:
    return Post(messages=(OutgoingMessage(TO, key, b"body"),))


def test_what_is_done_aside_is_done_before_anything_else_and_in_no_time() -> None:
    aside, others = SideLoop(), list[str]()

    async def waits() -> str:
        await asyncio.sleep(0.001)
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
        return "done"

    async def fails() -> None:
        raise LookupError("not there")

    async def world() -> None:
        task, began_s = asyncio.current_task(), asyncio.get_running_loop().time()
        asyncio.get_running_loop().call_soon(others.append, "too late")
        assert aside(waits()) == "done" and others == []
        with pytest.raises(LookupError):
            aside(fails())
        assert (asyncio.current_task(), asyncio.get_running_loop().time()) == (task, began_s)
        await asyncio.sleep(0)
        assert others == ["too late"]

    run(world)
    assert aside(waits()) == "done"
    aside.close()


def test_what_waits_can_not_be_run_as_if_it_did_not() -> None:
    with pytest.raises(RuntimeError, match="run it with SideLoop"):
        run_immediately(asyncio.sleep(0))


@on_each
def test_what_was_committed_outlives_the_process_and_so_does_what_was_committed_together(disk: Disk) -> None:
    now_s = 1000.0
    first = disk.opened(lambda: now_s)
    answers = disk.at_once(first.commit([post("one"), post("two")]))
    assert all(isinstance(answer, Committed) for answer in answers)
    disk.crash()
    second = disk.opened(lambda: now_s)
    assert [message.key for message in disk.at_once(second.messages(TO))] == ["one", "two"]
    disk.at_once(second.commit([post("three")]))
    disk.crash()
    assert [message.key for message in disk.at_once(disk.opened(lambda: now_s).messages(TO))] == ["one", "two", "three"]


@on_each
def test_a_file_knows_at_once_that_a_process_is_dead_and_a_store_in_memory_when_its_lease_has_run_out(disk: Disk) -> None:
    now_s = 1000.0
    disk.at_once(disk.opened(lambda: now_s).renew("holder", 15.0))
    disk.crash()
    second = disk.opened(lambda: now_s)
    assert any(lease.alive for lease in disk.at_once(second.leases())) is isinstance(disk, MemoryDisk)
    now_s += 15.0
    assert not any(lease.alive for lease in disk.at_once(second.leases()))
