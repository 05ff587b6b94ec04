"""Checks the order of the steps: cycles and their bounds, joins, entry steps, steps never reached, and effects that nothing orders.

An endless loop forgets its iterations and keeps a bounded number of operations to undo, so it also warns where nothing limits these.
"""

from collections.abc import Iterable, Sequence

from perdure.core import limits
from perdure.definitions.format.definition_draft import DefinitionDraft
from perdure.definitions.format.definition_findings import joined_pointer
from perdure.definitions.format.graph_loops import AdjacencyLists, GraphLoops, connected_components, find_loops, shortest_path
from perdure.definitions.format.step_routes import PORTS_THAT_LEAD_ON
from perdure.definitions.format.step_tree import StepList, StepSite
from perdure.definitions.graph.ir import AFTER, ALWAYS

SHOWN_MAX = 8
GROUPS_MAX = 10
EFFECTS = ("tool", "emit", "call", "task")
ENDS = ("return", "fail")


def check_acyclic(draft: DefinitionDraft) -> None:
    """Reports cycles where steps are ordered by their reads or by their position."""
    graph = graph_of(draft, [number for number, (source, _, _) in enumerate(draft.edges) if draft.outline.place(source).order != "ports"])
    for component in connected_components(graph):
        if len(component) > 1:
            pointer = draft.outline.place(component[0]).pointer
            draft.error(
                "unbounded_cycle",
                pointer,
                f"{readable_path(draft, shortest_path(graph, component[0], component[0]))} is a cycle without a bound; remove a reference or needs from it, "
                "or, to run steps repeatedly, use repeat, or order: ports with max on an edge that leads back",
            )


def check_joins(draft: DefinitionDraft) -> None:
    """Reports joins that wait for more paths than lead to their step, and those with nothing to choose from."""
    ways: dict[int, set[tuple[int, str]]] = {}
    for source, target, port in draft.edges:
        ways.setdefault(target, set()).add((source, port))
    for site in draft.outline.sites:
        join, count = site.step.get("join", "all"), len(ways.get(site.number, ()))
        pointer, leads = f"{site.pointer}/join", f"{count} path{'' if count == 1 else 's'} lead{'s' if count == 1 else ''} to {site.id!r}"
        if isinstance(join, int) and not isinstance(join, bool) and join > count:
            draft.error("join_too_many", pointer, f"it waits for {join} paths, and {leads}; wait for {count} at most" if count else f"{leads}; remove join")
        elif count < 2 and (join == "any" or (isinstance(join, int) and join > 0)) and draft.dialect_rules.strict_order:
            draft.error("join_alone", pointer, f"it chooses among several paths, and {leads}; remove join")


def find_step_loops(draft: DefinitionDraft) -> GraphLoops:
    """Returns the loops that `next` makes in the definition's own list. Reports invalid ones. Edges that are never taken are dropped."""
    graph = graph_of(draft, range(len(draft.edges)))
    begin = entry_steps(draft, graph)
    found = find_loops(graph, begin)
    lost = [number for number in draft.outline.lists[0].members if not found.reached[number]]
    for number in lost:
        draft.warning("unreachable_step", draft.outline.sites[number].pointer, f"no step leads to {draft.name(number)!r}, so it never runs")
    if lost:
        draft.isolate(lost)
    _check_entered(draft, graph, found)
    if not found.entered:
        _check_bounds(draft, graph, found)
    if not any(one.code in ("cycle_entered", "unbounded_cycle") for one in draft.found):
        _check_ends(draft, graph, found)
    return found


def entry_steps(draft: DefinitionDraft, graph: AdjacencyLists) -> list[int]:
    """The steps at which the definition's own list begins: those without an incoming edge, and the first of each cycle that no other step leads to."""
    members = draft.outline.lists[0].members
    if draft.dialect_rules.entry_is_first_step:
        return members[:1]
    groups = connected_components(graph)
    group_of = {node: number for number, group in enumerate(groups) for node in group}
    entered = {group_of[target] for node in members for target in graph[node] if group_of[target] != group_of[node]}
    return sorted(group[0] for number, group in enumerate(groups) if number not in entered and draft.outline.sites[group[0]].list == 0)


def graph_of(draft: DefinitionDraft, numbers: Iterable[int]) -> list[list[int]]:
    """The edges with these numbers as a graph."""
    graph: list[list[int]] = [[] for _ in draft.outline.sites]
    for number in numbers:
        source, target, _ = draft.edges[number]
        graph[source].append(target)
    return graph


