"""What is read and written again is the same; whatever is read, nothing raises."""

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest

from perdure.definitions.format.canonical_form import canonical_document
from perdure.definitions.format.validator import definition_findings
from perdure.dialects import WrittenDocument, read_foreign
from perdure.dialects.fragments import complete_fragment
from perdure.dialects.nested_steps import document_writer as nested_steps_writer
from perdure.dialects.ref_dag import document_writer as ref_dag_writer
from perdure.dialects.token_graph import document_writer as token_graph_writer
from tests.seeds.definitions import definition
from tests.seeds.examples import EXAMPLES, Example

FOREIGN = [example for example in EXAMPLES if not example.name.startswith(("format", "003"))]
NOT_WRITTEN = ("004_payment",)  # a loop with both a break path and a branch: what is never reached is not written
WRITE: dict[str, Callable[[dict[str, Any]], WrittenDocument]] = {
    "ref_dag": ref_dag_writer.from_definition,
    "nested_steps": nested_steps_writer.from_definition,
    "token_graph": token_graph_writer.from_definition,
    "token_graph as IR": lambda definition: token_graph_writer.from_definition(definition, as_ir=True),
}
SPELT_SO = ("000_when_truthy", "000_when_gt", "000_for_each", "000_bail", "000_skips_cascade", "000_goes_on")


def written(made: dict[str, Any], dialect: str) -> dict[str, Any]:
    """A definition written in a dialect, which has to be able to say it."""
    found = WRITE[dialect](made)
    assert found.document is not None, [str(one) for one in found.findings]
    return found.document


@pytest.mark.parametrize("example", [one for one in FOREIGN if one.name not in NOT_WRITTEN], ids=lambda example: example.name)
def test_a_definition_that_is_written_is_the_same_when_read_again(example: Example) -> None:
    made = definition(example)
    for dialect in [name for name in WRITE if name.startswith(made["dialect"])]:
        document = written(made, dialect)
        again = read_foreign(document)
        assert again
        assert without_display(canonical_document(again.document)) == without_display(canonical_document(made))
        assert written(again.document, dialect) == document


@pytest.mark.parametrize("name", SPELT_SO)
def test_a_document_that_is_spelt_as_the_writer_does_comes_back_as_it_was(name: str) -> None:
    (example,) = (one for one in FOREIGN if one.name == name)
    document = complete_fragment(example.document) if example.is_fragment else example.document
    assert written(definition(example), "ref_dag") == document


def test_nodes_and_edges_come_back_as_they_were() -> None:
    document = {
        "nodes": [
            {"id": "a", "type": "task", "config": {"action": "ECHO", "x": "$inputs.x"}, "timeout_ms": 500, "retry": {"max_attempts": 2, "backoff_ms": 10}},
            {"id": "b", "type": "http", "config": {"url": "https://x.example/${$nodes.a.x}"}},
            {"id": "c", "type": "human", "human_config": {"title": "Go on?", "approvers": ["ops"], "timeout_hours": 2}, "rejection_path": ["d"]},
            {"id": "d", "type": "task", "compensator": {"action": "undo", "timeout_sec": 5, "retry": {"max_attempts": 3}}},
            {"id": "e", "type": "task", "wait_for_all": True},
        ],
        "edges": [
            {"from": "a", "to": "b", "condition": {"type": "cel", "expression": 'output.x > 1 && output.y == "z"'}},
            {"from": "a", "to": "c"},
            {"from": "b", "to": "e"},
            {"from": "c", "to": "e"},
        ],
        "metadata": {"name": "round", "version": "1.2.0", "max_hops": 30},
    }
    found = read_foreign(document)
    assert found
    assert not found.findings
    assert written(found.document, "token_graph") == document


def without_display(made: dict[str, Any]) -> dict[str, Any]:
    """A definition without what only editors show."""
    return {name: value for name, value in made.items() if name != "ui"}


JUNK: list[Any] = [
    None,
    True,
    0,
    -1,
    3.5,
    "",
    "x",
    "@",
    "@x",
    "{{",
    "$nodes",
    "@item",
    [],
    {},
    [[]],
    {"x": 1},
    ["a", 1],
    "a" * 300,
    "\n",
    float("inf"),
    {"type": []},
    {"ref": 5},
]


