"""Tools that find what definitions are made of: kinds of steps, tools that engines have, and workflows that can be called."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from typing import Any

from perdure.mcp_server.composed_tools import ComposedTool
from perdure.mcp_server.model_tools import ModelAnswer, ToolHints
from perdure.mcp_server.operation_requests import OperationRequests
from perdure.mcp_server.tool_arguments import TEXT, count_of, object_schema, refused_argument
from perdure.operations import on_catalog, on_kinds

FOUND_MAX = 50
WORDS = re.compile(r"[^\W_]+")
FILLERS = frozenset("a an and by for from in into is it of on or that the this to with".split())  # noqa: SIM905  # a line reads better
WEIGHTS = (8.0, 3.0, 1.0)
"""What a word counts that is in the name, in the title, or in the rest."""


async def _search(requests: OperationRequests, given: Mapping[str, Any]) -> ModelAnswer:
    query, limit = given["query"], count_of("limit", given.get("limit"), 10, FOUND_MAX) or 1
    kinds, tools, workflows = await asyncio.gather(requests(on_kinds.kinds, {}), requests(on_kinds.tools, {}), _workflows(requests))
    candidates = [*_kinds(kinds), *_tools(tools), *workflows]
    words = _words(query)
    scored = sorted(((_score(one, words), one) for one in candidates), key=lambda pair: (-pair[0], pair[1]["name"]))
    found = [one for score, one in scored if score > 0 or not words]
    shown = found[:limit]
    next_step = "A definition uses them as `use` shows. get_step_kind reads all about a kind, get_workflow about a workflow."
    if not shown:
        next_step = "Nothing has these words. Search for others, or with an empty query for all."
    return ModelAnswer({"items": shown, "found": len(found), "searched": len(candidates)}, next_step)


def _score(one: Mapping[str, Any], words: list[str]) -> float:
    """Returns how well something fits: the sum for each word of the best place that has it, or a word with the same beginning."""
    places = [_words(str(one["name"])), _words(str(one.get("title", ""))), _words(f"{one.get('summary', '')} {one['sort']}")]
    return sum(max((weight * _likeness(word, other) for place, weight in zip(places, WEIGHTS, strict=True) for other in place), default=0.0) for word in words)


def _words(text: str) -> list[str]:
    return [word for word in (found.casefold() for found in WORDS.findall(text)) if word not in FILLERS]


def _likeness(word: str, other: str) -> float:
    """Returns 1 for the same word, less for one with the same beginning, such as approval and approve, and else 0."""
    if word == other:
        return 1.0
    same = next((number for number, (one, its) in enumerate(zip(word, other, strict=False)) if one != its), min(len(word), len(other)))
    return 0.5 if same >= 3 and same >= 0.6 * max(len(word), len(other)) else 0.0


def _kinds(found: Any) -> Iterator[dict[str, Any]]:
    for one in found["items"]:
        needs = "" if one["ready"] else f"; it needs the extra {one['extra']}, which is not installed in the server"
        yield {"sort": "kind of step", "name": one["name"], "title": one["title"], "summary": f"{one['summary']}{needs}", "use": one["snippet"]}


def _tools(found: Any) -> Iterator[dict[str, Any]]:
    for one in found["items"]:
        version = f"version {one['version']}, " if one.get("version") else ""
        yield {
            "sort": "tool",
            "name": one["name"],
            "summary": f"{version}on {len(one['engines'])} engines",
            "use": {"id": "call", "tool": one["name"], "with": {}},
        }


async def _workflows(requests: OperationRequests) -> list[dict[str, Any]]:
    found = await requests(on_catalog.page, {"limit": 500})
    definitions = [
        {
            "sort": "workflow",
            "name": one["slug"],
            "title": one["name"],
            "summary": f"{one['description']} {' '.join(one['tags'])}".strip(),
            "use": {"id": "call", "call": one["slug"], "with": {}},
        }
        for one in found["items"]
        if one["version"]
    ]
    code = [
        {"sort": "workflow", "name": one["slug"], "summary": "a workflow of code", "use": {"id": "call", "call": one["slug"], "with": {}}}
        for one in found.get("code", ())
    ]
    return [*definitions, *code]


async def _get_kind(requests: OperationRequests, given: Mapping[str, Any]) -> ModelAnswer:
    found = await requests(on_kinds.kinds, {})
    by_name = {one["name"]: one for one in found["items"]}
    if (kind := by_name.get(given["name"])) is None:
        raise refused_argument("name", f"there is no such kind of step. There are {', '.join(sorted(by_name))}")
    return ModelAnswer({name: value for name, value in kind.items() if name not in ("form", "icon")})


SEARCH_TOOLS = ComposedTool(
    "search_tools",
    _search,
    "Finds what a definition can be made of: kinds of steps (http, approve, …), tools that engines have, and workflows to call; each with how to use it.",
    {"query": "wait for an approval", "limit": 5},
    functions=(on_kinds.kinds, on_kinds.tools, on_catalog.page),
    schema=object_schema(
        {
            "query": {**TEXT, "description": "Words for what the step should do; empty for all."},
            "limit": {"type": "integer", "default": 10, "description": f"The most that is shown, up to {FOUND_MAX}."},
        },
        ["query"],
    ),
    hints=ToolHints(True, True),
)

GET_STEP_KIND = ComposedTool(
    "get_step_kind",
    _get_kind,
    "Reads all about a kind of step: the JSON Schemas of its config, input and output, its limits, and an example.",
    {"name": "approve"},
    functions=(on_kinds.kinds,),
    schema=object_schema({"name": {**TEXT, "description": "The name of the kind, from search_tools."}}, ["name"]),
    hints=ToolHints(True, True),
)
