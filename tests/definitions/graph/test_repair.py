"""What people do with executions of definitions, retried, forked, preset, paused: it goes by the rules of code, and what has settled is not done again."""

from collections import Counter
from typing import Any

import pytest

from perdure import Definition, ExecutionFailed
from perdure.core.operations import Success
from perdure.core.values import encode
from perdure.service import reruns
from perdure.testing import World
from perdure.testing.immediate_calls import run_immediately

TEXT = """
perdure: 1
name: it
order: ports
input: {n: {type: integer}}
vars: {turn: 0}
steps:
  - {id: first, tool: work, with: {what: first}, next: [many, turn]}
  - {id: many, each: {in: [1, 2, 3]}, tool: work, with: {what: "many @{item}"}, next: join}
  - {id: turn, tool: work, with: {what: "turn @{vars.turn}"}, next: count}
  - {id: count, set: {turn: "@turn.next"}, next: [{when: {ref: "@vars.turn", lt: 2}, to: turn, max: 5}, {to: join}]}
  - {id: join, tool: work, with: {what: join}, retry: {max: 1}, next: end}
  - {id: end, tool: work, with: {what: "last @{join.next}"}}
output: "@end.what"
"""


class RepairableSteps:
    def __init__(self) -> None:
        self.done = Counter[str]()
        self.broken = True

    def work(self, what: str) -> dict[str, Any]:
        self.done[what] += 1
        if what == "join" and self.broken:
            raise ValueError("broken")
        return {"what": what, "next": int(what.split()[1]) + 1 if what.startswith("turn") else 7}


@pytest.fixture
def shop() -> RepairableSteps:
    return RepairableSteps()


def failed(world: World, shop: RepairableSteps) -> Any:
    run = world.start(Definition.of(TEXT, tools={"work": shop.work}), n=1)
    with pytest.raises(ExecutionFailed):
        run.result()
    return run


def test_retried_it_goes_on_from_what_failed(world: World, shop: RepairableSteps) -> None:
    run = failed(world, shop)
    shop.broken = False
    run.retry()
    assert run.result() == "last 7"
    assert shop.done == Counter({"first": 1, "many 1": 1, "many 2": 1, "many 3": 1, "turn 0": 1, "turn 1": 1, "join": 2, "last 7": 1})


def test_given_what_failed_it_goes_on_without_doing_it(world: World, shop: RepairableSteps) -> None:
    run = failed(world, shop)
    run_immediately(reruns.preset_outcome(world.access, run.key, "join", Success(encode({"next": 3}, "a result"))))
    run.retry()
    assert run.result() == "last 3" and shop.done["join"] == 1


def test_a_fork_from_a_step_does_that_and_what_came_later_and_nothing_else(world: World, shop: RepairableSteps) -> None:
    run = failed(world, shop)
    shop.broken = False
    wanted = reruns.RerunRequest(key=run.key._replace(id="fork"), from_step="turn/~1/turn")
    run_immediately(reruns.fork_execution(world.access, run.key, wanted))
    world.settle()
    assert world.run_of(wanted.key).result() == "last 7"
    assert shop.done == Counter({"first": 1, "many 1": 1, "many 2": 1, "many 3": 1, "turn 0": 1, "turn 1": 2, "join": 2, "last 7": 1})


def test_paused_it_begins_nothing_and_goes_on_when_it_is_resumed(world: World, shop: RepairableSteps) -> None:
    shop.broken = False
    text = TEXT.replace("tool: work, with: {what: join}, retry: {max: 1}", "sleep: 1h").replace("@{join.next}", "x")
    run = world.start(Definition.of(text, tools={"work": shop.work}), n=1)
    run.pause()
    world.skip("2h")
    assert run.status == "paused" and "last x" not in shop.done
    run.resume()
    assert run.result() == "last x"