def mutated(document: Any, dice: random.Random) -> Any:
    """A document with something in it exchanged, dropped or added."""
    document = copy.deepcopy(document)
    here: list[Any] = [document]
    places: list[tuple[Any, Any]] = []
    for one in here:
        inside = list(one.items()) if isinstance(one, dict) else list(enumerate(one))
        places.extend((one, key) for key, _ in inside)
        here.extend(value for _, value in inside if isinstance(value, dict | list))
    for _ in range(dice.randint(1, 4)):
        holder, key = dice.choice(places)
        try:
            match dice.randrange(4):
                case 0:
                    del holder[key]
                case 1 if isinstance(holder, dict):
                    holder[dice.choice(["id", "type", "x", "when", "loop", "branch", "steps", "config", "action", "condition"])] = dice.choice(JUNK)
                case 2:
                    holder[key] = copy.deepcopy(dice.choice(places)[0])
                case _:
                    holder[key] = copy.deepcopy(dice.choice(JUNK))
        except (IndexError, KeyError):
            continue
    return document


def hold(seed: int) -> None:
    """Whatever is read gives a definition or errors, and what is written of it means the same."""
    dice = random.Random(seed)
    example = dice.choice(FOREIGN)
    document = mutated(example.document if "nodes" in example.document or "steps" in example.document else {"nodes": [example.document]}, dice)
    found = read_foreign(document)
    if found is None or any(one.severity == "error" for one in found.findings):
        return
    made = found.document
    assert all(one.severity in ("error", "warning") for one in definition_findings(made))
    if any(one.severity == "error" for one in definition_findings(made)):
        return
    for write in WRITE.values():
        again = write(made)
        assert again.document is not None or again.findings


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 400, 50))
def test_whatever_is_read_nothing_raises(first: int) -> None:
    for seed in range(first, first + 50):
        try:
            hold(seed)
        except Exception as raised:
            raise AssertionError(f"seed {seed}") from raised


FIELDS = {
    "ref_dag": "name action input when bail forEach config outputSchema description id",
    "nested_steps": "id type command tool arguments content goal condition then else steps items while until count max as slug workflowId version inputs "
    "prompt timeout outputVariable interrupt await_timeout_ms retry onError env when defaultAction approvers form wait concurrency",
    "token_graph": "id type config config_ref dependencies dependents wait_for_all loop branch retry limits human_config agent_config compensator "
    "rejection_path timeout_ms",
}
OF_LOOPS = "enabled condition max_iterations loop_back_to break_path timeout_path delay_ms"
OF_DOCUMENTS = "steps title name input_schema variables constraints runtime triggers tags version slug data metadata edges nodes"
OF_BRANCHES = "enabled type rules default available_next_nodes"


@pytest.mark.slow
@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_whatever_stands_in_a_field_nothing_raises(junk: Any) -> None:
    types = ["agent", "agent_message", "approval", "bash", "conditional", "loop", "parallel", "subworkflow", "tool"]
    for field in FIELDS["ref_dag"].split():
        read_foreign({"title": "x", "steps": [{"name": "a", "action": {"toolName": "T"}, field: junk}]})
    for field in FIELDS["nested_steps"].split():
        for type_name in types:
            read_foreign({"name": "x", "variables": {}, "steps": [{"type": type_name, "steps": [{"type": "bash", "command": "x"}], field: junk}]})
    for field in FIELDS["token_graph"].split():
        for type_name in ("task", "agent", "human"):
            read_foreign({"nodes": [{"id": "a", "type": type_name, field: junk}]})
    for field in OF_LOOPS.split():
        read_foreign({"nodes": [{"id": "a", "loop": {"condition": "true", "max_iterations": 2, field: junk}}, {"id": "x"}]})
    for field in OF_BRANCHES.split():
        read_foreign({"nodes": [{"id": "a", "branch": {"rules": [{"condition": junk, "next_nodes": junk}], field: junk}}, {"id": "x"}]})
    for field in OF_DOCUMENTS.split():
        read_foreign({"title": "x", "steps": [], "input_schema": {}, field: junk})
        read_foreign({"slug": "x", "data": junk, field: junk})
        read_foreign({"nodes": [{"id": "a"}], field: junk})


@pytest.mark.prove
def test_whatever_is_read_nothing_raises_at_length() -> None:
    for seed in range(400, 40_000):
        try:
            hold(seed)
        except Exception as raised:
            raise AssertionError(f"seed {seed}") from raised
