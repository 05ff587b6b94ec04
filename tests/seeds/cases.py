"""How an example is run: what it is given, what stands in for the world, and what must come of it.

A case says it in the words of a `Row` (`tests/definitions/graph/semantics/table.py`), whose definition is the name of an example. Its tools are played by what
`does` says, and otherwise say what they are given; so do kinds of steps.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from perdure import Step
from perdure.definition_workflow import Definition
from perdure.definitions.graph.requirements import requirements_of
from perdure.definitions.kinds.kind_registry import OWN_KINDS
from perdure.testing import Run, World
from tests.definitions.graph.semantics.table import CALLBACKS_MAX, LONGEST_S, OVER, Broken, Row, again, befall
from tests.seeds.definitions import definition
from tests.seeds.example import Example


@dataclasses.dataclass(frozen=True)
class ExampleCase(Row):
    """A row about an example. `does` says, by the names of tools and kinds of steps, what stands in for them; `calls` are workflows, as name@version."""

    does: Mapping[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)


def given(*value: Any, **named: Any) -> Any:
    """What it is given."""
    return named or (value[0] if value else None)


def broken(*_: Any, **__: Any) -> Any:
    """A tool that never works."""
    raise Broken("no")


def made(document: Mapping[str, Any], does: Mapping[str, Callable[..., Any]] = {}, calls: tuple[Definition, ...] = ()) -> Definition:  # never changed
    """A definition in which everything that it needs is played, by tools that may run again."""
    needs = list(requirements_of(Definition.of(document, calls=calls).ir))
    played = {what: {one.name: does.get(one.name, given) for one in needs if one.what == what} for what in ("tool", "kind")}
    others = {name: fn for name, fn in does.items() if name not in played["kind"]}
    tools = {name: fn if isinstance(fn, Step) else again(fn) for name, fn in (played["tool"] | others).items()}
    tasks = {name: _of_its_input(fn) for name, fn in others.items() if name in OWN_KINDS}
    return Definition.of(document, tools=tools, kinds=tasks | played["kind"], calls=calls, secrets={"TOKEN": "hush-hush"})


def _of_its_input(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A tool as what does the work of tasks of its name, where there is a kind of that name as well."""
    return lambda config=None, input=None, env=None: fn(**(input or {}))


def called(name: str, version: str) -> Definition:
    """A workflow that returns what it is given."""
    return made({"perdure": 1, "name": name, "version": version, "steps": [{"id": "it", "return": "@input"}]})


def play(world: World, case: ExampleCase, example: Example) -> Run[Any]:
    """Run an example up to the end of its script, and to its own end if it has one."""
    world.callbacks_max = CALLBACKS_MAX
    for where in dict.fromkeys((*case.answers, *case.takes)):
        answer = {"answers": case.answers[where]} if where in case.answers else {"calls": case.does.get(where, given)}
        world.mock(where, takes=case.takes.get(where, 0), **answer)
    calls = tuple(called(*name.split("@")) for name in case.calls)
    run = world.start(made(definition(example), case.does, calls), dict(case.input))
    for event in case.script:
        befall(world, run, event)
    if not case.waiting:
        world.pass_until("wait", f"the end of {case.claim}", lambda: run.status in OVER, LONGEST_S, run._stuck)
    return run
