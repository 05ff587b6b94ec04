"""The one way in: text or data of any shape that is known, to a definition that is valid, in its canonical form and with its hash."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from perdure.core.errors import BadDefinition
from perdure.programs.format import dialects
from perdure.programs.format.canonical import canonical, hash_of
from perdure.programs.format.check import checked, located
from perdure.programs.format.finding import Finding
from perdure.programs.format.parse import parsed


class Definition(msgspec.Struct, frozen=True):
    """A definition that was read. `received` is the text or data as it came, `document` what was read from it in the shape of the format.

    `canonical` is its canonical form and `hash` the hash of that; `dialect` is the shape that it came in, empty for the format's own; `findings` are warnings.
    """

    received: Any
    document: dict[str, Any]
    canonical: dict[str, Any]
    hash: str
    dialect: str = ""
    findings: tuple[Finding, ...] = ()


More = Callable[[dict[str, Any]], Iterable[Finding]]
"""What else is to be found wrong with a document that is valid so far."""


def read(text_or_data: Any, name: str = "", blobs: Mapping[str, Any] | None = None, more: More = lambda document: ()) -> Definition:
    """Read a definition: YAML or JSON, as text or as data; `name` is what it is called if it does not say so itself.

    `blobs` holds what references to content stand for, in the dialect that has some (``cas://…``); `more` finds what else is wrong.

    Raises:
        BadDefinition: it is not valid; its `findings` are all that is wrong with it.
    """
    text = parsed(text_or_data)
    if text.findings:
        raise BadDefinition(text.findings)
    document, is_own, findings = text.document, True, list[Finding]()
    foreign = dialects.read(document, blobs, name)
    if foreign is not None:
        findings = _without_errors([located(finding, text.positions) for finding in foreign.findings])
        document, is_own = foreign.document, False
    if isinstance(document, dict) and name and "name" not in document:
        document = {"name": name} | document
    for found_wrong in (checked(document), more(document)):  # where things stand is looked for only if something is to be told
        findings += _without_errors([located(finding, text.positions) if is_own else finding for finding in found_wrong])
    found = canonical(document)
    return Definition(text_or_data, document, found, hash_of(found), found.get("dialect", ""), tuple(findings))


def _without_errors(findings: list[Finding]) -> list[Finding]:
    if any(finding.severity == "error" for finding in findings):
        raise BadDefinition(findings)
    return findings