def readable_path(draft: DefinitionDraft, nodes: Sequence[int]) -> str:
    """A path for messages: ``b -> a -> b``."""
    names = [draft.name(number) for number in nodes]
    if len(names) > SHOWN_MAX:
        names[SHOWN_MAX - 3 : -2] = [f"… {len(names) - SHOWN_MAX + 1} more …"]
    return " -> ".join(names)


def _check_entered(draft: DefinitionDraft, graph: AdjacencyLists, found: GraphLoops) -> None:
    for source, target, head in dict.fromkeys(found.entered):
        cycle = [*shortest_path(graph, head, target), *shortest_path(graph, target, head)[1:]]
        names = draft.name(source), draft.name(target), draft.name(head)
        draft.error(
            "cycle_entered",
            draft.outline.sites[source].pointer,
            f"{names[0]!r} leads into the middle ({names[1]!r}) of the cycle {readable_path(draft, cycle)}, "
            f"which is entered at {names[2]!r}. Connect it to {names[2]!r}",
            names[2],
        )


def _check_bounds(draft: DefinitionDraft, graph: AdjacencyLists, found: GraphLoops) -> None:
    """Reports cycles without a bound, and bounds on edges that do not lead back."""
    bounded: set[int] = set()
    back: dict[int, int] = {}
    for number, (source, target, _) in enumerate(draft.edges):
        if (source, target) not in found.back:
            if number in draft.turns or number in draft.endless:
                names = draft.name(source), draft.name(target)
                text = f"the edge from {names[0]!r} to {names[1]!r} has a bound and does not lead back, so the bound has no effect; remove it"
                draft.warning("max_without_cycle", f"{draft.outline.sites[source].pointer}/next", text)
            continue
        back.setdefault(target, source)
        if number in draft.turns or number in draft.endless:
            bounded.add(target)
    for head, source in back.items():
        if head not in bounded and not draft.dialect_rules.cycles_bounded_by_hops and draft.outline.sites[head].verb != "loop":
            cycle = readable_path(draft, [*shortest_path(graph, head, source), head] if head != source else [head, head])
            text = f"{cycle} is a cycle without a bound; add max to the edge from {draft.name(source)!r} back to {draft.name(head)!r}, or endless: true"
            draft.error("unbounded_cycle", draft.outline.sites[source].pointer, text)


def _check_ends(draft: DefinitionDraft, graph: AdjacencyLists, found: GraphLoops) -> None:
    """Reports cycles that no step leads out of, unless they are marked endless."""
    before: list[list[int]] = [[] for _ in graph]
    leaving: dict[int, set[str]] = {}
    for number, (source, target, port) in enumerate(draft.edges):
        before[target].append(source)
        if number not in draft.turns:
            leaving.setdefault(source, set()).add(port)
    flagged = {draft.edges[number][0] for number in draft.endless}
    waiting = [number for number in draft.outline.lists[0].members if number in flagged or _may_end(draft, draft.outline.sites[number], leaving)]
    ending = set(waiting)
    for node in waiting:
        fresh = [source for source in before[node] if source not in ending]
        ending.update(fresh)
        waiting.extend(dict.fromkeys(fresh))
    for head in found.heads:
        if head not in ending:
            cycle = readable_path(draft, shortest_path(graph, head, head))
            text = f"the cycle {cycle} never ends; connect one of its steps to a step outside, or write endless: true"
            draft.error("no_end", draft.outline.sites[head].pointer, text)
            return


def _may_end(draft: DefinitionDraft, site: StepSite, leaving: dict[int, set[str]]) -> bool:
    """Whether a path may end at a step: the step ends the execution, or some way to succeed leads nowhere."""
    taken = leaving.get(site.number, set())
    if site.verb in ENDS or not taken:
        return True
    if draft.rules.get(site.number) or draft.choose.get(site.number):
        certain = any(rule.when is None and rule.edges and not rule.max for rule in draft.rules[site.number])
        return not certain and not draft.choose.get(site.number)
    if taken & {AFTER, ALWAYS}:
        return False
    return site.verb not in PORTS_THAT_LEAD_ON or not taken.issuperset(PORTS_THAT_LEAD_ON[site.verb])


