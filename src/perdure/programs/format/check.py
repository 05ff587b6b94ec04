"""The validator. It is total: whatever it is given, it answers with a list of findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.programs.format import compile, triggers
from perdure.programs.format.canonical import canonical
from perdure.programs.format.finding import Finding, joined, parts, place
from perdure.programs.format.fit import FINDINGS_MAX, Fit
from perdure.programs.format.json_text import Spot
from perdure.programs.format.parse import unfit
from perdure.programs.format.references import References


def checked(document: Any, positions: Mapping[str, Spot] | None = None) -> list[Finding]:
    """All that is wrong with a document; with `positions`, as the parser gives them, each with its line and column.

    What a graph can have wrong is looked for only where everything else is right.
    """
    refused = unfit(document)
    if refused is not None:
        return [refused]
    fit = Fit(document)
    fit.walk()
    findings = list(fit.findings)
    if isinstance(document, dict):
        findings += References(document).findings(fit.expressions)
        findings += triggers.findings(document)
    if isinstance(document, dict) and not any(finding.severity == "error" for finding in findings):
        findings += _of_graph(document)
    return [located(finding, positions or {}) for finding in findings[:FINDINGS_MAX]]


def located(finding: Finding, positions: Mapping[str, Spot]) -> Finding:
    """The finding with the line and column of the nearest place around its pointer that is in the text."""
    pointer = finding.pointer
    while pointer and pointer not in positions:
        pointer = pointer.rpartition("/")[0]
    line, column = positions.get(pointer, (0, 0))
    return msgspec.structs.replace(finding, line=line, column=column) if line and not finding.line else finding


def _of_graph(document: dict[str, Any]) -> list[Finding]:
    """What compiling finds, told of the document as it was written."""
    spelled_out = canonical(document)
    found = []
    for finding in compile.findings(spelled_out):
        pointer = _written(document, finding.pointer)
        there, here = place(spelled_out, finding.pointer), place(document, pointer)
        message = here + finding.message.removeprefix(there) if finding.message.startswith(f"{there}:") else finding.message
        found.append(msgspec.structs.replace(finding, pointer=pointer, message=message))
    return found


def _written(document: Any, pointer: str) -> str:
    """Where what stands at `pointer` of the canonical form stands in the document, in which sugar is not spelled out."""
    found = ""
    for part in parts(pointer):
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list) and part.isdecimal() and int(part) < len(document):
            document = document[int(part)]
        else:
            continue
        found = joined(found, part)
    return found
