"""Steps a second in memory, and what a step costs in Python, stage by stage.

Each stage is measured alone over the same execution of sequential async steps; the last line is the whole, an engine on the memory
store, and what is left after the stages is asyncio and the engine's own loop. The peer is a bare asyncio task a step, in the same run.
No fsync: the memory store keeps nothing.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Generator
from typing import Any

from perdure import Context, step, workflow
from perdure.code.context import new_code_program
from perdure.core import events as e
from perdure.core import log_format, messages, values
from perdure.core.decision import DecisionContext, ExecutionDecision, decide
from perdure.core.execution import Execution
from perdure.core.operations import Success
from perdure.core.paths import Key
from perdure.core.program import program_name
from perdure.core.replay import fold_events, replay_program
from perdure.core.time_bounds import TimeBounds
from perdure.runtime.engine import Engine
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Commit

STEPS = 2_000
ROUNDS = 5
KEY = Key("bench", "count", "1")


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


def finish(deciding: Generator[Any, bytes, Any]) -> Any:
    """Run a generator of the core that needs no blob."""
    try:
        next(deciding)
    except StopIteration as end:
        return end.value
    raise RuntimeError("a small value asked for a blob")


def decisions() -> list[ExecutionDecision]:
    """The decisions of the whole execution, without an engine."""
    execution, instance, host = Execution(KEY), new_code_program(count.code, KEY), DecisionContext("bench")
    start = messages.StartMessage(1, count.code.codec.encode_args((STEPS,), {}, "the input"))
    made = [finish(decide(execution, start, instance, TimeBounds.exactly(0.0), host))]
    while execution.ended is None:
        (pending,) = execution.opened.performing()
        answer = messages.SettleMessage(pending.path, 1, Success(values.encode(len(made), "a result")))
        made.append(finish(decide(execution, answer, instance, TimeBounds.exactly(0.0), host)))
    return made


def median_us(run: Callable[[], object]) -> float:
    """The median time of a step, over some rounds, in microseconds."""
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        run()
        times.append((time.perf_counter() - begun) / STEPS * 1e6)
    return statistics.median(times)


async def commit_all(rows: list[tuple[bytes, int]]) -> None:
    """Commit rows one by one, as an engine does."""
    store, version = MemoryStore(), 0
    await store.renew("bench", 60)
    for row, size in rows:
        first, name = version == 0, program_name("count", 1)
        change = Commit(key=KEY, epoch=0, holder="bench", version=version, program=name, root=KEY, creates=first, row=row, count=size)
        await store.commit([change])
        version += size


async def whole() -> None:
    """An engine on the memory store, from start to end."""
    engine = Engine(MemoryStore(), [count.code])
    running = asyncio.create_task(engine.run())
    await engine.ready()
    ending = engine.ending(KEY)
    await engine.start(KEY, count.code.codec.encode_args((STEPS,), {}, "the input"))
    await ending
    engine.stop()
    await running


async def bare() -> None:
    """The peer: each step a task, and nothing remembered."""
    number = 0
    for _ in range(STEPS):
        number = await asyncio.create_task(increment(number))


def main() -> None:
    """Measure and print."""
    made = decisions()
    events = [event for decision in made for event in decision.events]
    rows = [(log_format.encode_row(decision.events), len(decision.events)) for decision in made]
    stages = {
        "fold": median_us(lambda: fold_events(KEY, events)),
        "program (replay less fold)": median_us(lambda: finish(replay_program(Execution(KEY), events[:-2], new_code_program(count.code, KEY)))),
        "decide (less fold and program)": median_us(decisions),
        "encode the log": median_us(lambda: [log_format.encode_row(decision.events) for decision in made]),
        "commit to memory": median_us(lambda: asyncio.run(commit_all(rows))),
    }
    stages["decide (less fold and program)"] -= stages["program (replay less fold)"]
    stages["program (replay less fold)"] -= stages["fold"]
    total, peer = median_us(lambda: asyncio.run(whole())), median_us(lambda: asyncio.run(bare()))
    stages["perform, asyncio, the engine's loop"] = total - sum(stages.values())
    row_bytes = sum(len(row) for row, _ in rows) / STEPS
    print(f"{STEPS} sequential async steps, {len(rows)} commits, {row_bytes:.0f} bytes of log a step; Python {sys.version.split()[0]}, median of {ROUNDS}")
    for name, cost_us in stages.items():
        print(f"  {name:36} {cost_us:6.1f} µs")
    print(f"  {'in all':36} {total:6.1f} µs = {1e6 / total:,.0f} steps a second; {total / peer:.0f} times a bare asyncio task ({peer:.1f} µs)")
    print(f"  events {sum(isinstance(event, e.OpenedEvent) for event in events)} opened; goal: 50 µs in all")


if __name__ == "__main__":
    main()
