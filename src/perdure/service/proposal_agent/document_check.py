"""Checks a document as a proposal agent needs it: all findings with their lines. A tool that no running engine has is an error here."""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from perdure.core.errors import PerdureError
from perdure.definitions.format.canonical_form import definition_bytes
from perdure.definitions.format.definition_diff import definition_changes, render_changes
from perdure.definitions.format.definition_findings import DefinitionFinding, closest_name
from perdure.definitions.format.document_rights import widened_rights
from perdure.definitions.graph.ir import IR
from perdure.definitions.graph.plan import plan_of_definition
from perdure.definitions.graph.requirements import AGENT_VERBS, named_tools, requirements_of
from perdure.definitions.kinds.agents.built_in_tools import BUILT_IN_TOOLS
from perdure.definitions.kinds.kind_registry import KindRegistry
from perdure.dialects.definition_reader import ReadDefinition
from perdure.service.catalog import check_document, read_document
from perdure.service.definition_starts import release_of
from perdure.service.engine_tools import list_engine_tools
from perdure.service.store_access import StoreAccess

FINDINGS_SHOWN, CHANGES_SHOWN = 20, 60
TEXT_CHARACTERS_MAX = 500
DOCUMENT_CHARACTERS_MAX = 400_000

_QUOTED = re.compile(r"[`'\"]([\w.-]+)[`'\"]")


class ShownFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finding for a model: the number of its line (0: not known) and its text, what is wrong and what to do."""

    message: str
    severity: str = "error"
    line: int = 0
    text: str = ""
    suggestion: str = ""


class CheckedText(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was found in a document: how many errors and warnings, the first of them, what it changes, and which rights it widens."""

    errors: int = 0
    warnings: int = 0
    findings: tuple[ShownFinding, ...] = ()
    changes: tuple[str, ...] = ()
    widens_rights: tuple[str, ...] = ()
    slug: str = ""


async def check_text(access: StoreAccess, tenant: str, document: str, slug: str, *, present: str, tools: Iterable[str], words: str) -> CheckedText:
    """Checks a document. `present` is that of the current version (empty: none), `tools` are those of this process. A tool that the present document uses, or
    that the `words` name in quotes, need not be there.
    """
    if len(document) > DOCUMENT_CHARACTERS_MAX:
        return CheckedText(1, findings=(ShownFinding(f"the document has {len(document):,} characters; at most {DOCUMENT_CHARACTERS_MAX:,} are taken"),))
    if not document.strip():
        return CheckedText(1, findings=(ShownFinding("there is no document yet; pass the whole text as document"),))
    try:
        checked = await check_document(access, tenant, document.encode(), slug)
    except PerdureError as error:  # of its name, or of what it calls
        return CheckedText(1, findings=(ShownFinding(_cut(str(error))),))
    shown = [_shown(one, document.splitlines()) for one in checked.findings]
    if not checked.valid:
        return _counted(shown)
    read = await read_document(document.encode(), slug)
    old = await read_document(present.encode(), slug) if present else None
    known = {*tools, *await running_tools(access, tenant)}
    accepted = {*known, *_QUOTED.findall(words), *(() if old is None else (name for name, _ in _tools_of(old)))}
    shown += [ShownFinding(why, suggestion=near) for why, near in _unknown_tools(read, known, accepted)]
    before: Mapping[str, Any] = {} if old is None else old.canonical
    changes = await asyncio.to_thread(lambda: render_changes(definition_changes(dict(before), read.canonical)).splitlines())
    return msgspec.structs.replace(
        _counted(shown),
        changes=tuple(_cut(line) for line in changes[:CHANGES_SHOWN]),
        widens_rights=tuple(widened_rights(before, read.canonical)),
        slug=checked.slug,
    )


async def running_tools(access: StoreAccess, tenant: str) -> set[str]:
    """The names of the tools that running engines have for definitions of the catalog."""
    return {tool.name for tool in await list_engine_tools(access, tenant)}


def _unknown_tools(read: ReadDefinition, known: set[str], accepted: set[str]) -> Iterator[tuple[str, str]]:
    """What to say of each tool that is not accepted, with the known name that is most like it."""
    for name, step in dict.fromkeys(_tools_of(read)):
        if name in accepted:
            continue
        near = closest_name(name, known)
        there = f"did you mean {near!r}?" if near else f"there are {', '.join(sorted(known)[:30])}" if known else "there are no tools; use another kind of step"
        yield f"{step}: no running engine has a tool {name[:60]!r}; {there}", near


def _tools_of(read: ReadDefinition) -> Iterator[tuple[str, str]]:
    """The tools that a definition needs, each with its step. Functions and kinds are no tools."""
    ir, kinds = _ir(read), KindRegistry()
    for need in requirements_of(ir):
        if need.what == "tool" and not need.name.startswith("py:") and need.name not in kinds:
            yield need.name, need.id
    for node in ir.nodes:
        if node.kind in AGENT_VERBS and isinstance(node.config, Mapping):
            yield from ((name, node.id) for name in named_tools(node.config) if name not in kinds and name not in BUILT_IN_TOOLS)


def _ir(read: ReadDefinition) -> IR:
    canonical = definition_bytes(read.canonical)
    release = release_of(str(read.canonical["name"]), canonical)
    return plan_of_definition(release.sha256, {release.sha256: canonical}).ir


def _shown(one: DefinitionFinding, lines: list[str]) -> ShownFinding:
    text = lines[one.line - 1].strip() if 0 < one.line <= len(lines) else ""
    return ShownFinding(_cut(one.message), one.severity, one.line, _cut(text), one.suggestion)


def _counted(shown: list[ShownFinding]) -> CheckedText:
    errors = sum(one.severity == "error" for one in shown)
    first = sorted(shown, key=lambda one: one.severity != "error")[:FINDINGS_SHOWN]
    return CheckedText(errors, len(shown) - errors, tuple(first))


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS_MAX else f"{text[:TEXT_CHARACTERS_MAX]}…"
