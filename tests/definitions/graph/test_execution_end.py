"""Undo in definitions: what can't be undone as it should is left to a person, and nothing is left out."""

from typing import Any

import pytest

from perdure import Definition, ExecutionFailed, step, step_info
from perdure.core import log_format
from perdure.testing import World

TEXT = """
perdure: 1
name: it
order: listed
steps:
  - {id: first, tool: SAY, with: {v: {id: 1}}, undo: {tool: UNSAY, with: {v: "@self.id"}}}
  - {id: second, tool: SAY, with: {v: {id: 2}}, undo: {tool: UNSAY, with: {v: "@self.charge.id"}}}
  - {id: third, fail: enough}
"""


def test_what_undoes_a_step_is_never_called_with_what_could_not_be_made(world: World) -> None:
    unsaid = []

    def unsay(v: int) -> None:
        unsaid.append(v)

    run = world.start(Definition.of(TEXT, tools={"SAY": lambda v: v, "UNSAY": unsay}))
    assert run.status == "needs_attention" and "Undo the step by hand" in run.why and "charge" in run.why
    run.evict()
    run.resume()
    assert run.status == "needs_attention" and unsaid == []


BY_KIND: dict[str, Any] = {
    "perdure": 1,
    "name": "it",
    "order": "listed",
    "steps": [
        {"id": "charge", "tool": "CHARGE", "undo": {"tool": "http", "with": {"id": "@self.id", "token": "Bearer @{secrets.TOKEN}"}}},
        {"id": "ship", "fail": "nobody goes there"},
    ],
}


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every", crashes_max=20)
def test_a_kind_undoes_by_what_stands_in_its_input_under_a_key_of_its_own(world: World) -> None:
    asked: dict[str, Any] = {}

    def http(config: Any = None, input: Any = None) -> None:
        asked[step_info().key] = (config, input)

    it = Definition.of(BY_KIND, tools={"CHARGE": step(idempotent=True)(lambda: {"id": 7})}, kinds={"http": http}, secrets={"TOKEN": "hush-hush"})
    assert it.lacks() == []
    run = world.start(it)
    with pytest.raises(ExecutionFailed, match="nobody goes there"):
        run.result()
    assert asked == {"default/it/1:~undo/charge": (None, {"id": 7, "token": "Bearer hush-hush"})}
    found = world.machine.read(run.key)
    assert found is not None and "hush-hush" not in repr(log_format.decode_rows(found.payloads))


def test_a_tool_of_the_name_of_a_kind_undoes_before_it(world: World) -> None:
    given: list[Any] = []
    tools: dict[str, Any] = {"CHARGE": lambda: {"id": 7}, "http": lambda **named: given.append(named["id"])}
    run = world.start(Definition.of(BY_KIND, tools=tools, secrets={"TOKEN": "hush-hush"}))
    with pytest.raises(ExecutionFailed, match="nobody goes there"):
        run.result()
    assert given == [7]


LARGE: dict[str, Any] = {
    "perdure": 1,
    "name": "it",
    "order": "listed",
    "steps": [
        {"id": "small", "tool": "SMALL", "undo": {"tool": "UNDO", "with": {"done": "@self"}}},
        {"id": "large", "tool": "LARGE", "undo": {"tool": "UNDO", "with": {"done": "@self"}}},
        {"id": "block", "do": [{"id": "inside", "tool": "LARGE"}], "undo": {"tool": "UNDO", "with": {"done": "@self"}}},
        {
            "id": "turns",
            "do": [{"id": "again", "tool": "LARGE", "undo": {"tool": "UNDO", "with": {"done": "@self"}}}],
            "repeat": {"until": {"ref": "@index", "gte": 1}, "endless": True},
        },
        {"id": "nap", "sleep": "1m"},
        {"id": "end", "fail": "nobody goes there"},
    ],
}


@pytest.mark.parametrize("always_suspend", [False, True])
def test_a_step_with_a_large_result_is_undone(always_suspend: bool) -> None:
    told: list[int] = []
    tools: dict[str, Any] = {"SMALL": lambda: "small", "LARGE": lambda: "x" * 100_000, "UNDO": lambda done: told.append(len(done))}
    with World(always_suspend=always_suspend) as world:
        run = world.start(Definition.of(LARGE, tools=tools))
        with pytest.raises(ExecutionFailed, match="nobody goes there"):
            run.result()
        assert told == [100_000] * 4 + [5]
