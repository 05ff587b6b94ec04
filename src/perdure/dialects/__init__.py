"""Dialects: the document formats of other systems, recognized by the document alone, read as definitions and written again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perdure.definitions.expr.plain_values import DEPTH_MAX, nests_deeper
from perdure.dialects.foreign_document import UNTITLED, Dialect, FindingCollector, ForeignDefinition, WrittenDocument
from perdure.dialects.nested_steps import document_reader as nested_steps_reader
from perdure.dialects.port_graph import document_reader as port_graph_reader
from perdure.dialects.ref_dag import document_reader as ref_dag_reader
from perdure.dialects.token_graph import document_reader as token_graph_reader

__all__ = ["Dialect", "ForeignDefinition", "WrittenDocument", "detected_dialect", "read_foreign"]

_READERS: dict[Dialect, Callable[[Any], ForeignDefinition]] = {
    "ref_dag": ref_dag_reader.to_definition,
    "nested_steps": nested_steps_reader.to_definition,
    "port_graph": port_graph_reader.to_definition,
}
_REF_DAG_FIELDS = ("action", "forEach", "bail")


def detected_dialect(document: Any) -> Dialect | None:
    """Detects the dialect of a document; None if it is in the native format or in none that is known."""
    if not isinstance(document, dict) or "perdure" in document:
        return None
    if "workflowConfig" in document or "stepsConfig" in document:
        return "port_graph"
    if isinstance(document.get("nodes"), dict | list):
        return "token_graph"
    if "data" in document and ("slug" in document or "enabled" in document):
        return "nested_steps"
    if not isinstance(document.get("steps"), list):
        return None
    steps = [step for step in document["steps"] if isinstance(step, dict)]
    if any("stepSlug" in step for step in steps):
        return "port_graph"
    if any(isinstance(step.get("action"), dict) or any(name in step for name in _REF_DAG_FIELDS) for step in steps) or "input_schema" in document:
        return "ref_dag"
    if any("type" in step for step in steps) or any(name in document for name in ("constraints", "variables", "runtime", "slug")):
        return "nested_steps"
    return "ref_dag" if "title" in document else None


def read_foreign(document: Any, blobs: Mapping[str, Any] | None = None, name: str = "") -> ForeignDefinition | None:
    """Converts a document in one of the dialects to a definition; None if it is in none of them.

    `blobs` holds what references ``cas://…`` in it stand for; `name` is what it is called if it does not say so itself.
    """
    dialect = detected_dialect(document)
    if dialect is None:
        return None
    if nests_deeper(document, DEPTH_MAX):
        notes = FindingCollector(None)
        notes.error("too_deep", "", f"it nests more than {DEPTH_MAX} levels deep")
        return ForeignDefinition(dialect, {}, tuple(notes.findings))
    found = _READERS[dialect](document) if dialect != "token_graph" else token_graph_reader.to_definition(document, blobs, name)
    if name and found.document.get("name") == UNTITLED:
        found.document["name"] = name
    return found
