"""Versions under kill -9: engines with the code of two deploys at once, on the same executions; each of these goes one way, and never the other."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from perdure import Context, HasEnded, Workflow, step, workflow
from perdure.core import events as e
from perdure.core.paths import Key
from perdure.sync_client import Client
from tests.runtime.kill.effect_log import doing
from tests.runtime.kill.scenario import PATIENT, Scenario, Size
from tests.runtime.kill.scenario_run import ScenarioRun
from tests.runtime.processes import History

TURNS = 5


@step(retry=PATIENT)
async def reserve(number: int) -> int:
    with doing():
        await asyncio.sleep(0.004)
    return number


@step(retry=PATIENT)
async def old_way(place: str, deploy: int) -> str:
    with doing([place, "old", deploy]):
        await asyncio.sleep(0.004)
    return "old"


@step(retry=PATIENT)
async def new_way(place: str, deploy: int) -> str:
    with doing([place, "new", deploy]):
        await asyncio.sleep(0.004)
    return "new"


@step(retry=PATIENT)
async def notify(number: int) -> None:
    with doing():
        pass


@cache
def code(deploy: int) -> tuple[Workflow[[int], Any], ...]:
    """The workflows of a deploy."""

    @workflow
    async def gated(ctx: Context, number: int) -> list[Any]:
        await ctx.step(reserve, number)
        await ctx.listen("paid")
        if deploy == 1:
            found: list[Any] = [await ctx.step(old_way, "tax", 1)]
            await ctx.step(notify, number)
        elif await ctx.version("tax", 2) >= 2:
            found = [await ctx.step(new_way, "tax", 2)]
        else:
            found = [await ctx.step(old_way, "tax", 1)]
            await ctx.removed("notify", "step")
        async for turn in ctx.loop("turns", state=0, keep=2):
            if deploy == 2 and await turn.version("turn", 2) >= 2:
                await turn.step(new_way, f"turn {turn.number}", 2)
            else:
                await turn.step(old_way, f"turn {turn.number}", 1)
            await turn.sleep("10ms")
            if turn.number == TURNS:
                break
        await ctx.listen("shipped")
        return found

    @workflow(version=deploy)
    async def pinned(ctx: Context, number: int) -> list[Any]:
        await ctx.step(reserve, number)
        await ctx.sleep("20ms")
        way = old_way if deploy == 1 else new_way
        return [ctx.execution.version, await ctx.step(way, "pinned", deploy), await ctx.step("again", way, "pinned", deploy)]

    @workflow(version=deploy, replays=[1] if deploy == 2 else [])
    async def taken_over(ctx: Context, number: int) -> list[Any]:
        await ctx.step(reserve, number)
        await ctx.sleep("20ms")
        if ctx.execution.version == 1:
            return [1, await ctx.step(old_way, "taken over", 1)]
        return [2, await ctx.step(new_way, "taken over", 2)]

    return gated, pinned, taken_over


def drive(run: ScenarioRun) -> None:
    """Run both deploys at once; then the second alone, and resume what the first did not understand."""
    run.deploys = (1, 2)
    with run.client() as client:
        run.begin()
        gates: list[Any] = []
        for number in run.numbers():
            gated, pinned, taken_over = code(1 + number % 2)
            gates.append(client.start(gated.with_(id=str(number)), number))
            client.start(pinned.with_(id=str(number)), number)
            client.start(taken_over.with_(id=str(number)), number)
            gates[-1].send("paid")
            if number >= 3:
                gates[number - 3].send("shipped")
        run.until(lambda: all(is_over(client, kind.code.name, run.size.executions) for kind in code(1)[1:]), "both versions have done their own")
        run.deploys = (2,)
        run.replace_all()
        for handle in gates[-3:]:
            handle.send("shipped")
        for handle in gates:
            run.until(lambda handle=handle: is_through(handle), f"{handle} has ended")  # type: ignore[misc]  # mypy infers no lambda with a default


def is_over(client: Client, name: str, executions: int) -> bool:
    """Whether all of a kind have ended."""
    return len(client.list(workflow=name, status="completed", limit=executions)) == executions


def is_through(handle: Any) -> bool:
    """Whether it has ended; what the first deploy has parked is resumed."""
    status = handle.status()
    if status.status == "needs_attention":
        try:
            handle.resume()
        except HasEnded:
            return True
    return bool(status.status == "completed")


def check(run: ScenarioRun, histories: Mapping[Key, History]) -> str:
    """Each execution, and each turn, has gone one way, by the code of that way; what is pinned went on in its own version only."""
    ways = defaultdict[tuple[str, str], set[str]](set)
    for effect in run.ledger.of("began"):
        if effect.about is not None:
            place, way, _ = effect.about
            ways[effect.key.rpartition(":")[0], place].add(way)
    both = {place: went for place, went in ways.items() if len(went) > 1}
    assert not both, f"both ways were gone: {both}"
    with run.client() as client:
        went = Counter[str]()
        for number in range(run.size.executions):
            gated, pinned, taken_over = (client.get(str(number), kind).result(1.0) for kind in code(2))
            own = 1 + number % 2
            assert pinned == [own, *[("old", "new")[own - 1]] * 2] and taken_over == [own, ("old", "new")[own - 1]]
            went[gated[0]] += 1
    diverged = sum(isinstance(event, e.ParkedEvent) for history in histories.values() for event in history.events)
    assert all(history.head.status == "completed" for history in histories.values())
    return f"{went['old']} went the old way and {went['new']} the new one, {diverged} times one was parked"


def workflows(deploy: int) -> Sequence[Workflow[..., Any]]:
    """See `code`."""
    return code(deploy)


SCENARIO = Scenario(workflows, drive, check, Size(12, 14), Size(150, 150))
