"""Descriptions of the verbs that decide what runs next, wait, or change variables, and the category of each kind: what an editor needs to offer them all."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from perdure.definitions.format.document_parser import parse_document
from perdure.definitions.format.step_tree import placed_steps
from perdure.definitions.kinds.kind_descriptions import KindDescription, describe_verb

KindCategory = Literal["code", "data", "agents", "people", "events", "flow", "packages"]
"""The group of a kind in a palette; those of other packages are ``packages``."""

CATEGORIES: Mapping[str, KindCategory] = MappingProxyType(
    {
        **dict.fromkeys(("tool", "call", "task", "python", "ts", "bash"), "code"),
        **dict.fromkeys(("http", "openapi", "sql", "file", "pipeline", "set"), "data"),
        **dict.fromkeys(("agent", "agent_message", "llm"), "agents"),
        "approve": "people",
        **dict.fromkeys(("listen", "emit", "sleep"), "events"),
        **dict.fromkeys(("if", "test", "loop", "parallel", "race", "do", "return", "fail"), "flow"),
    }
)

_ONCE = "it is recorded once, and has no effect outside of the execution"

_APPROVE = """
perdure: 1
name: example
order: listed
steps:
  - {id: sign, approve: {title: May this be paid?}, timeout: 3d}
"""
_LISTEN = """
perdure: 1
name: example
order: listed
steps:
  - {id: paid, listen: payment, timeout: 1d}
"""
_SLEEP = """
perdure: 1
name: example
order: listed
steps:
  - {id: pause, sleep: 1h}
"""
_EMIT = """
perdure: 1
name: example
order: listed
steps:
  - {id: tell, emit: {body: {percent: 50}}}
"""
_IF = """
perdure: 1
name: example
order: listed
input: {cents: {type: integer}}
steps:
  - id: large
    if: {ref: "@input.cents", gt: 10000}
    then: [{id: ask, approve: {title: Is that right?}}]
    else: [{id: note, set: {small: true}}]
"""
_PARALLEL = """
perdure: 1
name: example
order: listed
steps:
  - id: both
    parallel:
      - {id: one, set: {a: 1}}
      - {id: two, set: {b: 2}}
"""
_RACE = """
perdure: 1
name: example
order: listed
steps:
  - id: first
    race:
      - {id: answer, listen: reply}
      - {id: late, sleep: 1d}
"""
_DO = """
perdure: 1
name: example
order: listed
steps:
  - id: group
    do:
      - {id: one, set: {a: 1}}
      - {id: two, set: {b: 2}}
"""
_TEST = """
perdure: 1
name: example
order: ports
input: {cents: {type: integer}}
steps:
  - {id: large, test: {ref: "@input.cents", gt: 10000}, next: {true: ask, false: note}}
  - {id: ask, approve: {title: Is that right?}}
  - {id: note, set: {small: true}}
"""
_LOOP = """
perdure: 1
name: example
order: ports
input: {items: {type: array}}
steps:
  - {id: each, loop: {items: "@input.items"}, next: {loop: note, done: end}}
  - {id: note, set: {seen: "@item"}, next: each}
  - {id: end, return: "@vars.seen"}
"""
_RETURN = """
perdure: 1
name: example
order: listed
steps:
  - {id: end, return: done}
"""
_FAIL = """
perdure: 1
name: example
order: listed
steps:
  - {id: stop, fail: The order has no items.}
"""
_SET = """
perdure: 1
name: example
order: listed
vars: {total: 0}
steps:
  - {id: note, set: {total: 1}}
"""

_CONTROL = (
    ("approve", "Approval", "user_check", _APPROVE),
    ("listen", "Wait for a message", "ear", _LISTEN),
    ("sleep", "Wait", "clock", _SLEEP),
    ("emit", "Emit a value", "radio", _EMIT),
    ("if", "If", "fork", _IF),
    ("parallel", "In parallel", "rows", _PARALLEL),
    ("race", "First of several", "flag", _RACE),
    ("do", "Group of steps", "box", _DO),
    ("test", "Condition", "diamond", _TEST),
    ("loop", "Loop over items", "repeat", _LOOP),
    ("return", "Return", "check", _RETURN),
    ("fail", "Fail", "x_circle", _FAIL),
    ("set", "Set variables", "variable", _SET),
)
"""The verbs, each with its title, its icon and an example."""


def control_verbs() -> dict[str, KindDescription]:
    """The descriptions of these verbs by name."""
    return {name: describe_verb(name, title, icon, _ONCE, example) for name, title, icon, example in _CONTROL}


def example_step(one: KindDescription) -> dict[str, Any]:
    """The first step of the example that is of the kind, as data; empty if the example has none."""
    if not one.example:
        return {}
    parsed = parse_document(one.example)
    steps = [placed.step for placed in placed_steps(parsed.document)]
    return next((step for step in steps if one.name in step or _task_type(step) == one.name), {})


def _task_type(step: dict[str, Any]) -> Any:
    task = step.get("task")
    return task.get("type") if isinstance(task, dict) else task
