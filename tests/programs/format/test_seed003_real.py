"""Seed 003's shape in the real: the definitions of tale, as they stand there."""

import json
from pathlib import Path
from typing import Any

import pytest

from perdure.programs.format import dialects
from perdure.programs.format.canonical import canonical
from perdure.programs.format.compile import compiled
from perdure.programs.format.dialects.seed003 import from_definition, to_definition
from perdure.programs.format.reading import read
from perdure.programs.graph.ir import IR

REAL = sorted((Path(__file__).parents[4] / "shared/data/tale").glob("*.json"))

pytestmark = [pytest.mark.real, pytest.mark.skipif(not REAL, reason="the definitions are not at hand")]

FOUND = {
    "general-conversation-auto-archive": {
        ("variable_overridden", "/config/variables/organizationId"),
        ("unread_variable", "/config/variables/workflowId"),
        ("unread_variable", "/steps/3/config"),
    },
    "general-document-rag-sync": {
        ("variable_overridden", "/config/variables/organizationId"),
        ("unread_variable", "/config/variables/includeMetadata"),
        ("unread_variable", "/config/variables/workflowId"),
    },
    "onedrive-sync": {
        ("variable_overridden", "/config/variables/organizationId"),
        ("unread_variable", "/config/variables/workflowId"),
        ("failure_not_led", "/steps/3/nextSteps"),
    },
    "shopify-sync-customers": {("variable_overridden", "/config/variables/organizationId"), ("unread_variable", "/steps/2/config")},
}
"""What is odd in each, and nothing else."""


def given(file: Path) -> dict[str, Any]:
    """The document."""
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def edges(graph: IR, port: str = "") -> set[tuple[str, str]]:
    """Its edges, or those of a port: from, to."""
    return {(graph.nodes[edge.source].id, graph.nodes[edge.target].id) for edge in graph.edges if port in ("", edge.port)}


@pytest.mark.parametrize("file", REAL, ids=lambda file: file.stem)
def test_a_real_definition_is_read_as_it_stands_and_written_back_the_same(file: Path) -> None:
    assert dialects.detected(given(file)) == "003"
    found = to_definition(given(file))
    assert {one.severity for one in found.findings} == {"warning"}
    assert {(one.code, one.pointer) for one in found.findings} == FOUND[file.stem]
    back = from_definition(found.document)
    assert back.findings == ()
    assert back.document == given(file)


@pytest.mark.parametrize("file", REAL, ids=lambda file: file.stem)
def test_a_real_definition_compiles_with_every_step_and_way_of_it(file: Path) -> None:
    document = given(file)
    graph = compiled(read(document).canonical)
    assert {node.id for node in graph.nodes} == {step["stepSlug"] for step in document["steps"]}
    ways = {(step["stepSlug"], target) for step in document["steps"] for target in step["nextSteps"].values() if target != "noop"}
    assert edges(graph) == ways
    failures = {(step["stepSlug"], step["nextSteps"]["failure"]) for step in document["steps"] if "failure" in step["nextSteps"]}
    assert edges(graph, "error") == failures


def test_the_pages_of_customers_are_a_cycle_around_the_loop_over_each_page() -> None:
    document = next(given(file) for file in REAL if file.stem == "shopify-sync-customers")
    graph = compiled(canonical(to_definition(document).document))
    heads = {graph.nodes[region.head].id: region for region in graph.regions if region.kind == "cycle"}
    assert heads.keys() == {"fetch_customers", "loop_customers"}
    assert graph.regions[heads["loop_customers"].parent] is heads["fetch_customers"]
    assert edges(graph, "loop") == {("loop_customers", "query_existing_customer")}
    assert edges(graph, "done") == {("loop_customers", "check_has_next_page")}
    (turned,) = [node for node in graph.nodes if node.kind == "set"]
    assert turned.config == {"currentPage": "{{currentPage + 1}}", "nextPageInfo": "{{steps.fetch_customers.output.data.result.pagination.nextPageInfo}}"}
