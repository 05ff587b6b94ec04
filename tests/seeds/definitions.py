"""What each example of a seed must come to: a definition in which nothing is wrong, and which compiles."""

from typing import Any

from perdure.definitions.format.canonical_form import canonical_document
from perdure.definitions.format.compiler import compile_definition
from perdure.definitions.format.validator import definition_findings
from perdure.definitions.graph.ir import IR
from perdure.dialects import read_foreign
from perdure.dialects.fragments import complete_fragment
from tests.seeds.examples import BLOBS, Example


def definition(example: Example) -> dict[str, Any]:
    """The definition that an example is; nothing in it is wrong."""
    document = complete_fragment(example.document) if example.is_fragment else example.document
    found = read_foreign(document, BLOBS)
    definition = found.document if found else document
    errors = [str(one) for one in (*(found.findings if found else ()), *definition_findings(definition)) if one.severity == "error"]
    assert not errors, errors
    return definition


def ir(example: Example) -> IR:
    """What an example compiles to."""
    return compile_definition(canonical_document(definition(example)))


def step(definition: dict[str, Any], id: str) -> dict[str, Any]:
    """A step of the definition's own list, without its id."""
    (found,) = (one for one in definition["steps"] if one["id"] == id)
    return {name: value for name, value in found.items() if name != "id"}
