"""A program whose steps fork in every way while its executions run: ``python -m tests.runtime.forking_program URL``. It prints what came of each, as JSON."""

import asyncio
import json
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from perdure import Context, step, workflow
from perdure.core import values
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import StoreError
from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import wait_for_end
from perdure.stores.protocol import HeadFilter, Post, Store
from perdure.stores.sqlite.store import SqliteStore
from tests.runtime.flows import chain, half

# Python 3.12 and later warn of what is to be proved here to be harmless.
warnings.filterwarnings("ignore", message=".*use of fork", category=DeprecationWarning)

EXECUTIONS = 6
CLEAR = "was opened before a fork and belongs to the parent process; open a new store in the child"
inherited: list[Store] = []


def visit(url: str, name: str) -> int:
    """What a child does: find its parent's store closed to it, if it has one, and use one of its own. Returns how many executions it has seen."""
    for store in inherited:
        try:
            _ = asyncio.run(store.heads())
        except StoreError as error:
            if CLEAR not in str(error):
                raise
        else:
            raise AssertionError("a child has used its parent's store")
    return asyncio.run(_visit(url, name))


async def _visit(url: str, name: str) -> int:
    own = SqliteStore(url.removeprefix("sqlite:///"))
    _ = await own.renew(name, 60)
    _ = await own.commit([Post(messages=(OutgoingMessage(Key("default", "nobody", name), "letter", b"from a child"),))])
    seen = len(await own.heads(HeadFilter(limit=1_000)))
    await own.close()
    return seen


def _forked(url: str, name: str) -> int:
    """Fork as a program in C does, and wait for the child's exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if visit(url, name) else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _multiprocessing(method: str, url: str, name: str) -> int:
    process: Any = multiprocessing.get_context(method).Process(target=visit, args=(url, name))  # type: ignore[attr-defined]  # every context has it
    process.start()
    process.join(60)
    return int(process.exitcode)


@step
def bare(url: str, name: str) -> int:
    """In a thread."""
    return _forked(url, name)


@step
async def on_the_loop(url: str, name: str) -> int:
    """On the engine's event loop, which waits meanwhile."""
    return _forked(url, name)


@step
def fork(url: str, name: str) -> int:
    """By multiprocessing."""
    return _multiprocessing("fork", url, name)


@step
def spawn(url: str, name: str) -> int:
    """By multiprocessing, with nothing inherited."""
    return _multiprocessing("spawn", url, name)


@step
def pool(url: str, name: str) -> int:
    """By a pool of processes."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as children:
        return 0 if all(children.map(visit, [url] * 3, [f"{name}{number}" for number in range(3)])) else 1


STEPS: dict[str, Any] = {"bare": bare, "loop": on_the_loop, "fork": fork, "spawn": spawn, "pool": pool}


@workflow
async def forker(ctx: Context, url: str, number: int, how: list[str]) -> list[int]:
    """Fork in several ways, side by side."""

    def branch(name: str) -> Callable[[Context], Any]:
        return lambda c: c.step(STEPS[name], url, f"{name}{number}")

    return list(await ctx.join(*map(branch, how)))


async def main(url: str) -> dict[str, Any]:
    """Run them beside others; return the exit codes of the children, and the results of the others."""
    store = SqliteStore(url.removeprefix("sqlite:///"))
    inherited.append(store)
    engine = Engine(store, [one.code for one in (forker, chain, half)], threaded=True)
    running = asyncio.create_task(engine.run())
    await engine.ready()
    keys = list[Key]()
    for number in range(EXECUTIONS):
        how = ["bare", "loop", "fork", "pool", *(["spawn"] if number == 0 else [])]
        for started, args in ((forker, (url, number, how)), (chain, (number,))):
            keys.append(started.key(str(number)))
            assert await engine.start(keys[-1], started.code.codec.encode_args(args, {}, "the input"))
    results = {f"{key.workflow} {key.id}": values.decode(await wait_for_end(engine, key), Any, "the result") for key in keys}
    engine.stop()
    await running
    await store.close()
    return results


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(sys.argv[1]))) + "\n")
