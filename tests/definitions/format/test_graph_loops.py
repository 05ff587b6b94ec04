"""The cycles of graphs, each row a graph and its loops; and against the plainest definition of them, on random ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.definitions.format.graph_loops import connected_components, find_loops, shortest_path

Edges = list[tuple[int, int]]

LOOPS: list[tuple[str, Edges, dict[int, set[int]]]] = [
    ("a chain has none", [(0, 1), (1, 2)], {}),
    ("a step that leads to itself", [(0, 1), (1, 1), (1, 2)], {1: {1}}),
    ("back to the first", [(0, 1), (1, 2), (2, 0)], {0: {0, 1, 2}}),
    ("two ways back to one head are one loop", [(0, 1), (1, 2), (2, 0), (1, 3), (3, 0)], {0: {0, 1, 2, 3}}),
    ("what leads away from a loop is not in it", [(0, 1), (1, 2), (2, 1), (2, 3), (1, 4)], {1: {1, 2}}),
    ("one within another", [(0, 1), (1, 2), (2, 1), (2, 3), (3, 0)], {0: {0, 1, 2, 3}, 1: {1, 2}}),
    ("one within another, both back from one step", [(0, 1), (1, 2), (2, 2), (2, 1), (2, 0)], {0: {0, 1, 2}, 1: {1, 2}, 2: {2}}),
    ("a branch inside", [(0, 1), (0, 2), (1, 3), (2, 3), (3, 0)], {0: {0, 1, 2, 3}}),
    ("one behind another", [(0, 1), (1, 0), (1, 2), (2, 3), (3, 2)], {0: {0, 1}, 2: {2, 3}}),
]


@pytest.mark.parametrize(("what", "edges", "expected"), LOOPS, ids=[row[0] for row in LOOPS])
def test_a_loop_is_its_head_and_all_on_a_way_back_to_it(what: str, edges: Edges, expected: dict[int, set[int]]) -> None:
    found = find_loops(graph(edges), [0])
    assert not found.entered
    assert members(found.head, found.heads) == expected


ENTERED: list[tuple[str, Edges, set[int]]] = [
    ("two ways into a pair", [(0, 1), (0, 2), (1, 2), (2, 1)], {1}),
    ("from far off, past the head", [(0, 1), (1, 2), (2, 3), (3, 1), (0, 4), (4, 3)], {1}),
    ("into the inner of two", [(0, 1), (1, 2), (2, 3), (3, 2), (3, 0), (1, 3)], {2}),
]


@pytest.mark.parametrize(("what", "edges", "heads"), ENTERED, ids=[row[0] for row in ENTERED])
def test_a_loop_that_is_entered_beside_its_head_is_told(what: str, edges: Edges, heads: set[int]) -> None:
    assert {head for _, _, head in find_loops(graph(edges), [0]).entered} == heads


def test_what_cannot_be_reached_is_in_no_loop() -> None:
    found = find_loops(graph([(0, 1), (2, 3), (3, 2), (3, 1)]), [0])
    assert (found.heads, found.entered, found.reached) == ([], [], [True, True, False, False])


def test_components_come_behind_those_to_which_they_lead() -> None:
    assert connected_components(graph([(0, 1), (1, 2), (2, 1), (2, 3), (4, 0)])) == [[3], [1, 2], [0], [4]]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 3, [0, 1, 3]), (1, 1, [1, 2, 1]), (3, 0, []), (4, 4, [4, 4]), (0, 0, [])],
    ids=["the shortest", "round", "none", "to itself", "not round"],
)
def test_a_way_is_the_shortest_over_at_least_one_edge(start: int, end: int, expected: list[int]) -> None:
    assert shortest_path(graph([(0, 1), (1, 2), (2, 1), (2, 3), (1, 3), (4, 4)]), start, end) == expected


@pytest.mark.slow
def test_a_chain_of_any_length_will_do() -> None:
    long = [[number + 1] for number in range(50_000)] + [[0]]
    assert find_loops(long, [0]).heads == [0]
    assert len(connected_components(long)) == 1


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    count = draw(st.integers(1, 9))
    ends = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(ends, ends), max_size=20, unique=True))
    return [[target for source, target in edges if source == node] for node in range(count)]


@settings(deadline=None)
@given(graphs())
def test_loops_are_those_of_edges_to_what_dominates_their_source(graph: list[list[int]]) -> None:
    found = find_loops(graph, [0])
    reached = reachable(graph, 0)
    assert {node for node, is_reached in enumerate(found.reached) if is_reached} == reached
    back = {(source, target) for source in reached for target in graph[source] if source not in reachable(graph, 0, without=target)}
    forward = [[target for target in graph[node] if (node, target) not in back] for node in range(len(graph))]
    reducible = not any(node in reachable(forward, target) for node in reached for target in forward[node])
    assert reducible == (not found.entered)
    if reducible:
        assert found.back == back
        expected = {head: natural(graph, head, {source for source, target in back if target == head}, reached) for head in {target for _, target in back}}
        assert members(found.head, found.heads) == expected


@settings(deadline=None)
@given(graphs())
def test_components_are_those_that_reach_each_other(graph: list[list[int]]) -> None:
    reached = [reachable(graph, node) for node in range(len(graph))]
    expected = {tuple(sorted({node, *(other for other in reached[node] if node in reached[other])})) for node in range(len(graph))}
    assert {tuple(component) for component in connected_components(graph)} == expected


def graph(edges: Edges) -> list[list[int]]:
    count = 1 + max(max(edge) for edge in edges)
    return [[target for source, target in edges if source == node] for node in range(count)]


def members(head: list[int], heads: list[int]) -> dict[int, set[int]]:
    """All nodes of each loop, those of the loops in it included."""
    found: dict[int, set[int]] = {one: {one} for one in heads}
    for node in range(len(head)):
        around = head[node]
        while around >= 0:
            found[around].add(node)
            around = head[around]
    return found


def natural(graph: list[list[int]], head: int, sources: set[int], reached: set[int]) -> set[int]:
    found = {head} | sources
    while more := {node for node in reached for target in graph[node] if target in found - {head} and node not in found}:
        found |= more
    return found


def reachable(graph: list[list[int]], start: int, without: int = -1) -> set[int]:
    found = {start} - {without}
    while more := {target for node in found for target in graph[node]} - found - {without}:
        found |= more
    return found
