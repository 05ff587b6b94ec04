"""Handover: nodes of the type `migration`, at which an execution goes on in another version of its workflow.

Three steps stand for one: its transform, source text in a sandbox, makes the input of the other version out of what there is so far, ``{input, results,
from_version, to_version}``; a call has the other version do the rest; a return has its result be the result of all. So what stands in the log pins which
version it was, a failure there undoes what was done here, and wherever its process is killed the other version runs once. Without a transform it is given the
input that the execution was given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from perdure.programs.format.dialects.contents import SCHEME, Contents
from perdure.programs.format.dialects.reading import Fields, Names, without_nothing
from perdure.programs.format.dialects.routes004 import Routed
from perdure.programs.format.dialects.spelling import whole

MIGRATION = "migration"
VERSION = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?")

_PYTHON = re.compile(r"^\s*(?:async\s+)?def\s+main\s*\(", re.MULTILINE)

Document = dict[str, Any]


def handed_over(config: Fields, before: Iterable[str], contents: Contents) -> Document:
    """What a node of this type does itself: it makes the other version's input, of what the execution was given and what the nodes `before` it came to."""
    versions = {name: config.text(name) for name in ("from_version", "to_version")}
    for name, version in versions.items():
        if not VERSION.fullmatch(version) and (version or name == "to_version"):
            config.notes.error("bad_version", config.at(name), f"expected a version such as 2.0, found {version[:40]!r}")
    if versions["to_version"] and versions["to_version"] == versions["from_version"]:
        config.notes.error("same_version", config.at("to_version"), "it goes on in another version; in its own it would come here again and again")
    given = {"input": "@input", "results": {id: f"{whole(id)}?" for id in before}, **without_nothing(versions)}
    source = _source(config, contents)
    config.left()
    return {**source, "with": given} if source else {"do": []}


def _source(config: Fields, contents: Contents) -> Document:
    """The transform by its language; nothing if there is none."""
    given = config.text("transform")
    if given.startswith(SCHEME):
        given = contents.find(given, config.at("transform"), (str,), "a source text") or ""
    return {("python" if _PYTHON.search(given) else "ts"): given} if given else {}


def routed(node: Fields, called: str, name: str, names: Names, leads_to: tuple[str, ...]) -> Routed:
    """How a node of this type goes on: by the call of the other version of the workflow `name`, and the return. It leads nowhere else."""
    config = node.inside("config") or Fields({}, node.at("config"), node.notes)
    if leads_to:
        text = f"the execution goes on in another version here, so this can't lead to {leads_to[0][:60]!r}: put that into the other version"
        node.notes.error("unsupported", node.pointer, text)
    call, end = names.free(f"{called}_to"), names.free(f"{called}_end")
    reading = whole(called) if config.text("transform") else "@input"
    added = ({"id": call, "call": f"{name}@{config.text('to_version')}", "with": reading, "next": end}, {"id": end, "return": whole(call)})
    return Routed({"next": call}, (), added=added, is_terminal=True)


def version_before(nodes: Mapping[str, Fields]) -> str:
    """The version that the document is of, as its nodes of this type say; empty if none does."""
    for node in nodes.values():
        config = node.value.get("config")
        if node.value.get("type") == MIGRATION and isinstance(config, dict) and (found := VERSION.fullmatch(str(config.get("from_version", "")))):
            return ".".join(part or "0" for part in found.groups())
    return ""


def written_from(definition: Document) -> Iterator[tuple[str, Document, tuple[str, str]]]:
    """Of each handover in a definition: the id of its step, the node's config, and the ids of the steps behind it."""
    steps = {step["id"]: step for step in definition["steps"]}
    for step in definition["steps"]:
        call = steps.get(_only(step.get("next")), {})
        end = steps.get(_only(call.get("next")), {})
        name, _, to = str(call.get("call", "")).partition("@")
        if name != definition["name"] or "return" not in end or not to:
            continue
        given = step.get("with") or {}
        source = step.get("python") or step.get("ts")
        before = given.get("from_version") if source else None
        yield step["id"], without_nothing({"from_version": before, "to_version": to, "transform": source}), (call["id"], end["id"])


def _only(following: Any) -> str:
    match following:
        case str():
            return following
        case [str(one)]:
            return one
    return ""
