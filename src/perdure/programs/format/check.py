"""The validator. It is total: whatever it is given, it answers with a list of findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.programs.format.finding import Finding
from perdure.programs.format.fit import FINDINGS_MAX, Fit
from perdure.programs.format.json_text import Spot
from perdure.programs.format.parse import unfit
from perdure.programs.format.references import References


def checked(document: Any, positions: Mapping[str, Spot] | None = None) -> list[Finding]:
    """All that is wrong with a document, errors first where they are; with `positions`, as the parser gives them, each with its line and column."""
    refused = unfit(document)
    if refused is not None:
        return [refused]
    fit = Fit(document)
    fit.walk()
    findings = list(fit.findings)
    if isinstance(document, dict):
        findings += References(document).findings(fit.expressions)
    return [_found(finding, positions or {}) for finding in findings[:FINDINGS_MAX]]


def _found(finding: Finding, positions: Mapping[str, Spot]) -> Finding:
    """The finding with the line and column of the nearest place around its pointer that is in the text."""
    pointer = finding.pointer
    while pointer and pointer not in positions:
        pointer = pointer.rpartition("/")[0]
    line, column = positions.get(pointer, (0, 0))
    return msgspec.structs.replace(finding, line=line, column=column) if line and not finding.line else finding
