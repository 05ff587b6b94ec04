"""Seed 003's shape in the real: the definitions of tale, as they stand there."""

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from perdure import Definition, Fatal, dialects
from perdure.definitions.format.canonical_form import canonical_document
from perdure.definitions.format.compiler import compile_definition
from perdure.definitions.graph.ir import IR
from perdure.dialects.definition_reader import read_definition
from perdure.dialects.port_graph.document_reader import to_definition
from perdure.dialects.port_graph.document_writer import from_definition
from perdure.testing import World

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
    assert dialects.detected_dialect(given(file)) == "port_graph"
    found = to_definition(given(file))
    assert {one.severity for one in found.findings} == {"warning"}
    assert {(one.code, one.pointer) for one in found.findings} == FOUND[file.stem]
    back = from_definition(found.document)
    assert back.findings == ()
    assert back.document == given(file)


@pytest.mark.parametrize("file", REAL, ids=lambda file: file.stem)
def test_a_real_definition_compiles_with_every_step_and_way_of_it(file: Path) -> None:
    document = given(file)
    graph = compile_definition(read_definition(document).canonical)
    assert {node.id for node in graph.nodes} == {step["stepSlug"] for step in document["steps"]}
    ways = {(step["stepSlug"], target) for step in document["steps"] for target in step["nextSteps"].values() if target != "noop"}
    assert edges(graph) == ways
    failures = {(step["stepSlug"], step["nextSteps"]["failure"]) for step in document["steps"] if "failure" in step["nextSteps"]}
    assert edges(graph, "error") == failures


def test_the_pages_of_customers_are_a_cycle_around_the_loop_over_each_page() -> None:
    document = next(given(file) for file in REAL if file.stem == "shopify-sync-customers")
    graph = compile_definition(canonical_document(to_definition(document).document))
    heads = {graph.nodes[region.head].id: region for region in graph.regions if region.kind == "cycle"}
    assert heads.keys() == {"fetch_customers", "loop_customers"}
    assert graph.regions[heads["loop_customers"].parent] is heads["fetch_customers"]
    assert edges(graph, "loop") == {("loop_customers", "query_existing_customer")}
    assert edges(graph, "done") == {("loop_customers", "check_has_next_page")}
    (turned,) = [node for node in graph.nodes if node.kind == "set"]
    assert turned.config == {"currentPage": "{{currentPage + 1}}", "nextPageInfo": "{{steps.fetch_customers.output.data.result.pagination.nextPageInfo}}"}


NUMBERS = count(1)


class Company:
    """The actions of the definitions, with the world in which they act: what was asked of it, and what it answers."""

    def __init__(self, answers: dict[str, Callable[[dict[str, Any]], Any]]) -> None:
        self.answers, self.asked = answers, list[str]()

    def tool(self, name: str) -> Callable[..., Any]:
        """An action of this type."""

        def act(**given: Any) -> Any:
            operation = given.get("operation", "")
            self.asked.append(operation)
            return self.answers[operation](given) if operation in self.answers else None

        return act

    def run(self, world: World, name: str) -> list[str]:
        """Run a definition; the operations that were asked for."""
        document = next(given(file) for file in REAL if file.stem == name)
        types = {step["config"]["type"] for step in document["steps"] if "type" in step["config"]} - {"set_variables"}
        document["name"] += f" {next(NUMBERS)}"
        world.start(Definition.of(document, tools={one: self.tool(one) for one in types})).result()
        return self.asked


def test_a_stale_conversation_is_archived_and_without_one_nothing_is_done(world: World) -> None:
    kept: dict[str, Any] = {}
    stale = {"_id": "c1", "subject": "s", "metadata": {"resolved_at": "2020-01-01"}}

    def find(asked: dict[str, Any]) -> Any:
        assert asked["filterExpression"].endswith("> 30")
        assert asked["backoffHours"] == 168
        return stale

    company = Company({"find_unprocessed": find, "update": kept.update, "record_processed": lambda asked: kept.update(record=asked)})
    assert company.run(world, "general-conversation-auto-archive") == ["find_unprocessed", "update", "record_processed"]
    assert (kept["conversationId"], kept["updates"]) == ("c1", {"status": "archived"})
    assert (kept["record"]["recordId"], kept["record"]["metadata"]["resolvedAt"], kept["record"]["metadata"]["staleDays"]) == ("c1", "2020-01-01", 30)
    assert Company({}).run(world, "general-conversation-auto-archive") == ["find_unprocessed"]


def test_a_document_is_uploaded(world: World) -> None:
    kept: dict[str, Any] = {}
    found = {"_id": "d1", "fileId": "f1", "title": "t", "mimeType": "text/plain"}
    company = Company({"find_unprocessed": lambda _: found, "upload_document": kept.update})
    assert company.run(world, "general-document-rag-sync") == ["find_unprocessed", "upload_document", "record_processed"]
    assert kept == {"operation": "upload_document", "fileId": "f1", "fileName": "t", "contentType": "text/plain"}


def test_a_file_is_synchronised_with_the_token_that_was_refreshed_and_failures_are_marked(world: World) -> None:
    found = {"_id": "s1", "userId": "u", "itemType": "file", "itemId": "i", "itemName": "n", "storagePrefix": "p"}
    tokens = list[str]()

    def read_file(asked: dict[str, Any]) -> Any:
        tokens.append(asked["token"])
        return {"content": "x", "mimeType": "text/plain"}

    answers: dict[str, Callable[[dict[str, Any]], Any]] = {
        "find_unprocessed": lambda _: found,
        "get_user_token": lambda _: {"token": None, "needsRefresh": True},
        "refresh_token": lambda _: {"token": "fresh"},
        "read_file": read_file,
    }
    way = ["find_unprocessed", "get_user_token", "refresh_token", "read_file", "upload_to_storage", "update_sync_config", "record_processed"]
    assert Company(answers).run(world, "onedrive-sync") == way
    assert tokens == ["fresh"]

    def refuse(asked: dict[str, Any]) -> Any:
        raise Fatal("refused")

    way = ["find_unprocessed", "get_user_token", "refresh_token", "update_sync_config", "record_processed"]
    assert Company({**answers, "refresh_token": refuse}).run(world, "onedrive-sync") == way


def test_customers_are_taken_page_by_page_each_once_and_no_further_than_the_pages_allowed(world: World) -> None:
    pages = {None: ([{"id": 1, "first_name": "A", "last_name": "B", "email": "e"}, {"id": 2}], "p2"), "p2": ([], "p3"), "p3": ([{"id": 3}], None)}
    made = list[Any]()

    def customers(asked: dict[str, Any]) -> Any:
        data, following = pages[asked["params"]["page_info"]]
        return {"result": {"data": data, "pagination": {"hasNextPage": following is not None, "nextPageInfo": following}}}

    answers: dict[str, Callable[[dict[str, Any]], Any]] = {
        "list_customers": customers,
        "query": lambda asked: {"items": [{"_id": "known"}] if asked["externalId"] == 2 else []},
        "create": lambda asked: made.append((asked["externalId"], asked["name"])),
        "update": lambda asked: made.append(asked["customerId"]),
    }
    way = Company(answers).run(world, "shopify-sync-customers")
    assert way == ["list_customers", "query", "create", "query", "update", "list_customers", "list_customers", "query", "create"]
    assert made == [(1, "A B"), "known", (3, " ")]
    endless = Company({"list_customers": lambda _: {"result": {"data": None, "pagination": {"hasNextPage": True, "nextPageInfo": "on"}}}})
    assert endless.run(world, "shopify-sync-customers") == ["list_customers"] * 21
