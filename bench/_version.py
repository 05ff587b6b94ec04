"""One version of Perdure at work: what `bench/versions.py` has each of two versions do, in a process of its own."""

import asyncio
import gc
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

from bench._side import serve
from perdure import Context, Definition, step, workflow
from perdure.core import log_format, values
from perdure.core.execution import Execution
from perdure.core.paths import Key
from perdure.core.replay import replay_program
from perdure.runtime.blob_loader import run_with_blobs
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import local_engine, run_to_end
from perdure.runtime.workflow_programs import program_of

NODES = 10


@step
async def increment(number: int) -> int:
    """The smallest step there is."""
    return number + 1


@workflow
async def count(ctx: Context, steps: int) -> int:
    """So many steps, one after the other."""
    number = 0
    for _ in range(steps):
        number = await ctx.step(increment, number)
    return number


async def work(**given: Any) -> int:
    """A node's work: none."""
    return len(given)


def chain() -> Definition:
    """Nodes one behind the other, each reading the one before."""
    given: list[dict[str, Any]] = [{"x": "@input.x"}, *({"x": f"@s{number}"} for number in range(NODES - 1))]
    steps = [{"id": f"s{number}", "tool": "work", "idempotent": True, "with": given[number]} for number in range(NODES)]
    document = {"perdure": 1, "name": "measured", "order": "refs", "steps": steps, "input": {"x": {"type": "integer"}}}
    return Definition.of(document, tools={"work": work})


class Version:
    """Each method does `times` units of its kind, and returns how many seconds a unit took, by the wall clock and of the processor's time."""

    async def one_by_one(self, times: int) -> list[float]:
        """Steps of one execution on a file."""
        return await _measured([count.code], times, lambda engine: _run(engine, count, 1, count.code.codec.encode_args((times,), {}, "the input")))

    async def together(self, times: int) -> list[float]:
        """Steps of executions of ten, all at once, on a file."""
        raw = count.code.codec.encode_args((10,), {}, "the input")
        return await _measured([count.code], times, lambda engine: _run(engine, count, times // 10, raw))

    async def executions(self, times: int) -> list[float]:
        """Executions of one step, all at once, on a file."""
        raw = count.code.codec.encode_args((1,), {}, "the input")
        return await _measured([count.code], times, lambda engine: _run(engine, count, times, raw))

    async def nodes(self, times: int) -> list[float]:
        """Nodes of definitions of ten, all at once, on a file."""
        raw, definition = values.encode(((), {"x": 1}), "the input"), chain()
        return await _measured([definition.graph], times, lambda engine: _run(engine, definition, times // NODES, raw))

    async def replayed(self, times: int) -> list[float]:
        """Steps of one execution that are read from a log and replayed."""
        with tempfile.TemporaryDirectory() as directory:
            async with local_engine([count.code], f"sqlite:///{directory}/bench.db") as engine:
                await _run(engine, count, 1, count.code.codec.encode_args((times,), {}, "the input"))
                found = await engine.store.read(_key(count, 0))
                assert found is not None
                return await _timed(times, lambda: _rebuilt(engine, found.payloads))

    async def close(self) -> None:
        """Hold nothing."""


def _key(what: Any, number: int) -> Key:
    return Key("default", what.graph.name if isinstance(what, Definition) else what.code.name, str(number))


async def _run(engine: Engine, what: Any, executions: int, raw: bytes) -> None:
    await asyncio.gather(*(run_to_end(engine, _key(what, number), raw) for number in range(executions)))


async def _rebuilt(engine: Engine, rows: Any) -> None:
    instance = program_of(count.code, _key(count, 0))
    _ = await run_with_blobs(engine.payloads, replay_program(Execution(_key(count, 0)), log_format.decode_rows(rows), instance, awake=True))
    instance.close()


async def _measured(workflows: list[Any], times: int, do: Callable[[Engine], Awaitable[None]]) -> list[float]:
    with tempfile.TemporaryDirectory() as directory:
        async with local_engine(workflows, f"sqlite:///{directory}/bench.db") as engine:
            return await _timed(times, lambda: do(engine))


async def _timed(times: int, do: Callable[[], Awaitable[None]]) -> list[float]:
    gc.collect()
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    await do()
    return [(time.perf_counter() - wall_s) / times, (time.process_time() - cpu_s) / times]


if __name__ == "__main__":
    serve(Version())
