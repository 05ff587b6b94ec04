"""Finds the cycles of a graph: its strongly connected components, its loops and their nesting, and edges that enter a loop beside its head.

Nodes are numbers from 0. The algorithms are linear or nearly so (loops by Tarjan and Havlak, each merged into its head) and do not recurse, so a chain may have
any length.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

AdjacencyLists = Sequence[Sequence[int]]
"""For each node the nodes to which an edge leads."""


class GraphLoops(NamedTuple):
    """The loops of a graph.

    `head` is for each node that of the innermost loop around it, -1 if there is none; the head of a loop itself has that of the loop around its own.
    `heads` are those of all loops, `back` the edges that lead back to one, and `entered` those into a loop beside its head, with that head.
    `reached` are the nodes to which a path leads.
    """

    head: list[int]
    heads: list[int]
    back: set[tuple[int, int]]
    entered: list[tuple[int, int, int]]
    reached: list[bool]


def connected_components(graph: AdjacencyLists) -> list[list[int]]:
    """The strongly connected components, each in ascending order; a component comes after those to which its edges lead."""
    count = len(graph)
    seen, low, held, found = [-1] * count, [0] * count, [False] * count, list[list[int]]()
    stack: list[int] = []
    clock = 0
    for root in range(count):
        if seen[root] >= 0:
            continue
        way = [(root, iter(graph[root]))]
        seen[root] = low[root] = clock
        clock += 1
        stack.append(root)
        held[root] = True
        while way:
            node, rest = way[-1]
            for target in rest:
                if seen[target] < 0:
                    seen[target] = low[target] = clock
                    clock += 1
                    stack.append(target)
                    held[target] = True
                    way.append((target, iter(graph[target])))
                    break
                if held[target]:
                    low[node] = min(low[node], seen[target])
            else:
                way.pop()
                if way:
                    low[way[-1][0]] = min(low[way[-1][0]], low[node])
                if low[node] == seen[node]:
                    found.append(_taken(stack, held, node))
    return found


def find_loops(graph: AdjacencyLists, entries: Iterable[int]) -> GraphLoops:
    """All loops of the graph that begins at `entries`. The loop of each node is known only if no loop is entered beside its head."""
    order, last, clock = _walked(graph, entries)
    back_from: dict[int, list[int]] = {}
    before: list[list[int]] = [[] for _ in graph]
    for node in order:
        for target in graph[node]:
            if clock[target] <= clock[node] <= last[target]:
                back_from.setdefault(target, []).append(node)
            else:
                before[target].append(node)
    head, merged = [-1] * len(graph), list(range(len(graph)))
    entered: list[tuple[int, int, int]] = []
    for top in reversed(order):
        if top not in back_from:
            continue
        body: set[int] = {_find(merged, node) for node in back_from[top]} - {top}
        waiting = list(body)
        while waiting:
            node = waiting.pop()
            for source in before[node]:
                inner = _find(merged, source)
                if not clock[top] <= clock[inner] <= last[top]:
                    entered.append((source, node, top))
                elif inner != top and inner not in body:
                    body.add(inner)
                    waiting.append(inner)
        for node in body:
            head[node] = merged[node] = top
    heads = [node for node in order if node in back_from]
    return GraphLoops(head, heads, {(source, target) for target, sources in back_from.items() for source in sources}, entered, [at >= 0 for at in clock])


def shortest_path(graph: AdjacencyLists, start: int, end: int) -> list[int]:
    """Returns the shortest path from one node to another over at least one edge, both included; empty if there is none."""
    came_from: dict[int, int] = {}
    waiting = [start]
    for node in waiting:
        for target in graph[node]:
            if target not in came_from:
                came_from[target] = node
                waiting.append(target)
        if end in came_from:
            break
    if end not in came_from:
        return []
    found = [end, came_from[end]]
    while found[-1] != start:
        found.append(came_from[found[-1]])
    return found[::-1]


def _taken(stack: list[int], held: list[bool], root: int) -> list[int]:
    """The component that ends at `root`, taken from the stack."""
    component = []
    while True:
        node = stack.pop()
        held[node] = False
        component.append(node)
        if node == root:
            return sorted(component)


def _walked(graph: AdjacencyLists, entries: Iterable[int]) -> tuple[list[int], list[int], list[int]]:
    """Walks depth first; returns the nodes in the order of their visit, for each the number of its last descendant, and its own number (-1: not visited)."""
    order: list[int] = []
    clock, last = [-1] * len(graph), [-1] * len(graph)
    for entry in entries:
        if clock[entry] >= 0:
            continue
        clock[entry] = len(order)
        order.append(entry)
        path = [(entry, iter(graph[entry]))]
        while path:
            node, rest = path[-1]
            for target in rest:
                if clock[target] < 0:
                    clock[target] = len(order)
                    order.append(target)
                    path.append((target, iter(graph[target])))
                    break
            else:
                last[node] = len(order) - 1
                path.pop()
    return order, last, clock


def _find(merged: list[int], node: int) -> int:
    """The loop's head into which a node has been merged, or itself."""
    root = node
    while merged[root] != root:
        root = merged[root]
    while merged[node] != root:
        merged[node], node = root, merged[node]
    return root
