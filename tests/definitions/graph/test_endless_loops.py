"""Loops without end: their logs stay short however long they turn, and they go on from what is left of them."""

from typing import Any

import pytest

from perdure import Definition
from perdure.core import events as e
from perdure.core import log_format
from perdure.dialects import definition_reader
from perdure.testing import World
from tests.sampling import some

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize("always_suspend", some([False, True], 1))
@pytest.mark.parametrize("text", [REPEAT, CYCLE], ids=["repeat", "cycle"])
def test_the_log_of_a_loop_without_end_stays_short(text: str, always_suspend: bool) -> None:
    with World(always_suspend=always_suspend) as world:
        run = world.start(Definition.of(text, tools=TOOLS))
        world.skip("119m")
        found = world.machine.read(run.key)
        assert found is not None and found.head.version > 800
        assert len(log_format.decode_rows(found.payloads)) < 300
        world.skip("2m")
        assert run.result() == 240


@pytest.mark.parametrize("text", [REPEAT, CYCLE], ids=["repeat", "cycle"])
def test_the_limits_of_a_definition_hold_for_one_turn_of_a_loop_without_end(world: World, text: str) -> None:
    run = world.start(Definition.of(f"{text}limits: {{max_steps: 12, max_hops: 12}}\n", tools=TOOLS))
    world.skip("121m")
    assert run.result() == 240


@pytest.mark.parametrize(
    "text", [REPEAT, CYCLE, CYCLE.replace("endless: true", "max: 50")], ids=["repeat", "cycle", "a cycle that only the patch makes endless"]
)
def test_a_loop_without_end_that_was_patched_before_its_log_was_compacted_goes_on_in_a_new_process(world: World, text: str) -> None:
    run = world.start(Definition.of(text.replace("120", "40"), tools=TOOLS))
    world.skip("30s")
    run.patch(Definition.of(text.replace("120", "40").replace("max: 50", "endless: true").replace('b: "@add"', "b: 1000"), tools=TOOLS))
    world.skip("30m")
    found = world.machine.read(run.key)
    assert found is not None and any(isinstance(event, e.IterationResumedEvent) for event in log_format.decode_rows(found.payloads))
    world.restart()
    world.skip("11m")
    assert run.result() == 1040


LEFT = """
perdure: 1
name: tick
order: ports
vars: {n: 0}
steps:
  - {id: first, test: {ref: "@vars.n", lt: 1}, next: {"true": [nap, aside], "false": other}}
  - {id: nap, sleep: 1m, next: add}
  - {id: other, sleep: 1m, next: add}
  - {id: add, tool: ADD, with: {a: "@vars.n", b: 1}, next: keep}
  - {id: keep, set: {n: "@add"}, next: [{when: {ref: "@vars.n", lt: 40}, to: first, endless: true}, {to: end}]}
  - {id: end, tool: ADD, with: {a: "@vars.n", b: "@add"}}
  - {id: aside, tool: ADD, with: {a: 1, b: 2}}
"""


@pytest.mark.parametrize("patched", [False, True], ids=["when it began", "by a patch"])
def test_a_loop_without_end_whose_first_turn_has_begun_a_step_outside_of_it_goes_on_in_a_new_process(world: World, patched: bool) -> None:
    whole = Definition.of(LEFT, tools=TOOLS)
    run = world.start(
        Definition.of(LEFT.replace("[nap, aside]", "nap").replace("  - {id: aside, tool: ADD, with: {a: 1, b: 2}}", ""), tools=TOOLS) if patched else whole
    )
    world.skip("30s")
    if patched:
        run.patch(whole)
    world.skip("30m")
    world.restart()
    world.skip("11m")
    assert run.result() == {"end": 80, "aside": 3}


