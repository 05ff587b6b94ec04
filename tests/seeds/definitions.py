"""What each example of a seed must come to: a definition in which nothing is wrong, and which compiles."""

from typing import Any

from perdure.programs.format.canonical import canonical
from perdure.programs.format.check import checked
from perdure.programs.format.compile import compiled
from perdure.programs.format.dialects import read
from perdure.programs.format.dialects.fragments import completed
from perdure.programs.graph.ir import IR
from tests.seeds.examples import BLOBS, Example


def definition(example: Example) -> dict[str, Any]:
    """The definition that an example is; nothing in it is wrong."""
    document = completed(example.document) if example.is_fragment else example.document
    found = read(document, BLOBS)
    definition = found.document if found else document
    errors = [str(one) for one in (*(found.findings if found else ()), *checked(definition)) if one.severity == "error"]
    assert not errors, errors
    return definition


def ir(example: Example) -> IR:
    """What an example compiles to."""
    return compiled(canonical(definition(example)))


def step(definition: dict[str, Any], id: str) -> dict[str, Any]:
    """A step of the definition's own list, without its id."""
    (found,) = (one for one in definition["steps"] if one["id"] == id)
    return {name: value for name, value in found.items() if name != "id"}
