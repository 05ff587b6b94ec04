"""Plans: what is looked up once for all executions of a definition."""

from perdure import Definition
from perdure.definitions.graph.plan import GraphPlan

NESTED = """
perdure: 1
name: nested
order: ports
vars: {n: 0}
steps:
  - {id: outer, set: {n: 1}, next: inner}
  - {id: inner, do: [{id: deep, set: {n: 2}}], next: [{when: {ref: "@vars.n", eq: 3}, to: inner, max: 3}, {to: back}]}
  - {id: back, set: {n: 3}, next: [{when: {ref: "@vars.n", lt: 9}, to: outer, endless: true}, {to: end}]}
  - {id: end, return: "@vars.n"}
"""


def test_what_lies_in_a_cycle_includes_the_bodies_of_blocks_in_cycles_inside_of_it() -> None:
    plan = GraphPlan(Definition.of(NESTED).ir)
    outer = plan.by_id["outer"].cycle
    inner = plan.by_id["inner"].cycle
    (body,) = plan.by_id["inner"].node.bodies
    assert sorted(plan.ids_in(outer)) == ["back", "deep", "inner", "outer"]
    assert sorted(plan.ids_in(inner)) == ["deep", "inner"]
    assert plan.ids_in(body) == plan.ids_directly_in(body) == ("deep",)
    assert sorted(plan.ids_directly_in(plan.by_id["end"].node.region)) == ["back", "end", "inner", "outer"]
