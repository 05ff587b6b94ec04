"""Renders the catalog as text: lists of definitions, one definition with a version, its history, and what a sync does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from perdure.cli import terminal_text
from perdure.cli.plain_text import TextCell, TextTable, cell
from perdure.service.catalog import CatalogDefinition, VersionDetails
from perdure.service.catalog_records import CatalogEvent
from perdure.service.catalog_sync import SyncResult
from perdure.service.code_workflows import ListedCodeWorkflow


def definition_table(found: Sequence[CatalogDefinition | ListedCodeWorkflow]) -> TextTable:
    """Definitions and workflows of code, a row each."""
    return TextTable(("SLUG", "VERSION", "STATE", "TAGS", "NAME"), tuple(_row(one) for one in found))


def _row(one: CatalogDefinition | ListedCodeWorkflow) -> tuple[TextCell, ...]:
    if isinstance(one, ListedCodeWorkflow):
        return cell(one.slug, "strong"), TextCell(str(one.version)), TextCell("code"), TextCell(""), TextCell("")
    tags = ", ".join((*one.tags, *(f":{tag} {named.version}" for tag, named in one.version_tags.items())))
    return cell(one.slug, "strong"), TextCell(one.version), TextCell(_state(one), "" if one.enabled else "warn"), cell(tags), cell(one.name)


def _state(one: CatalogDefinition) -> str:
    drafts = ["draft"] if one.has_draft else []
    return ", ".join([*([] if one.version == "" and drafts else ["enabled" if one.enabled else "disabled"]), *drafts])


def definition_lines(one: CatalogDefinition, version: VersionDetails | None) -> Iterator[str]:
    """A definition, and one of its versions if it has any."""
    yield terminal_text.clean(f"{one.slug}  {one.name}")
    facts = [
        ("about", one.description),
        ("state", _state(one)),
        ("current", one.version),
        ("tags", ", ".join(one.tags)),
        ("versions", ", ".join(f"{tag} {named.version}" for tag, named in one.version_tags.items())),
        ("file", one.owner),
        ("changed", f"{terminal_text.utc_time(one.updated_at_s)} UTC by {one.updated_by}"),
    ]
    if version is not None:
        facts += [
            ("shown", f"{version.version}, {version.hash}"),
            ("published", f"{terminal_text.utc_time(version.at_s)} UTC by {version.by} ({version.source}){f': {version.note}' if version.note else ''}"),
            ("dialect", version.dialect),
        ]
    for what, text in facts:
        if text:
            yield f"  {what:<10} {terminal_text.clean(text)}"


def event_table(found: Sequence[CatalogEvent]) -> TextTable:
    """Entries of a history, a row each."""
    return TextTable(("WHEN", "WHAT", "VERSION", "BY", "NOTE"), tuple(_event_row(one) for one in found))


def _event_row(one: CatalogEvent) -> tuple[TextCell, ...]:
    what = {"tag": f"tag {one.tag}", "untag": f"untag {one.tag}", "edit": f"edit {', '.join(one.changed)}"}.get(one.kind, one.kind)
    return TextCell(terminal_text.utc_time(one.at_s)), cell(what), TextCell(one.version), cell(one.by), cell(one.note)


def sync_lines(found: SyncResult) -> Iterator[str]:
    """What a sync has done or would do: a line for each definition that changes, and a summary."""
    for one in found.items:
        if one.outcome != "unchanged":
            yield f"{one.outcome}  {one.slug}  {f'{one.from_version} → ' if one.from_version else ''}{one.version}"
    for slug in found.deleted:
        yield f"deleted  {slug}"
    counts: dict[Any, int] = {}
    for one in found.items:
        counts[one.outcome] = counts.get(one.outcome, 0) + 1
    counted = ", ".join(f"{count} {outcome}" for outcome, count in [*counts.items(), *([("deleted", len(found.deleted))] if found.deleted else [])])
    yield f"{'' if found.applied else 'dry run, nothing was changed: '}{counted or 'no definitions'}"
