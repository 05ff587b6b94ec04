"""What holds of every IR, whatever it was compiled from; each rule is one that the docstrings of the IR state."""

from perdure.definitions.graph.ir import IR, GraphRegion


def broken(ir: IR) -> list[str]:
    """The rules that an IR breaks, in words; none if it is sound."""
    return [*_of_regions(ir), *_of_edges(ir), *_of_entries(ir), *_of_rules(ir), *_of_order(ir)]


def around(ir: IR, region: int) -> list[int]:
    """A region and those around it, innermost first."""
    found = [region]
    while ir.regions[found[-1]].parent >= 0 and len(found) <= len(ir.regions):
        found.append(ir.regions[found[-1]].parent)
    return found


def _of_regions(ir: IR) -> list[str]:
    found = []
    if ir.regions[0].kind != "root" or ir.regions[0].parent != -1:
        found.append("region 0 is not the root")
    standing = [(node, number) for number, region in enumerate(ir.regions) for node in region.nodes]
    if sorted(standing) != [(number, node.region) for number, node in enumerate(ir.nodes)]:
        found.append("a node does not stand in exactly the region that it names")
    for number, region in enumerate(ir.regions[1:], 1):
        if around(ir, number)[-1] != 0:
            found.append(f"region {number} is not nested in the root")
        if not 0 <= region.head < len(ir.nodes):
            found.append(f"region {number} has no head")
        elif region.kind == "body" and (
            ir.nodes[region.head].region != region.parent or number not in (*ir.nodes[region.head].bodies, ir.nodes[region.head].on_error)
        ):
            found.append(f"the body {number} is not one of its head's, or stands elsewhere")
        elif region.kind == "cycle" and (region.head not in region.nodes or region.entries != (region.head,)):
            found.append(f"the cycle {number} does not begin at its head")
    return found


def _of_edges(ir: IR) -> list[str]:
    found = []
    for number, edge in enumerate(ir.edges):
        source, target = around(ir, ir.nodes[edge.source].region), around(ir, ir.nodes[edge.target].region)
        if edge.region != next(region for region in source if region in target):
            found.append(f"edge {number} is not in the innermost region that holds both ends")
        turns = ir.regions[edge.region].kind == "cycle" and ir.regions[edge.region].head == edge.target and edge.region in source
        if edge.back != turns:
            found.append(f"edge {number} says back={edge.back}, and leads {'back' if turns else 'on'}")
        crossed = target[: target.index(edge.region)]
        if any(ir.regions[region].kind == "body" or ir.regions[region].head != edge.target for region in crossed):
            found.append(f"edge {number} enters a region beside its head")
        if any(ir.regions[region].kind == "body" for region in source[: source.index(edge.region)]):
            found.append(f"edge {number} leads out of a block")
    return found


def _of_entries(ir: IR) -> list[str]:
    led_to = {(edge.region, edge.target) for edge in ir.edges if not edge.back}
    found = []
    for number, region in enumerate(ir.regions):
        candidates = [*region.nodes, *(inner.head for inner in ir.regions if inner.kind == "cycle" and inner.parent == number)]
        expected = [node for node in sorted(candidates) if (number, node) not in led_to and not _is_lost(ir, region, node)]
        if region.kind != "cycle" and list(region.entries) != expected:
            found.append(f"region {number} begins with {region.entries}, and should with {expected}")
    return found


def _is_lost(ir: IR, region: GraphRegion, node: int) -> bool:
    """In 003 only the first step begins; those that nothing leads to from there have no edges to others."""
    return ir.dialect == "port_graph" and region.kind == "root" and node != 0


def _of_rules(ir: IR) -> list[str]:
    taken: dict[int, set[int]] = {number: set() for number in range(len(ir.nodes))}
    for number, node in enumerate(ir.nodes):
        for rule in node.rules:
            taken[number].update(rule.edges, rule.on_max)
        taken[number].update(node.default)
        ids = {ir.nodes[edge.target].id: position for position, edge in enumerate(ir.edges) if edge.source == number and not edge.port}
        taken[number].update(ids[id] for id in node.choose)
    found = [
        f"a rule of {ir.nodes[number].id} takes an edge of another" for number, edges in taken.items() if any(ir.edges[edge].source != number for edge in edges)
    ]
    return found + [
        f"edge {number} has no port, and no rule takes it" for number, edge in enumerate(ir.edges) if not edge.port and number not in taken[edge.source]
    ]


def _of_order(ir: IR) -> list[str]:
    """Without the edges that lead back nothing goes round."""
    open_edges = [0] * len(ir.nodes)
    after: list[list[int]] = [[] for _ in ir.nodes]
    for edge in ir.edges:
        if not edge.back:
            open_edges[edge.target] += 1
            after[edge.source].append(edge.target)
    waiting = [number for number, count in enumerate(open_edges) if not count]
    for number in waiting:
        for target in after[number]:
            open_edges[target] -= 1
            if not open_edges[target]:
                waiting.append(target)
    return [] if len(waiting) == len(ir.nodes) else ["without the edges back something still goes round"]
