"""Definitions under kill -9: every step is done, joins wait, cycles turn as often as they should, and what failed is undone, last first."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from perdure import Definition, ExecutionFailed, step
from perdure.core.paths import Key
from tests.runtime.kill.effect_log import doing
from tests.runtime.kill.scenario import PATIENT, Scenario, Size
from tests.runtime.kill.scenario_run import ScenarioRun
from tests.runtime.processes import History

PARCELS = 6
TURNS = 3

ORDER = """
perdure: 1
name: parcels
order: ports
input: {number: {type: integer}, parcels: {type: array}}
vars: {turn: 0}
steps:
  - id: reserve
    tool: act
    with: {number: "@input.number", what: reserve}
    undo: {tool: act, with: {number: "@input.number", what: release}}
    next: [pack, weigh]
  - id: pack
    each: {in: "@input.parcels", concurrency: 2}
    tool: act
    with: {number: "@input.number", what: "pack @{item}"}
    next: ship
  - {id: weigh, tool: act, with: {number: "@input.number", what: "weigh @{vars.turn}"}, next: count}
  - {id: count, set: {turn: "@weigh.turns"}, next: [{when: {ref: "@vars.turn", lt: 3}, to: weigh, max: 9}, {to: weighed}]}
  - id: weighed
    race:
      - {id: nap, sleep: 20ms}
      - {id: long, sleep: 1h}
    next: ship
  - {id: ship, tool: act, with: {number: "@input.number", what: ship}, undo: {tool: act, with: {number: "@input.number", what: call back}}, next: paid}
  - {id: paid, test: {ref: "@ship.paid"}, next: {"true": thank, "false": dun}}
  - {id: thank, tool: act, with: {number: "@input.number", what: thank}}
  - {id: dun, fail: "@{input.number} has not paid"}
"""


@step(retry=PATIENT, idempotent=True)
async def act(number: int, what: str) -> dict[str, Any]:
    with doing([number, what]):
        await asyncio.sleep(0.001)
    turn = int(what.split()[1]) if what.startswith("weigh") else 0
    return {"turns": turn + 1, "paid": number % 3 != 0}


def parcels(_: int = 1) -> tuple[Definition]:
    """The definition, with its tool."""
    return (Definition.of(ORDER, tools=[act]),)


def drive(run: ScenarioRun) -> None:
    """Start them while engines are killed."""
    with run.client() as client:
        run.begin()
        (definition,) = parcels()
        for number in run.numbers():
            client.start(definition.with_(id=str(number)), number=number, parcels=list(range(PARCELS)))


def check(run: ScenarioRun, histories: Mapping[Key, History]) -> str:
    """What was done is what each definition says, as often as it says."""
    done: dict[int, dict[str, None]] = defaultdict(dict)
    times = Counter[tuple[int, str]]()
    for effect in run.ledger.of("ended"):
        number, what = effect.about
        done[number][what] = None
        times[number, what] += 1
    (definition,) = parcels()
    with run.client() as client:
        for number in range(run.size.executions):
            handle = client.get(str(number), definition)
            owed = {"reserve", "ship", *(f"pack {one}" for one in range(PARCELS)), *(f"weigh {turn}" for turn in range(TURNS))}
            if number % 3:
                assert handle.result(1.0)["thank"]["paid"]
                owed |= {"thank"}
            else:
                failed = _failure(handle)
                assert f"{number} has not paid" in failed
                owed |= {"release", "call back"}
                order = [what for what in done[number] if what in ("release", "call back")]
                assert order == ["call back", "release"], f"{number} was undone in the order {order}"
            assert set(done[number]) == owed, f"{number} has done {sorted(done[number])}"
            ways = list(done[number])
            assert ways.index("ship") > max(ways.index(what) for what in owed if what.startswith(("pack", "weigh")))
    return f"{sum(times.values()) - len(times)} of {len(times)} steps interrupted when they were done"


def _failure(handle: Any) -> str:
    try:
        handle.result(1.0)
    except ExecutionFailed as failed:
        return str(failed)
    return ""


SCENARIO = Scenario(parcels, drive, check, Size(14, 14), Size(150, 150))
