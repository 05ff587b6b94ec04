"""Compiles a canonical definition to the intermediate form, or reports the errors in it.

Steps become nodes, numbered in the order of the document. Lists of steps become regions of the same numbers, and cycles become the regions after those. The
value of a verb becomes `GraphNode.config` unchanged, with two exceptions: a block, whose steps are regions, and a call with options, which becomes
``{"target": ..., "wait": ..., "undo": ...}``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from perdure.code.durations import duration_seconds
from perdure.core.errors import BadDefinition, BadValue
from perdure.definitions.format.canonical_form import definition_hash
from perdure.definitions.format.control_flow import check_acyclic, check_effects, check_joins, check_reached, check_undo_bounds, find_step_loops
from perdure.definitions.format.definition_draft import DefinitionDraft
from perdure.definitions.format.definition_findings import DefinitionFinding, joined_pointer
from perdure.definitions.format.graph_loops import GraphLoops
from perdure.definitions.format.model import ROOTS, verbs_by_name
from perdure.definitions.format.shapes import is_computed
from perdure.definitions.format.step_edges import add_edges
from perdure.definitions.format.step_reads import check_output_names
from perdure.definitions.format.step_routes import ports_of_verb, ports_without_target
from perdure.definitions.format.step_tree import ListKind, StepSite
from perdure.definitions.graph.ir import (
    IR,
    EachOptions,
    GraphEdge,
    GraphLimits,
    GraphNode,
    GraphRegion,
    Join,
    OnFailure,
    RepeatOptions,
    RetryOptions,
    UndoOptions,
)


def place_regions(draft: DefinitionDraft, found: GraphLoops) -> tuple[tuple[GraphRegion, ...], tuple[GraphEdge, ...], list[int]]:
    """Returns the regions, the edges with their regions, and the innermost region of each node."""
    lists, heads = draft.outline.lists, sorted(found.heads)
    cycle_of = {head: len(lists) + number for number, head in enumerate(heads)}
    standing = [cycle_of.get(site.number) or cycle_of.get(found.head[site.number]) or site.list for site in draft.outline.sites]
    parents = [-1 if listing.owner < 0 else standing[listing.owner] for listing in lists]
    parents += [cycle_of.get(found.head[head], 0) for head in heads]
    depths = _depths(parents)
    edges = tuple(
        GraphEdge(
            source, target, port, _around(parents, depths, standing[source], standing[target]), is_back, draft.turns.get(number, 0) if is_back and port else 0
        )
        for number, (source, target, port) in enumerate(draft.edges)
        for is_back in [(source, target) in found.back]
    )
    nodes: list[list[int]] = [[] for _ in parents]
    for number, region in enumerate(standing):
        nodes[region].append(number)
    entries = _entries(draft, found, edges, cycle_of)
    regions = [
        GraphRegion("root" if owner < 0 else "body", parents[number], owner, tuple(nodes[number]), tuple(entries[number]))
        for number, owner in enumerate(listing.owner for listing in lists)
    ]
    iterations_max = _iterations_max(draft, found)
    regions += [GraphRegion("cycle", parents[cycle_of[head]], head, tuple(nodes[cycle_of[head]]), (head,), iterations_max.get(head, 0)) for head in heads]
    return tuple(regions), edges, standing


def _depths(parents: Sequence[int]) -> list[int]:
    """The nesting depth of each region. A region may come before the one that holds it."""
    depths = [-1] * len(parents)
    for region in range(len(parents)):
        way = [region]
        while depths[way[-1]] < 0 and parents[way[-1]] >= 0:
            way.append(parents[way[-1]])
        depth = max(depths[way[-1]], 0)
        for number, one in enumerate(reversed(way)):
            depths[one] = depth + number
    return depths


def _around(parents: Sequence[int], depths: Sequence[int], one: int, other: int) -> int:
    """The innermost region that holds both."""
    while one != other:
        if depths[one] >= depths[other]:
            one = parents[one]
        else:
            other = parents[other]
    return one


def _entries(draft: DefinitionDraft, found: GraphLoops, edges: Sequence[GraphEdge], cycle_of: dict[int, int]) -> list[list[int]]:
    """Returns the entry nodes of each list of steps; the head of a cycle is the entry of its region."""
    led_to: set[tuple[int, int]] = {(edge.region, edge.target) for edge in edges if not edge.back}
    entries: list[list[int]] = [[] for _ in draft.outline.lists]
    for site in draft.outline.sites:
        in_cycle = found.head[site.number] in cycle_of
        is_reached = site.list > 0 or not found.reached or found.reached[site.number]
        if is_reached and not in_cycle and (site.list, site.number) not in led_to:
            entries[site.list].append(site.number)
    return entries


def _iterations_max(draft: DefinitionDraft, found: GraphLoops) -> dict[int, int]:
    """Returns the bound on the iterations of each cycle by its head; cycles without a bound are left out."""
    turns: dict[int, int] = {}
    endless: set[int] = set()
    for number, (source, target, _) in enumerate(draft.edges):
        if (source, target) in found.back:
            turns[target] = max(turns.get(target, 0), draft.turns.get(number, 0))
            if number in draft.endless:
                endless.add(target)
    return {head: count for head, count in turns.items() if head not in endless}


BODIES: tuple[ListKind, ...] = ("then", "else", "do", "parallel", "race")


_COPIED_FIELDS = {
    "with": "input",
    "when": "when",
    "idempotent": "idempotent",
    "schema": "schema",
    "env": "env",
    "transform": "transform",
    "name": "name",
    "commit": "commit",
    "on_rejected": "on_rejected",
}
"""The modifiers that a node takes over unchanged."""


def compile_node(draft: DefinitionDraft, site: StepSite, region: int) -> GraphNode:
    """The node of a step in `region`. The lists of steps are the regions of the same numbers."""
    step, number = site.step, site.number
    fields: dict[str, Any] = {name: step[field] for field, name in _COPIED_FIELDS.items() if field in step}
    for field, make in _FIELD_COMPILERS.items():
        if field in step:
            fields[f"{field}_s" if field in ("timeout", "grace") else field] = make(draft, step[field], joined_pointer(site.pointer, field))
    if inner := draft.outline.inner.get(number):
        fields["bodies"] = tuple(inner[kind] for kind in BODIES if kind in inner)
    if "on_error" in step:
        fields["on_error"] = inner["on_error"] if inner and "on_error" in inner else "go_on" if step["on_error"] == "go_on" else "fail"
    if "repeat" in fields and number in draft.left_by_max and "on_max" not in step["repeat"]:
        fields["repeat"] = msgspec.structs.replace(fields["repeat"], on_max="go_on")
    if routes := draft.rules.get(number):
        fields["rules"] = routes
    if chosen := draft.choose.get(number):
        fields |= {"choose": chosen, "default": draft.default[number]}
    if (found := draft.port_maps.get(number)) is not None and site.verb == "task":
        fields["ended"] = (*found.ended, *(route.port for route in found.routes if route.port and not route.targets))
    return GraphNode(site.id, site.verb, region, _config(site), pointer=site.pointer, **fields)


def _config(site: StepSite) -> Any:
    """Returns the config of a node: the fields of a block except its steps; a call with options as a mapping of all of them."""
    value, step = site.value, site.step
    match site.verb:
        case "do":
            return None
        case "parallel" | "race":
            return {key: one for key, one in value.items() if key != "steps"} or None if isinstance(value, Mapping) else None
        case "call":
            more = {key: step[key] for key in ("wait", "undo") if isinstance(step.get(key), bool)}
            return {"target": value, **more} if more else value
    return value


def _join(draft: DefinitionDraft, join: Any, pointer: str) -> Join:
    if join in ("all", "any", "each") or (isinstance(join, int) and not isinstance(join, bool) and join > 0):
        return cast(Join, join)
    draft.error("wrong_type", pointer, f"expected all, any, each or a whole number from 1, found {join!r}")
    return "all"


def _each(draft: DefinitionDraft, each: Any, pointer: str) -> EachOptions:
    if not isinstance(each, Mapping):
        return EachOptions(each)
    on_error = each.get("on_error", "fail")
    return EachOptions(
        items=each.get("in"),
        name=str(each.get("as", "item")),
        index=str(each.get("index", "index")),
        concurrency=_whole(draft, each, "concurrency", pointer),
        batch=_whole(draft, each, "batch", pointer),
        max=_whole(draft, each, "max", pointer),
        on_error="null" if on_error is None else on_error,
        enough=_whole(draft, each, "enough", pointer),
    )


def _repeat(draft: DefinitionDraft, repeat: Mapping[str, Any], pointer: str) -> RepeatOptions:
    return RepeatOptions(
        again=repeat.get("while", repeat.get("until")),
        until="until" in repeat,
        max=_whole(draft, repeat, "max", pointer),
        delay=_delay(draft, repeat.get("delay"), joined_pointer(pointer, "delay")),
        on_max="fail" if repeat.get("on_max", "fail") == "fail" else "go_on",
        keep=_whole(draft, repeat, "keep", pointer),
        state=repeat.get("state"),
        undo_keep=_whole(draft, repeat.get("undo") or {}, "keep", joined_pointer(pointer, "undo")),
    )


def _undo(draft: DefinitionDraft, undo: Any, pointer: str) -> UndoOptions | None:
    match undo:
        case str():
            return UndoOptions(undo, "@self")
        case Mapping():
            timeout_s = constant_s(draft, undo.get("timeout"), joined_pointer(pointer, "timeout"))
            again = compile_retry(draft, undo.get("retry"), joined_pointer(pointer, "retry"))
            return UndoOptions(str(undo.get("tool", "")), undo.get("with", "@self"), timeout_s, again, bool(undo.get("in_doubt")), undo.get("on_error", ""))
    return None


def compile_retry(draft: DefinitionDraft, policy: Any, pointer: str) -> RetryOptions | None:
    """Compiles a retry policy; a number alone is the number of attempts, and `false` is one attempt."""
    match policy:
        case None | True:
            return None
        case False:
            return RetryOptions(max=1)
        case int():
            return RetryOptions(max=policy)
        case Mapping():
            wait_s = constant_s(draft, policy.get("wait"), joined_pointer(pointer, "wait"))
            max_wait_s = constant_s(draft, policy.get("max_wait"), joined_pointer(pointer, "max_wait"))
            if wait_s is not None and max_wait_s is not None and max_wait_s < wait_s:
                what = f"{max_wait_s:g} s is shorter than the first wait, {wait_s:g} s; raise it, or leave it out"
                draft.error("bad_value", joined_pointer(pointer, "max_wait"), what)
            return RetryOptions(
                max=policy.get("max"),
                wait_s=wait_s,
                factor=None if policy.get("factor") is None else float(policy["factor"]),
                max_wait_s=max_wait_s,
                only=_listed_names(policy.get("only")),
                fatal=_listed_names(policy.get("fatal")),
            )
    return None


def constant_s(draft: DefinitionDraft, duration: Any, pointer: str) -> float | None:
    """Compiles a constant duration to seconds."""
    if duration is None:
        return None
    if is_computed(duration):
        draft.error("not_constant", pointer, f"{duration!r} is not a constant; write seconds, or text such as '30s'")
        return None
    try:
        return duration_seconds(duration)
    except BadValue as problem:
        draft.error("bad_duration", pointer, str(problem))
        return None


def _delay(draft: DefinitionDraft, delay: Any, pointer: str) -> Any:
    return delay if is_computed(delay) else constant_s(draft, delay, pointer)


def _whole(draft: DefinitionDraft, fields: Mapping[str, Any], field: str, pointer: str) -> int:
    value = fields.get(field, 0)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    draft.error("not_constant", joined_pointer(pointer, field), f"{field} has to be a whole number from 0, found {value!r}")
    return 0


def _listed_names(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(map(str, value or ()))


_FIELD_COMPILERS: dict[str, Callable[[DefinitionDraft, Any, str], Any]] = {
    "join": _join,
    "each": _each,
    "repeat": _repeat,
    "retry": compile_retry,
    "timeout": constant_s,
    "grace": constant_s,
    "undo": _undo,
}
"""The modifiers that are compiled, each with its function."""


def compile_definition(canonical: Mapping[str, Any]) -> IR:
    """The IR of a canonical definition.

    Raises:
        BadDefinition: it can't be run; `findings` has all problems.
    """
    draft, found = _drafted(canonical)
    _refuse(draft)
    regions, edges, standing = place_regions(draft, found)
    nodes, head = _compile_nodes(draft, standing), _head(draft, canonical)
    _refuse(draft)
    return msgspec.structs.replace(head, nodes=nodes, edges=edges, regions=regions)


def compile_findings(canonical: Mapping[str, Any]) -> list[DefinitionFinding]:
    """The findings of a canonical definition: the errors that `compile_definition` would raise, and warnings."""
    draft, found = _drafted(canonical)
    if not _errors(draft):
        _compile_nodes(draft, place_regions(draft, found)[2])
        _head(draft, canonical)
    return draft.found


def _refuse(draft: DefinitionDraft) -> None:
    if errors := _errors(draft):
        raise BadDefinition(errors)


def _errors(draft: DefinitionDraft) -> list[DefinitionFinding]:
    return [one for one in draft.found if one.severity == "error"]


def _drafted(canonical: Mapping[str, Any]) -> tuple[DefinitionDraft, GraphLoops]:
    """Returns the draft of a definition with its edges, cycles and findings."""
    draft = DefinitionDraft(canonical)
    _check_ids(draft)
    add_edges(draft)
    _check_ports(draft)
    check_joins(draft)
    check_output_names(draft, canonical.get("output"))
    check_acyclic(draft)
    found = find_step_loops(draft) if draft.outline.order == "ports" and draft.outline.sites else GraphLoops([-1] * len(draft.outline.sites), [], set(), [], [])
    if not _errors(draft):
        check_reached(draft)
        check_effects(draft)
        check_undo_bounds(draft, found)
    return draft, found


def _check_ids(draft: DefinitionDraft) -> None:
    for site in draft.outline.repeated:
        first = draft.outline.sites[draft.outline.numbers[site.id]]
        text = f"the id {site.id!r} is taken by the step at {first.pointer}; give each its own"
        draft.error("duplicate_id", joined_pointer(site.pointer, "id"), text)
    for site in draft.outline.sites:
        if site.id in ROOTS:
            draft.error("root_as_id", joined_pointer(site.pointer, "id"), f"@{site.id} is reserved; give the step another id, such as {site.id}_1")


def _check_ports(draft: DefinitionDraft) -> None:
    for number, found in draft.port_maps.items():
        site = draft.outline.sites[number]
        named = list(dict.fromkeys([*(route.port for route in found.routes if route.port), *found.ended]))
        if site.verb and not verbs_by_name()[site.verb].has_own_ports:
            known = ports_of_verb(site.verb, site.step)
            for name in named:
                if name not in known:
                    text = f"{site.verb} has no port {name!r}; it has {', '.join(known)}"
                    draft.error("unknown_port", joined_pointer(site.pointer, "next", name), text, draft.suggestion(name, known))
        for name in ports_without_target(site.verb, site.step, named):
            text = f"next has no entry for the port {name} of {site.id!r}; add {name} to next, with [] if nothing follows"
            draft.warning("port_without_target", joined_pointer(site.pointer, "next"), text)


def _compile_nodes(draft: DefinitionDraft, standing: Sequence[int]) -> tuple[GraphNode, ...]:
    draft.left_by_max = {source for source, _, port in draft.edges if port == "max"}
    return tuple(compile_node(draft, site, standing[site.number]) for site in draft.outline.sites)


def _head(draft: DefinitionDraft, canonical: Mapping[str, Any]) -> IR:
    """Returns the IR without its graph."""
    declared = canonical.get("input")
    schemas = declared if isinstance(declared, Mapping) else {}
    limits, on_failure = canonical.get("limits") or {}, canonical.get("on_failure") or {}
    counts = {field: limits[field] for field in ("max_steps", "max_hops", "max_fanout", "max_bytes") if field in limits}
    return IR(
        name=str(canonical.get("name") or ""),
        hash=definition_hash(dict(canonical)),
        version=str(canonical.get("version") or "1.0.0"),
        order=canonical.get("order", "refs"),
        dialect=canonical.get("dialect", ""),
        input=dict(schemas),
        required=tuple(name for name, schema in schemas.items() if not (isinstance(schema, Mapping) and "default" in schema)),
        variables=canonical.get("vars"),
        output=canonical.get("output"),
        has_output="output" in canonical,
        limits=GraphLimits(
            **counts,
            deadline_s=constant_s(draft, limits.get("deadline"), "/limits/deadline"),
            grace_s=constant_s(draft, limits.get("grace"), "/limits/grace"),
        ),
        retry=compile_retry(draft, canonical.get("retry"), "/retry"),
        on_failure=OnFailure(on_failure.get("undo", True), str(on_failure.get("call") or "")),
        archive=canonical.get("archive") is True,
    )
