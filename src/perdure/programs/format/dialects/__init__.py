"""Dialects: documents of other shapes, read as definitions and written again. Which shape it is, is seen from the document alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perdure.programs.format.dialects import seed000, seed001, seed003, seed004
from perdure.programs.format.dialects.reading import UNTITLED, Dialect, Notes, Read, Written, deeper

__all__ = ["Dialect", "Read", "Written", "detected", "read"]

DEPTH_MAX = 64
_READERS: dict[Dialect, Callable[[Any], Read]] = {"000": seed000.to_definition, "001": seed001.to_definition, "003": seed003.to_definition}
_OF_000 = ("action", "forEach", "bail")


def detected(document: Any) -> Dialect | None:
    """The dialect that a document is in; None if its shape is the format's own, or none that is known."""
    if not isinstance(document, dict) or "perdure" in document:
        return None
    if "workflowConfig" in document or "stepsConfig" in document:
        return "003"
    if isinstance(document.get("nodes"), dict | list):
        return "004"
    if "data" in document and ("slug" in document or "enabled" in document):
        return "001"
    if not isinstance(document.get("steps"), list):
        return None
    steps = [step for step in document["steps"] if isinstance(step, dict)]
    if any("stepSlug" in step for step in steps):
        return "003"
    if any(isinstance(step.get("action"), dict) or any(name in step for name in _OF_000) for step in steps) or "input_schema" in document:
        return "000"
    if any("type" in step for step in steps) or any(name in document for name in ("constraints", "variables", "runtime", "slug")):
        return "001"
    return "000" if "title" in document else None


def read(document: Any, blobs: Mapping[str, Any] | None = None, name: str = "") -> Read | None:
    """The definition that a document in one of the dialects is; None if it is in none of them.

    `blobs` holds what references ``cas://…`` in it stand for; `name` is what it is called if it does not say so itself.
    """
    dialect = detected(document)
    if dialect is None:
        return None
    if deeper(document, DEPTH_MAX):
        notes = Notes(None)
        notes.error("too_deep", "", f"it nests more than {DEPTH_MAX} levels deep")
        return Read(dialect, {}, tuple(notes.findings))
    found = _READERS[dialect](document) if dialect != "004" else seed004.to_definition(document, blobs, name)
    if name and found.document.get("name") == UNTITLED:
        found.document["name"] = name
    return found
