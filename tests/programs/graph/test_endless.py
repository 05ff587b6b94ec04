"""Loops without end: their logs stay short however long they turn, and they go on from what is left of them."""

from typing import Any

import pytest

from perdure import Definition
from perdure.core import log
from perdure.testing import World

REPEAT = """
perdure: 1
name: tick
order: listed
vars: {n: 0}
steps:
  - id: again
    do:
      - {id: nap, sleep: 1m}
      - {id: add, tool: ADD, with: {a: "@vars.n", b: 1}}
      - {id: keep, set: {n: "@add"}}
    repeat: {until: {ref: "@vars.n", gte: 120}, endless: true}
  - {id: end, tool: ADD, with: {a: "@vars.n", b: "@add"}}
"""
CYCLE = """
perdure: 1
name: tick
order: ports
vars: {n: 0}
steps:
  - {id: nap, sleep: 1m, next: add}
  - {id: add, tool: ADD, with: {a: "@vars.n", b: 1}, next: keep}
  - {id: keep, set: {n: "@add"}, next: [{when: {ref: "@vars.n", lt: 120}, to: nap, endless: true}, {to: end}]}
  - {id: end, tool: ADD, with: {a: "@vars.n", b: "@add"}}
"""
TOOLS: Any = {"ADD": lambda a, b: a + b}


@pytest.mark.parametrize("always_suspend", [False, True])
@pytest.mark.parametrize("text", [REPEAT, CYCLE], ids=["repeat", "cycle"])
def test_the_log_of_a_loop_without_end_stays_short(text: str, always_suspend: bool) -> None:
    with World(always_suspend=always_suspend) as world:
        run = world.start(Definition.of(text, tools=TOOLS))
        world.skip("119m")
        found = world.machine.read(run.key)
        assert found is not None and found.head.version > 800
        assert len(log.decode_all(found.rows)) < 300
        world.skip("2m")
        assert run.result() == 240


@pytest.mark.parametrize("text", [REPEAT, CYCLE], ids=["repeat", "cycle"])
def test_the_limits_of_a_definition_hold_for_one_turn_of_a_loop_without_end(world: World, text: str) -> None:
    run = world.start(Definition.of(f"{text}limits: {{max_steps: 12, max_hops: 12}}\n", tools=TOOLS))
    world.skip("121m")
    assert run.result() == 240
