"""Completes a fragment of a document, a lone node, step or condition, to one that can run.

Each name that the fragment refers to and lacks becomes a step that calls the tool ECHO, which returns its input; before the first step, that is the input of
the execution.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from perdure.core.errors import BadExpression
from perdure.definitions.expr import condition, template
from perdure.definitions.expr.references import ROOTS
from perdure.definitions.format.shape_check import ShapeCheck
from perdure.definitions.format.shapes import ConditionShape, IdShape
from perdure.definitions.format.step_tree import placed_steps
from perdure.dialects import detected_dialect
from perdure.dialects.foreign_document import Document

ECHO = "ECHO"

_IN_CONDITION = re.compile(r"""\bctx(?:\.([A-Za-z_]\w*)|\["([^"]+)"\]|\['([^']+)'\])""")
_IN_VALUE = re.compile(r"""\$nodes(?:\.([\w-]+)|\["([^"]+)"\]|\['([^']+)'\])""")
_REF_DAG_REFERENCE = re.compile(r"@([A-Za-z_][\w-]*)")


def complete_fragment(document: Document) -> Document:
    """Completes a fragment to a document; a complete document is returned unchanged."""
    whole = _whole(document)
    match detected_dialect(whole):
        case "ref_dag":
            return _completed_ref_dag(whole)
        case "token_graph":
            return _completed_token_graph(whole)
        case None if "perdure" in whole:
            return _completed(whole)
        case _:
            return whole


def _whole(document: Document) -> Document:
    match document:
        case {"perdure": _, "when": found}:
            rules = [{"when": found, "to": "holds"}, {"to": "fails"}]
            steps = [{"id": "checked", "tool": ECHO, "with": "@input", "next": rules}, *({"id": name, "tool": ECHO} for name in ("holds", "fails"))]
            return {"perdure": 1, "name": "checked", "order": "ports", "steps": steps}
        case {"nodes": _} | {"steps": _} | {"perdure": _}:
            return document
        case {"when": _, **others} if not others:
            return {"title": "checked", "steps": [{"name": "checked", "action": {"toolName": ECHO}, "input": "@input", **document}]}
        case {"action": _}:
            return {"title": "checked", "steps": [document]}
        case {"condition": found, **others} if not others:
            branch = {"rules": [{"condition": found, "next_nodes": ["holds"]}], "default": ["fails"]}
            return {"nodes": [{"id": "checked", "type": "task", "config": {"action": ECHO}, "branch": branch}]}
        case {"loop": dict(loop), **others} if not others:
            return {"nodes": [{"id": "checked", "type": "task", "config": {"action": ECHO}, "loop": loop}]}
        case {"node_id": _} | {"dependencies": _} | {"dependents": _} | {"type": "task" | "agent" | "human"}:
            return {"nodes": [document]}
        case {"type": _}:
            return {"steps": [document]}
    return document


def _completed_ref_dag(document: Document) -> Document:
    steps = [step for step in document["steps"] if isinstance(step, dict)]
    known = {step.get("name") for step in steps} | {"input", "item", "index", "ctx"}
    asked = [name for step in steps for name in _found(_REF_DAG_REFERENCE, [step.get("input"), step.get("when"), step.get("forEach"), step.get("bail")])]
    missing = [name for name in dict.fromkeys(asked) if name not in known]
    return {**document, "steps": [*({"name": name, "action": {"toolName": ECHO}, "input": "@input"} for name in missing), *document["steps"]]}


