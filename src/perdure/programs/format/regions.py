"""Where nodes and edges stand: the regions of a definition, its lists of steps and its cycles."""

from collections.abc import Sequence

from perdure.programs.format.cycles import Loops
from perdure.programs.format.draft import Draft
from perdure.programs.graph.ir import Edge, Region


def placed(draft: Draft, found: Loops) -> tuple[tuple[Region, ...], tuple[Edge, ...], list[int]]:
    """The regions, the edges with theirs, and for each node the region in which it stands directly."""
    lists, heads = draft.outline.lists, sorted(found.heads)
    cycle_of = {head: len(lists) + number for number, head in enumerate(heads)}
    standing = [cycle_of.get(site.number) or cycle_of.get(found.head[site.number]) or site.list for site in draft.outline.sites]
    parents = [-1 if listing.owner < 0 else standing[listing.owner] for listing in lists]
    parents += [cycle_of.get(found.head[head], 0) for head in heads]
    depths = _depths(parents)
    edges = tuple(
        Edge(source, target, port, _around(parents, depths, standing[source], standing[target]), is_back, draft.turns.get(number, 0) if is_back and port else 0)
        for number, (source, target, port) in enumerate(draft.edges)
        for is_back in [(source, target) in found.back]
    )
    nodes: list[list[int]] = [[] for _ in parents]
    for number, region in enumerate(standing):
        nodes[region].append(number)
    entries = _entries(draft, found, edges, cycle_of)
    regions = [
        Region("root" if owner < 0 else "body", parents[number], owner, tuple(nodes[number]), tuple(entries[number]))
        for number, owner in enumerate(listing.owner for listing in lists)
    ]
    turns = _turns(draft, found)
    regions += [Region("cycle", parents[cycle_of[head]], head, tuple(nodes[cycle_of[head]]), (head,), turns.get(head, 0)) for head in heads]
    return tuple(regions), edges, standing


def _depths(parents: Sequence[int]) -> list[int]:
    """How many regions stand around each. A region may come before the one in which it stands."""
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


def _entries(draft: Draft, found: Loops, edges: Sequence[Edge], cycle_of: dict[int, int]) -> list[list[int]]:
    """The nodes with which each list of steps begins; the head of a cycle begins the region around it."""
    led_to: set[tuple[int, int]] = {(edge.region, edge.target) for edge in edges if not edge.back}
    entries: list[list[int]] = [[] for _ in draft.outline.lists]
    for site in draft.outline.sites:
        in_cycle = found.head[site.number] in cycle_of
        is_reached = site.list > 0 or not found.reached or found.reached[site.number]
        if is_reached and not in_cycle and (site.list, site.number) not in led_to:
            entries[site.list].append(site.number)
    return entries


def _turns(draft: Draft, found: Loops) -> dict[int, int]:
    """How many turns each cycle has at most, by its head; those without a bound are left out."""
    turns: dict[int, int] = {}
    endless: set[int] = set()
    for number, (source, target, _) in enumerate(draft.edges):
        if (source, target) in found.back:
            turns[target] = max(turns.get(target, 0), draft.turns.get(number, 0))
            if number in draft.endless:
                endless.add(target)
    return {head: count for head, count in turns.items() if head not in endless}
