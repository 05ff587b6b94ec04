"""Reads text or data, in the native format or any dialect, as a valid definition with its canonical form and hash."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from perdure import dialects
from perdure.core.errors import BadDefinition
from perdure.definitions.format.canonical_form import canonical_document, definition_hash
from perdure.definitions.format.definition_findings import DefinitionFinding
from perdure.definitions.format.document_parser import parse_document
from perdure.definitions.format.validator import definition_findings, with_position


class ReadDefinition(msgspec.Struct, frozen=True):
    """A definition that was read. `received` is the text or data as it came, `document` what was read from it in the shape of the format.

    `canonical` is its canonical form and `hash` the hash of that; `dialect` is the shape that it came in, empty for the format's own; `findings` are warnings.
    """

    received: Any
    document: dict[str, Any]
    canonical: dict[str, Any]
    hash: str
    dialect: str = ""
    findings: tuple[DefinitionFinding, ...] = ()


ExtraCheck = Callable[[dict[str, Any]], Iterable[DefinitionFinding]]
"""A further check of a document that is valid so far."""


def read_definition(text_or_data: Any, name: str = "", blobs: Mapping[str, Any] | None = None, more: ExtraCheck = lambda document: ()) -> ReadDefinition:
    """Reads a definition: YAML or JSON, as text or as data; `name` is the default name.

    `blobs` holds what references to content stand for, in the dialect that has some (``cas://…``); `more` finds what else is wrong.

    Raises:
        BadDefinition: it is not valid; its `findings` are all that is wrong with it.
    """
    text = parse_document(text_or_data)
    if text.findings:
        raise BadDefinition(text.findings)
    document, is_own, findings = text.document, True, list[DefinitionFinding]()
    foreign = dialects.read_foreign(document, blobs, name)
    if foreign is not None:
        findings = _without_errors([with_position(finding, text.positions) for finding in foreign.findings])
        document, is_own = foreign.document, False
    if isinstance(document, dict) and name and "name" not in document:
        document = {"name": name} | document
    for found_wrong in (definition_findings(document), more(document)):  # where things stand is looked for only if something is to be told
        findings += _without_errors([with_position(finding, text.positions) if is_own else finding for finding in found_wrong])
    found = canonical_document(document)
    return ReadDefinition(text_or_data, document, found, definition_hash(found), found.get("dialect", ""), tuple(findings))


def _without_errors(findings: list[DefinitionFinding]) -> list[DefinitionFinding]:
    if any(finding.severity == "error" for finding in findings):
        raise BadDefinition(findings)
    return findings
