"""Undo in definitions: what can't be undone as it should is left to a person, and nothing is left out."""

from perdure import Definition
from perdure.testing import World

TEXT = """
perdure: 1
name: it
order: listed
steps:
  - {id: first, tool: SAY, with: {v: {id: 1}}, undo: {tool: UNSAY, with: {v: "@self.id"}}}
  - {id: second, tool: SAY, with: {v: {id: 2}}, undo: {tool: UNSAY, with: {v: "@self.charge.id"}}}
  - {id: third, fail: enough}
"""


def test_what_undoes_a_step_is_never_called_with_what_could_not_be_made(world: World) -> None:
    unsaid = []

    def unsay(v: int) -> None:
        unsaid.append(v)

    run = world.start(Definition.of(TEXT, tools={"SAY": lambda v: v, "UNSAY": unsay}))
    assert run.status == "needs_attention" and "undo it by hand" in run.why and "charge" in run.why
    run.evict()
    run.resume()
    assert run.status == "needs_attention" and unsaid == []