def _completed_token_graph(document: Document) -> Document:
    """The nodes that others depend on lead to them; those that are only read come before all; those that are only led to come last."""
    if isinstance(document["nodes"], dict):
        return document
    nodes = [node for node in document["nodes"] if isinstance(node, dict)]
    known = {_id(node) for node in nodes}
    before: dict[str, list[str]] = {}
    for node in nodes:
        for name in node.get("dependencies", []):
            before.setdefault(name, []).append(_id(node))
    before = {name: dependents for name, dependents in before.items() if name not in known}
    after = [name for node in nodes for name in _leads_to(node)] + [edge["to"] for edge in document.get("edges", [])]
    read = [name for node in nodes for name in (*_read_by(node), *_found(_IN_VALUE, [node.get("config")]))]
    earlier = [name for name in dict.fromkeys(read) if name not in known and name not in before]
    later = [name for name in dict.fromkeys(after) if name not in known and name not in before and name not in earlier]
    led_to = {name for names in before.values() for name in names} | {*after}
    first = [*before, *(one for one in map(_id, nodes) if one not in led_to)]
    added = [_echo(name, dependents) for name, dependents in before.items()]
    for name in reversed(earlier):
        added.insert(0, _echo(name, first))
        first = [name]
    return {**document, "nodes": [*added, *document["nodes"], *(_echo(name, []) for name in later)]}


def _echo(name: str, dependents: list[str]) -> Document:
    return {"id": name, "type": "task", "config": {"action": ECHO}, "dependents": dependents}


def _id(node: Document) -> str:
    return str(node.get("id") or node.get("node_id"))


def _leads_to(node: Document) -> Iterator[str]:
    branch, loop = node.get("branch", {}), node.get("loop", {})
    for rule in branch.get("rules", []):
        yield from rule.get("next_nodes", [])
    for holder, field in ((node, "dependents"), (branch, "default"), (branch, "available_next_nodes"), (loop, "break_path"), (loop, "timeout_path")):
        yield from holder.get(field, [])
    yield from node.get("rejection_path", [])


def _read_by(node: Document) -> Iterator[str]:
    """The nodes whose output the conditions of a node look at."""
    conditions = [rule.get("condition") for rule in node.get("branch", {}).get("rules", [])] + [node.get("loop", {}).get("condition")]
    yield from _found(_IN_CONDITION, conditions)
    yield from (str(value["node"]) for value in _mappings(conditions) if value.get("source") == "context" and "node" in value)


def _completed(document: Document) -> Document:
    """The same for a definition in the format's own shape."""
    known = {one.id for one in placed_steps(document)} | ROOTS
    asked: list[str] = []
    led_to: list[str] = []
    fit = ShapeCheck(document)
    fit.walk()
    for found in fit.expressions:
        if isinstance(found.shape, IdShape):
            led_to.append(found.value)
        else:
            asked.extend(_reads(found.value, isinstance(found.shape, ConditionShape)))
    named = {each[field] for one in placed_steps(document) if isinstance(each := one.step.get("each"), dict) for field in ("as", "index") if field in each}
    before = [name for name in dict.fromkeys(asked) if name not in known and name not in named]
    after = [name for name in dict.fromkeys(led_to) if name not in known and name not in before]
    steps = list(document["steps"])
    first: list[Document] = [{"id": name, "tool": ECHO, "with": "@input"} for name in before]
    if document.get("order") == "ports":
        ids = [step["id"] for step in (*first, *steps[:1])]
        first = [{**step, "next": ids[index + 1]} if index + 1 < len(ids) else step for index, step in enumerate(first)]
    return {**document, "steps": [*first, *steps, *({"id": name, "tool": ECHO} for name in after)]}


def _reads(value: Any, is_condition: bool) -> Iterator[str]:
    try:
        reads = condition.compile_condition(value).reads if is_condition else template.compile_template(value).reads
    except BadExpression:
        return
    yield from (read.step for read in sorted(reads, key=str) if read.step)


def _found(pattern: re.Pattern[str], values: Iterable[Any]) -> Iterator[str]:
    """Yields the matches of a pattern in all text of some values."""
    for value in values:
        match value:
            case str():
                yield from (next(filter(None, found.groups())) for found in pattern.finditer(value))
            case list():
                yield from _found(pattern, value)
            case dict():
                yield from _found(pattern, value.values())


def _mappings(value: Any) -> Iterator[Document]:
    match value:
        case dict():
            yield value
            for item in value.values():
                yield from _mappings(item)
        case list():
            for item in value:
                yield from _mappings(item)