UNDONE_REPEAT = """
perdure: 1
name: it
order: listed
steps:
  - id: again
    do:
      - {id: nap, sleep: 1m}
      - {id: order, tool: NEXT}
      - {id: charge, tool: CHARGE, with: {order: "@order.id"}, undo: {tool: REFUND, with: {order: "@order.id", charge: "@self"}}}
      - {id: booking, do: [{id: book, tool: CHARGE, with: {order: "@order.id"}, undo: REFUND}], undo: {tool: UNBOOK, with: {order: "@order.id"}}}
    repeat: {until: {ref: "@order.id", gte: 20}, endless: true}
  - {id: end, fail: enough}
"""
UNDONE_CYCLE = """
perdure: 1
name: it
order: ports
steps:
  - {id: nap, sleep: 1m, next: order}
  - {id: order, tool: NEXT, next: charge}
  - {id: charge, tool: CHARGE, with: {order: "@order.id"}, undo: {tool: REFUND, with: {order: "@order.id", charge: "@self"}}, next: booking}
  - id: booking
    do: [{id: book, tool: CHARGE, with: {order: "@order.id"}, undo: REFUND}]
    undo: {tool: UNBOOK, with: {order: "@order.id"}}
    next: [{when: {ref: "@order.id", lt: 20}, to: nap, endless: true}, {to: end}]
  - {id: end, fail: enough}
"""


def undone_in(world: World, text: str) -> tuple[Any, list[str]]:
    """What a definition comes to whose turns are forgotten, and what is undone."""
    told: list[str] = []
    count = iter(range(1, 1000))
    tools: Any = {
        "NEXT": lambda: {"id": next(count)},
        "CHARGE": lambda order: f"c{order}",
        "REFUND": lambda order, charge: told.append(f"refund {order} {charge}"),
        "UNBOOK": lambda order: told.append(f"unbook {order}"),
    }
    run = world.start(Definition.of(text, tools=tools))
    world.skip("2h")
    return run, told


@pytest.mark.parametrize("always_suspend", some([False, True], 1))
@pytest.mark.parametrize("text", [UNDONE_REPEAT, UNDONE_CYCLE], ids=["repeat", "cycle"])
def test_what_was_done_in_forgotten_turns_is_undone_with_what_its_step_could_read(text: str, always_suspend: bool) -> None:
    with World(always_suspend=always_suspend) as world:
        run, told = undone_in(world, text)
        assert run.status == "failed"
        assert told == [word for order in range(20, 0, -1) for word in (f"unbook {order}", f"refund {order} c{order}")]
        found = world.machine.read(run.key)
        assert found is not None and any(isinstance(event, e.RetainedEvent) for event in log_format.decode_rows(found.payloads)), "the log was compacted"


def test_a_repeat_may_say_how_many_turns_back_are_undone(world: World) -> None:
    _, told = undone_in(world, UNDONE_REPEAT.replace("endless: true", "endless: true, undo: {keep: 3}"))
    assert [word for word in told if word.startswith("refund")] == [f"refund {order} c{order}" for order in (20, 19, 18, 17)]


COMMIT = 'tool: NEXT}\n      - {id: paid, if: {ref: "@order.id", eq: 8}, then: [{id: c, set: {x: 1}, commit: true}]}'


def test_what_was_done_before_a_step_that_commits_is_not_undone(world: World) -> None:
    _, told = undone_in(world, UNDONE_REPEAT.replace("tool: NEXT}", COMMIT))
    assert [word for word in told if word.startswith("refund")] == [f"refund {order} c{order}" for order in range(20, 7, -1)]


@pytest.mark.parametrize("text", [UNDONE_REPEAT, UNDONE_CYCLE], ids=["repeat", "cycle"])
def test_turns_without_end_in_which_steps_are_undone_are_warned_of(text: str) -> None:
    def codes(text: str) -> list[str]:
        return [finding.code for finding in definition_reader.read_definition(text).findings]

    assert "undo_unbounded" in codes(text)
    assert "undo_unbounded" not in codes(text.replace("{id: order,", "{id: order, commit: true,"))
    if text is UNDONE_REPEAT:
        assert "undo_unbounded" not in codes(text.replace("endless: true", "endless: true, undo: {keep: 3}"))


