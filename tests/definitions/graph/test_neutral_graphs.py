"""Business workflows that other engines run: each is a definition that compiles, in which no node, no edge and no way through it is lost."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure.definitions.format.canonical_form import canonical_document
from perdure.definitions.format.compiler import compile_definition
from perdure.definitions.format.validator import definition_findings
from tests.definitions.graph.neutral_graphs import Imported, imported, read, scripts
from tests.proof.definitions import DefinitionPrediction, predict
from tests.proof.definitions.facts import WORK
from tests.proof.definitions.shape import Step, inside, shaped

DATA = Path(__file__).parents[4] / "shared/data/graphs"
COUNTS = {"asl": 66, "conductor": 78}
WORLDS = 40
ALWAYS_CUT_OFF = {"join_cancel_ref": {"run_long_agent_ref"}, "terminate0": {"t2", "lambda1"}}
"""What never runs where a step of this name ends it all before."""


def node(name: str, kind: str = "task", **rest: Any) -> dict[str, Any]:
    """A node of a neutral graph."""
    return {"id": name, "kind": kind, **({"type": "SIMPLE"} if kind in ("task", "foreach") else {}), **rest}


def graph(nodes: Sequence[dict[str, Any]], *edges: tuple[str, str, str]) -> dict[str, Any]:
    """A neutral graph that begins with its first node."""
    named = [{"from": source, "port": port, "to": target} for source, port, target in edges]
    return {"id": "small", "start": nodes[0]["id"], "nodes": list(nodes), "edges": named}


POLLING = graph(
    [node("Start job"), node("Wait 30 s", "timer", Seconds=30), node("Done?", "branch"), node("Failed", "fail"), node("Over", "end")],
    ("Start job", "success", "Wait 30 s"),
    ("Start job", "error", "Failed"),
    ("Wait 30 s", "success", "Done?"),
    ("Done?", "case0", "Over"),
    ("Done?", "case1", "Failed"),
    ("Done?", "default", "Wait 30 s"),
)
APPROVERS = graph(
    [node("Both", "fork"), node("Both.join", "join", wait="all"), node("Ann", "human"), node("item"), node("Fail", "fail"), node("index")],
    ("Both", "branch0", "Ann"),
    ("Both", "branch1", "item"),
    ("Both", "error", "Fail"),
    ("Ann", "done", "Both.join"),
    ("item", "done", "Both.join"),
    ("Both.join", "success", "index"),
)
ITEMS = graph(
    [
        node(
            "each",
            "foreach",
            body={
                **graph(
                    [node("Look"), node("Kind", "branch"), node("Big"), node("Small"), node("Store")],
                    ("Look", "success", "Kind"),
                    ("Kind", "case0", "Big"),
                    ("Kind", "default", "Small"),
                    ("Big", "success", "Store"),
                    ("Small", "success", "Store"),
                )
            },
        ),
        node("after"),
    ],
    ("each", "success", "after"),
)
LOOPING = graph(
    [node("loop", "loop", body=graph([node("turn"), node("again?", "branch"), node("more")], ("turn", "success", "again?"), ("again?", "case:yes", "more")))],
)
SMALL = {"polling": POLLING, "approvers": APPROVERS, "items": ITEMS, "looping": LOOPING}


def whole(found: Imported) -> list[Step]:
    """All steps, those in blocks as well."""
    return [one for step in found.definition["steps"] for one in (step, *inside(step))]


def is_whole(source: dict[str, Any]) -> Imported:
    """Import a graph; every node of it is a step, and what an edge leads to stands where it leads, or both stand in one block."""
    found = imported(source)
    definition = canonical_document(found.definition)
    assert [finding for finding in definition_findings(found.definition) if finding.severity == "error"] == []
    compile_definition(definition)
    shape = shaped(definition["steps"], "ports")
    assert list(shape.entries) == [definition["steps"][0]["id"]]
    assert len({step["id"] for step in whole(found)}) == len(whole(found))
    holder = {one["id"]: step["id"] for step in definition["steps"] for one in (step, *inside(step))}
    after = {(edge.source, edge.target) for edge in shape.edges}
    for nodes, edges in parts(source):
        assert {found.ids[one["id"]] for one in nodes if one["kind"] != "loop" or one["body"]} <= set(holder)
        for edge in edges:
            one, other = holder[found.ids[edge["from"]]], holder[found.ids[edge["to"]]]
            inner = {
                holder[found.ids[name]] for node in nodes if node["id"] == edge["to"] and node["kind"] == "loop" for name in [node["body"]["nodes"][0]["id"]]
            }
            assert one == other or (one, other) in after or any((one, first) in after for first in inner), f"{edge} leads nowhere"
    return found


def parts(source: dict[str, Any]) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """The nodes and edges of a graph, and of the bodies in it."""
    return [(source["nodes"], source["edges"]), *(part for one in source["nodes"] if one.get("body") for part in parts(one["body"]))]


def is_passable(found: Imported) -> list[DefinitionPrediction]:
    """Read it in worlds in which it goes other ways until it went every way: all work was done, and every port of every branch was taken."""
    definition = canonical_document(found.definition)
    work = {step["id"] for step in whole(found) if WORK & set(step)}
    for cut, off in ALWAYS_CUT_OFF.items():
        work -= off if cut in holder_names(found) else set()
    untaken, predictions = {branch: set(ports) for branch, ports in found.ports.items()}, list[DefinitionPrediction]()
    for script in scripts(found, WORLDS):
        predictions.append(predict(definition, script))
        for one in predictions[-1].facts.ran:
            work.discard(one.step)
            if isinstance(one.result, dict) and one.step in untaken:
                untaken[one.step].discard(one.result["taken"])
        if not work and not any(untaken.values()):
            return predictions
    pytest.fail(f"in {WORLDS} worlds {sorted(work)} never ran, and never taken were {[(branch, ports) for branch, ports in untaken.items() if ports]}")


def holder_names(found: Imported) -> set[str]:
    """The ids of all steps."""
    return {step["id"] for step in whole(found)}


@pytest.mark.parametrize("name", SMALL)
def test_a_graph_is_read_whole_and_every_way_through_it_can_be_gone(name: str) -> None:
    found = is_whole(SMALL[name])
    statuses = Counter(prediction.facts.status for prediction in is_passable(found))
    assert set(statuses) <= {"completed", "failed"}


def test_a_loop_in_the_source_is_a_cycle_with_a_bound() -> None:
    (cycle,) = shaped(imported(POLLING).definition["steps"], "ports").cycles
    assert (cycle.head, cycle.members) == ("Wait_30_s", frozenset(("Wait_30_s", "Done")))


def test_ids_are_such_as_steps_may_have() -> None:
    ids = imported(APPROVERS).ids
    assert (ids["Both.join"], ids["index"], ids["item"]) == ("Both_join", "index_", "item_")


@pytest.mark.real
@pytest.mark.skipif(not DATA.exists(), reason=f"there are no input files in {DATA}")
@pytest.mark.parametrize("name", COUNTS)
def test_each_real_graph_is_read_whole_and_every_way_through_it_can_be_gone(name: str) -> None:
    graphs = read(DATA / f"{name}.jsonl")
    assert len(graphs) == COUNTS[name]
    for source in graphs:
        is_passable(is_whole(source))