def check_reached(draft: DefinitionDraft) -> None:
    """Warns of steps that only follow a step which ends the execution."""
    graph: list[list[int]] = [[] for _ in draft.outline.sites]
    entered = [False] * len(graph)
    stops = {site.number for site in draft.outline.sites if site.verb in ENDS and not {"when", "each", "repeat"} & site.step.keys()}
    if not stops:
        return
    for source, target, port in draft.edges:
        entered[target] = True
        if source not in stops or port == "error":
            graph[source].append(target)
    own = set(entry_steps(draft, graph_of(draft, range(len(draft.edges))))) if draft.outline.order == "ports" else set()
    found = find_loops(graph, [number for number, is_entered in enumerate(entered) if not is_entered or number in own])
    behind: dict[int, int] = {}
    for source, target, _ in draft.edges:
        if source in stops and not found.reached[target]:
            behind.setdefault(target, source)
    for target, source in behind.items():
        text = f"{draft.name(target)!r} follows {draft.name(source)!r}, which always ends the execution, so it never runs"
        draft.warning("unreachable_step", draft.outline.sites[target].pointer, text)


def check_effects(draft: DefinitionDraft) -> None:
    """Warns of steps with effects in the world that run concurrently because neither reads or needs the other.

    Among steps ordered by their reads, those at the same depth of a chain of such steps are not ordered.
    """
    within: dict[int, list[tuple[int, int]]] = {}
    for source, target, _ in draft.edges:
        within.setdefault(draft.outline.sites[source].list, []).append((source, target))
    for number, listing in enumerate(draft.outline.lists):
        if listing.order == "refs":
            _check_effects(draft, listing, within.get(number, []))


def _check_effects(draft: DefinitionDraft, listing: StepList, edges: list[tuple[int, int]]) -> None:
    groups: dict[int, list[StepSite]] = {}
    for number, level in _levels(draft, listing, edges).items():
        site = draft.outline.sites[number]
        if site.verb in EFFECTS:
            groups.setdefault(level, []).append(site)
    noted = 0
    for group in groups.values():
        group.sort()
        if len(group) < 2 or all("when" in site.step for site in group) or noted >= GROUPS_MAX:
            continue
        noted += 1
        names = ", ".join(repr(site.id) for site in group[:4]) + (f" and {len(group) - 4} more" if len(group) > 4 else "")
        text = f"{names} have effects and no order between them, so they run concurrently; if one has to run first, write needs: [{group[0].id}] in the other"
        draft.warning("unordered_effects", group[1].pointer, text)


def _levels(draft: DefinitionDraft, listing: StepList, edges: list[tuple[int, int]]) -> dict[int, int]:
    """Returns for each step of a list the most steps with effects on a path to it, itself included; steps in a cycle are left out."""
    after: dict[int, list[int]] = {number: [] for number in listing.members}
    open_edges = dict.fromkeys(listing.members, 0)
    for source, target in edges:
        after[source].append(target)
        open_edges[target] += 1
    level = dict.fromkeys(listing.members, 0)
    waiting = [number for number in listing.members if not open_edges[number]]
    for number in waiting:
        level[number] += draft.outline.sites[number].verb in EFFECTS
        for target in after[number]:
            level[target] = max(level[target], level[number])
            open_edges[target] -= 1
            if not open_edges[target]:
                waiting.append(target)
    return {number: level[number] for number in waiting}


def check_undo_bounds(draft: DefinitionDraft, found: GraphLoops) -> None:
    """Warns of endless loops with steps that have an undo, if nothing limits how many iterations are undone."""
    for site in draft.outline.sites:
        repeat = site.step.get("repeat")
        if isinstance(repeat, dict) and repeat.get("endless") is True and "undo" not in repeat:
            inside = [one for one in draft.outline.sites if one is site or one.pointer.startswith(site.pointer + "/")]
            _warn(draft, inside, joined_pointer(site.pointer, "repeat"), "add undo: {keep: N} to the repeat, or commit: true to a step in it")
    for number in sorted(draft.endless):
        source, head = draft.edges[number][:2]
        inside = [one for one in draft.outline.sites if _lies_in(found, one.number, head)]
        _warn(draft, inside, joined_pointer(draft.outline.sites[source].pointer, "next"), "add commit: true to a step in it")


def _lies_in(found: GraphLoops, number: int, head: int) -> bool:
    while number not in (head, -1):
        number = found.head[number]
    return number == head


def _warn(draft: DefinitionDraft, inside: Iterable[StepSite], pointer: str, remedy: str) -> None:
    steps = [site.step for site in inside]
    undone = [site.id for site in inside if site.step.get("undo")]
    if undone and not any(step.get("commit") is True for step in steps):
        why = f"{undone[0]!r} has an undo in an endless loop, and more than {limits.UNDO_ENTRIES_MAX:,} steps to undo park the execution"
        draft.warning("undo_unbounded", pointer, f"{why}; {remedy}")
