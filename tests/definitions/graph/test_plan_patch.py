"""A live execution goes on by another definition: what has begun stays, what has not may be changed in any way, and all else is refused."""

from typing import Any

import pytest

from perdure import Definition, PatchRefused
from perdure.core import messages
from perdure.core.envelopes import OutgoingMessage
from perdure.stores.protocol import Post
from perdure.testing import World
from perdure.testing.immediate_calls import run_immediately

BEFORE = """
perdure: 1
name: order
order: ports
steps:
  - {id: a, tool: ECHO, with: {v: 1}, next: [wait, quick]}
  - {id: quick, tool: ECHO, with: {v: 2}}
  - {id: wait, sleep: 1h, next: z}
  - {id: z, tool: ECHO, with: {v: "@a.v"}}
"""


def echo(**given: Any) -> Any:
    return given


def definition(text: str) -> Definition:
    return Definition.of(text, tools={"ECHO": echo})


def ran(run: Any) -> list[str]:
    return [step.path for step in run.steps()]


def test_a_step_that_has_not_begun_is_changed(world: World) -> None:
    run = world.start(definition(BEFORE))
    run.patch(definition(BEFORE.replace('with: {v: "@a.v"}', 'with: {v: "@quick.v"}')))
    world.skip("1h")
    assert run.result() == {"quick": {"v": 2}, "z": {"v": 2}}


def test_an_edge_that_is_new_behind_a_settled_step_is_taken_by_the_port_by_which_it_settled(world: World) -> None:
    run = world.start(definition(BEFORE))
    text = BEFORE.replace("with: {v: 2}}", "with: {v: 2}, next: {success: added, error: never}}")
    text += '  - {id: added, tool: ECHO, with: {v: "@quick.v"}}\n  - {id: never, fail: "no"}\n'
    run.patch(definition(text))
    assert ran(run) == ["a", "wait", "quick", "added"]
    world.skip("1h")
    assert run.result() == {"added": {"v": 2}, "z": {"v": 1}}


def test_a_patch_that_is_read_together_with_a_pause_before_it_and_its_end_behind_it_is_taken(world: World) -> None:
    run = world.start(definition(BEFORE))
    after = definition(BEFORE.replace('with: {v: "@a.v"}', 'with: {v: "@quick.v"}')).graph.definition
    assert after is not None
    letters: list[messages.ExecutionMessage] = [messages.PauseMessage(), messages.PatchMessage(after), messages.ResumeMessage()]
    together = Post(messages=tuple(OutgoingMessage(run.key, str(number), messages.encode_message(letter)) for number, letter in enumerate(letters)))
    run_immediately(world.machine.store.commit([together]))
    world.skip("1h")
    assert run.result() == {"quick": {"v": 2}, "z": {"v": 2}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("sleep: 1h", "sleep: 2h"), "wait has begun, and can't be changed"),
        (("next: [wait, quick]", "next: [wait]"), "quick has begun, and a led to it"),
        (("id: quick, tool: ECHO, with: {v: 2}", "id: quick, tool: ECHO, with: {v: 2}, next: wait"), "wait has begun, so quick can't lead to it"),
        (("name: order", "name: other"), "its name is other"),
    ],
)
def test_a_change_of_what_has_begun_is_refused_and_changes_nothing(world: World, change: tuple[str, str], why: str) -> None:
    run = world.start(definition(BEFORE))
    with pytest.raises(PatchRefused, match=why):
        run.patch(definition(BEFORE.replace(*change)))
    world.skip("1h")
    assert run.result() == {"quick": {"v": 2}, "z": {"v": 1}}


def test_a_patch_of_what_somebody_else_has_patched_meanwhile_is_refused(world: World) -> None:
    first = definition(BEFORE)
    run = world.start(first)
    run.patch(definition(BEFORE.replace('"@a.v"', "3")), base=first.read.hash)
    with pytest.raises(PatchRefused, match="in the meantime"):
        run.patch(definition(BEFORE.replace('"@a.v"', "4")), base=first.read.hash)
    world.skip("1h")
    assert run.result() == {"quick": {"v": 2}, "z": {"v": 3}}


@pytest.mark.slow
def test_inside_of_a_block_and_in_a_turn_of_a_cycle_it_goes_on_too(world: World) -> None:
    text = """
perdure: 1
name: turns
order: ports
vars: {n: 0}
steps:
  - {id: count, set: {n: "@inner"}, next: [{when: {ref: "@vars.n", lt: 2}, to: block, max: 9}, {to: end}]}
  - id: start
    set: {n: 0}
    next: block
  - id: block
    do:
      - {id: nap, sleep: 1h}
      - {id: inner, tool: ADD, with: {a: "@vars.n"}}
    next: count
  - {id: end, tool: ECHO, with: {n: "@vars.n"}}
"""
    tools: Any = {"ECHO": echo, "ADD": lambda a: a + 1}
    run = world.start(Definition.of(text, tools=tools))
    world.skip("90m")
    run.patch(Definition.of(text.replace('{n: "@vars.n"}', '{m: "@vars.n"}'), tools=tools))
    world.skip("1h")
    assert run.result() == {"m": 2}


CYCLE = """
perdure: 1
name: turns
order: ports
steps:
  - {id: nap, sleep: 1h, next: count}
  - {id: count, tool: COUNT, with: {before: "@count?"}, next: first}
  - {id: first, test: {ref: "@count", lt: 2}, next: {"true": once, "false": note}}
  - {id: once, tool: ECHO, with: {v: "@count"}, next: note}
  - {id: note, tool: NOTE, with: {seen: ["@count", "@once?"]}, next: [{when: {ref: "@count", lt: 3}, to: nap, max: 5}, {to: end}]}
  - {id: end, tool: ECHO, with: {v: 1}}
"""
LOOP = """
perdure: 1
name: turns
order: ports
steps:
  - {id: all, loop: {items: [1, 2, 3], as: number}, next: {loop: nap, done: end}}
  - {id: nap, sleep: 1h, next: first}
  - {id: first, test: {ref: "@number", lt: 2}, next: {"true": once, "false": note}}
  - {id: once, tool: ECHO, with: {v: "@number"}, next: note}
  - {id: note, tool: NOTE, with: {seen: ["@number", "@once?"]}, next: all}
  - {id: end, tool: ECHO, with: {v: 1}}
"""


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("text", [CYCLE, LOOP], ids=["cycle", "loop"])
def test_a_turn_that_is_patched_knows_its_item_and_reads_null_of_a_step_that_it_passes_by(world: World, text: str, restarted: bool) -> None:
    noted = list[Any]()
    tools: Any = {"ECHO": echo, "COUNT": lambda before: (before or 0) + 1, "NOTE": lambda seen: noted.append(seen)}
    run = world.start(Definition.of(text, tools=tools))
    world.skip("90m")
    run.patch(Definition.of(text.replace("{v: 1}", "{v: 2}"), tools=tools))
    if restarted:
        world.restart()
    world.skip("2h")
    assert noted == [[1, {"v": 1}], [2, None], [3, None]]
    assert run.result() == {"v": 2}