RESTORED_REPEAT = """
perdure: 1
name: it
order: listed
vars: {sum: 0, mark: 0}
limits: {max_steps: 14, max_hops: 14}
steps:
  - {id: before, tool: SAY, with: {value: before}}
  - id: again
    do:
      - {id: nap, sleep: 1m}
      - {id: number, tool: ADD, with: {a: "@state", b: 1}}
      - {id: odd, when: {expr: "number % 2 == 1"}, tool: SAY, with: {value: "@number"}}
      - {id: mark, when: {expr: "number == 5"}, set: {mark: "@number"}}
      - {id: sum, set: {sum: {expr: "vars.sum + number"}}}
      - id: charge
        tool: CHARGE
        with: {number: "@number", odd: "@odd?", mark: "@vars.mark", sum: "@vars.sum"}
        undo: {tool: REFUND, with: {number: "@number", charge: "@self"}}
      - {id: result, tool: SAY, with: {value: "@number"}}
    repeat: {until: {ref: "@self", gte: 120}, state: 0, endless: true}
  - {id: end, fail: "@{vars.sum} @{again} @{before} @{number}"}
"""
RESTORED_CYCLE = """
perdure: 1
name: it
order: ports
vars: {sum: 0, number: 0, mark: 0}
limits: {max_steps: 14, max_hops: 14}
steps:
  - {id: before, tool: SAY, with: {value: before}, next: nap}
  - {id: nap, sleep: 1m, next: number}
  - {id: number, tool: ADD, with: {a: "@vars.number", b: 1}, next: counted}
  - {id: counted, set: {number: "@number", sum: {expr: "vars.sum + number"}}, next: [{when: {expr: "number == 5"}, to: mark}, {to: charge}]}
  - {id: mark, set: {mark: "@number"}, next: charge}
  - id: charge
    tool: CHARGE
    with: {number: "@number", odd: "@odd?", mark: "@vars.mark", sum: "@vars.sum"}
    undo: {tool: REFUND, with: {number: "@number", charge: "@self"}}
    next: [{when: {ref: "@vars.number", gte: 120}, to: end}, {when: {expr: "number % 3 == 0"}, to: odd}, {to: nap, endless: true}]
  - {id: odd, tool: SAY, with: {value: "@number"}, next: [{to: nap, endless: true}]}
  - {id: end, fail: "@{vars.sum} @{before} @{number}"}
"""


def lived(text: str, stops: tuple[int, ...]) -> tuple[list[str], str, list[bool]]:
    """What a definition of 120 turns does and how it ends whose process is replaced after so many minutes; and whether its log was compacted by then."""
    told: list[str] = []
    resumes: list[bool] = []

    def charge(number: int, odd: Any, mark: int, sum: int) -> str:
        told.append(f"charge {number} {odd} {mark} {sum}")
        return f"c{number}"

    tools: Any = {
        "SAY": lambda value: value,
        "ADD": lambda a, b: a + b,
        "CHARGE": charge,
        "REFUND": lambda number, charge: told.append(f"refund {number} {charge}"),
    }
    with World() as world:
        run, last = world.start(Definition.of(text, tools=tools)), 0
        for stop in (*stops, 130):
            world.skip(f"{stop - last}m")
            last = stop
            if stop != 130:
                found = world.machine.read(run.key)
                assert found is not None
                resumes.append(any(isinstance(event, e.IterationResumedEvent) for event in log_format.decode_rows(found.payloads)))
                world.restart()
        assert run.status == "failed", run.why
        return told, run.why, resumes


@pytest.mark.slow
@pytest.mark.parametrize("text", [pytest.param(RESTORED_REPEAT, id="repeat"), pytest.param(RESTORED_CYCLE, id="cycle", marks=pytest.mark.prove)])
def test_a_loop_without_end_that_is_restored_at_several_turns_does_what_it_does_undisturbed(text: str) -> None:
    told, error, _ = lived(text, ())
    assert len([word for word in told if word.startswith("charge")]) == len([word for word in told if word.startswith("refund")]) == 120
    assert "7260" in error and "before" in error
    assert lived(text, (31, 62, 117)) == (told, error, [True] * 3)
