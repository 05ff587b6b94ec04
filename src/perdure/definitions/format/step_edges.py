"""Adds the edges between steps. Each list of steps is ordered by what its steps read, by their position, or by `next`; `needs` adds edges to each."""

from collections.abc import Iterator
from typing import Any

from perdure.definitions.format.definition_draft import DefinitionDraft
from perdure.definitions.format.definition_findings import joined_pointer
from perdure.definitions.format.step_reads import NamesInScope, steps_read_by
from perdure.definitions.format.step_routes import RouteTarget, edge_port, parse_routes
from perdure.definitions.format.step_tree import StepList, StepSite
from perdure.definitions.graph.ir import AFTER, ALWAYS, RoutingRule


def add_edges(draft: DefinitionDraft) -> None:
    """Finds all edges."""
    for site in draft.outline.sites:
        if "next" in site.step:
            _wire_next(draft, site)
        _wire_last_iteration(draft, site)
    for site in draft.outline.sites:
        _wire_needs(draft, site)
    for listing in draft.outline.lists:
        if listing.order == "listed":
            _wire_places(draft, listing)
    known = NamesInScope(draft)
    for site in draft.outline.sites:
        for source, late, pointer in steps_read_by(draft, known, site):
            _wire_reading(draft, site.number, source, late, pointer)


def _wire_places(draft: DefinitionDraft, listing: StepList) -> None:
    for before, after in zip(listing.members, listing.members[1:], strict=False):
        if not draft.joins(before, after):  # an edge of `needs` is there already, by which the step does not run if the one before was skipped
            draft.edge(before, after, ALWAYS)


def _wire_needs(draft: DefinitionDraft, site: StepSite) -> None:
    for pointer, id in _named(site.step.get("needs"), joined_pointer(site.pointer, "needs")):
        if (needed := draft.step(id, pointer, f"{site.id!r} needs")) < 0:
            continue
        source, target = draft.outline.side_by_side(needed, site.number)
        if source == target and target not in (needed, site.number):
            draft.error("never_together", pointer, _apart(draft, needed, site.number, source, "needs"))
        elif source == target:
            draft.error("reads_itself", pointer, _inside(draft, needed, site.number, "needs"))
        elif _is_idle(draft, source, target):
            text = (
                f"{draft.name(target)!r} comes after {draft.name(source)!r} in the list already, and runs whether or not that was skipped. "
                f"Only the step directly before can be needed in a list; write when: '@{draft.name(source)}' instead"
            )
            draft.error("needs_nothing", pointer, text)
        elif draft.outline.place(source).order != "ports" or not draft.joins(source, target):
            draft.edge(source, target, AFTER)


def _is_idle(draft: DefinitionDraft, source: int, target: int) -> bool:
    """Whether the edge from `source` has no effect, because the step is reached from the one before it in any case."""
    place = draft.outline.place(source)
    return place.order == "listed" and place.members.index(source) < place.members.index(target) - 1


def _wire_reading(draft: DefinitionDraft, reader: int, read: int, late: bool, pointer: str) -> None:
    source, target = draft.outline.side_by_side(read, reader)
    order = draft.outline.place(source).order
    if order == "ports":
        return
    if source == target:
        if target in (reader, read):
            if not (late and reader == target):
                draft.error("reads_itself", pointer, _inside(draft, read, reader, "reads"))
        elif not _stands_in(draft, reader, target):
            draft.warning("never_together", pointer, _apart(draft, read, reader, target, "reads"))
    elif order != "listed":
        if not draft.joins(source, target):
            draft.edge(source, target, ALWAYS)
    elif source > target:
        draft.warning("reads_later", pointer, f"{draft.name(reader)!r} reads {draft.name(read)!r}, which runs after it and has no result yet; move one of them")


def _inside(draft: DefinitionDraft, source: int, reader: int, verb: str) -> str:
    one, other = draft.name(reader), draft.name(source)
    if source == reader:
        hint = "; its result is @self, in repeat, undo and next" if verb == "reads" else ""
        return f"{one!r} {verb} itself{hint}"
    if draft.outline.side_by_side(source, reader)[0] == source:
        return f"{one!r} {verb} {other!r}, which contains it and ends after it"
    return f"{one!r} {verb} {other!r}, which is inside of it and runs later"


def _stands_in(draft: DefinitionDraft, number: int, block: int) -> bool:
    """Whether a step is among those that run in place of a failed block, which may read the results of the steps in it."""
    while draft.outline.above(number) != block:
        number = draft.outline.above(number)
    return draft.outline.place(number).kind == "on_error"


def _apart(draft: DefinitionDraft, read: int, reader: int, block: int, verb: str) -> str:
    one, other, outer = draft.name(reader), draft.name(read), draft.name(block)
    return f"{one!r} {verb} {other!r}, which is in another list of {outer!r}, so it may not have run yet"


def _wire_next(draft: DefinitionDraft, site: StepSite) -> None:
    pointer = joined_pointer(site.pointer, "next")
    if draft.outline.place(site.number).order != "ports":
        draft.error("next_without_ports", pointer, f"{site.id!r} has next, and its list is not ordered by ports; write order: ports, or remove next")
        return
    found = parse_routes(site.step["next"], pointer)
    rules: list[RoutingRule] = []
    for route in found.routes:
        edges = tuple(_edges(draft, site, route.targets, edge_port(route.port, site.verb)))
        for edge in edges:
            if route.max:
                draft.turns[edge] = max(route.max, draft.turns.get(edge, 0))
            if route.endless:
                draft.endless.add(edge)
        on_max = tuple(_edges(draft, site, route.on_max, "max" if route.port else ""))
        if not route.port:
            rules.append(RoutingRule(route.when, edges, route.max, on_max))
    draft.rules[site.number] = tuple(rules)
    list(_edges(draft, site, found.choose, ""))
    draft.choose[site.number] = tuple(target.id for target in found.choose)
    draft.default[site.number] = tuple(_edges(draft, site, found.default, ""))
    if found.ports:
        draft.port_maps[site.number] = found


def _wire_last_iteration(draft: DefinitionDraft, site: StepSite) -> None:
    """Connects the port ``max`` of a `repeat` to the step that `on_max` names."""
    repeat = site.step.get("repeat")
    id = repeat.get("on_max") if isinstance(repeat, dict) else None
    if not isinstance(id, str) or id in ("fail", "go_on"):
        return
    pointer = joined_pointer(site.pointer, "repeat", "on_max")
    if draft.outline.place(site.number).order != "ports":
        draft.error("next_without_ports", pointer, f"on_max names the step {id!r}, which needs order: ports; write fail or go_on")
    else:
        list(_edges(draft, site, (RouteTarget(id, pointer),), "max"))


def _edges(draft: DefinitionDraft, site: StepSite, targets: tuple[RouteTarget, ...], port_name: str) -> Iterator[int]:
    for target in targets:
        number = draft.step(target.id, target.pointer, f"{site.id!r} leads to")
        if number < 0:
            continue
        if draft.outline.sites[number].list != site.list:
            inside = draft.name(draft.outline.side_by_side(number, site.number)[0])
            draft.error("unknown_step", target.pointer, f"{site.id!r} leads to {target.id!r}, which is inside of {inside!r}; connect it to {inside!r}", inside)
            continue
        yield draft.edge(site.number, number, port_name)


def _named(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Ids, one or a list of them, with their places."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, list):
        yield from ((joined_pointer(pointer, number), id) for number, id in enumerate(value) if isinstance(id, str))
