"""Claims about definitions that end at a step: they return its result, whatever the order and wherever it stands, and do nothing that it does not need."""

from typing import Any

import pytest

from perdure import Definition, step
from perdure.core.errors import BadValue
from perdure.definitions.format.partial_definition import ending_after
from perdure.testing import World

DONE: list[str] = []


@step
async def note(what: str, of: Any = None) -> str:
    DONE.append(what)
    return what


def tool(id: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "tool": "note", "with": {"what": id}, **more}


def run_up_to(world: World, id: str, steps: list[dict[str, Any]], order: str, **more: Any) -> tuple[Any, list[str]]:
    """The result of an execution up to a step, and what was done."""
    whole = Definition.of({"perdure": 1, "name": "whole", "order": order, "steps": steps, **more}, tools=[note])
    part = Definition.of(ending_after(whole.read.canonical, id), tools=[note])
    DONE.clear()
    return world.start(part).result(), [*DONE]


def test_of_a_list_what_stands_before_it_runs(world: World) -> None:
    steps = [tool("a"), tool("b"), tool("c")]
    assert run_up_to(world, "b", steps, "listed", output={"all": "@c"}) == ("b", ["a", "b"])


def test_by_references_only_what_it_needs_runs(world: World) -> None:
    steps = [tool("a"), tool("beside"), {**tool("b"), "with": {"what": "b", "of": "@a"}}, {**tool("c"), "with": {"what": "c", "of": "@b"}}]
    assert run_up_to(world, "b", steps, "refs", output={"all": "@c", "beside": "@beside"}) == ("b", ["a", "b"])


@pytest.mark.parametrize(("port", "ran"), [(True, ["a"]), (False, ["a"])])
def test_by_ports_it_ends_at_any_port(world: World, port: bool, ran: list[str]) -> None:
    steps = [tool("a", next="check"), {"id": "check", "test": port, "next": {"true": "b", "false": "c"}}, tool("b"), tool("c")]
    assert run_up_to(world, "check", steps, "ports") == (port, ran)


def test_by_ports_rules_and_loops_behind_it_are_not_followed(world: World) -> None:
    rules = [{"when": {"ref": "@self", "eq": "b"}, "to": "a", "max": 3, "on_max": "c"}, {"to": "c"}]
    assert run_up_to(world, "b", [tool("a", next="b"), tool("b", next=rules), tool("c")], "ports") == ("b", ["a", "b"])


@pytest.mark.parametrize("order", ["listed", "refs"])
@pytest.mark.parametrize("block", ["do", "parallel", "race"])
def test_inside_a_block_the_execution_ends(world: World, block: str, order: str) -> None:
    inner = [tool("b"), {**tool("c"), "with": {"what": "c", "of": "@b"}}] if block == "do" else [tool("b")]
    steps = [tool("a"), {"id": "block", block: inner, "needs": ["a"]}, {**tool("d"), "needs": ["block"]}]
    assert run_up_to(world, "b", steps, order) == ("b", ["a", "b"])


def test_inside_a_condition_it_ends_there(world: World) -> None:
    gate: dict[str, Any] = {"id": "gate", "if": {"ref": "@a", "eq": "a"}, "then": [tool("b"), tool("c")], "else": [tool("d")]}
    assert run_up_to(world, "b", [tool("a"), gate, tool("e")], "listed") == ("b", ["a", "b"])


def test_a_block_is_made_as_a_whole(world: World) -> None:
    gate = {"id": "gate", "if": {"ref": "@a", "eq": "a"}, "then": [tool("b"), tool("c")], "else": [tool("d")]}
    assert run_up_to(world, "gate", [tool("a"), gate, tool("e")], "listed")[1] == ["a", "b", "c"]


@pytest.mark.parametrize("block", ["do", "parallel", "race"])
def test_in_a_block_of_a_graph_of_ports_it_ends_as_well(world: World, block: str) -> None:
    inner = [tool("b"), tool("c")] if block == "do" else [tool("b")]
    assert run_up_to(world, "b", [tool("a", next="block"), {"id": "block", block: inner, "next": "d"}, tool("d")], "ports") == ("b", ["a", "b"])


def test_of_items_and_turns_all_are_made(world: World) -> None:
    each = {"id": "each", "each": {"in": [1, 2, 3]}, "tool": "note", "with": {"what": "item", "of": "@item"}}
    assert run_up_to(world, "each", [each, tool("after")], "listed") == (["item"] * 3, ["item"] * 3)


@pytest.mark.parametrize("order", ["listed", "ports"])
def test_of_turns_all_are_made(world: World, order: str) -> None:
    laps = tool(
        "laps", repeat={"while": True, "max": 3, **({} if order == "ports" else {"on_max": "go_on"})}, **({"next": "after"} if order == "ports" else {})
    )
    assert run_up_to(world, "laps", [laps, tool("after")], order) == ("laps", ["laps"] * 3)


def test_its_id_is_new(world: World) -> None:
    steps = [tool("a"), tool("end_here"), tool("c")]
    assert run_up_to(world, "end_here", steps, "listed") == ("end_here", ["a", "end_here"])


def test_a_step_that_ends_the_execution_is_the_end(world: World) -> None:
    assert run_up_to(world, "b", [tool("a"), {"id": "b", "return": "@a"}, tool("c")], "listed") == ("a", ["a"])


def test_a_step_that_is_not_there_is_refused() -> None:
    whole = Definition.of({"perdure": 1, "name": "whole", "steps": [tool("charge")]}, tools=[note])
    with pytest.raises(BadValue, match="did you mean 'charge'"):
        ending_after(whole.read.canonical, "chagre")
    assert "end_here" not in str(whole.read.canonical)
