"""Calls that take the elements of a list in turn are suggested as one step with an `each`."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from perdure import App, Definition
from perdure.dialects.definition_reader import read_definition
from perdure.recording.accepted_references import accepted, is_covered
from perdure.recording.found_references import found_references
from perdure.recording.literal_calls import LiteralCall
from perdure.recording.suggestions import FoundLoop, FoundReference
from tests.recording.recorded_examples import call

FILES = call("list_files_1", {"files": [{"id": 1, "path": "a.txt"}, {"id": 2, "path": "b.txt"}, {"id": 3, "path": "c.txt"}]})
DELETIONS = [
    call(f"delete_file_{number}", {"deleted": number, "receipt": f"rcp_{number}77ax"}, id=number, reason=f"{name} is old", force=True)
    for number, name in ((1, "a.txt"), (2, "b.txt"), (3, "c.txt"))
]
CONFIRMATIONS = [call(f"confirm_{number}", {"ok": True}, receipt=f"rcp_{number}77ax") for number in (1, 2, 3)]


def loops(*calls: LiteralCall) -> tuple[FoundLoop, ...]:
    return found_references(calls).loops


def test_deletions_over_a_list_are_one_step() -> None:
    (found,) = loops(FILES, *DELETIONS)
    assert found.calls == ("delete_file_1", "delete_file_2", "delete_file_3")
    assert found.is_found and found.is_whole and found.is_deletion
    assert found.step == {
        "id": "delete_file_1",
        "each": {"in": "@list_files_1.files"},
        "tool": "delete_file",
        "with": {"id": "@item.id", "reason": "@{item.path} is old", "force": True},
    }


def test_calls_of_other_tools_may_be_between_them() -> None:
    mixed = [one for pair in zip(DELETIONS, CONFIRMATIONS, strict=True) for one in pair]
    (deletions, confirmations) = loops(FILES, *mixed)
    assert (deletions.items, confirmations.items) == ("@list_files_1.files", "@delete_file_1")
    assert confirmations.is_over_loop and confirmations.step["with"] == {"receipt": "@item.receipt"}


def test_a_loop_over_some_elements_is_less_sure() -> None:
    (found,) = loops(FILES, DELETIONS[0], DELETIONS[2])
    assert not found.is_found and not found.is_whole and found.count == 3
    assert "they took 2 of 3" in found.why


@pytest.mark.parametrize(
    "changed",
    [
        {"id": 2, "reason": "b.txt is new", "force": True},
        {"id": 2, "reason": "b.txt is old", "force": False},
        {"id": 2, "reason": "b.txt is old", "force": True, "dry_run": True},
        {"id": 9, "reason": "z.txt is old", "force": True},
    ],
)
def test_calls_that_differ_otherwise_are_none(changed: dict[str, object]) -> None:
    (first, second, _) = DELETIONS
    assert loops(FILES, first, second._replace(arguments=changed)) == ()


def test_a_call_that_is_made_again_is_no_loop() -> None:
    rows = call("list_rows_1", [{"email": "ada@acme.example"}, {"email": "ada@acme.example"}])
    assert loops(rows, call("send_1", email="ada@acme.example"), call("send_2", email="ada@acme.example")) == ()


def test_elements_out_of_order_are_none() -> None:
    assert loops(FILES, DELETIONS[2], DELETIONS[0]) == ()


def test_a_call_that_failed_ends_a_loop() -> None:
    (found,) = loops(FILES, *DELETIONS[:2], DELETIONS[2]._replace(failed=True))
    assert found.calls == ("delete_file_1", "delete_file_2")


def test_an_accepted_loop_takes_the_place_of_its_calls() -> None:
    note = call("note_1", text="Deleted with rcp_277ax")
    calls = [FILES, *DELETIONS, *CONFIRMATIONS, note]
    found = found_references(calls)
    likely = [one for one in found.references if one.is_found and not any(is_covered(one, loop) for loop in found.loops)]
    made = accepted(calls, [*found.loops, *likely])
    assert [(one.step, one.each, one.calls) for one in made] == [
        ("list_files_1", None, ("list_files_1",)),
        ("delete_file_1", {"in": "@list_files_1.files"}, ("delete_file_1", "delete_file_2", "delete_file_3")),
        ("confirm_1", {"in": "@delete_file_1"}, ("confirm_1", "confirm_2", "confirm_3")),
        ("note_1", None, ("note_1",)),
    ]
    assert [one.arguments for one in made[2:]] == [{"receipt": "@item.receipt"}, {"text": "Deleted with @{delete_file_1[1].receipt}"}]


def test_the_steps_are_a_valid_definition() -> None:
    calls = [FILES, *DELETIONS, *CONFIRMATIONS]
    steps = [{"id": one.step, "tool": one.tool, "with": one.arguments, **({"each": one.each} if one.each else {})} for one in accepted(calls, loops(*calls))]
    assert {one.code for one in read_definition({"perdure": 1, "name": "clean", "steps": steps}).findings} <= {"unordered_effects"}


def test_a_loop_over_the_results_of_another_needs_that_one() -> None:
    calls = [FILES, *DELETIONS, *CONFIRMATIONS]
    (deletions, confirmations) = loops(*calls)
    with pytest.raises(ValueError, match="over the results of that of delete_file_1: choose that too"):
        accepted(calls, [confirmations])
    with pytest.raises(ValueError, match="in two loops"):
        accepted(calls, [deletions, deletions])
    with pytest.raises(ValueError, match="not of this recording"):
        accepted(calls[:2], [deletions])


def test_parameters_of_the_input_are_lists_too() -> None:
    calls = [call(f"get_user_{number}", {"ok": True}, email=f"user{number}@acme.example") for number in (1, 2, 3)]
    (found,) = found_references(calls, {"emails": [f"user{number}@acme.example" for number in (1, 2, 3)]}).loops
    assert found.step == {"id": "get_user_1", "each": {"in": "@input.emails"}, "tool": "get_user", "with": {"email": "@item"}}


# Definitions with loops that are run.


async def ran(calls: Sequence[LiteralCall], *chosen: FoundLoop | FoundReference) -> dict[str, list[dict[str, Any]]]:
    """What each tool is called with when the definition of calls runs with what was chosen. A tool answers equal arguments as it has, and else names them."""
    forwarded: dict[str, list[dict[str, Any]]] = {}
    answers = {(one.tool, json.dumps(one.arguments, sort_keys=True)): one.result for one in calls}

    def tool(name: str) -> Callable[..., Any]:
        async def called(**arguments: Any) -> Any:
            forwarded.setdefault(name, []).append(arguments)
            return answers.get((name, json.dumps(arguments, sort_keys=True)), {"receipt": f"for {json.dumps(arguments)}"})

        return called

    steps = [{"id": one.step, "tool": one.tool, "with": one.arguments, **({"each": one.each} if one.each else {})} for one in accepted(calls, chosen)]
    flow = Definition.of({"perdure": 1, "name": "ran", "order": "listed", "steps": steps}, tools={one.tool: tool(one.tool) for one in calls})
    async with App([flow], db="memory:") as app:
        await (await app.start(flow)).result("10s")
    return {name: sorted(given, key=json.dumps) for name, given in forwarded.items()}


def arguments_of(*calls: LiteralCall) -> list[Any]:
    return [one.arguments for one in calls]


async def test_references_into_a_loop_over_some_elements_lead_to_the_elements_that_were_taken() -> None:
    noted = call("note_1", {"noted": True}, text="Deleted with rcp_377ax")
    calls = [FILES, DELETIONS[0], DELETIONS[2]._replace(step="delete_file_2"), noted]
    found = found_references(calls)
    (loop,) = found.loops
    assert loop.indexes == (0, 2)
    made = await ran(calls, loop, *(one for one in found.references if one.call == "note_1"))
    assert made["note"] == arguments_of(noted), "of the last file, which was the second that was deleted"
    assert made["delete_file"] == arguments_of(*DELETIONS), "the step takes all elements"


async def test_a_loop_over_the_results_of_some_elements_takes_those_results() -> None:
    calls = [FILES, *DELETIONS[1:], *CONFIRMATIONS[1:]]
    (deletions, confirmations) = loops(*calls)
    assert (deletions.indexes, confirmations.indexes) == ((1, 2), (1, 2))
    assert confirmations.is_over_loop and confirmations.step["with"] == {"receipt": "@item.receipt"}
    made = await ran(calls, confirmations, deletions)
    assert made["delete_file"] == arguments_of(*DELETIONS)
    assert [one for one in made["confirm"] if one in arguments_of(*CONFIRMATIONS)] == arguments_of(*CONFIRMATIONS[1:])
    assert len(made["confirm"]) == 3


async def test_a_loop_over_the_later_results_of_another_takes_its_own_elements() -> None:
    calls = [FILES, *DELETIONS, *CONFIRMATIONS[1:]]
    (deletions, confirmations) = loops(*calls)
    assert (deletions.indexes, confirmations.indexes) == ((0, 1, 2), (1, 2))
    assert confirmations.step["with"] == {"receipt": "@item.receipt"}
    made = await ran(calls, confirmations, deletions)
    assert made["confirm"] == arguments_of(*CONFIRMATIONS)


async def test_references_that_were_given_into_a_loop_lead_to_its_results() -> None:
    noted = call("note_1", {"noted": True}, text="rcp_377ax", all={"deleted": 3, "receipt": "rcp_377ax"}, mail="@{x}")
    noted = noted._replace(references={("text",): "@delete_file_2.receipt", ("all",): "@delete_file_2"})
    calls = [FILES, DELETIONS[0], DELETIONS[2]._replace(step="delete_file_2"), noted]
    (loop,) = loops(*calls)
    assert accepted(calls, [loop])[-1].arguments == {"text": "@delete_file_1[2].receipt", "all": "@delete_file_1[2]", "mail": "@@{x}"}
    assert (await ran(calls, loop))["note"] == arguments_of(noted)
    assert accepted(calls, [])[-1].arguments["text"] == "@delete_file_2.receipt"


def test_a_reference_inside_an_accepted_loop_is_refused_whatever_the_order() -> None:
    calls = [FILES, *DELETIONS, *CONFIRMATIONS]
    found = found_references(calls)
    (deletions, confirmations) = found.loops
    assert accepted(calls, [confirmations, deletions]) == accepted(calls, [deletions, confirmations])
    inside = {one.key: one for one in found.references if is_covered(one, deletions)}
    assert {"delete_file_1/id", "delete_file_2/id", "delete_file_3/reason#0-5"} <= inside.keys()
    for one in inside.values():
        both: list[FoundReference | FoundLoop] = [one, deletions]
        for chosen in (both, both[::-1]):
            with pytest.raises(ValueError, match=rf"{re.escape(one.key)} is inside the loop delete_file_1\*, which says"):
                accepted(calls, chosen)


async def test_what_all_calls_of_a_loop_have_of_one_element_is_not_taken_of_each() -> None:
    rows = call("list_rows_1", [{"id": 7001, "owner": "ada@acme.example"}, {"id": 7002, "owner": "bob@acme.example"}])
    moved = [call(f"move_{number}", {"ok": True}, id=7000 + number, to="ada@acme.example") for number in (1, 2)]
    found = found_references([rows, *moved])
    (loop,) = found.loops
    (owner,) = [one for one in found.references if one.key == "move_1/to"]
    assert owner.reference == "@list_rows_1[0].owner"
    assert loop.step["with"] == {"id": "@item.id", "to": "@list_rows_1[0].owner"}
    assert (await ran([rows, *moved], loop, owner))["move"] == arguments_of(*moved)


def test_a_loop_over_results_has_as_many_elements_as_the_list_of_the_first() -> None:
    (deletions, confirmations) = loops(FILES, *DELETIONS, *CONFIRMATIONS[:2])
    assert (deletions.count, deletions.is_whole) == (3, True)
    assert (confirmations.count, confirmations.is_whole) == (3, False) and "they took 2 of 3" in confirmations.why
    (deletions, confirmations) = loops(FILES, *DELETIONS[:2], *CONFIRMATIONS[:2])
    assert (deletions.count, confirmations.count, confirmations.is_whole) == (3, 3, False)
