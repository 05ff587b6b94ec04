"""Forking: the child can't use its parent's store and does it no harm, whatever it does with it; it may open the file anew."""

from pathlib import Path

import pytest

from tests.stores.sqlite.store_processes import run

WORLD = """
import asyncio, os, signal, sys, threading, warnings
from perdure.core.errors import StoreError
from tests.stores.sqlite.store_processes import *
warnings.filterwarnings("ignore", message=".*use of fork", category=DeprecationWarning)

file = sys.argv[1]

def forked(child):
    '''Do it in a child, and return its pipe.'''
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        code = 1
        try:
            os.close(reading)
            child(writing)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    return pid, reading

def ends_well(pid):
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

def make(file, holder="one"):
    store = SqliteStore(file)
    asyncio.run(store.renew(holder, 60))
    return store
"""

REFUSED = """
store = make(file)
store.on_wake(lambda: None)
asyncio.run(store.commit([step(key())]))
asyncio.run(store.read(key()))

def child(_):
    for ask in (lambda: store.commit([step(key(), 1)]), lambda: store.read(key()), lambda: store.renew("one", 60), lambda: store.claim(claim())):
        try:
            asyncio.run(ask())
        except StoreError as error:
            assert "was opened before a fork and belongs to the parent process; open a new store in the child" in str(error), error
        else:
            raise AssertionError
    asyncio.run(store.close())

ends_well(forked(child)[0])
(answer,) = asyncio.run(store.commit([step(key(), 1)]))
assert answer.version == 2
assert [lease.alive for lease in asyncio.run(store.leases())] == [True]
asyncio.run(store.close())
"""

OUTLIVES = """
def parent(writing):
    store = make(file, "parent")
    asyncio.run(store.commit([step(key("parent"), holder="parent")]))
    asyncio.run(store.read(key("parent")))

    def child(_):
        os.write(writing, str(os.getpid()).encode())
        signal.pause()

    forked(child)
    signal.pause()

pid, reading = forked(parent)
grandchild = int(os.read(reading, 100))
try:
    store = make(file)
    assert asyncio.run(store.claim(claim())).executions == ()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert len(asyncio.run(store.claim(claim())).executions) == 1, "the parent is dead though its child lives"
finally:
    os.kill(grandchild, signal.SIGKILL)
asyncio.run(store.close())
"""

ANEW = """
def parent(writing):
    store = make(file, "parent")
    asyncio.run(store.commit([step(key("parent"), row=bytes(10_000), holder="parent")]))
    asyncio.run(store.read(key("parent")))
    done, go_on = os.pipe()

    def child(_):
        mine = make(file, "child")
        asyncio.run(mine.commit([step(key("child"), holder="child")]))
        os.write(go_on, b"x")
        signal.sigwait([signal.SIGUSR1])
        for version in range(1, 50):
            (answer,) = asyncio.run(mine.commit([step(key("child"), version, holder="child")]))
            assert answer.version == version + 1
        os.write(writing, b"done")
        signal.pause()

    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    pid, _ = forked(child)
    os.read(done, 1)
    asyncio.run(store.commit([step(key("parent"), 1, holder="parent")]))
    os.write(writing, str(pid).encode())
    signal.pause()

pid, reading = forked(parent)
child = int(os.read(reading, 100))
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
other = make(file)  # With the parent gone, this must not take itself for the only one: it would begin the log anew under the child.
asyncio.run(other.close())
os.kill(child, signal.SIGUSR1)
assert os.read(reading, 100) == b"done"
os.kill(child, signal.SIGKILL)
store = make(file)
versions = {head.key.id: head.version for head in asyncio.run(store.heads())}
assert versions == {"parent": 2, "child": 50}, versions
with database(file) as found:
    assert found.execute("PRAGMA integrity_check").fetchone() == ("ok",)
asyncio.run(store.close())
"""

WHILE_WRITING = """
store = make(file)

async def write():
    async def steps(number):
        version = 0
        while not ended.is_set():
            (answer,) = await store.commit([step(key(str(number)), version)])
            version = answer.version
            assert (await store.read(key(str(number)))).head.version == version
        return version

    return await asyncio.gather(*map(steps, range(20)))

ended = threading.Event()
written = []
writing = threading.Thread(target=lambda: written.extend(asyncio.run(write())))
writing.start()
for number in range(20):
    ends_well(forked(lambda _: asyncio.run(make(file, f"child {number}").close()))[0])
ended.set()
writing.join()
assert [asyncio.run(store.read(key(str(number)))).head.version for number in range(20)] == written
with database(file) as found:
    assert found.execute("PRAGMA integrity_check").fetchone() == ("ok",)
asyncio.run(store.close())
"""

SPAWNED = """
import multiprocessing

if __name__ == "__main__":
    from tests.stores.sqlite.test_forked_processes import commit_in_a_process_of_its_own
    store = make(file)
    asyncio.run(store.commit([step(key())]))
    for method in ("spawn", "forkserver", "fork"):
        process = multiprocessing.get_context(method).Process(target=commit_in_a_process_of_its_own, args=(file, method))
        process.start()
        process.join()
        assert process.exitcode == 0, method
    assert sorted(head.key.id for head in asyncio.run(store.heads())) == ["1", "fork", "forkserver", "spawn"]
    asyncio.run(store.close())
"""


def commit_in_a_process_of_its_own(file: str, id: str) -> None:
    """What a spawned process does, which can't be a part of a script."""
    import asyncio

    from tests.stores.sqlite.store_processes import SqliteStore, key, step

    async def commit() -> None:
        store = SqliteStore(file)
        await store.renew(id, 60)
        await store.commit([step(key(id), holder=id)])
        await store.close()

    asyncio.run(commit())


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(REFUSED, id="a store is refused in a child, which may close it"),
        pytest.param(OUTLIVES, id="a child does not keep its parent's life"),
        pytest.param(ANEW, id="a child may open the file anew, and outlive its parent"),
        pytest.param(WHILE_WRITING, id="a fork waits for what is being written and read"),
        pytest.param(SPAWNED, id="however a process is started it may open the file"),
    ],
)
def test_forks(script: str, tmp_path: Path) -> None:
    run(WORLD + script, tmp_path / "perdure.db")
